//! What earlier runs left: read before anything is written or sent.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use super::journal::{self, Head};
use super::known::Bits;
use super::lines::Lines;
use super::record::{self, Read};

/// Read in pieces of this size: records are a kilobyte, and there are many.
const PIECE: usize = 256 * 1024;

/// The files of a run.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The rows.
    pub rows: PathBuf,
    /// The answers.
    pub output: PathBuf,
    /// The rows that failed and the lines that are none.
    pub failures: PathBuf,
    /// What was sent.
    pub journal: PathBuf,
}

/// Why a run cannot begin or go on.
#[derive(Debug)]
pub enum Trouble {
    /// When the system says no.
    Io {
        /// Which file.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
    /// When the fault is ours, in so many words.
    Ours(&'static str),
    /// When a file is not what it should be.
    Refused {
        /// Which one: `rows`, `output`, `failures`, `url`.
        field: &'static str,
        /// Where it is, or leads.
        path: PathBuf,
        /// What would be right, to follow "must be".
        allowed: &'static str,
    },
}

impl Trouble {
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::Io { path, error }
    }

    fn refused(field: &'static str, path: &Path, allowed: &'static str) -> Self {
        Self::Refused { field, path: path.to_owned(), allowed }
    }
}

/// What earlier runs left.
#[derive(Debug, Default)]
pub struct Earlier {
    /// The file of rows.
    pub(super) input: PathBuf,
    /// Lines of the input that hold something.
    pub rows: u64,
    /// The number of the last one.
    pub last: u64,
    /// Rows with an answer.
    pub answered: u64,
    /// Rows that failed.
    pub failed: u64,
    /// Those that are not to be sent again.
    pub done: Bits,
    /// Rows that were noted and have no record: they may have been billed.
    pub(super) doubtful: Bits,
    /// Whether the failures are forgotten.
    pub(super) again: bool,
    /// The run that goes on; `None` for a new one.
    pub(super) head: Option<Head>,
    pub(super) digest: String,
    /// How much of each file is whole.
    pub(super) output: u64,
    pub(super) failures: u64,
    pub(super) journal: u64,
}

impl Earlier {
    /// Reads all files of a run. `again` forgets the failures.
    ///
    /// # Errors
    /// A file cannot be read, or holds something else.
    pub fn look(paths: &Paths, again: bool) -> Result<Self, Trouble> {
        let mut earlier = Self { input: paths.rows.clone(), ..Self::default() };
        earlier.count_rows(&paths.rows)?;
        let mut noted = Bits::default();
        earlier.read_journal(&paths.journal, &paths.output, &mut noted)?;
        let Some(head) = earlier.head.clone() else {
            for (field, path) in [("output", &paths.output), ("failures", &paths.failures)] {
                if open(field, path)?.is_some_and(|(_, length)| length > 0) {
                    let allowed =
                        "a file that does not exist yet, or the output of a run with its journal beside it";
                    return Err(Trouble::refused(field, path, allowed));
                }
            }
            return Ok(earlier);
        };
        (earlier.answered, earlier.output) = earlier.read_records("output", &paths.output, &head.run)?;
        let answered = earlier.done.clone();
        (earlier.failed, earlier.failures) = earlier.read_records("failures", &paths.failures, &head.run)?;
        noted.subtract(&earlier.done);
        earlier.doubtful = noted;
        if again {
            (earlier.done, earlier.failed, earlier.failures) = (answered, 0, 0);
            earlier.again = true;
        }
        Ok(earlier)
    }

    /// Whether a row was noted by an earlier run that left no record of it.
    pub fn doubts(&self, number: u64) -> bool {
        self.doubtful.holds(number)
    }

    /// Refuses a URL that earlier rows did not go to: the output would mix the answers of two servers.
    pub(super) fn went_to(&self, url: &str) -> Result<(), Trouble> {
        let other =
            self.head.as_ref().and_then(|head| head.url.as_deref()).is_some_and(|earlier| earlier != url);
        let allowed = "the url or base_url that the rows before went to, or another output";
        if other { Err(Trouble::refused("url", Path::new(url), allowed)) } else { Ok(()) }
    }

