//! The runtimes of this process: a pool for blocking calls, one thread for awaited ones, and what fork does to them.
//!
//! A blocking call checks a current-thread runtime out of the pool and drives it on its own thread: no thread hop.
//! Awaited calls share one runtime on one thread of its own, which never takes the GIL. Blocking calls that find
//! another one in flight go there too: one thread that serves many sockets at each waking costs less than many
//! threads that each wake for one.
//!
//! After a fork the child must touch nothing of the parent's: threads are gone, locks may be held for ever, and
//! shared sockets would deliver one process's answers to the other. So all of it hangs on one pointer, which the
//! child swaps for null. What it pointed to is leaked on purpose: dropping it would join threads that do not exist.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use steadycall_net::clock;
use steadycall_net::lane::Lane;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::bridge::Bridge;
use crate::hooks::Entrance;
use crate::job::{Done, Job};
use crate::{errors, python};

/// Ctrl-C is looked for this often while a call waits for the network.
const SIGNAL_POLL: Duration = Duration::from_millis(50);
/// Idle runtimes kept; more are ended when their call is.
const IDLE_LANES: usize = 64;

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

/// Everything that must not cross a fork.
pub struct Process {
    idle: Mutex<Vec<Blocking>>,
    /// Blocking calls in flight.
    crowd: AtomicUsize,
    shared: OnceLock<io::Result<Background>>,
    /// Completion queues of event loops, by the loop's address; see `bridge`.
    pub bridges: Mutex<HashMap<usize, Py<Bridge>>>,
    /// The gates of the clients in use, by the client's number; see `gates`.
    pub entrances: Mutex<HashMap<u64, Arc<Entrance>>>,
}

struct Blocking {
    runtime: Runtime,
    lane: Lane,
}

/// The runtime behind awaited calls.
pub struct Background {
    /// One worker thread.
    pub runtime: Runtime,
    /// Its connections.
    pub lane: Lane,
}

impl Process {
    /// This process's runtimes, made on first use. Does not need the GIL.
    pub fn current() -> &'static Process {
        loop {
            let seen = CURRENT.load(Ordering::Acquire);
            // SAFETY: the pointer is null or came from Box::into_raw below, and what it points to is never freed.
            if let Some(process) = unsafe { seen.as_ref() } {
                return process;
            }
            // First use in this process.
            let fresh = Box::into_raw(Box::new(Process {
                idle: Mutex::default(),
                crowd: AtomicUsize::new(0),
                shared: OnceLock::new(),
                bridges: Mutex::default(),
                entrances: Mutex::default(),
            }));
            if CURRENT.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: nobody else has seen `fresh`: the exchange that would have published it failed.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }

    /// The runtime behind awaited calls, started on first use.
    pub fn background(&self) -> PyResult<&Background> {
        let made = self.shared.get_or_init(|| {
            let runtime = Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name("steadycall")
                .enable_io()
                .enable_time()
                .build()?;
            Ok(Background { runtime, lane: Lane::new() })
        });
        made.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()).into())
    }

    fn check_out(&self) -> io::Result<Blocking> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(idle) = idle {
            return Ok(idle);
        }
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Blocking { runtime, lane: Lane::new() })
    }

    /// Gives a runtime back for the next call.
    fn give_back(&self, blocking: Blocking) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_LANES {
            idle.push(blocking);
        } else {
            drop(idle);
            blocking.end();
        }
    }
}

impl Blocking {
    /// Ends the runtime and closes its sockets without waiting for anything.
    fn end(self) {
        drop(self.lane);
        self.runtime.shutdown_background();
    }
}

/// One of the blocking calls in flight.
struct InCrowd<'a>(&'a AtomicUsize);

impl Drop for InCrowd<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does one job, an attempt above all, while the calling thread waits.
///
/// Called with the GIL held; releases it while the network works and takes it every 50 ms on the main thread to let
/// signal handlers run. When one raises (Ctrl-C), the attempt is dropped, its socket closed, and the exception passed
/// on. `stop` ends it from another thread. A panic in the core comes out as an `Error` that says it is our fault.
pub fn block_on(py: Python<'_>, job: Job, stop: &Arc<Notify>) -> PyResult<Option<Done>> {
    let process = Process::current();
    let poll_signals = on_main_thread(py)?;
    py.detach(|| {
        let alone = process.crowd.fetch_add(1, Ordering::Relaxed) == 0;
        let _in_crowd = InCrowd(&process.crowd);
        if alone {
            process.work_here(job, stop, poll_signals)
        } else {
            process.work_elsewhere(job, stop, poll_signals)
        }
    })
}

impl Process {
    /// Drives a runtime of the pool on this thread.
    fn work_here(&self, job: Job, stop: &Notify, poll_signals: bool) -> PyResult<Option<Done>> {
        let blocking = self.check_out()?;
        let Blocking { runtime, lane } = &blocking;
        let ended = drive(runtime, poll_signals, stop, job.run(lane));
        // A dropped request's connection is closed by its runtime's next turn, which might never come.
        if matches!(&ended, Ok(Some(done)) if done.is_clean()) {
            self.give_back(blocking);
        } else {
            blocking.end();
        }
        ended
    }

