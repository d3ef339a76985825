//! What a run would send, without sending or writing anything.

use std::io::BufReader;

use steadycall_core::estimate;

use super::known::Seen;
use super::lines::Lines;
use super::look::{Earlier, Paths, Trouble};
use super::rows::{self, Form};

/// What a run would send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Survey {
    /// Rows that can be sent.
    pub rows: u64,
    /// Lines that are none.
    pub bad_lines: u64,
    /// Rows and bad lines that have a record.
    pub earlier: u64,
    /// Rows that would be sent now.
    pub to_send: u64,
    /// Estimated tokens of those.
    pub tokens: u64,
    /// Estimated tokens of the largest one.
    pub largest: u64,
}

/// Reads all rows.
///
/// # Errors
/// A file cannot be read, or holds something else.
pub fn survey(paths: &Paths, form: Form, again: bool) -> Result<Survey, Trouble> {
    let earlier = Earlier::look(paths, again)?;
    let file = std::fs::File::open(&paths.rows).map_err(Trouble::at(&paths.rows))?;
    let mut lines = Lines::new(BufReader::with_capacity(256 * 1024, file));
    let mut seen = Seen::with_room_for(earlier.rows);
    let mut found = Survey { earlier: earlier.answered + earlier.failed, ..Survey::default() };
    while let Some(line) = lines.read().map_err(Trouble::at(&paths.rows))? {
        if line.is_blank() {
            continue;
        }
        let row = rows::read(line.number, line.text, form).ok();
        let Some(row) = row.filter(|row| !line.too_long && seen.insert(&row.custom_id)) else {
            found.bad_lines += 1;
            continue;
        };
        found.rows += 1;
        if !earlier.done.holds(row.number) {
            let tokens = estimate::tokens(&row.body);
            found.to_send += 1;
            found.tokens = found.tokens.saturating_add(tokens);
            found.largest = found.largest.max(tokens);
        }
    }
    Ok(found)
}
