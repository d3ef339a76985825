//! The events of one stream as Python objects: made from bytes, judged as they come, converted when asked.
//!
//! Every method runs with the GIL held and sends nothing. No lock is held while Python objects are made: that may run
//! the collector, and with it any code.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use steadycall_core::failure::Failure;
use steadycall_core::reading::{self, Item, Reading, Status};
use steadycall_core::sse;

use crate::opening::{Head, Pairs};
use crate::{errors, json, records};

/// Of the events given out, the last are kept for an error to show; so many bytes of data at most.
const MOST_KEPT: usize = 64 * 1024;

/// One event of a stream.
#[pyclass(frozen, eq, module = "steadycall._native")]
#[derive(PartialEq, Eq)]
pub struct StreamEvent {
    event: sse::Event,
    text: Option<String>,
}

#[pymethods]
impl StreamEvent {
    #[new]
    #[pyo3(signature = (event, data, id=None, text=None))]
    fn new(event: Option<String>, data: String, id: Option<String>, text: Option<String>) -> Self {
        Self { event: sse::Event { name: event.unwrap_or_default(), data, id }, text }
    }

    /// The name it was sent with; ``None`` when it has none.
    #[getter]
    fn event(&self) -> Option<&str> {
        Some(self.event.name.as_str()).filter(|name| !name.is_empty())
    }

    /// What it carries, as it came; several lines are joined by line feeds.
    #[getter]
    fn data(&self) -> &str {
        &self.event.data
    }

    /// The id it was sent with; ``None`` when it has none.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.event.id.as_deref()
    }

    /// Its part of the answer's visible text; its data, where nobody here knows the provider's protocol.
    #[getter]
    fn text(&self) -> &str {
        self.text.as_deref().unwrap_or(&self.event.data)
    }

    /// Its data, parsed as ``json.loads`` does.
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::read(py, self.event.data.as_bytes())
    }

    /// Without the data, which may be anybody's words.
    fn __repr__(&self) -> String {
        format!("<StreamEvent {}: {} bytes>", self.event().unwrap_or("without a name"), self.event.data.len())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let fields = (self.event(), self.data(), self.id(), self.text.as_deref());
        Ok((py.get_type::<Self>().into_any(), fields.into_pyobject(py)?))
    }
}

/// Reads the events of one answer.
#[pyclass(frozen, module = "steadycall._native")]
pub struct Events {
    head: Head,
    state: Mutex<State>,
}

struct State {
    reading: Reading,
    failure: Option<Failure>,
    complete: bool,
    given: usize,
    kept: VecDeque<(Py<StreamEvent>, usize)>,
    kept_bytes: usize,
}

#[pymethods]
impl Events {
    /// `choices` is how many answers were asked for.
    #[new]
    #[pyo3(signature = (status, headers, url, now, statuses=None, choices=1))]
    fn new(
        status: u16,
        headers: Pairs,
        url: String,
        now: f64,
        statuses: Option<HashSet<u16>>,
        choices: usize,
    ) -> Self {
        let state = State {
            reading: Reading::new(choices),
            failure: None,
            complete: false,
            given: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
        };
        Self { head: Head::new(status, headers, url, now, statuses), state: Mutex::new(state) }
    }

    /// Told the next bytes: a list of the events they complete, without those that are held back.
    fn feed<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyList>> {
        self.read(py, |reading, head, given| reading.feed(bytes, head, given))
    }

    /// Told that nothing more comes: a list of the events that were not given out yet.
    fn end<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.read(py, Reading::end)
    }

    /// Whether it ended, in good order or not.
    #[getter]
    fn is_over(&self) -> bool {
        let state = self.lock();
        state.complete || state.failure.is_some()
    }

    /// Whether the answer is complete by its protocol, though the body may go on.
    #[getter]
    fn is_complete(&self) -> bool {
        let state = self.lock();
        state.failure.is_none() && state.reading.is_complete()
    }

    /// Whether content was given out.
    #[getter]
    fn has_started(&self) -> bool {
        self.lock().reading.has_started()
    }

    /// Why it failed, or `None`.
    #[getter]
    fn failure<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let failure = self.lock().failure.clone();
        failure.map(|failure| records::failure(py, &failure)).transpose()
    }

    /// The visible text of what was given out; of a stream whose protocol nobody here knows, the data of its events.
    #[getter]
    fn text(&self) -> String {
        self.lock().reading.text().to_owned()
    }

    /// The same without the last so many events, of those that were given out at once.
    fn text_before(&self, untaken: usize) -> String {
        self.lock().reading.text_before(untaken).to_owned()
    }

    /// Tokens told of so far, as a dict, or `None`.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(usage) = self.lock().reading.usage() else { return Ok(None) };
        let told = PyDict::new(py);
        told.set_item("input_tokens", usage.input)?;
        told.set_item("output_tokens", usage.output)?;
        told.set_item("total_tokens", usage.total)?;
        Ok(Some(told))
    }

    /// The provider's id for the answer, or `None`.
    #[getter]
    fn run_id(&self) -> Option<String> {
        self.lock().reading.id().map(str::to_owned)
    }

    /// How many events were given out.
    #[getter]
    fn given(&self) -> usize {
        self.lock().given
    }

    /// The last of them.
    #[getter]
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let kept: Vec<Py<StreamEvent>> =
            self.lock().kept.iter().map(|(event, _)| event.clone_ref(py)).collect();
        PyTuple::new(py, kept)
    }
}

impl Events {
    fn read<'py>(
        &self,
        py: Python<'py>,
        read: impl FnOnce(&mut Reading, &reading::Head<'_>, &mut Vec<Item>) -> Status,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut given = Vec::new();
        errors::guarded(py, "reading a stream", || {
            let mut state = self.lock();
            let status = self.head.look(b"", |answer, statuses| {
                let head = reading::Head { answer: *answer, statuses };
                read(&mut state.reading, &head, &mut given)
            });
            match status {
                Status::Failed(failure) => state.failure = Some(*failure),
                Status::Complete => state.complete = true,
                Status::Opening | Status::Running => {}
            }
            Ok(())
        })?;
        let made = given.into_iter().map(|item| {
            let size = item.event.data.len();
            Py::new(py, StreamEvent { event: item.event, text: item.text }).map(|event| (event, size))
        });
        let made: Vec<(Py<StreamEvent>, usize)> = made.collect::<PyResult<_>>()?;
        let events = PyList::new(py, made.iter().map(|(event, _)| event))?;
        let forgotten = self.lock().keep(made);
        drop(forgotten);
        Ok(events)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes what was given out; what is not kept any more, to be dropped outside of the lock.
    fn keep(&mut self, made: Vec<(Py<StreamEvent>, usize)>) -> Vec<Py<StreamEvent>> {
        self.given = self.given.saturating_add(made.len());
        let mut forgotten = Vec::new();
        for (event, size) in made {
            self.kept_bytes = self.kept_bytes.saturating_add(size);
            self.kept.push_back((event, size));
            while self.kept_bytes > MOST_KEPT && self.kept.len() > 1 {
                let Some((event, size)) = self.kept.pop_front() else { break };
                self.kept_bytes = self.kept_bytes.saturating_sub(size);
                forgotten.push(event);
            }
        }
        forgotten
    }
}
