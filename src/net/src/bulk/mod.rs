//! Many rows through one provider: from file to file, or from and to a program.
//!
//! Each row is one call (`driver`); all of them share the gates of one doorway. What makes a run
//! safe to kill is in `store`: a row is noted in the journal before it is sent, and its record is handed to the
//! operating system as soon as there is one. Modules are listed in import order.

mod lines;
mod rows;
mod known;
mod record;
mod journal;
mod look;
mod store;
mod counts;
mod crew;
mod pool;
mod survey;
mod files;
mod stream;

pub use counts::{Counts, Snapshot};
pub use crew::{Crew, Whereto};
pub use files::{Outcome, run};
pub use known::Seen as Ids;
pub use look::{Earlier, Paths, Trouble};
pub use record::{Bad, reason};
pub use rows::{Form, Row, read, read_parts};
pub use store::Store;
pub use stream::{Basket, Came, Fed, serve};
pub use survey::{Survey, survey};
