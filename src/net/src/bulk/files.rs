//! A run from file to file. One task reads and writes; rows are sent by others, more of them than may be in flight, so
//! that a row that waits to be sent again holds up nobody.
//!
//! Files are read and written on the runtime's thread, because that is a copy to or from the system's memory; they are
//! brought to the disk on another, because that takes as long as a disk takes.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use steadycall_core::failure::{Reason, Sent};
use tokio::task::JoinHandle;

use super::crew::{Crew, Landed};
use super::known::Seen;
use super::lines::Lines;
use super::look::{Earlier, Trouble};
use super::pool::{Pool, Todo};
use super::record::{self, Bad};
use super::rows::{self, Form};
use super::store::{self, Store};
use crate::clock::{self, Duration};
use crate::driver::Flag;

/// Between two syncs.
const SYNC: Duration = Duration::from_secs(1);
/// Rows read ahead hold so many bytes at the most, and one row.
const READ_AHEAD: usize = 64 * 1024 * 1024;
/// Rows that wait for an open circuit, as a multiple of all others: each holds some kilobytes.
const PARKED: usize = 15;
/// Lines looked at before others have their turn.
const TURN: usize = 256;

/// So many rows refused in a row for the account's sake, and none answered between them, end a run: the others would be
/// refused too, and each would need to be sent again.
const HOPELESS: u32 = 20;

/// How a run ended that nothing went wrong with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// When every row has its record.
    Complete,
    /// When it was stopped, and what was in flight was finished.
    Stopped,
    /// When it was aborted.
    Aborted,
    /// When the provider refused one row after the other: the key is wrong, or the money is spent.
    Refused,
    /// When every request failed for so long that it gave up.
    Outage,
    /// When the provider asked for a wait longer than the policy waits.
    Wait,
}

/// A run under way.
struct Files {
    crew: Arc<Crew>,
    lines: Lines<BufReader<File>>,
    form: Form,
    earlier: Earlier,
    seen: Seen,
    store: Store,
    pool: Pool,
    window: usize,
    /// Bytes of the rows that are open.
    held: usize,
    /// Whether there is more to read.
    more: bool,
    answers: Vec<u8>,
    failures: Vec<u8>,
    unsent: Vec<u64>,
    /// Rows refused for the account's sake since the last answer.
    refused: u32,
    /// Why it stopped of itself.
    ends: Option<Outcome>,
}

/// Runs until every row has its record, or it is stopped. `window` rows are open at most.
///
/// # Errors
/// A file cannot be read or written any more; what is written is whole.
pub async fn run(
    crew: Arc<Crew>,
    rows: (File, Form),
    earlier: Earlier,
    store: Store,
    window: usize,
    abort: Arc<Flag>,
) -> Result<Outcome, Trouble> {
    let counts = &crew.counts;
    for (counter, value) in [
        (&counts.rows, earlier.rows),
        (&counts.earlier_answered, earlier.answered),
        (&counts.earlier_failed, earlier.failed),
    ] {
        counter.store(value, Ordering::Relaxed);
    }
    let mut files = Files {
        crew: Arc::clone(&crew),
        lines: Lines::new(BufReader::with_capacity(256 * 1024, rows.0)),
        form: rows.1,
        seen: Seen::with_room_for(earlier.rows),
        earlier,
        pool: Pool::new(Arc::clone(&crew), Some(store.journal())),
        store,
        window,
        held: 0,
        more: true,
        answers: Vec::new(),
        failures: Vec::new(),
        unsent: Vec::new(),
        refused: 0,
        ends: None,
    };
    let ended = files.work(&abort).await;
    // What has no record yet gets none: stopped rows wait for the next run.
    files.pool.close().await;
    counts.observe_close();
    let synced = store::sync(files.store.unsynced());
    let outcome = ended?;
    synced.map(|()| outcome)
}

impl Files {
    async fn work(&mut self, abort: &Flag) -> Result<Outcome, Trouble> {
        let mut tick = pin!(clock::sleep_until(clock::now() + SYNC));
        let mut syncing: Option<JoinHandle<Result<(), Trouble>>> = None;
        loop {
            let read = self.fill()?;
            self.write()?;
            let stopped = self.crew.shared().stop.is_raised();
            if self.pool.open() == 0 && (stopped || !self.more) {
                return Ok(match stopped {
                    false => Outcome::Complete,
                    true => self.ends.unwrap_or(Outcome::Stopped),
                });
            }
            if read == TURN {
                // There is more to read at once; whoever is in flight has a turn first.
                tokio::task::yield_now().await;
            }
            // The clock comes before the rows, of which there may always be one.
            tokio::select! {
                biased;
                () = abort.wait() => return Ok(Outcome::Aborted),
                done = async { match syncing.as_mut() { Some(handle) => handle.await, None => std::future::pending().await } } => {
                    syncing = None;
                    done.unwrap_or(Err(Trouble::Ours("a panic while syncing")))?;
                }
                () = &mut tick => {
                    tick.as_mut().reset(clock::now() + SYNC);
                    if self.crew.gives_up() {
                        self.stop(Outcome::Outage);
                    }
                    if syncing.is_none() {
                        let files: Vec<(Arc<File>, PathBuf)> = self.store.unsynced();
                        syncing = Some(tokio::task::spawn_blocking(|| store::sync(files)));
                    }
                }
                // Rows that wait for a circuit make room for others.
                () = self.crew.parked.notified() => {}
                landed = self.pool.landed(), if self.pool.open() > 0 => {
                    for landed in landed? {
                        self.landed(landed)?;
                    }
                    self.write()?;
                }
                () = std::future::ready(()), if read == TURN => {}
            }
        }
    }

