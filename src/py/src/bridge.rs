//! From the background thread to an event loop: a completion queue and a pipe the loop watches.
//!
//! The background thread pushes what came of an attempt, and wakes the loop with one byte when nobody has yet.
//! It never takes the GIL, so a closed loop, an exiting interpreter or a busy one cannot hurt it.
//! The loop reads the byte, takes the queue and resolves the futures on its own thread.
//!
//! Loops without `add_reader` (Windows' default one) are served by pyo3-async-runtimes instead, behind the same
//! `start`; its price is a thread that takes the GIL for every completion.

use std::collections::HashMap;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError};
use pyo3::prelude::*;
use steadycall_net::lane::Lane;
use steadycall_net::stream::{Opening, Stream};
use steadycall_net::transport::Fault;
use tokio::task::AbortHandle;

use crate::exchange::Exchange;
use crate::exit::Inside;
use crate::http_call::HttpCall;
use crate::job::Done;
use crate::passing::Passing;
use crate::runtime::Process;
use crate::{convert, errors, exit, python};

/// A drain stops after this many bytes of answers and lets the loop breathe: parsing them takes its thread.
const DRAIN_BYTES: usize = 1024 * 1024;

/// What a task on the background thread brings.
pub enum Parcel {
    /// When a call's job is done.
    Done(Done),
    /// When a front of Python's passed the gates, or was refused.
    Passed(Done),
    /// When the head of an answer is there, or a fault in its place.
    Opened(Opening),
    /// When more of a body is there; empty at its end.
    Read(Box<Stream>, Result<Bytes, Fault>),
}

impl Parcel {
    /// Bytes that somebody has to parse on the loop's thread.
    fn size(&self) -> usize {
        match self {
            Self::Done(Done::Sent(outcome, _)) => {
                outcome.result.as_ref().map_or(0, |answer| answer.body.len())
            }
            Self::Read(_, Ok(bytes)) => bytes.len(),
            Self::Done(_) | Self::Passed(_) | Self::Opened(_) | Self::Read(_, Err(_)) => 0,
        }
    }
}

/// Who waits for one, and makes of it what the future resolves to.
pub enum Addressee {
    /// When it is a call.
    Call(Py<HttpCall>),
    /// When it is an exchange.
    Exchange(Py<Exchange>),
    /// When it is on its way through the gates.
    Passing(Py<Passing>),
}

impl Addressee {
    /// With the GIL; `on_loop` says whether on the thread of the event loop.
    fn arrived(&self, py: Python<'_>, parcel: Option<Parcel>, on_loop: bool) -> PyResult<Py<PyAny>> {
        match (self, parcel) {
            (Self::Call(call), Some(Parcel::Done(done))) if on_loop => call.get().arrived(py, done),
            (Self::Call(call), Some(Parcel::Done(done))) => call.get().keep(py, done),
            (Self::Passing(passing), Some(Parcel::Passed(done))) => passing.get().passed(py, done),
            (Self::Exchange(exchange), Some(Parcel::Opened(opening))) => {
                exchange.get().opened(py, opening).map(Bound::unbind)
            }
            (Self::Exchange(exchange), Some(Parcel::Read(stream, read))) => {
                exchange.get().was_read(py, *stream, read).map(Bound::unbind)
            }
            (_, None) => Err(errors::our_fault(py, "a panic while sending")),
            (_, Some(_)) => Err(errors::our_fault(py, "a parcel for somebody else")),
        }
    }
}

/// What came of a task; `None` when it was lost to a panic or an abort.
type Letter = (u64, Option<Parcel>);

/// The part both threads see. No Python object is in it.
struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    signalled: AtomicBool,
    reader: PipeReader,
    writer: PipeWriter,
}

impl Mailbox {
    fn push(&self, letter: Letter) {
        lock(&self.letters).push(letter);
        self.wake();
    }

    fn wake(&self) {
        if !self.signalled.swap(true, Ordering::AcqRel) {
            // At most one byte is ever in the pipe, so this cannot block; a closed loop just never reads it.
            let _ = (&self.writer).write(&[1]);
        }
    }
}

/// Delivers exactly one letter, whatever becomes of the task that holds it.
struct Envelope {
    mailbox: Arc<Mailbox>,
    id: u64,
    parcel: Option<Parcel>,
}

impl Envelope {
    fn send(mut self, parcel: Parcel) {
        self.parcel = Some(parcel);
    }
}

impl Drop for Envelope {
    fn drop(&mut self) {
        self.mailbox.push((self.id, self.parcel.take()));
    }
}

