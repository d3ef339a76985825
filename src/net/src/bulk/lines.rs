//! A file line by line, with numbers, in memory for one line.

use std::io::{self, BufRead, Read};

/// The longest line that is read: larger than any provider takes.
pub const LONGEST: usize = 256 * 1024 * 1024;

/// The lines of a file, from 1.
#[derive(Debug)]
pub struct Lines<R> {
    from: R,
    line: Vec<u8>,
    number: u64,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1; blank lines count.
    pub number: u64,
    /// Without its end of line, and of the first one without a byte order mark; cut where it is too long.
    pub text: &'a [u8],
    /// With its end of line.
    pub raw: &'a [u8],
    /// Whether it is longer than may be.
    pub too_long: bool,
}

impl Line<'_> {
    /// Whether it holds no row.
    pub fn is_blank(&self) -> bool {
        self.text.trim_ascii().is_empty()
    }

    /// Whether its end of line is there: the last line of a file that was cut off has none.
    pub fn is_whole(&self) -> bool {
        self.raw.ends_with(b"\n")
    }
}

impl<R: BufRead> Lines<R> {
    /// The lines of `from`.
    pub fn new(from: R) -> Self {
        Self { from, line: Vec::new(), number: 0 }
    }

    /// The next line; `None` at the end.
    pub fn read(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        // A row of a megabyte among small ones must not be paid for to the end.
        self.line.shrink_to(1024 * 1024);
        let most = LONGEST as u64 + 1;
        if self.from.by_ref().take(most).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        let too_long = self.line.len() > LONGEST && !self.line.ends_with(b"\n");
        if too_long {
            self.from.skip_until(b'\n')?;
        }
        self.number += 1;
        let mut text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        text = text.strip_suffix(b"\r").unwrap_or(text);
        if self.number == 1 {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        Ok(Some(Line { number: self.number, text, raw: &self.line, too_long }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_line_and_the_mark_of_the_first_are_cut_off() {
        let mut lines = Lines::new(&b"\xef\xbb\xbfone\r\n\ntwo"[..]);
        let mut found = Vec::new();
        while let Some(line) = lines.read().unwrap() {
            found.push((line.number, line.text.to_vec(), line.is_blank(), line.is_whole()));
        }
        let text = |text: &str| text.as_bytes().to_vec();
        assert_eq!(
            found,
            [(1, text("one"), false, true), (2, text(""), true, true), (3, text("two"), false, false)]
        );
    }
}
