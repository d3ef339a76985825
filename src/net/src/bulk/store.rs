//! The files of a run as it writes them. Every record is handed to the operating system at once, so that a process
//! that is killed loses none; a disk has it a second later, after `sync`.
//!
//! A file always ends with a whole line: what a full disk let through of another is cut off again.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::journal::{self, Head};
use super::look::{Earlier, Paths, Trouble};

/// One file that grows.
#[derive(Debug)]
struct Growing {
    file: Arc<File>,
    path: PathBuf,
    /// Up to here it is whole.
    length: u64,
    /// Written to since the last sync.
    dirty: bool,
}

impl Growing {
    /// Opens it, cut to what is whole.
    fn open(path: &Path, length: u64) -> Result<Self, Trouble> {
        let wrong = || Trouble::at(path);
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(wrong())?;
        if file.metadata().map_err(wrong())?.len() != length {
            file.set_len(length).map_err(wrong())?;
        }
        Ok(Self { file: Arc::new(file), path: path.to_owned(), length, dirty: false })
    }

    fn append(&mut self, lines: &[u8]) -> Result<(), Trouble> {
        if lines.is_empty() {
            return Ok(());
        }
        if let Err(error) = (&*self.file).write_all(lines) {
            // If not even that works, the next run cuts it.
            let _ = self.file.set_len(self.length);
            return Err(Trouble::at(&self.path)(error));
        }
        self.length += lines.len() as u64;
        self.dirty = true;
        Ok(())
    }

    /// The file, if there is something to sync.
    fn unsynced(&mut self) -> Option<(Arc<File>, PathBuf)> {
        std::mem::take(&mut self.dirty).then(|| (Arc::clone(&self.file), self.path.clone()))
    }
}

/// The files of a run, open.
#[derive(Debug)]
pub struct Store {
    /// The name of the run.
    pub run: Arc<str>,
    output: Growing,
    failures: Growing,
    journal: Arc<Journal>,
}

/// The journal, shared by the rows that are about to be sent.
#[derive(Debug)]
pub struct Journal(Mutex<Growing>);

impl Journal {
    /// Notes a row that is about to be sent.
    ///
    /// # Errors
    /// It could not be written; the row must not be sent.
    pub fn note(&self, number: u64) -> Result<(), Trouble> {
        self.append(&journal::note(number))
    }

    fn append(&self, lines: &str) -> Result<(), Trouble> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(lines.as_bytes())
    }
}

impl Store {
    /// Opens the files of a run and repairs what was torn; nothing was sent yet. `name` is that of a new run.
    ///
    /// # Errors
    /// A file cannot be opened or written, or the run goes elsewhere.
    pub fn open(
        paths: &Paths,
        earlier: &Earlier,
        url: &str,
        name: impl FnOnce() -> String,
    ) -> Result<Self, Trouble> {
        earlier.went_to(url)?;
        let mut journal = Growing::open(&paths.journal, earlier.journal)?;
        let output = Growing::open(&paths.output, earlier.output)?;
        let run = match &earlier.head {
            Some(head) => head.run.clone(),
            None => {
                let head = Head::new(name(), earlier.digest.clone(), url.to_owned());
                journal.append(head.line().as_bytes())?;
                head.run
            }
        };
        if earlier.again {
            // Before the failures go: killed in between, their rows have no record and no note either.
            journal.append(journal::AGAIN.as_bytes())?;
        }
        let failures = Growing::open(&paths.failures, earlier.failures)?;
        Ok(Self { run: run.into(), output, failures, journal: Arc::new(Journal(Mutex::new(journal))) })
    }

    /// The journal, to be shared.
    pub fn journal(&self) -> Arc<Journal> {
        Arc::clone(&self.journal)
    }

    /// Adds records.
    ///
    /// # Errors
    /// They could not be written; the files are as they were, or hold whole records of them.
    pub fn write(&mut self, answers: &[u8], failures: &[u8]) -> Result<(), Trouble> {
        self.output.append(answers)?;
        self.failures.append(failures)
    }

    /// Notes rows that surely were not sent, so that nobody counts them as billed.
    ///
    /// # Errors
    /// It could not be written.
    pub fn take_back(&self, rows: &[u64]) -> Result<(), Trouble> {
        let mut lines = String::new();
        rows.iter().for_each(|number| journal::take_back(&mut lines, *number));
        self.journal.append(&lines)
    }

    /// What has to be synced, to be done on another thread: `sync`.
    pub fn unsynced(&mut self) -> Vec<(Arc<File>, PathBuf)> {
        let mut journal = self.journal.0.lock().unwrap_or_else(PoisonError::into_inner);
        [&mut self.output, &mut self.failures, &mut *journal]
            .into_iter()
            .filter_map(Growing::unsynced)
            .collect()
    }
}

/// Brings files to the disk; takes as long as the disk does.
///
/// # Errors
/// The disk does not take it.
pub fn sync(files: Vec<(Arc<File>, PathBuf)>) -> Result<(), Trouble> {
    files.into_iter().try_for_each(|(file, path)| file.sync_data().map_err(Trouble::at(&path)))
}