    fn count_rows(&mut self, path: &Path) -> Result<(), Trouble> {
        let wrong = || Trouble::at(path);
        let file = match open("rows", path)? {
            Some((file, _)) => file,
            // Without one, the system says so in its own words.
            None => File::open(path).map_err(wrong())?,
        };
        let mut lines = Lines::new(BufReader::with_capacity(PIECE, file));
        let mut digest = Context::new(&SHA256);
        while let Some(line) = lines.read().map_err(wrong())? {
            digest.update(line.raw);
            if !line.is_blank() {
                self.rows += 1;
                self.last = line.number;
            }
        }
        for byte in digest.finish().as_ref() {
            self.digest.push_str(&format!("{byte:02x}"));
        }
        Ok(())
    }

    fn read_journal(&mut self, path: &Path, output: &Path, noted: &mut Bits) -> Result<(), Trouble> {
        let Some((file, _)) = open("journal", path)? else { return Ok(()) };
        let mut lines = Lines::new(BufReader::with_capacity(PIECE, file));
        while let Some(line) = lines.read().map_err(Trouble::at(path))? {
            if !line.is_whole() {
                break;
            }
            if self.head.is_some() {
                // What a power cut made of the last lines is cut off, and its rows are sent again.
                if !journal::read(line.text, noted) {
                    break;
                }
            } else {
                let foreign = "one whose journal is of steadycall";
                let head =
                    Head::read(line.text).ok_or_else(|| Trouble::refused("output", output, foreign))?;
                if head.input != self.digest {
                    let allowed = "the output of these rows; what it holds are answers to others, or the rows were changed since";
                    return Err(Trouble::refused("output", output, allowed));
                }
                self.head = Some(head);
            }
            self.journal += line.raw.len() as u64;
        }
        Ok(())
    }

    /// Reads the records of a file: how many there are, and how much of it is whole.
    fn read_records(&mut self, field: &'static str, path: &Path, run: &str) -> Result<(u64, u64), Trouble> {
        let Some((file, _)) = open(field, path)? else { return Ok((0, 0)) };
        let foreign = || Trouble::refused(field, path, "a file that holds records of this run only");
        let mut lines = Lines::new(BufReader::with_capacity(PIECE, file));
        let (mut count, mut whole, mut torn) = (0, 0, false);
        while let Some(line) = lines.read().map_err(Trouble::at(path))? {
            match record::read(line.text, run) {
                Read::OfAnotherRun => return Err(foreign()),
                // A power cut leaves anything at the end of a file, but nothing of ours behind that.
                Read::Of(_) if torn => return Err(foreign()),
                Read::Of(number) if line.is_whole() => {
                    count += u64::from(self.done.insert(number));
                    whole += line.raw.len() as u64;
                }
                Read::Of(_) | Read::Foreign => torn = true,
            }
        }
        // A file of which no line is ours is somebody else's, however short.
        if torn && whole == 0 && has_lines(path)? {
            return Err(foreign());
        }
        Ok((count, whole))
    }
}

/// Opens a file for reading, if there is one: it must be one that can be read twice.
fn open(field: &'static str, path: &Path) -> Result<Option<(File, u64)>, Trouble> {
    let about = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(Trouble::at(path))?,
    };
    if !about.is_file() {
        return Err(Trouble::refused(field, path, "a regular file, which a run can go back to"));
    }
    Ok(Some((File::open(path).map_err(Trouble::at(path))?, about.len())))
}

fn has_lines(path: &Path) -> Result<bool, Trouble> {
    let Some((file, _)) = open("output", path)? else { return Ok(false) };
    let mut lines = Lines::new(BufReader::new(file));
    let first = lines.read().map_err(Trouble::at(path))?;
    Ok(first.is_some_and(|line| line.is_whole()))
}
