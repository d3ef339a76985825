//! A run of many rows, on a thread and a runtime of its own that never take the GIL.
//!
//! Methods run with the GIL held and release it while they wait or read files; a wait looks for signals every 50 ms.
//! A run belongs to the process that made it: in a child of fork its thread does not exist, and every method says so.
//! When the interpreter exits, the thread goes with the process; what it had written is whole.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use steadycall_core::breaker::CircuitBreaker;
use steadycall_core::bucket::{Oversized, RateLimit};
use steadycall_core::gates::Config;
use steadycall_core::slots::ConcurrencyLimit;
use steadycall_core::time::seconds;
use steadycall_net::bulk::{self, Bad, Basket, Crew, Earlier, Fed, Form, Outcome, Paths, Store, Trouble};
use steadycall_net::clock::{self, Instant};
use steadycall_net::dice::Dice;
use steadycall_net::doorway::Doorway;
use steadycall_net::driver::{First, Flag, Shared};
use steadycall_net::lane::Lane;
use steadycall_net::transport::Limits;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, UnboundedSender};

use crate::policy::CheckedPolicy;
use crate::runtime::{self, Process};
use crate::{bulk_rows, convert, options};

/// Ctrl-C is looked for this often.
const SIGNAL_POLL: Duration = Duration::from_millis(50);
/// Rows open at once, as a multiple of the requests in flight: those that wait for a retry must hold up nobody.
const WINDOW: usize = 4;
/// Headers that hold a key.
const CREDENTIALS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// One run. Made by `bulk`; not for users.
#[pyclass(frozen, module = "steadycall._native")]
pub struct Bulk {
    process: &'static Process,
    crew: Arc<Crew>,
    form: Form,
    window: usize,
    abort: Arc<Flag>,
    basket: Arc<Basket>,
    end: Arc<End>,
    stage: Mutex<Stage>,
    began: Mutex<Option<Instant>>,
}

/// How far it has come.
enum Stage {
    /// When nothing was opened yet.
    New,
    /// When the files are open and nothing was sent.
    Open(Box<(std::fs::File, Earlier, Store)>),
    /// When its thread is at work; with where to feed rows, if they are fed.
    Running(Option<UnboundedSender<Fed>>, bulk::Ids),
}

/// Shared, so that it can be told without a lock held.
type How = Result<(Outcome, Duration), Arc<Trouble>>;

/// How it ended, once it has.
#[derive(Default)]
struct End {
    how: Mutex<Option<How>>,
    bell: Condvar,
}

impl End {
    fn tell(&self, how: Result<(Outcome, Duration), Trouble>) {
        *lock(&self.how) = Some(how.map_err(Arc::new));
        self.bell.notify_all();
    }

    fn how(&self) -> Option<How> {
        lock(&self.how).clone()
    }

    /// Waits for it, for `most` at the longest; whether it is there.
    fn wait(&self, most: Duration) -> bool {
        let how = lock(&self.how);
        let waited = self.bell.wait_timeout_while(how, most, |how| how.is_none());
        waited.map_or_else(|poisoned| poisoned.into_inner().0, |(how, _)| how).is_some()
    }
}

