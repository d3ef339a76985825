//! The tasks that send rows: as many as are open at once, each one row after the other.
//!
//! A task of its own for each row would be simpler. But what a call holds while it waits is several kilobytes, and to
//! allot and move that for every row costs a sixth of the row.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Uri;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::counts::add;
use super::crew::{Crew, Landed};
use super::look::Trouble;
use super::rows::Row;
use super::store::Journal;

/// A row to be sent.
#[derive(Debug)]
pub struct Todo {
    /// What.
    pub row: Row,
    /// Where to.
    pub uri: Uri,
    /// Whether it may have been billed before.
    pub doubted: bool,
}

/// Those at work.
#[derive(Debug)]
pub struct Pool {
    yard: Arc<Yard>,
    workers: JoinSet<()>,
    /// Rows handed in and not yet landed.
    open: usize,
}

/// Where rows are picked up and put down.
#[derive(Debug)]
struct Yard {
    crew: Arc<Crew>,
    journal: Option<Arc<Journal>>,
    todo: Mutex<VecDeque<Todo>>,
    landed: Mutex<Vec<Landed>>,
    idle: AtomicUsize,
    work: Notify,
    came: Notify,
}

impl Pool {
    /// Nobody at work yet.
    pub fn new(crew: Arc<Crew>, journal: Option<Arc<Journal>>) -> Self {
        let yard = Yard {
            crew,
            journal,
            todo: Mutex::default(),
            landed: Mutex::default(),
            idle: AtomicUsize::new(0),
            work: Notify::new(),
            came: Notify::new(),
        };
        Self { yard: Arc::new(yard), workers: JoinSet::new(), open: 0 }
    }

    /// How many rows are open.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Has a row sent. Whoever calls bounds how many are open.
    pub fn send(&mut self, todo: Todo) {
        self.open += 1;
        add(&self.yard.crew.counts.open, 1);
        let waiting = {
            let mut all = lock(&self.yard.todo);
            all.push_back(todo);
            all.len()
        };
        if waiting > self.yard.idle.load(Ordering::Relaxed) && self.workers.len() < self.open {
            let yard = Arc::clone(&self.yard);
            self.workers.spawn(async move { yard.work().await });
        } else {
            self.yard.work.notify_one();
        }
    }

    /// Rows that have landed, waited for: at least one.
    ///
    /// # Errors
    /// A worker panicked, and its row with it.
    pub async fn landed(&mut self) -> Result<Vec<Landed>, Trouble> {
        loop {
            let landed = std::mem::take(&mut *lock(&self.yard.landed));
            if !landed.is_empty() {
                self.open = self.open.saturating_sub(landed.len());
                self.yard.crew.counts.open.fetch_sub(landed.len() as u64, Ordering::Relaxed);
                return Ok(landed);
            }
            tokio::select! {
                () = self.yard.came.notified() => {}
                // Workers have no end of their own.
                Some(_) = self.workers.join_next() => return Err(Trouble::Ours("a panic while sending a row")),
            }
        }
    }

    /// Gives up whatever is open.
    pub async fn close(&mut self) {
        self.workers.shutdown().await;
        self.open = 0;
    }
}

impl Yard {
    async fn work(&self) {
        loop {
            let Some(Todo { row, uri, doubted }) = self.next() else {
                self.idle.fetch_add(1, Ordering::Relaxed);
                self.work.notified().await;
                self.idle.fetch_sub(1, Ordering::Relaxed);
                continue;
            };
            let landed = self.crew.send(row, uri, self.journal.as_deref(), doubted).await;
            lock(&self.landed).push(landed);
            self.came.notify_one();
        }
    }

    /// The next row; whoever picks it up calls another if there are more.
    fn next(&self) -> Option<Todo> {
        let mut todo = lock(&self.todo);
        let next = todo.pop_front();
        if !todo.is_empty() {
            self.work.notify_one();
        }
        next
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
