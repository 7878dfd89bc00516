//! Files that a command writes: `--json`, `--output`, `--plot` and their kin.
//!
//! 1. `Output::open` finds out before a command spends its time whether its result can be kept. It makes no file.
//! 2. `Output::write` writes to a temporary file in the same folder and renames it when it is complete. A command that is
//!    interrupted leaves what was there before, or nothing.
//! 3. Terminals, pipes and devices, such as `/dev/stdout`, have no folder in which to rename: they are opened by the first step
//!    and written by the second. So is a file in a folder that may not be written to.
//!
//! In a folder that all users may write to (sticky, as `/tmp`), symbolic links and files of another user are refused, unless they
//! are the folder owner's. That is the rule of `fs.protected_symlinks` and its kin (proc(5)), which is not in force on every
//! machine; without it another user could have root write through a link of his.

use anyhow::{Context, Result, bail};
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use serde::Serialize;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A place that can be written.
#[derive(Debug)]
pub(crate) struct Output {
    /// What the user asked for: option and file.
    asked: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A file to be replaced, or made, with these permissions.
    File(PathBuf, Permissions),
    /// What is written as it is.
    Open(File),
}

impl Output {
    /// Looks whether the file that the user gave an option can be written.
    pub(crate) fn open(option: &str, path: &Path) -> Result<Self> {
        let asked = format!("{option} {}", path.display());
        let place = Self::find(path).with_context(|| failure(&asked))?;
        Ok(Self { asked, place })
    }

    /// The same of an option that need not be given.
    pub(crate) fn optional(option: &str, path: Option<&Path>) -> Result<Option<Self>> {
        path.map(|path| Self::open(option, path)).transpose()
    }

    fn find(named: &Path) -> Result<Place> {
        let path = resolve(named)?;
        let there = fs::symlink_metadata(&path).ok();
        check(&path, there.as_ref())?;
        let replaced = there
            .as_ref()
            .is_none_or(|there| there.is_file() && !is_of_kernel(&path));
        Ok(match tempfile::tempfile_in(folder(&path)) {
            // Whoever may only read the file may not replace it either.
            Ok(_) if replaced && (there.is_none() || open(&path, OpenOptions::new().write(true)).is_ok()) => {
                let mode = there.map_or(0o666, |there| there.mode() & 0o7777);
                Place::File(path, Permissions::from_mode(mode))
            }
            Err(error) if there.is_none() => return Err(error.into()),
            _ => Place::Open(open(&path, OpenOptions::new().write(true))?),
        })
    }

    /// Puts `content` in the place of all that was there.
    pub(crate) fn write(self, content: &[u8]) -> Result<()> {
        self.write_with(|file| Ok(file.write_all(content)?))
    }

    /// Puts a document in the place of all that was there, as JSON.
    pub(crate) fn write_json(self, document: &impl Serialize) -> Result<()> {
        self.write((serde_json::to_string_pretty(document)? + "\n").as_bytes())
    }

    /// Puts what `write` writes in the place of all that was there.
    pub(crate) fn write_with(self, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
        self.place.replace(write).with_context(|| failure(&self.asked))
    }
}

impl Place {
    fn replace(self, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
        match self {
            Self::Open(mut file) => {
                // A pipe or a terminal has no length.
                if file.metadata()?.is_file() {
                    file.set_len(0)?;
                }
                write(&mut file)
            }
            Self::File(path, permissions) => {
                let exists = path.exists();
                let mut temporary = tempfile::Builder::new()
                    .prefix(".pinfold-")
                    .permissions(permissions.clone())
                    .tempfile_in(folder(&path))?;
                if exists {
                    // Those of a new file are subject to the umask; those that were there are kept.
                    temporary.as_file().set_permissions(permissions)?;
                }
                write(temporary.as_file_mut())?;
                temporary.as_file().sync_all()?;
                temporary.persist(&path).map_err(|error| error.error)?;
                // The new name is on the disk when its folder is.
                File::open(folder(&path))?.sync_all()?;
                Ok(())
            }
        }
    }
}

/// Opens a file that grows while the command runs and is kept when it is interrupted: with `options`, which may make it.
pub(crate) fn open_growing(named: &Path, options: &OpenOptions) -> Result<File> {
    let path = resolve(named)?;
    check(&path, fs::symlink_metadata(&path).ok().as_ref())?;
    Ok(open(&path, options)?)
}

fn failure(asked: &str) -> String {
    format!("{asked} cannot be written")
}

/// Opens what stands at a resolved path: a link that was put there meanwhile is not followed.
fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let mut options = options.clone();
    if !is_of_kernel(path) {
        options.custom_flags(OFlag::O_NOFOLLOW.bits());
    }
    options.open(path)
}

/// Whether the name leads to an open file of a process, such as standard output.
fn is_of_kernel(path: &Path) -> bool {
    path.starts_with("/proc")
}

