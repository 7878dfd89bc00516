//! A shared library inside the binary, as a file that other programs map. docs/design/embedded-agent.md gives the
//! reasons for a file and for its location.

use crate::channel::can_be_preloaded;
use crate::own::{self, Own};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// No folder is suitable for a library.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// No folder is suitable.
    #[error("there is no folder for {name}: {}", .reasons.join("; "))]
    NoFolder {
        /// The library.
        name: String,
        /// Each folder, and why it is not suitable.
        reasons: Vec<String>,
    },
}

/// Writes a library to the first suitable folder, unless it is already there, and returns its path. The file stays,
/// because other pinfolds use it as well. A folder is suitable if it belongs to this user, no other user may write to
/// it, and its files may be mapped for execution.
pub fn install(name: &str, library: &[u8], folders: &[PathBuf]) -> Result<PathBuf, InstallError> {
    let mut reasons = vec![];
    for folder in folders {
        match install_in(folder, name, library) {
            Ok(path) => return Ok(path),
            Err(error) => reasons.push(format!("{}: {error}", folder.display())),
        }
    }
    let name = name.to_owned();
    Err(InstallError::NoFolder { name, reasons })
}

fn install_in(folder: &Path, name: &str, library: &[u8]) -> io::Result<PathBuf> {
    if !can_be_preloaded(folder) {
        return Err(io::Error::other("its name contains a space or a colon"));
    }
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let there = fs::symlink_metadata(folder)?;
    let (owner, mode) = (there.uid(), there.mode() & 0o7777);
    if !there.is_dir() || owner != geteuid().as_raw() || mode & 0o022 != 0 {
        let text =
            format!("it belongs to user {owner} and has mode {mode:o}, so other users could write a library there");
        return Err(io::Error::other(text));
    }
    if statvfs(folder)?.flags().contains(FsFlags::ST_NOEXEC) {
        return Err(io::Error::other("it is mounted noexec"));
    }
    let path = folder.join(format!("{:08x}-{name}", crc32fast::hash(library)));
    if !is_installed(&path, library) {
        write(&path, library)?;
    }
    Ok(path)
}

/// Whether the file has the library's content, and only this user could have written it.
fn is_installed(path: &Path, library: &[u8]) -> bool {
    let Ok(Own::File(mut file)) = own::open(path, OpenOptions::new().read(true)) else {
        return false;
    };
    let mut content = vec![];
    let private = file
        .metadata()
        .is_ok_and(|there| there.mode() & 0o7022 == 0 && there.mode() & 0o444 == 0o444);
    private && file.read_to_end(&mut content).is_ok() && content == library
}

/// Writes the file under another name first, so that no process maps an incomplete file.
fn write(path: &Path, library: &[u8]) -> io::Result<()> {
    let new = path.with_extension(format!("{}.new", std::process::id()));
    // An earlier process with the same number may have left it.
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
    let written = file
        .set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .and_then(|()| file.write_all(library))
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_installed_library_replaces_other_content() {
        let root = tempfile::tempdir().unwrap();
        let folders = [root.path().join("pinfold")];
        let path = install("agent.so", b"content", &folders).unwrap();
        assert!(path.starts_with(&folders[0]));
        for spoil in [
            &(|| fs::write(&path, "other").unwrap()) as &dyn Fn(),
            &|| fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap(),
            &|| {
                fs::remove_file(&path).unwrap();
                fs::write(root.path().join("theirs"), "content").unwrap();
                std::os::unix::fs::symlink(root.path().join("theirs"), &path).unwrap();
            },
        ] {
            spoil();
            assert_eq!(install("agent.so", b"content", &folders).unwrap(), path);
            let there = fs::symlink_metadata(&path).unwrap();
            assert!(there.is_file() && there.mode() & 0o777 == 0o644);
            assert_eq!(fs::read(&path).unwrap(), b"content");
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let (shared, spaced, own) = (
            root.path().join("shared"),
            root.path().join("a b"),
            root.path().join("own"),
        );
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
        let path = install("agent.so", b"content", &[shared.clone(), spaced.clone(), own.clone()]).unwrap();
        assert!(path.starts_with(own));
        let refused = install("agent.so", b"content", &[shared, spaced])
            .unwrap_err()
            .to_string();
        assert!(refused.contains("mode 777") && refused.contains("a space"), "{refused}");
    }
}