    /// Has the background thread do it, and waits.
    fn work_elsewhere(&self, job: Job, stop: &Arc<Notify>, poll_signals: bool) -> PyResult<Option<Done>> {
        let Background { runtime, lane } = self.background()?;
        let (stop, lane) = (Arc::clone(stop), lane.clone());
        let (tell, told) = mpsc::sync_channel(1);
        let task = runtime.spawn(async move {
            let ended = tokio::select! {
                biased;
                done = job.run(&lane) => Some(done),
                () = stop.notified() => None,
            };
            // Nobody waits any more when Ctrl-C has ended the call.
            let _ = tell.send(ended);
        });
        // Without signals to look for, waking once a day is as good as never.
        let look_up = if poll_signals { SIGNAL_POLL } else { Duration::from_secs(86_400) };
        loop {
            match told.recv_timeout(look_up) {
                Ok(ended) => return Ok(ended),
                Err(RecvTimeoutError::Timeout) if !poll_signals => {}
                Err(RecvTimeoutError::Timeout) => {
                    Python::attach(|py| py.check_signals()).inspect_err(|_| task.abort())?
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Python::attach(|py| errors::our_fault(py, "a panic while sending")));
                }
            }
        }
    }
}

/// Does `work` on the calling thread, without the GIL; `None` when `stop` ended it, an exception when a signal's handler
/// raised one.
fn drive<T>(
    runtime: &Runtime,
    poll_signals: bool,
    stop: &Notify,
    work: impl Future<Output = T>,
) -> PyResult<Option<T>> {
    let watched = async {
        let mut work = std::pin::pin!(work);
        if !poll_signals {
            return tokio::select! {
                biased;
                done = &mut work => Ok(Some(done)),
                () = stop.notified() => Ok(None),
            };
        }
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(Some(done)),
                () = stop.notified() => return Ok(None),
                () = clock::sleep_until(clock::now() + SIGNAL_POLL) => Python::attach(|py| py.check_signals())?,
            }
        }
    };
    catch_unwind(AssertUnwindSafe(|| runtime.block_on(watched)))
        .unwrap_or_else(|_| Err(Python::attach(|py| errors::our_fault(py, "a panic while sending"))))
}

/// A runtime checked out for longer than one attempt: until an answer has been read.
///
/// Dropping it ends the runtime and closes its sockets. In a child of fork it is leaked instead: it is the parent's.
pub struct Held {
    process: &'static Process,
    /// `None` once it was given back.
    blocking: Option<Blocking>,
}

impl Held {
    /// Takes one from the pool.
    pub fn check_out() -> io::Result<Self> {
        let process = Process::current();
        Ok(Self { process, blocking: Some(process.check_out()?) })
    }

    /// Its connections.
    pub fn lane(&self) -> Lane {
        self.blocking.as_ref().map_or_else(Lane::new, |blocking| blocking.lane.clone())
    }

    /// Does `work` on the calling thread, as `block_on` makes an attempt: same GIL, same Ctrl-C, same `stop`.
    pub fn run<T: Send>(
        &self,
        py: Python<'_>,
        stop: &Notify,
        work: impl Future<Output = T> + Send,
    ) -> PyResult<Option<T>> {
        let poll_signals = on_main_thread(py)?;
        let Some(blocking) = self.blocking.as_ref().filter(|_| self.is_ours()) else {
            return Err(errors::our_fault(py, "a runtime of another process"));
        };
        py.detach(|| drive(&blocking.runtime, poll_signals, stop, work))
    }

    /// Puts it back into the pool, for nothing is under way on it.
    pub fn give_back(mut self) {
        if let Some(blocking) = self.blocking.take().filter(|_| self.is_ours()) {
            self.process.give_back(blocking);
        }
    }

    /// Whether it belongs to this process and not to the one that was forked.
    pub fn is_ours(&self) -> bool {
        is_current(self.process)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(blocking) = self.blocking.take() else { return };
        if self.is_ours() {
            blocking.end();
        } else {
            std::mem::forget(blocking);
        }
    }
}

/// Whether this is the process we are in.
pub fn is_current(process: &'static Process) -> bool {
    std::ptr::eq(process, Process::current())
}

thread_local! {
    /// Whether this thread runs Python's signal handlers, and in which process that was found out.
    static IS_MAIN: Cell<(*const Process, bool)> = const { Cell::new((std::ptr::null(), false)) };
}

/// Whether the calling thread is the one that runs Python's signal handlers.
pub fn on_main_thread(py: Python<'_>) -> PyResult<bool> {
    let here: *const Process = Process::current();
    let (asked_in, known) = IS_MAIN.get();
    if asked_in == here {
        return Ok(known);
    }
    let main = python::main_thread(py)?.call0()?.getattr("ident")?;
    let answer = main.eq(python::get_ident(py)?.call0()?)?;
    IS_MAIN.set((here, answer));
    Ok(answer)
}

/// Makes a child of `fork` start afresh, whoever forked: the C library runs this hook, Python's hooks or not.
///
/// # Errors
/// The C library has no memory left for it.
pub fn watch_forks() -> io::Result<()> {
    #[cfg(unix)]
    {
        // SAFETY: the hook is a function that lives as long as the process, for an extension module is never
        // unloaded; it only stores to an atomic, which a child may do whatever locks its parent held.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
    }
    Ok(())
}

/// What hung on the pointer is the parent's and is leaked.
#[cfg(unix)]
extern "C" fn after_fork_in_child() {
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
}
