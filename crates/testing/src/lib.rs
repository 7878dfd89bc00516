//! Shared by the tests of several crates.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::thread;

/// Reports that the calling test, or a part of it, cannot run here, with the reason.
///
/// libtest cannot skip a test at run time, and hides the output of a passing test. So the line goes to standard error
/// itself, and to the end of the file that the variable `PINFOLD_SKIPPED` names. `make test` lists that file after the
/// last test.
pub fn skip(reason: impl Display) {
    let thread = thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a test"));
    // One write, because other tests write at the same time.
    let _ = io::stderr().lock().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os("PINFOLD_SKIPPED") {
        let listed = OpenOptions::new().append(true).create(true).open(&file);
        let listed = listed.and_then(|mut list| list.write_all(line.as_bytes()));
        listed.unwrap_or_else(|error| panic!("{} cannot be written: {error}", file.display()));
    }
}
