//! A run of a program's own rows: what is fed is sent, what lands is handed out. Who feeds keeps count of what is open.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tokio::sync::mpsc::UnboundedReceiver;

use super::counts::add;
use super::crew::{Crew, Landed};
use super::pool::{Pool, Todo};
use super::record::Bad;
use super::rows::Row;
use crate::clock::{self, Duration};
use crate::driver::{Ended, Flag};

/// Between two looks whether it is time to give up.
const LOOK: Duration = Duration::from_secs(1);

/// A row, or what is wrong with it.
pub type Fed = Result<Row, (Row, Bad)>;

/// What came of a row that was fed.
#[derive(Debug)]
pub struct Came {
    /// The row, without its body.
    pub row: Row,
    /// How its call ended, or what was wrong with it.
    pub ended: Result<Ended, Bad>,
}

/// Where results lie until somebody takes them.
#[derive(Debug, Default)]
pub struct Basket {
    lying: Mutex<Vec<Came>>,
    bell: Condvar,
}

impl Basket {
    fn put(&self, result: Came) {
        self.lying.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        self.bell.notify_one();
    }

    /// Whatever lies there, waited for as long as `most`.
    pub fn take(&self, most: Duration) -> Vec<Came> {
        let mut lying = self.lying.lock().unwrap_or_else(PoisonError::into_inner);
        if lying.is_empty() && !most.is_zero() {
            let waited = self.bell.wait_timeout_while(lying, most, |lying| lying.is_empty());
            lying = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(lying, _)| lying);
        }
        std::mem::take(&mut lying)
    }
}

/// Sends what is fed until nothing more is, or it is stopped or aborted. False when a row's task panicked.
pub async fn serve(
    crew: Arc<Crew>,
    mut fed: UnboundedReceiver<Fed>,
    basket: Arc<Basket>,
    abort: Arc<Flag>,
) -> bool {
    let mut pool = Pool::new(Arc::clone(&crew), None);
    let mut open = true;
    let mut tick = pin!(clock::sleep_until(clock::now() + LOOK));
    while open || pool.open() > 0 {
        tokio::select! {
            biased;
            () = abort.wait() => break,
            () = &mut tick => {
                tick.as_mut().reset(clock::now() + LOOK);
                if crew.gives_up() {
                    crew.shared().stop.raise();
                }
            }
            row = fed.recv(), if open => match row {
                Some(row) => start(&crew, &mut pool, &basket, row),
                None => open = false,
            },
            landed = pool.landed(), if pool.open() > 0 => {
                let Ok(landed) = landed else { return false };
                for Landed { row, ended, .. } in landed {
                    crew.counts.observe_end(&ended);
                    basket.put(Came { row, ended: Ok(ended) });
                }
            }
        }
    }
    pool.close().await;
    crew.counts.observe_close();
    true
}

fn start(crew: &Crew, pool: &mut Pool, basket: &Basket, fed: Fed) {
    add(&crew.counts.rows, 1);
    let found = fed.and_then(|row| match crew.uri(&row) {
        Some(uri) => Ok((row, uri)),
        None => Err((row, Bad::Url)),
    });
    match found {
        Ok((row, uri)) => pool.send(Todo { row, uri, doubted: false }),
        Err((row, bad)) => {
            crew.counts.observe_bad(bad);
            basket.put(Came { row, ended: Err(bad) });
        }
    }
}
