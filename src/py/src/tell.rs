//! Telling observers what a call does: the logger, `on_retry`, `on_event`, `on_end`. Runs with the GIL held.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use steadycall_core::time::{Deadline, Moment};

use crate::telling::{Stop, Telling};
use crate::work::Work;
use crate::{errors, python, records};

impl Work {
    /// Tells `on_retry` and the log of a failed attempt that is followed by another.
    pub fn tell_retry(&self, py: Python<'_>, on_retry: Option<&Py<PyAny>>) -> PyResult<()> {
        let (Some(record), Some(last)) = (self.call.records().last(), &self.last) else { return Ok(()) };
        let told = records::attempt(py, record)?;
        let reason = last.failure.reason.sentence();
        python::watch_retried(py)?.call1((told, &self.options.target.host, reason, on_retry))?;
        Ok(())
    }

    /// Tells `on_end` how the call went; `stop` is `None` when it was answered.
    pub fn tell_end(&self, py: Python<'_>, on_end: Option<&Py<PyAny>>, stop: Option<Stop>) -> PyResult<()> {
        if let Some(stop) = &stop {
            let fields = PyDict::new(py);
            fields.set_item("stop_reason", errors::stop_reason(py, stop.reason)?)?;
            self.tell(py, "gave_up", &fields)?;
        }
        let Some(on_end) = on_end else { return Ok(()) };
        let now = match &stop {
            Some(stop) => stop.at,
            None => self.clock.now(py)?,
        };
        let stop = stop.map(|stop| errors::stop_reason(py, stop.reason)).transpose()?;
        let fields = PyDict::new(py);
        fields.set_item("attempts", records::attempts(py, self.call.records())?)?;
        fields.set_item("requests", self.call.requests())?;
        fields.set_item("elapsed", self.call.elapsed(now).as_secs_f64())?;
        let paid = PyList::new(py, self.paid().map(|answer| answer.bind(py)).collect::<Vec<_>>())?;
        fields.set_item("usage", python::usage_total(py)?.call1((paid,))?)?;
        match &stop {
            Some(stop) => fields.set_item("outcome", stop.getattr("value")?)?,
            None => fields.set_item("outcome", "answered")?,
        }
        fields.set_item("stop_reason", stop)?;
        let record = python::call_record(py)?.call((), Some(&fields))?;
        python::watch_ended(py)?.call1((record, on_end))?;
        Ok(())
    }

    /// Tells that an attempt is sent now, and how long it waited for that.
    pub fn tell_start(&self, py: Python<'_>, now: Moment) -> PyResult<()> {
        let Some(telling) = self.telling() else { return Ok(()) };
        let number = self.call.records().len() + 1;
        if telling.waits {
            let fields = PyDict::new(py);
            fields.set_item("number", number)?;
            fields.set_item("wait", now.since(telling.since).as_secs_f64())?;
            self.tell(py, "admitted", &fields)?;
        }
        let fields = PyDict::new(py);
        fields.set_item("number", number)?;
        self.tell(py, "attempt_started", &fields)
    }

    /// Tells, once for an attempt, that it waits at the gates.
    pub fn tell_queue(&mut self, py: Python<'_>, until: Deadline, now: Moment) -> PyResult<()> {
        let Some(telling) = self.client.as_mut().and_then(|client| client.telling.as_mut()) else {
            return Ok(());
        };
        if std::mem::replace(&mut telling.waits, true) {
            return Ok(());
        }
        let fields = PyDict::new(py);
        fields.set_item("number", self.call.records().len() + 1)?;
        let known = until != self.call.deadline();
        fields.set_item("wait", until.left(now).filter(|_| known).map(|left| left.as_secs_f64()))?;
        self.tell(py, "waiting", &fields)
    }

    /// Tells that it waits before another attempt.
    pub fn tell_wait(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        if self.telling().is_none() {
            return Ok(());
        }
        let fields = PyDict::new(py);
        fields.set_item("number", self.call.records().len() + 1)?;
        fields.set_item("wait", seconds)?;
        self.tell(py, "waiting", &fields)
    }

    /// Tells what came of an attempt.
    pub fn tell_attempt(&self, py: Python<'_>) -> PyResult<()> {
        let (Some(_), Some(record)) = (self.telling(), self.call.records().last()) else { return Ok(()) };
        let fields = PyDict::new(py);
        fields.set_item("number", record.number)?;
        fields.set_item("attempt", records::attempt(py, record)?)?;
        self.tell(py, "attempt_ended", &fields)
    }

    fn telling(&self) -> Option<&Telling> {
        self.client.as_ref()?.telling.as_ref()
    }

    fn tell(&self, py: Python<'_>, name: &str, fields: &Bound<'_, PyDict>) -> PyResult<()> {
        let Some(telling) = self.telling() else { return Ok(()) };
        fields.set_item("name", name)?;
        let model = self.client.as_ref().and_then(|client| client.model_of_keys());
        python::watch_event(py)?.call((&telling.on_event, &self.options.target.host, model), Some(fields))?;
        Ok(())
    }
}