    /// Reads lines and starts rows while there is room. Returns how many lines it read, `TURN` at most.
    fn fill(&mut self) -> Result<usize, Trouble> {
        let mut read = 0;
        while self.more
            && read < TURN
            && self.pool.open() < self.window + self.parked()
            && self.held < READ_AHEAD
            && !self.crew.shared().stop.is_raised()
        {
            let Some(line) = self.lines.read().map_err(Trouble::at(&self.earlier.input))? else {
                self.more = false;
                break;
            };
            read += 1;
            if line.is_blank() {
                continue;
            }
            let number = line.number;
            let found = match line.too_long {
                true => Err((Bad::TooLong, None)),
                false => rows::read(number, line.text, self.form),
            };
            // Asked of rows that are done too: a later one may have the same id.
            let found = found.and_then(|row| match self.seen.insert(&row.custom_id) {
                true => Ok(row),
                false => Err((Bad::DuplicateCustomId, Some(row.custom_id))),
            });
            if self.earlier.done.holds(number) {
                continue;
            }
            let found = found.and_then(|row| match self.crew.uri(&row) {
                Some(uri) => Ok((row, uri)),
                None => Err((Bad::Url, Some(row.custom_id))),
            });
            match found {
                Ok((row, uri)) => {
                    self.held += row.body.len();
                    self.pool.send(Todo { row, uri, doubted: self.earlier.doubts(number) });
                }
                Err((bad, custom_id)) => {
                    record::bad(&mut self.failures, &self.store.run, number, custom_id.as_deref(), bad);
                    self.crew.counts.observe_bad(bad);
                }
            }
        }
        Ok(read)
    }

    /// Rows that wait for an open circuit and must hold up no others: they take no room, up to a number.
    fn parked(&self) -> usize {
        let most = self.window.saturating_mul(PARKED);
        self.crew.counts.parked.load(Ordering::Relaxed).min(most)
    }

    /// Makes the record of a row, to be written.
    fn landed(&mut self, landed: Landed) -> Result<(), Trouble> {
        let Landed { row, ended, noted, trouble, bytes } = landed;
        self.held = self.held.saturating_sub(bytes);
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        if let Some(wait) = ended.too_long {
            // Every other row would have to wait too: they are the next run's.
            self.crew.counts.observe_wait(wait);
            self.stop(Outcome::Wait);
        }
        if ended.is_cut_off() || ended.too_long.is_some() {
            if noted && ended.sent() == Sent::No {
                self.unsent.push(row.number);
            }
            return Ok(());
        }
        match ended.answer.as_ref().filter(|_| ended.is_answered()) {
            Some(answer) => {
                record::answered(
                    &mut self.answers,
                    &self.store.run,
                    &row,
                    answer,
                    ended.request_id.as_deref(),
                );
            }
            None => record::failed(&mut self.failures, &self.store.run, &row, &ended),
        }
        self.crew.counts.observe_end(&ended);
        match &ended.failure {
            None if ended.is_answered() => self.refused = 0,
            Some(failure) if is_the_accounts(failure.reason) => self.refused = self.refused.saturating_add(1),
            _ => {}
        }
        if self.refused == HOPELESS {
            self.stop(Outcome::Refused);
        }
        Ok(())
    }

    /// Sends nothing new, for the first reason there is.
    fn stop(&mut self, why: Outcome) {
        if !self.crew.shared().stop.is_raised() {
            self.ends = Some(why);
            self.crew.shared().stop.raise();
        }
    }

    fn write(&mut self) -> Result<(), Trouble> {
        self.store.write(&self.answers, &self.failures)?;
        if !self.unsent.is_empty() {
            self.store.take_back(&self.unsent)?;
        }
        self.unsent.clear();
        for lines in [&mut self.answers, &mut self.failures] {
            lines.clear();
            lines.shrink_to(1024 * 1024);
        }
        Ok(())
    }
}

/// Whether it is the account that is refused, and so every row.
const fn is_the_accounts(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Unauthorized | Reason::Billing | Reason::QuotaSpent | Reason::WaitOfDays | Reason::ZeroLimit
    )
}
