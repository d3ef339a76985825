//! One HTTP request for a front that judges answers itself: the head of its answer, then its body piece by piece.
//!
//! Sync and async twins. A blocking exchange keeps the runtime it was opened on until its answer is over, and gives it
//! back when it was read whole. An awaited one hands its answer back and forth with the background thread, which reads
//! when asked only: a slow reader holds the server back.
//!
//! Every method runs with the GIL held; `open` and `read` release it while the network works. No lock is held while
//! Python code runs: a method takes the state out, and puts it back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use steadycall_net::stream::{Opening, Stream};
use steadycall_net::transport::{Fault, Limits, Request, Route};
use tokio::sync::Notify;

use crate::bridge::{self, Addressee, Parcel, Running};
use crate::exit::Inside;
use crate::runtime::{self, Held, Process};
use crate::{convert, errors, options, records};

pyo3::create_exception!(
    steadycall._native,
    Lost,
    pyo3::exceptions::PyException,
    "What came instead of an answer, or of its rest: (reason, sent, phase, detail, fully_sent, replays, partial)."
);

/// One request and its answer.
#[pyclass(frozen, module = "steadycall._native")]
pub struct Exchange {
    route: Arc<Route>,
    request: Arc<Request>,
    limits: Limits,
    /// Whether it goes where a redirect leads, on the same origin; a transport's client decides that itself.
    follows: bool,
    state: Mutex<State>,
    running: Mutex<Option<Running>>,
    stop: Notify,
}

enum State {
    /// When nothing was sent yet.
    New,
    /// When a method works on it, or the background thread does.
    Busy,
    /// When an answer is being read on the thread that asks.
    Here(Box<(Held, Stream)>),
    /// When an answer is being read by the background thread of this process.
    There(&'static Process, Box<Stream>),
    /// When all is done, given up, or closed.
    Over,
}

#[pymethods]
impl Exchange {
    /// `headers` are pairs, without those that speak of the connection or of the body's length.
    #[new]
    #[pyo3(signature = (method, url, headers, body, timeout, proxy, ca_bundle, follows=false))]
    #[allow(clippy::too_many_arguments)] // a request, and how it travels
    fn new(
        method: &str,
        url: &Bound<'_, PyAny>,
        headers: &Bound<'_, PyAny>,
        body: &[u8],
        timeout: &Bound<'_, PyAny>,
        proxy: &Bound<'_, PyAny>,
        ca_bundle: &Bound<'_, PyAny>,
        follows: bool,
    ) -> PyResult<Self> {
        let py = url.py();
        let _inside = Inside::enter(py);
        let shown = || convert::config_error(py, "method", &format!("{method:?}"), "an HTTP method");
        let target = options::target(url)?;
        let (route, _) = options::route(&target, proxy, ca_bundle)?;
        let mut all = HeaderMap::new();
        convert::headers(headers, &mut all)?;
        let request = Request {
            method: Method::from_bytes(method.as_bytes()).map_err(|_| shown())?,
            uri: target.uri.clone(),
            headers: all,
            body: Bytes::copy_from_slice(body),
        };
        let timeouts = convert::timeouts(timeout)?;
        Ok(Self {
            route,
            request: Arc::new(request),
            limits: Limits { timeouts, attempt: None, max_response_bytes: u64::MAX },
            follows,
            state: Mutex::new(State::New),
            running: Mutex::default(),
            stop: Notify::new(),
        })
    }

    /// Sends it on this thread and waits for the head of the answer: status, header pairs, HTTP version, replays.
    ///
    /// `limit` bounds the whole exchange in seconds, and `head` the silence before its head, where the read timeout is
    /// longer. Ctrl-C ends it within 50 ms; `close` from another thread at once.
    #[pyo3(signature = (limit=None, head=None))]
    fn open<'py>(
        &self,
        py: Python<'py>,
        limit: Option<f64>,
        head: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _inside = Inside::enter(py);
        self.begin(py)?;
        let held = Held::check_out().inspect_err(|_| self.put(State::Over))?;
        let (lane, limits) = (held.lane(), self.limits(limit, head));
        let work = lane.open(&self.route, &self.request, &limits, self.follows);
        let opening = self.finish(py, held.run(py, &self.stop, work))?;
        let (replays, fully_sent) = (opening.replays, opening.fully_sent);
        match opening.result {
            Ok(stream) => {
                let told = told_head(py, &stream, replays);
                self.put_unless_closed(State::Here(Box::new((held, stream))));
                told
            }
            Err(fault) => {
                self.put(State::Over);
                Err(lost(py, fault, fully_sent, replays))
            }
        }
    }