#[pymethods]
impl Bulk {
    #[new]
    #[allow(clippy::too_many_arguments)] // the keywords of `bulk`, passed on in order
    fn new(
        url: &Bound<'_, PyAny>,
        base_url: &Bound<'_, PyAny>,
        headers: &Bound<'_, PyAny>,
        policy: &Bound<'_, CheckedPolicy>,
        concurrency: u32,
        requests_per_minute: Option<i64>,
        tokens_per_minute: Option<i64>,
        burst: Option<i64>,
        oversized: bool,
        timeout: &Bound<'_, PyAny>,
        max_response_bytes: &Bound<'_, PyAny>,
        proxy: &Bound<'_, PyAny>,
        ca_bundle: &Bound<'_, PyAny>,
        give_up_after: Option<f64>,
    ) -> PyResult<Self> {
        let py = url.py();
        let refused = |error| convert::refused(py, &error);
        let form = if url.is_none() { Form::Batch } else { Form::Plain };
        let target = options::target(if url.is_none() { base_url } else { url })?;
        if form == Form::Batch && (target.parsed.query().is_some() || target.parsed.fragment().is_some()) {
            let allowed = "one without a query: the rows name what stands below it";
            return Err(convert::config_error(py, "base_url", "one with a query", allowed));
        }
        let (route, _) = options::route(&target, proxy, ca_bundle)?;
        let headers = options::shared_headers(headers)?;
        let most = convert::count("max_response_bytes", max_response_bytes, i64::MAX)?;
        let policy = Arc::clone(&policy.get().policy);
        let given = requests_per_minute.is_some() || tokens_per_minute.is_some();
        let oversized = if oversized { Oversized::Pass } else { Oversized::Refuse };
        let config = Config {
            concurrency: Some(ConcurrencyLimit::new(concurrency.into(), u32::MAX.into()).map_err(refused)?),
            adaptive: None,
            rate: RateLimit::new(requests_per_minute, tokens_per_minute, burst, oversized)
                .map_err(refused)?,
            ceiling: None,
            // Rows wait for a host that is down, instead of failing one after the other.
            breaker: Some(CircuitBreaker::after(8, 20.0, 1, None).map_err(refused)?),
            retry_budget: None,
            pauses: policy.backoffs.rate_limited,
        };
        let shared = Shared {
            lane: Lane::new(),
            route: (*route).clone(),
            policy,
            limits: Limits {
                timeouts: convert::timeouts(timeout)?,
                attempt: None,
                max_response_bytes: most.unsigned_abs(),
            },
            doorway: Doorway::new(config),
            learned: (!given).then(Mutex::default),
            stop: Flag::default(),
            first: First::default(),
        };
        let whereto = match form {
            Form::Plain => bulk::Whereto::One(target.uri.clone()),
            Form::Batch => bulk::Whereto::Below(target.parsed.clone()),
        };
        let credential = CREDENTIALS
            .iter()
            .filter_map(|name| headers.get(*name))
            .flat_map(|value| value.as_bytes())
            .copied();
        let credential = credential.collect();
        let give_up_after = give_up_after.and_then(seconds);
        let crew =
            Crew::new(shared, whereto, headers, credential, tokens_per_minute.is_some(), give_up_after);
        Ok(Self {
            process: Process::current(),
            crew: Arc::new(crew),
            form,
            window: (concurrency as usize).saturating_mul(WINDOW),
            abort: Arc::default(),
            basket: Arc::default(),
            end: Arc::default(),
            stage: Mutex::new(Stage::New),
            began: Mutex::default(),
        })
    }

    /// Opens the files of a run and reads what earlier runs left. Without the GIL, for as long as that takes.
    fn open(
        &self,
        py: Python<'_>,
        rows: PathBuf,
        output: PathBuf,
        failures: PathBuf,
        journal: PathBuf,
        retry_failed: bool,
    ) -> PyResult<()> {
        self.ours()?;
        if !matches!(*lock(&self.stage), Stage::New) {
            return Err(twice());
        }
        let paths = Paths { rows, output, failures, journal };
        let opened = py.detach(|| {
            let earlier = Earlier::look(&paths, retry_failed)?;
            let file = std::fs::File::open(&paths.rows)
                .map_err(|error| Trouble::Io { path: paths.rows.clone(), error })?;
            let store = Store::open(&paths, &earlier, self.crew.place(), new_name)?;
            Ok((file, earlier, store))
        });
        let opened = opened.map_err(|trouble| bulk_rows::raised(py, &trouble))?;
        *lock(&self.stage) = Stage::Open(Box::new(opened));
        Ok(())
    }

    /// Starts the thread; returns at once. Without open files rows are to be fed.
    fn start(&self) -> PyResult<()> {
        self.ours()?;
        let mut stage = lock(&self.stage);
        let (crew, abort, end) = (Arc::clone(&self.crew), Arc::clone(&self.abort), Arc::clone(&self.end));
        let window = self.window;
        let began = clock::now();
        *lock(&self.began) = Some(began);
        match std::mem::replace(&mut *stage, Stage::Running(None, bulk::Ids::default())) {
            Stage::Running(..) => Err(twice()),
            Stage::Open(opened) => {
                let (file, earlier, store) = *opened;
                let form = self.form;
                self.spawn(end, began, async move {
                    bulk::run(crew, (file, form), earlier, store, window, abort).await
                })
            }
            Stage::New => {
                let (sender, fed) = mpsc::unbounded_channel();
                *stage = Stage::Running(Some(sender), bulk::Ids::default());
                let basket = Arc::clone(&self.basket);
                self.spawn(end, began, async move {
                    match bulk::serve(crew, fed, basket, abort).await {
                        true => Ok(Outcome::Complete),
                        false => Err(Trouble::Ours("a panic while sending a row")),
                    }
                })
            }
        }
    }

    /// Hands over a row of the program's own: a payload, a dict in the Batch format, or either as JSON text.
    fn feed(&self, index: u64, row: &Bound<'_, PyAny>) -> PyResult<()> {
        self.ours()?;
        let number = index.saturating_add(1);
        let mut fed = bulk_rows::read(self.form, number, row)?;
        let mut stage = lock(&self.stage);
        let Stage::Running(Some(sender), ids) = &mut *stage else {
            return Err(PyRuntimeError::new_err("rows were fed to a run that takes none"));
        };
        if let Ok(found) = &fed
            && !ids.insert(&found.custom_id)
        {
            fed = fed.and_then(|row| Err((row, Bad::DuplicateCustomId)));
        }
        // One that is over takes no more, and says so to whoever asks for results.
        let _ = sender.send(fed);
        Ok(())
    }

