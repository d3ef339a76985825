//! What is done for a call while Python waits: the gates are passed, the request is sent, its answer read.
//!
//! No Python object is in it, so that any thread may run it and drop it.

use std::sync::Arc;

use steadycall_core::passage::Refusal;
use steadycall_core::time::{Deadline, Moment};
use steadycall_net::clock::Duration;
use steadycall_net::doorway::Pass;
use steadycall_net::lane::Lane;
use steadycall_net::transport::{Limits, Outcome, Request, Route};

/// For who keeps another time than the machine's, the gates are looked at again this often.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// One piece of work.
pub enum Job {
    /// When an attempt is to be made.
    Send(Box<Sending>),
    /// When the gates are to be passed, and Python has a word to say before anything is sent.
    Enter(Pass),
    /// When somebody who keeps his own time waits to be called up.
    Listen(Pass),
}

/// One attempt, ready to be made.
#[derive(Debug)]
pub struct Sending {
    /// Which client.
    pub route: Arc<Route>,
    /// What to send.
    pub request: Arc<Request>,
    /// How long it may take and how much it may bring.
    pub limits: Limits,
    /// The gates before it, of a call of a client.
    pub gate: Option<Gate>,
}

/// The gates before an attempt, and what is left for it behind them.
#[derive(Debug)]
pub struct Gate {
    /// Its way through.
    pub pass: Pass,
    /// Whether it is through already.
    pub inside: bool,
    /// When the call must be over.
    pub deadline: Deadline,
    /// How long the attempt may take.
    pub attempt_timeout: Option<Duration>,
    /// Below this much time left, it is not made.
    pub min_attempt: Duration,
}

/// What came of one.
pub enum Done {
    /// When the answer is there, or what came instead; with its pass and when it was let through.
    Sent(Box<Outcome>, Option<(Pass, Moment)>),
    /// When the gates were passed.
    Entered(Pass),
    /// When somebody was called up, or has waited long enough to look again.
    Heard(Pass),
    /// When a gate refused it; nothing was sent.
    Refused(Refusal),
}

impl Job {
    /// Does it, over the connections of the runtime that runs it.
    pub async fn run(self, lane: &Lane) -> Done {
        match self {
            Self::Send(sending) => sending.run(lane).await,
            Self::Enter(mut pass) => match pass.go().await {
                Ok(()) => Done::Entered(pass),
                Err(why) => Done::Refused(why),
            },
            Self::Listen(pass) => {
                pass.listen(LOOK_AGAIN).await;
                Done::Heard(pass)
            }
        }
    }
}

impl Sending {
    async fn run(self, lane: &Lane) -> Done {
        let Self { route, request, mut limits, gate } = self;
        let Some(Gate { mut pass, inside, deadline, attempt_timeout, min_attempt }) = gate else {
            return Done::Sent(Box::new(lane.attempt(&route, &request, &limits).await), None);
        };
        if !inside && let Err(why) = pass.go().await {
            return Done::Refused(why);
        }
        let admitted = pass.now();
        let left = deadline.left(admitted);
        if left.is_some_and(|left| left.is_zero() || left < min_attempt) {
            pass.give_back();
            return Done::Refused(Refusal::Late);
        }
        limits.attempt = Deadline::after(attempt_timeout, admitted).earliest(deadline).left(admitted);
        let outcome = lane.attempt(&route, &request, &limits).await;
        pass.leave_slot();
        Done::Sent(Box::new(outcome), Some((pass, admitted)))
    }
}

impl Done {
    /// Whether the runtime has no connection left that must be closed.
    pub fn is_clean(&self) -> bool {
        match self {
            Self::Sent(outcome, _) => outcome.result.is_ok(),
            Self::Entered(_) | Self::Heard(_) | Self::Refused(_) => true,
        }
    }
}
