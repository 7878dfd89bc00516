//! Files that a command writes: `--json`, `--output`, `--plot` and others.
//!
//! 1. `Output::open` checks, before a command does its work, whether its result can be written. It creates no file.
//! 2. `Output::write` writes to a temporary file in the same folder and renames it when it is complete. A command that
//!    is interrupted leaves the file as it was before, or no file.
//! 3. Terminals, pipes and devices, such as `/dev/stdout`, cannot be replaced by renaming. The first step opens them,
//!    and the second writes to them. The same holds for a file in a folder that is not writable.
//!
//! In a folder that all users may write to (sticky, as `/tmp`), symbolic links and files of another user are refused,
//! unless they belong to the owner of the folder. That is the rule of `fs.protected_symlinks` and
//! `fs.protected_regular` (proc(5)), which are not set on every machine. Without this rule another user could make root
//! write through a link.

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use serde::Serialize;
use std::error::Error;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file of an option cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{option} cannot be written")]
pub struct OutputError {
    /// The option and the file.
    option: String,
    source: Box<dyn Error + Send + Sync>,
}

/// Why a path cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The system reports an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The path ends with a slash.
    #[error("there is no such folder, and a file is needed")]
    NoFolder,
    /// The path names a folder.
    #[error("it is a folder; name a file in it")]
    Folder,
    /// The links form a cycle, or there are more than Linux follows.
    #[error("too many symbolic links")]
    Links,
    /// Another user has created it in a folder that all users may write to.
    #[error(
        "{} is {what} of user {user} in a folder that all users may write to; name a file in another folder",
        .path.display()
    )]
    OfAnotherUser {
        /// The file or the link.
        path: PathBuf,
        /// Whether it is a symbolic link or a file.
        what: &'static str,
        /// The number of the owner.
        user: u32,
    },
}

/// A writable file.
#[derive(Debug)]
pub struct Output {
    /// The option and the file.
    option: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A file that is replaced or created with these permissions.
    File(PathBuf, Permissions),
    /// A file that is written in place.
    Open(File),
}

impl Output {
    /// Checks whether the file that the user gave for an option can be written.
    pub fn open(option: &str, path: &Path) -> Result<Self, OutputError> {
        let option = format!("{option} {}", path.display());
        match Self::find(path) {
            Ok(place) => Ok(Self { option, place }),
            Err(error) => Err(OutputError {
                option,
                source: error.into(),
            }),
        }
    }

    /// Like `open`, for an option that may be absent.
    pub fn optional(option: &str, path: Option<&Path>) -> Result<Option<Self>, OutputError> {
        path.map(|path| Self::open(option, path)).transpose()
    }

    fn find(named: &Path) -> Result<Place, PathError> {
        let path = resolve(named)?;
        let there = fs::symlink_metadata(&path).ok();
        check(&path, there.as_ref())?;
        let replaced = there
            .as_ref()
            .is_none_or(|there| there.is_file() && !is_of_kernel(&path));
        Ok(match tempfile::tempfile_in(folder(&path)) {
            // A file that is read-only for this user is not replaced either.
            Ok(_) if replaced && (there.is_none() || open(&path, OpenOptions::new().write(true)).is_ok()) => {
                let mode = there.map_or(0o666, |there| there.mode() & 0o7777);
                Place::File(path, Permissions::from_mode(mode))
            }
            Err(error) if there.is_none() => return Err(error.into()),
            _ => Place::Open(open(&path, OpenOptions::new().write(true))?),
        })
    }

    /// Replaces the content of the file by `content`.
    pub fn write(self, content: &[u8]) -> Result<(), OutputError> {
        self.write_with(|file| file.write_all(content))
    }

    /// Replaces the content of the file by a document, as JSON.
    pub fn write_json(self, document: &impl Serialize) -> Result<(), OutputError> {
        self.write_with(|file| -> io::Result<()> {
            let text = serde_json::to_string_pretty(document)? + "\n";
            file.write_all(text.as_bytes())
        })
    }

    /// Replaces the content of the file by the output of `write`.
    pub fn write_with<E>(self, write: impl FnOnce(&mut File) -> Result<(), E>) -> Result<(), OutputError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let Self { option, place } = self;
        place
            .replace(|file| write(file).map_err(Into::into))
            .map_err(|source| OutputError { option, source })
    }
}

