//! Files that a command reads whole: records, models, scripts, rules. Others may have written them.

use nix::fcntl::OFlag;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The most bytes of a record, a model, or another document. Records have some hundred kilobytes at most, because their
/// time line is thinned, and models some megabytes.
pub const MOST: u64 = 64 << 20;

/// The most bytes of a daemon's log.
pub const MOST_OF_LOG: u64 = 1 << 30;

/// The text of a file or pipe of at most `most` bytes. A longer one is an error, and so is an endless device.
pub fn text(file: &Path, most: u64) -> io::Result<String> {
    read(OpenOptions::new().read(true), file, most)
}

/// Like `text`, for a file that the user has not named. It must be a regular file, so that the read cannot block.
pub fn text_of_regular(file: &Path, most: u64) -> io::Result<String> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    if !options.open(file)?.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    read(&options, file, most)
}

fn read(options: &OpenOptions, file: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    options.open(file)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        let text = format!("it has more than {} MiB, the limit for such a file", most >> 20);
        return Err(io::Error::other(text));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_limit_is_read_and_a_longer_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(text(&file, 5).unwrap(), "12345");
        assert!(text(&file, 4).unwrap_err().to_string().contains("more than"));
        assert!(text(Path::new("/dev/zero"), 1 << 10).is_err());
    }

    #[test]
    fn a_pipe_in_the_place_of_a_usual_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let refused = text_of_regular(&pipe, MOST).unwrap_err().to_string();
        assert_eq!(refused, "it is not a regular file");
    }
}
