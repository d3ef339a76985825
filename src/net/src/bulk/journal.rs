//! The journal beside the output: which run it is, of which input, and every row before it is sent.
//!
//! ```text
//! {"steadycall_bulk":1,"run":"5f0c9e2b7a41","input":"<SHA-256 of the file of rows>","url":"https://llm.example/v1"}
//! 1
//! 2
//! -2
//! again
//! ```
//!
//! A number is the line of a row that is about to be sent; with a minus sign one that surely was not sent after all;
//! `again` tells that failed rows were taken back to be sent again, and that what stands above it is settled.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::known::Bits;

/// The version of the format.
const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    steadycall_bulk: u32,
    /// The name of the run, in every record.
    pub run: String,
    /// What the rows were, as a digest.
    pub input: String,
    /// Where they went, without what may be a secret; `None` in journals older than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Head {
    /// Of a new run.
    pub fn new(run: String, input: String, url: String) -> Self {
        Self { steadycall_bulk: VERSION, run, input, url: Some(url) }
    }

    /// Reads the first line; `None` for what is no journal of ours.
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok().filter(|head: &Self| head.steadycall_bulk == VERSION)
    }

    /// The first line.
    pub fn line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}

/// The line that notes a row before it is sent.
pub fn note(number: u64) -> String {
    format!("{number}\n")
}

/// The line that takes it back.
pub fn take_back(out: &mut String, number: u64) {
    let _ = writeln!(out, "-{number}");
}

/// The line that settles what stands above it.
pub const AGAIN: &str = "again\n";

/// Reads one line after the first; false for what is none of ours.
pub fn read(line: &[u8], noted: &mut Bits) -> bool {
    let Ok(text) = std::str::from_utf8(line) else { return false };
    if text == AGAIN.trim_end() {
        noted.clear();
    } else if let Ok(number) = text.parse() {
        noted.insert(number);
    } else if let Some(Ok(number)) = text.strip_prefix('-').map(str::parse) {
        noted.remove(number);
    } else {
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_read_back_as_it_was_written() {
        let head = Head::new("ab12".to_owned(), "digest".to_owned(), "https://a/v1".to_owned());
        assert_eq!(Head::read(head.line().trim_end().as_bytes()), Some(head));
        assert_eq!(Head::read(b"{\"steadycall_bulk\":2,\"run\":\"a\",\"input\":\"b\"}"), None);
        let mut noted = Bits::default();
        assert!([&b"1"[..], b"2", b"-1"].into_iter().all(|line| read(line, &mut noted)));
        assert!(!noted.holds(1) && noted.holds(2) && !read(b"x", &mut noted));
        assert!(read(b"again", &mut noted) && !noted.holds(2));
    }
}