fn folder(path: &Path) -> &Path {
    let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Follows the links in whose place a file is to be written.
fn resolve(named: &Path) -> Result<PathBuf> {
    /// As many as Linux follows.
    const MOST_LINKS: usize = 40;
    let mut path = named.to_owned();
    for _ in 0..MOST_LINKS {
        let Some(there) = fs::symlink_metadata(&path).ok().filter(Metadata::is_symlink) else {
            return Ok(path);
        };
        if is_of_kernel(&path) {
            return Ok(path);
        }
        check(&path, Some(&there))?;
        path = folder(&path).join(fs::read_link(&path)?);
    }
    bail!("too many symbolic links");
}

/// The permissions of a folder that all may write to, and in which each may only remove what is his: sticky.
const SHARED: u32 = 0o1002;

/// Refuses a folder, and what another user has put in a folder that all may write to.
fn check(path: &Path, there: Option<&Metadata>) -> Result<()> {
    let Some(there) = there else {
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            bail!("there is no such folder, and a file is needed");
        }
        return Ok(());
    };
    if there.is_dir() {
        bail!("it is a folder; name a file in it");
    }
    let holder = fs::metadata(folder(path))?;
    let owners = [geteuid().as_raw(), holder.uid()];
    let device = there.file_type().is_char_device() || there.file_type().is_block_device();
    if holder.mode() & SHARED == SHARED && !owners.contains(&there.uid()) && !device && !is_of_kernel(path) {
        let what = if there.is_symlink() {
            "a symbolic link"
        } else {
            "a file"
        };
        bail!(
            "{} is {what} of user {} in a folder that all users may write to; name a file in another folder",
            path.display(),
            there.uid()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{Uid, chown};
    use std::os::unix::fs::{lchown, symlink};

    fn open_output(path: &Path) -> Result<Output> {
        Output::open("--json", path)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn until_all_is_written_there_is_no_file_or_the_old_one() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a.json");
        drop(open_output(&file).unwrap());
        assert_eq!(names(root.path()), [""; 0]);
        let failed = open_output(&file).unwrap().write_with(|file| {
            file.write_all(b"half")?;
            assert_eq!(names(root.path()).len(), 1);
            bail!("the rest is missing")
        });
        let failed = format!("{:#}", failed.unwrap_err());
        assert!(failed.contains("a.json cannot be written: the rest"), "{failed}");
        assert_eq!(names(root.path()), [""; 0]);
        open_output(&file).unwrap().write(b"first").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let again = open_output(&file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"first");
        again.write(b"second").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"second");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        assert_eq!(names(root.path()), ["a.json"]);
    }

    #[test]
    fn what_cannot_be_written_is_refused_before() {
        let root = tempfile::tempdir().unwrap();
        for (path, part) in [
            (root.path().to_owned(), "it is a folder"),
            (root.path().join("nowhere/a.json"), "No such file"),
            (root.path().join("nowhere/"), "no such folder"),
            (PathBuf::from("/proc/a.json"), "cannot be written"),
        ] {
            let refused = format!("{:#}", open_output(&path).unwrap_err());
            assert!(refused.contains(part), "{refused}");
            assert!(refused.contains(&path.display().to_string()), "{refused}");
        }
    }

    #[test]
    fn a_link_is_followed_and_stays() {
        let root = tempfile::tempdir().unwrap();
        let (link, file) = (root.path().join("link"), root.path().join("file"));
        symlink("file", &link).unwrap();
        for content in ["first", "second"] {
            open_output(&link).unwrap().write(content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), content);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        symlink("ring", root.path().join("ring")).unwrap();
        assert!(open_output(&root.path().join("ring")).is_err());
    }

    #[test]
    fn devices_and_pipes_are_written_as_they_are() {
        let root = tempfile::tempdir().unwrap();
        open_output(Path::new("/dev/null")).unwrap().write(b"text").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let pipe = root.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        open_output(&pipe).unwrap().write(b"text").unwrap();
        assert_eq!(reader.join().unwrap(), "text");
        // An open file of ours, as /dev/stdout is one: to replace it would leave the one that reads it without anything.
        let file = File::create(root.path().join("file")).unwrap();
        let named = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
        open_output(&named).unwrap().write(b"text").unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4);
    }

    #[test]
    fn a_link_or_a_file_of_another_user_in_a_shared_folder_is_refused() {
        if !geteuid().is_root() {
            pinfold_testing::skip("only root can make files of other users");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let shared = root.path().join("shared");
        let secret = root.path().join("secret");
        fs::create_dir(&shared).unwrap();
        fs::write(&secret, "secret").unwrap();
        let (link, indirect, file) = (shared.join("link"), root.path().join("indirect"), shared.join("file"));
        symlink(&secret, &link).unwrap();
        symlink(&link, &indirect).unwrap();
        fs::write(&file, "theirs").unwrap();
        lchown(&link, Some(1000), None).unwrap();
        chown(&file, Some(Uid::from_raw(1000)), None).unwrap();
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        for path in [&link, &indirect, &file] {
            let refused = format!("{:#}", open_output(path).unwrap_err());
            assert!(refused.contains("of user 1000 in a folder"), "{refused}");
            assert!(open_growing(path, &options).is_err());
        }
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
        // The kernel, too, lets all links be followed in a folder that is not shared.
        fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
        assert!(open_output(&link).is_ok());
    }
}