    /// At least `least` bytes of the body, or all that is left; empty at its end. As `open` on who waits and what ends it.
    ///
    /// `silence` is the longest one from now on, in place of the read timeout; infinite is not limited.
    #[pyo3(signature = (least=1, silence=None))]
    fn read<'py>(&self, py: Python<'py>, least: usize, silence: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let _inside = Inside::enter(py);
        let (held, mut stream) = match self.take() {
            State::Here(here) if here.0.is_ours() => *here,
            State::Over => {
                self.put(State::Over);
                return Ok(PyBytes::new(py, b"").into_any());
            }
            state => return Err(self.misused(py, state)),
        };
        limit_silence(&mut stream, silence);
        let lane = held.lane();
        let read = self.finish(py, held.run(py, &self.stop, lane.read(&mut stream, least)))?;
        match read {
            Ok(bytes) => {
                if stream.is_over() {
                    self.put(State::Over);
                    held.give_back();
                } else {
                    self.put_unless_closed(State::Here(Box::new((held, stream))));
                }
                Ok(PyBytes::new(py, &bytes).into_any())
            }
            Err(fault) => {
                self.put(State::Over);
                Err(lost(py, fault, true, 0))
            }
        }
    }

    /// `open` for the running event loop: an awaitable. Cancelling it does not end the exchange; `close` does.
    #[pyo3(signature = (limit=None, head=None))]
    fn aopen<'py>(
        slf: &Bound<'py, Self>,
        limit: Option<f64>,
        head: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        this.begin(slf.py())?;
        let (route, request) = (Arc::clone(&this.route), Arc::clone(&this.request));
        let (limits, follows) = (this.limits(limit, head), this.follows);
        this.start(
            slf,
            |lane| async move { Parcel::Opened(lane.open(&route, &request, &limits, follows).await) },
        )
    }

    /// `read` for the running event loop: an awaitable. Cancelling it does not end the exchange; `close` does.
    #[pyo3(signature = (least=1, silence=None))]
    fn aread<'py>(slf: &Bound<'py, Self>, least: usize, silence: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        let mut stream = match this.take() {
            State::There(process, stream) if runtime::is_current(process) => stream,
            state => return Err(this.misused(slf.py(), state)),
        };
        limit_silence(&mut stream, silence);
        this.start(slf, |lane| async move {
            let read = lane.read(&mut stream, least).await;
            Parcel::Read(stream, read)
        })
    }

    /// Whether there is nothing left to read.
    #[getter]
    fn is_over(&self) -> bool {
        matches!(*self.lock(), State::Over)
    }

    /// Ends it, and closes its socket unless the answer was read to its end. Harmless when it is over.
    fn close(&self) {
        let state = self.take();
        if matches!(state, State::Busy) {
            self.stop.notify_one();
        }
        self.put(State::Over);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.abort();
        }
        forget_the_parents(state);
    }
}