    /// Results that are there, waited for as long as `wait` seconds, or for the next one.
    ///
    /// Without the GIL; Ctrl-C ends the wait within 50 ms.
    #[pyo3(signature = (wait))]
    fn take<'py>(&self, py: Python<'py>, wait: Option<f64>) -> PyResult<Bound<'py, PyList>> {
        self.ours()?;
        let mut came = self.basket.take(Duration::ZERO);
        let until = wait.map(|wait| clock::now() + Duration::from_secs_f64(wait.max(0.0)));
        while came.is_empty() && until.is_none_or(|until| clock::now() < until) {
            match self.end.how() {
                None => {}
                Some(Err(trouble)) => return Err(bulk_rows::raised(py, &trouble)),
                Some(Ok(_)) => return Err(PyRuntimeError::new_err("the run is over")),
            }
            came = py.detach(|| self.basket.take(SIGNAL_POLL));
            self.poll(py)?;
        }
        let results =
            came.into_iter().map(|came| bulk_rows::result(py, came)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, results)
    }

    /// How far it is.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.ours()?;
        let elapsed = lock(&self.began).map_or(Duration::ZERO, |began| began.elapsed());
        bulk_rows::progress(py, &self.crew.counts, elapsed)
    }

    /// Waits until it is over, for `timeout` seconds at the longest: whether it is. At once when it was never started.
    ///
    /// Without the GIL; what a signal handler raises ends the wait, not the run.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.ours()?;
        if lock(&self.began).is_none() {
            return Ok(true);
        }
        let until = timeout.map(|timeout| clock::now() + Duration::from_secs_f64(timeout.max(0.0)));
        loop {
            let left = until.map_or(SIGNAL_POLL, |until| until.saturating_duration_since(clock::now()));
            if py.detach(|| self.end.wait(left.min(SIGNAL_POLL))) {
                return Ok(true);
            }
            self.poll(py)?;
            if until.is_some_and(|until| clock::now() >= until) {
                return Ok(false);
            }
        }
    }

    /// How it ended: the fields of a `BulkSummary`, or what was in its way.
    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.ours()?;
        let (outcome, elapsed) = match self.end.how() {
            None => return Err(PyRuntimeError::new_err("the run is not over")),
            Some(Err(trouble)) => return Err(bulk_rows::raised(py, &trouble)),
            Some(Ok(ended)) => ended,
        };
        bulk_rows::summary(py, &self.crew.counts, outcome, elapsed)
    }

    /// Sends nothing new; returns at once.
    fn stop(&self) -> PyResult<()> {
        self.ours()?;
        self.crew.shared().stop.raise();
        Ok(())
    }

    /// Gives up what is in flight; returns at once.
    fn abort(&self) -> PyResult<()> {
        self.ours()?;
        self.give_up();
        Ok(())
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        // In a child of fork its locks may be held for ever.
        if runtime::is_current(self.process) {
            self.give_up();
        }
    }
}

impl Bulk {
    fn give_up(&self) {
        self.crew.shared().stop.raise();
        self.abort.raise();
    }

    fn ours(&self) -> PyResult<()> {
        match runtime::is_current(self.process) {
            true => Ok(()),
            false => {
                Err(PyRuntimeError::new_err("this run belongs to the process that this one was forked from"))
            }
        }
    }

    fn poll(&self, py: Python<'_>) -> PyResult<()> {
        if runtime::on_main_thread(py)? { py.check_signals() } else { Ok(()) }
    }

    fn spawn(
        &self,
        end: Arc<End>,
        began: Instant,
        work: impl Future<Output = Result<Outcome, Trouble>> + Send + 'static,
    ) -> PyResult<()> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let run = move || {
            let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
            let ended = ended.unwrap_or(Err(Trouble::Ours("a panic in a run")));
            runtime.shutdown_background();
            end.tell(ended.map(|outcome| (outcome, began.elapsed())));
        };
        std::thread::Builder::new().name("steadycall-bulk".to_owned()).spawn(run).map(drop).map_err(|error| {
            *lock(&self.began) = None;
            error.into()
        })
    }
}

fn twice() -> PyErr {
    PyRuntimeError::new_err("the run was started before")
}

/// Twelve digits that no other run has.
fn new_name() -> String {
    let mut dice = Dice::unforeseeable();
    // The draw is in [0, 1), so what it makes fits.
    format!("{:012x}", (dice.draw() * (1_u64 << 48) as f64) as u64)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
