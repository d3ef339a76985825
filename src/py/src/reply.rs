//! A good answer as it came, for `Reply`: each part is made when it is asked for. Every method runs with the GIL held.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use steadycall_core::event::AttemptRecord;
use steadycall_net::transport::{self, Request};

use crate::records;
use crate::secrets::Secrets;

/// What came, and what it took. Made by a call that was answered; not for users.
#[pyclass(frozen, module = "steadycall._native")]
pub struct Answered {
    pub answer: transport::Answer,
    pub request: Arc<Request>,
    pub records: Vec<AttemptRecord>,
    pub requests: u32,
    pub elapsed: f64,
    /// Parsed answers that cost tokens: those that failed their validation, then this one.
    pub paid: Vec<Py<PyAny>>,
    pub host: String,
}

#[pymethods]
impl Answered {
    #[getter]
    fn status(&self) -> u16 {
        self.answer.status
    }

    #[getter]
    fn content<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.answer.body)
    }

    /// Name and value of each header, in latin-1 as `http.client` reads them.
    #[getter]
    fn header_pairs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        records::header_pairs(py, &self.answer.headers)
    }

    #[getter]
    fn attempts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let mut records = self.records.clone();
        if let Some(last) = records.last_mut() {
            last.request_id = self.request_id();
        }
        records::attempts(py, &records)
    }

    #[getter]
    fn requests(&self) -> u32 {
        self.requests
    }

    #[getter]
    fn elapsed(&self) -> f64 {
        self.elapsed
    }

    #[getter]
    fn request_id(&self) -> Option<String> {
        request_id(&self.answer, &self.request)
    }

    #[getter]
    fn paid<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.paid.iter().map(|answer| answer.bind(py)))
    }

    /// Host and port of who answered.
    #[getter]
    fn host(&self) -> &str {
        &self.host
    }
}

/// Where providers put their id for a request; the first that is there.
const REQUEST_ID_HEADERS: [&str; 5] =
    ["x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "x-amzn-trace-id"];

/// The server's id for a request, unless it gives a credential of the request away.
pub fn request_id(answer: &transport::Answer, request: &Request) -> Option<String> {
    let found = REQUEST_ID_HEADERS.iter().find_map(|name| answer.headers.get(*name))?;
    let id: String = found.to_str().ok()?.chars().take(200).collect();
    (!Secrets::of(request).are_in(&id)).then_some(id)
}