impl Exchange {
    /// With the GIL, from the bridge: the head of an answer has come.
    pub fn opened<'py>(&self, py: Python<'py>, opening: Opening) -> PyResult<Bound<'py, PyAny>> {
        match opening.result {
            Ok(stream) => {
                let told = told_head(py, &stream, opening.replays);
                self.put_unless_closed(State::There(Process::current(), Box::new(stream)));
                told
            }
            Err(fault) => {
                self.put(State::Over);
                Err(lost(py, fault, opening.fully_sent, opening.replays))
            }
        }
    }

    /// With the GIL, from the bridge: more of a body has come.
    pub fn was_read<'py>(
        &self,
        py: Python<'py>,
        stream: Stream,
        read: Result<Bytes, Fault>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_over() {
            self.put(State::Over);
        } else {
            self.put_unless_closed(State::There(Process::current(), Box::new(stream)));
        }
        read.map(|bytes| PyBytes::new(py, &bytes).into_any()).map_err(|fault| lost(py, fault, true, 0))
    }

    fn start<'py, W>(
        &self,
        slf: &Bound<'py, Self>,
        work: impl FnOnce(steadycall_net::lane::Lane) -> W,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        W: Future<Output = Parcel> + Send + 'static,
    {
        let addressee = Addressee::Exchange(slf.clone().unbind());
        let started = bridge::start(slf.py(), addressee, work);
        let (awaitable, running) = started.inspect_err(|_| self.put(State::Over))?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        if matches!(*self.lock(), State::Over) {
            // Closed by another thread while it was started.
            self.close();
        }
        Ok(awaitable)
    }

    fn limits(&self, limit: Option<f64>, head: Option<f64>) -> Limits {
        let mut limits = Limits { attempt: limit.and_then(duration), ..self.limits };
        if let Some(head) = head.and_then(duration) {
            limits.timeouts.read = Some(limits.timeouts.read.map_or(head, |read| read.min(head)));
        }
        limits
    }

    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        match self.take() {
            State::New => Ok(()),
            state => Err(self.misused(py, state)),
        }
    }

    /// What was done, or the reason why it was not, after which the exchange is over.
    fn finish<T>(&self, py: Python<'_>, ended: PyResult<Option<T>>) -> PyResult<T> {
        ended.and_then(|done| done.ok_or_else(|| errors::closed(py))).inspect_err(|_| self.put(State::Over))
    }

    fn misused(&self, py: Python<'_>, state: State) -> PyErr {
        let said = match &state {
            State::New => "this exchange was not opened",
            State::Busy => "this exchange is busy, or it is another thread's or loop's",
            State::Here(here) if !here.0.is_ours() => {
                self.put(state);
                return errors::of_the_parent(py);
            }
            State::There(process, _) if !runtime::is_current(process) => {
                self.put(state);
                return errors::of_the_parent(py);
            }
            State::Here(_) | State::There(..) => "this exchange is open, for the other of the two fronts",
            State::Over => {
                self.put(state);
                return errors::closed(py);
            }
        };
        self.put(state);
        PyRuntimeError::new_err(said)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> State {
        std::mem::replace(&mut *self.lock(), State::Busy)
    }

    fn put(&self, state: State) {
        let before = std::mem::replace(&mut *self.lock(), state);
        drop(before);
    }

    /// An answer that comes after the exchange was closed is given up.
    fn put_unless_closed(&self, state: State) {
        let mut place = self.lock();
        let given_up =
            if matches!(*place, State::Over) { state } else { std::mem::replace(&mut *place, state) };
        drop(place);
        drop(given_up);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        forget_the_parents(self.take());
    }
}

/// `None` where it is longer than can be counted.
fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

fn limit_silence(stream: &mut Stream, silence: Option<f64>) {
    if let Some(silence) = silence {
        stream.limit_silence(duration(silence));
    }
}

/// Drops what an exchange held, unless this is a child of fork: then it is the parent's, and leaked.
fn forget_the_parents(state: State) {
    let ours = match &state {
        State::Here(here) => here.0.is_ours(),
        State::There(process, _) => runtime::is_current(process),
        State::New | State::Busy | State::Over => true,
    };
    if ours {
        if let State::Here(here) = state {
            let (held, stream) = *here;
            // The answer first: it is given up while its runtime is still there.
            drop(stream);
            drop(held);
        }
    } else {
        std::mem::forget(state);
    }
}

fn told_head<'py>(py: Python<'py>, stream: &Stream, replays: u32) -> PyResult<Bound<'py, PyAny>> {
    let pairs = stream.headers.iter().map(|(name, value)| {
        (PyBytes::new(py, name.as_str().as_bytes()), PyBytes::new(py, value.as_bytes()))
    });
    let pairs = PyList::new(py, pairs.collect::<Vec<_>>())?;
    Ok((stream.status, pairs, stream.version, replays).into_pyobject(py)?.into_any())
}

fn lost(py: Python<'_>, fault: Fault, fully_sent: bool, replays: u32) -> PyErr {
    let phase = fault.phase.map(errors::phase_name);
    let partial = PyBytes::new(py, &fault.partial).unbind();
    let (reason, sent) = (fault.reason.name(), records::sent(fault.sent));
    Lost::new_err((reason, sent, phase, fault.detail, fully_sent, replays, partial))
}