/// One event loop's queue.
#[pyclass(frozen, module = "steadycall._native")]
pub struct Bridge {
    mailbox: Arc<Mailbox>,
    /// Weak: a bridge must not keep a loop alive.
    event_loop: Py<PyAny>,
    waiting: Mutex<HashMap<u64, Waiting>>,
    next_id: AtomicU64,
    /// Letters a capped drain left for the next turn.
    left_over: Mutex<Vec<Letter>>,
}

struct Waiting {
    addressee: Addressee,
    future: Py<PyAny>,
    /// Whether its task was ended from outside, so that whatever comes of it is for nobody.
    given_up: bool,
}

/// How to end a task that is under way.
pub struct Running {
    task: AbortHandle,
    place: Option<(Py<Bridge>, u64)>,
}

impl Running {
    /// Drops the request, which closes its socket. With the GIL; returns at once.
    ///
    /// Who still waits for it, another task than the one that ends it, is told `Closed` by the loop's next drain.
    pub fn abort(self) {
        if let Some((bridge, id)) = self.place {
            let bridge = bridge.get();
            let is_done = |future: &Py<PyAny>| {
                Python::attach(|py| future.call_method0(py, "done").and_then(|done| done.is_truthy(py)))
            };
            let future = Python::attach(|py| {
                lock(&bridge.waiting).get(&id).map(|waiting| waiting.future.clone_ref(py))
            });
            // Asked without the lock, for it is Python code.
            let nobody_waits = future.is_some_and(|future| is_done(&future).unwrap_or(false));
            let mut waiting = lock(&bridge.waiting);
            let forgotten = if nobody_waits { waiting.remove(&id) } else { None };
            if let Some(waiting) = waiting.get_mut(&id) {
                waiting.given_up = true;
            }
            drop(waiting);
            drop(forgotten);
        }
        self.task.abort();
    }
}

/// Starts a task on the background thread, over its lane. With the GIL; returns at once.
///
/// The awaitable resolves to what the addressee makes of the parcel. Cancelling the awaitable alone does not end the
/// task: whoever awaits it aborts it.
pub fn start<'py, W>(
    py: Python<'py>,
    addressee: Addressee,
    work: impl FnOnce(Lane) -> W,
) -> PyResult<(Bound<'py, PyAny>, Running)>
where
    W: Future<Output = Parcel> + Send + 'static,
{
    let _inside = Inside::enter(py);
    let event_loop = running_loop(py)?;
    let background = Process::current().background()?;
    let work = work(background.lane.clone());
    let Some(bridge) = bridge_for(&event_loop)? else {
        return start_elsewhere(py, addressee, work);
    };
    let this = bridge.get();
    let id = this.next_id.fetch_add(1, Ordering::Relaxed);
    let future = event_loop.call_method0(python::name!(py, "create_future")?)?;
    lock(&this.waiting).insert(id, Waiting { addressee, future: future.clone().unbind(), given_up: false });
    let envelope = Envelope { mailbox: Arc::clone(&this.mailbox), id, parcel: None };
    let task = background.runtime.spawn(async move { envelope.send(work.await) });
    Ok((future, Running { task: task.abort_handle(), place: Some((bridge.unbind(), id)) }))
}

#[pymethods]
impl Bridge {
    /// Called by the loop when its pipe is readable, on the loop's thread with the GIL.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let _inside = Inside::enter(py);
        let _ = (&self.mailbox.reader).read(&mut [0; 16])?;
        self.mailbox.signalled.store(false, Ordering::Release);
        let mut letters = std::mem::take(&mut *lock(&self.left_over));
        letters.append(&mut lock(&self.mailbox.letters));
        let mut bytes = 0_usize;
        let mut letters = letters.into_iter();
        while bytes < DRAIN_BYTES
            && let Some((id, parcel)) = letters.next()
        {
            bytes = bytes.saturating_add(parcel.as_ref().map_or(0, Parcel::size));
            let Some(waiting) = lock(&self.waiting).remove(&id) else { continue };
            let future = waiting.future.clone_ref(py);
            if let Err(error) = deliver(py, waiting, parcel) {
                // One call's trouble must not keep the others waiting.
                error.write_unraisable(py, Some(future.bind(py)));
            }
        }
        let rest: Vec<Letter> = letters.collect();
        if !rest.is_empty() {
            *lock(&self.left_over) = rest;
            self.mailbox.wake();
        }
        Ok(())
    }
}

fn deliver(py: Python<'_>, waiting: Waiting, parcel: Option<Parcel>) -> PyResult<()> {
    let future = waiting.future.bind(py);
    if future.call_method0(python::name!(py, "done")?)?.is_truthy()? {
        return Ok(());
    }
    if waiting.given_up {
        future.call_method1(python::name!(py, "set_exception")?, (errors::closed(py),))?;
        // Looked at, so that asyncio does not log it where nobody waits any more.
        future.call_method0(python::name!(py, "exception")?)?;
        return Ok(());
    }
    match waiting.addressee.arrived(py, parcel, true) {
        Ok(value) => future.call_method1(python::name!(py, "set_result")?, (value,))?,
        Err(error) => future.call_method1(python::name!(py, "set_exception")?, (error,))?,
    };
    Ok(())
}

fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    python::get_running_loop(py)?.call0().map_err(|error| {
        let trio_runs = || -> PyResult<bool> {
            let modules = py.import("sys")?.getattr("modules")?;
            let trio = modules.call_method1("get", ("trio",))?;
            Ok(!trio.is_none() && trio.getattr("lowlevel")?.call_method0("in_trio_run")?.is_truthy()?)
        };
        if error.is_instance_of::<PyRuntimeError>(py) && trio_runs().unwrap_or(false) {
            return convert::config_error(
                py,
                "the event loop",
                "trio",
                "asyncio's: acall does not run under trio",
            );
        }
        error
    })
}

/// The bridge of a loop, made on its first call; `None` when the loop cannot watch a pipe.
fn bridge_for<'py>(event_loop: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, Bridge>>> {
    let py = event_loop.py();
    let process = Process::current();
    let key = event_loop.as_ptr() as usize;
    let known = lock(&process.bridges).get(&key).map(|bridge| bridge.clone_ref(py));
    if let Some(bridge) = known {
        // Another loop may live where a dead one did.
        if bridge.get().event_loop.bind(py).call0()?.is(event_loop) {
            return Ok(Some(bridge.into_bound(py)));
        }
    }
    if !cfg!(unix) || std::env::var_os("STEADYCALL_NO_ADD_READER").is_some() {
        return Ok(None);
    }
    sweep(py, process)?;
    let (reader, writer) = std::io::pipe()?;
    let Some(fd) = raw(&reader) else { return Ok(None) };
    let mailbox = Mailbox { letters: Mutex::default(), signalled: AtomicBool::new(false), reader, writer };
    let bridge = Bound::new(
        py,
        Bridge {
            mailbox: Arc::new(mailbox),
            event_loop: python::weak_reference(py)?.call1((event_loop,))?.unbind(),
            waiting: Mutex::default(),
            next_id: AtomicU64::new(0),
            left_over: Mutex::default(),
        },
    )?;
    match event_loop.call_method1(python::name!(py, "add_reader")?, (fd, bridge.getattr("drain")?)) {
        Ok(_) => {}
        Err(error) if error.is_instance_of::<PyNotImplementedError>(py) => return Ok(None),
        Err(error) => return Err(error),
    }
    lock(&process.bridges).insert(key, bridge.clone().unbind());
    Ok(Some(bridge))
}

/// Drops the bridges of loops that are gone or closed, with their pipes and whatever still waited there.
fn sweep(py: Python<'_>, process: &Process) -> PyResult<()> {
    let all: Vec<(usize, Py<Bridge>)> =
        lock(&process.bridges).iter().map(|(key, bridge)| (*key, bridge.clone_ref(py))).collect();
    for (key, bridge) in all {
        let event_loop = bridge.get().event_loop.bind(py).call0()?;
        if event_loop.is_none() || event_loop.call_method0("is_closed")?.is_truthy()? {
            let dropped = lock(&process.bridges).remove(&key);
            drop(dropped);
        }
    }
    Ok(())
}

#[cfg(unix)]
fn raw(reader: &PipeReader) -> Option<i32> {
    Some(std::os::fd::AsRawFd::as_raw_fd(reader))
}

/// Windows' selector loop watches sockets only, and its default loop nothing.
#[cfg(not(unix))]
fn raw(_reader: &PipeReader) -> Option<i32> {
    None
}

/// The same for a loop that cannot watch a pipe. What a call brings is kept for it, and the awaitable gives `PENDING`.
fn start_elsewhere<W>(py: Python<'_>, addressee: Addressee, work: W) -> PyResult<(Bound<'_, PyAny>, Running)>
where
    W: Future<Output = Parcel> + Send + 'static,
{
    exit::delivers_from_threads();
    let task = Process::current().background()?.runtime.spawn(work);
    let running = Running { task: task.abort_handle(), place: None };
    let awaitable = pyo3_async_runtimes::tokio::future_into_py(py, async move {
        let parcel = task.await;
        if exit::exiting() {
            // Delivering it would run Python code on this thread while the interpreter ends.
            return std::future::pending().await;
        }
        Python::attach(|py| match parcel {
            Err(error) if error.is_cancelled() => Err(errors::closed(py)),
            parcel => addressee.arrived(py, parcel.ok(), false),
        })
    })?;
    Ok((awaitable, running))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