impl Place {
    fn replace(
        self,
        write: impl FnOnce(&mut File) -> Result<(), Box<dyn Error + Send + Sync>>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
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
                    // The umask applies to a new file; a replaced file keeps its permissions.
                    temporary.as_file().set_permissions(permissions)?;
                }
                write(temporary.as_file_mut())?;
                temporary.as_file().sync_all()?;
                temporary.persist(&path).map_err(|error| error.error)?;
                // The new name is on the disk once its folder is.
                File::open(folder(&path))?.sync_all()?;
                Ok(())
            }
        }
    }
}

/// Opens a file that grows while the command runs and is kept if the command is interrupted. `options` may create it.
pub fn open_growing(named: &Path, options: &OpenOptions) -> Result<File, PathError> {
    let path = resolve(named)?;
    check(&path, fs::symlink_metadata(&path).ok().as_ref())?;
    Ok(open(&path, options)?)
}

/// Opens a resolved path. It does not follow a link that was created there meanwhile.
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

/// Resolves the symbolic links of a file that is to be written.
fn resolve(named: &Path) -> Result<PathBuf, PathError> {
    /// Linux follows at most this number of links.
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
    Err(PathError::Links)
}

/// The permissions of a sticky folder: all users may write to it, but a user may only remove that user's files.
const SHARED: u32 = 0o1002;

/// Refuses a folder, and a file or link of another user in a folder that all users may write to.
fn check(path: &Path, there: Option<&Metadata>) -> Result<(), PathError> {
    let Some(there) = there else {
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(PathError::NoFolder);
        }
        return Ok(());
    };
    if there.is_dir() {
        return Err(PathError::Folder);
    }
    let holder = fs::metadata(folder(path))?;
    let owners = [geteuid().as_raw(), holder.uid()];
    let device = there.file_type().is_char_device() || there.file_type().is_block_device();
    if holder.mode() & SHARED == SHARED && !owners.contains(&there.uid()) && !device && !is_of_kernel(path) {
        return Err(PathError::OfAnotherUser {
            path: path.to_owned(),
            what: if there.is_symlink() {
                "a symbolic link"
            } else {
                "a file"
            },
            user: there.uid(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{Uid, chown};
    use std::os::unix::fs::{lchown, symlink};

    fn open_output(path: &Path) -> Result<Output, OutputError> {
        Output::open("--json", path)
    }

    /// An error with its cause.
    fn whole(error: &OutputError) -> String {
        format!("{error}: {}", error.source().unwrap())
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
    fn an_incomplete_file_is_never_there_under_its_name() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a.json");
        drop(open_output(&file).unwrap());
        assert_eq!(names(root.path()), [""; 0]);
        let failed = open_output(&file).unwrap().write_with(|file| {
            file.write_all(b"half")?;
            assert_eq!(names(root.path()).len(), 1);
            Err(io::Error::other("the rest is missing"))
        });
        let failed = whole(&failed.unwrap_err());
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
    fn a_path_that_cannot_be_written_is_refused_when_it_is_opened() {
        let root = tempfile::tempdir().unwrap();
        for (path, part) in [
            (root.path().to_owned(), "it is a folder"),
            (root.path().join("nowhere/a.json"), "No such file"),
            (root.path().join("nowhere/"), "no such folder"),
            (PathBuf::from("/proc/a.json"), "cannot be written"),
        ] {
            let refused = whole(&open_output(&path).unwrap_err());
            assert!(refused.contains(part), "{refused}");
            assert!(refused.contains(&path.display().to_string()), "{refused}");
        }
    }

    #[test]
    fn a_link_is_followed_and_kept() {
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
    fn devices_and_pipes_are_written_in_place() {
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
        // An open file of this process, like /dev/stdout. If it were replaced, its readers would get nothing.
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
            let refused = whole(&open_output(path).unwrap_err());
            assert!(refused.contains("of user 1000 in a folder"), "{refused}");
            assert!(open_growing(path, &options).is_err());
        }
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
        // In a folder that is not shared the kernel also follows all links.
        fs::set_permissions(&shared, Permissions::from_mode(0o755)).unwrap();
        assert!(open_output(&link).is_ok());
    }
}
