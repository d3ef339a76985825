//! The only reader of time and the only sleeper of this crate.
//!
//! An attempt has many limits (connect, write, read, the whole) but one timer: the alarm is set to the
//! first instant at which any of them could be over, and looks again when it rings. Moving a limit into the
//! future costs nothing, which is what happens on every good call.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio::time::Sleep;
pub use tokio::time::{Duration, Instant};

use crate::transport::Phase;

/// The present instant.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock in seconds since the epoch; `None` when it stands before it.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn wall() -> Option<f64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.ok().map(|since| since.as_secs_f64())
}

/// Waits until `instant`; needs a tokio runtime with its timer on.
#[allow(clippy::disallowed_methods, reason = "the one sleeper")]
pub fn sleep_until(instant: Instant) -> Sleep {
    tokio::time::sleep_until(instant)
}

/// What the limits say at some instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// When nothing limits the work.
    Unlimited,
    /// When no limit can be over before this instant.
    GoOnUntil(Instant),
    /// When this phase took too long.
    Over(Phase),
}

/// One timer, re-armed only when it rings or when a limit moved closer.
#[derive(Debug, Default)]
pub struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// Runs `work` until it is done or `judge` says that a phase is over; dropping `work` is the caller's.
    ///
    /// # Errors
    /// The phase that took too long.
    pub async fn guard<W: Future>(
        &mut self,
        mut work: Pin<&mut W>,
        judge: impl Fn(Instant) -> Verdict,
    ) -> Result<W::Output, Phase> {
        let mut judged = false;
        poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            // Once armed, a waking of `work` alone cannot bring a limit closer than the alarm already is.
            let ringing = match self.sleep.as_mut() {
                Some(sleep) if judged => sleep.as_mut().poll(context).is_ready(),
                Some(_) => true,
                None => !judged,
            };
            if !ringing {
                return Poll::Pending;
            }
            judged = true;
            loop {
                let until = match judge(now()) {
                    Verdict::Unlimited => {
                        self.sleep = None;
                        return Poll::Pending;
                    }
                    Verdict::Over(phase) => return Poll::Ready(Err(phase)),
                    Verdict::GoOnUntil(until) => until,
                };
                if self.arm(until).as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The timer, ringing at `until` or earlier.
    fn arm(&mut self, until: Instant) -> &mut Pin<Box<Sleep>> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if sleep.is_elapsed() || sleep.deadline() > until {
            sleep.as_mut().reset(until);
        }
        sleep
    }
}
