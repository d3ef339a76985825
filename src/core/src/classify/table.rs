//! The form of every dialect's table, and how strongly a line of it speaks.
//!
//! A line names a word the provider writes (a code, a type, a gRPC status, an exception's name) or a phrase of
//! its messages, and the reason it stands for. Words are compared in lower case without regard to `-`, `_`,
//! blanks and dots; phrases are looked for anywhere in the messages, in lower case.

use crate::failure::Reason;

/// What a line of a table says about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// When it settles the matter, whatever the status is.
    Always(Reason),
    /// When it is a quota, unless the server names a wait: then it is a pace, and the wait decides.
    SpentUnlessHinted(Reason),
    /// When it says "later" and may lift a 4xx that leaves room for it (400, 403, 409, 424, 498, ...), not one
    /// that is settled by itself (401, 402, 404, 413, 422).
    Soft(Reason),
    /// When it only names what the status says, so it counts where no status does: inside a 2xx.
    Alone(Reason),
}

/// A word or phrase and what it says.
pub(super) type Line = (&'static str, Verdict);

/// One dialect's peculiarities; what all share stands in `shared`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    /// Codes, types and other single words, normalised as `normal` does.
    pub words: &'static [Line],
    /// Pieces of messages, in lower case. The first that is found counts.
    pub phrases: &'static [Line],
    /// Statuses that mean something of their own here.
    pub statuses: &'static [(u16, Reason)],
}

impl Table {
    /// A dialect that says nothing but what all say.
    pub const PLAIN: Self = Self { words: &[], phrases: &[], statuses: &[] };

    pub fn word(&self, normal_word: &str) -> Option<Verdict> {
        find(self.words, |word| word == normal_word)
    }

    pub fn phrase(&self, lower_text: &str) -> Option<Verdict> {
        find(self.phrases, |phrase| lower_text.contains(phrase))
    }

    pub fn status(&self, status: u16) -> Option<Reason> {
        self.statuses.iter().find(|(number, _)| *number == status).map(|(_, reason)| *reason)
    }
}

fn find(lines: &[Line], is_it: impl Fn(&str) -> bool) -> Option<Verdict> {
    lines.iter().find(|(key, _)| is_it(key)).map(|(_, verdict)| *verdict)
}

/// A word in the spelling of the tables: lower case, letters and digits only.
pub(super) fn normal(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
