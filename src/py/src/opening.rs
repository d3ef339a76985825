//! Answers that a front hands on to somebody else's client: judged, and held back while a stream has not begun.
//!
//! Every method runs with the GIL held and sends nothing.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use steadycall_core::classify::hidden::{self, Hidden};
use steadycall_core::classify::{Answer, StatusSet, classify_with};
use steadycall_core::failure::{Failure, Reason, Sent};
use steadycall_core::opening::{Look, Opening};
use steadycall_core::sse::Format;

use crate::records;

/// Header pairs as httpx has them.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// What an answer's head tells, kept for the judgement of its events.
pub struct Head {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    url: String,
    now: f64,
    statuses: Option<StatusSet>,
}

impl Head {
    /// Of an answer; `statuses` are those the caller wants retried.
    pub fn new(status: u16, headers: Pairs, url: String, now: f64, statuses: Option<HashSet<u16>>) -> Self {
        let named = |(name, value): (Vec<u8>, Vec<u8>)| (String::from_utf8_lossy(&name).into_owned(), value);
        Self {
            status,
            headers: headers.into_iter().map(named).collect(),
            url,
            now,
            statuses: statuses.map(|set| set.into_iter().collect()),
        }
    }

    /// Hands it to `look` as the core knows it.
    pub fn look<T>(&self, body: &[u8], look: impl FnOnce(&Answer<'_>, Option<&StatusSet>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let answer = Answer {
            status: self.status,
            headers: &headers,
            body,
            url: Some(&self.url),
            now: Some(self.now),
            dialect: None,
        };
        look(&answer, self.statuses.as_ref())
    }

    fn content_type(&self) -> &[u8] {
        let found = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        found.map_or(b"", |(_, value)| value)
    }
}

/// Judges an answer that was read whole: `None` when it is good or not ours to judge, else the `Failure`, and of an
/// error inside a 2xx the status and body to show it with.
#[pyfunction]
#[pyo3(signature = (status, headers, body, url, now, statuses=None))]
pub fn judge<'py>(
    py: Python<'py>,
    status: u16,
    headers: Pairs,
    body: &[u8],
    url: String,
    now: f64,
    statuses: Option<HashSet<u16>>,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let head = Head::new(status, headers, url, now, statuses);
    if !(200..300).contains(&status) {
        let found = head.look(body, classify_with);
        return found.map(|failure| told(py, &failure, None)).transpose();
    }
    let found = head.look(body, hidden::in_body);
    found.map(|hidden| told_hidden(py, &hidden)).transpose()
}

/// Watches the opening of one stream. Made by `StreamOpening.of`.
#[pyclass(frozen, module = "steadycall._native")]
pub struct StreamOpening {
    head: Head,
    opening: Mutex<Opening>,
}

#[pymethods]
impl StreamOpening {
    /// For an answer whose content type says that it is a stream of events; `None` for every other.
    #[staticmethod]
    #[pyo3(signature = (status, headers, url, now, statuses=None))]
    fn of(
        status: u16,
        headers: Pairs,
        url: String,
        now: f64,
        statuses: Option<HashSet<u16>>,
    ) -> Option<Self> {
        let head = Head::new(status, headers, url, now, statuses);
        let format = Format::of(head.content_type())?;
        Some(Self { head, opening: Mutex::new(Opening::new(format)) })
    }

    /// Told the next bytes: `None` to hold them back, `True` to give all out, or what failed, as from `judge`.
    fn feed<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.look(py, |opening, answer, statuses| opening.feed(bytes, answer, statuses))
    }

    /// Told that nothing more comes.
    fn end<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.look(py, Opening::end)
    }
}

impl StreamOpening {
    fn look<'py>(
        &self,
        py: Python<'py>,
        look: impl FnOnce(&mut Opening, &Answer<'_>, Option<&StatusSet>) -> Look,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let seen = {
            let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
            self.head.look(b"", |answer, statuses| look(&mut opening, answer, statuses))
        };
        match seen {
            Look::Hold => Ok(None),
            Look::Release => Ok(Some(true.into_pyobject(py)?.to_owned().into_any())),
            Look::Failed(hidden) => told_hidden(py, &hidden).map(|told| Some(told.into_any())),
            Look::Ended(reason) => told_ended(py, reason).map(|told| Some(told.into_any())),
        }
    }
}

fn told<'py>(
    py: Python<'py>,
    failure: &Failure,
    shown: Option<(u16, &[u8])>,
) -> PyResult<Bound<'py, PyTuple>> {
    let shown = shown.map(|(status, body)| (status, PyBytes::new(py, body)));
    (records::failure(py, failure)?, shown).into_pyobject(py)
}

fn told_hidden<'py>(py: Python<'py>, hidden: &Hidden) -> PyResult<Bound<'py, PyTuple>> {
    told(py, &hidden.failure, hidden.shown.as_ref().map(|shown| (shown.status, shown.body.as_slice())))
}

fn told_ended(py: Python<'_>, reason: Reason) -> PyResult<Bound<'_, PyTuple>> {
    told(py, &Failure::transport(reason, Sent::Maybe), None)
}
