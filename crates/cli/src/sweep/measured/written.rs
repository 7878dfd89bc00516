//! Files that each run writes in the working directory, where one run replaces what the other wrote.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// A folder with more entries is not looked at.
const MOST: usize = 10_000;

/// The files in the folder that were changed at this time or later, without those of the sweep itself, whose names begin
/// with the name of its output.
pub(super) fn since(folder: &Path, time: SystemTime, output: &Path) -> BTreeSet<OsString> {
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeSet::new();
    };
    let own = output.file_name().unwrap_or_default().as_encoded_bytes();
    let changed = |entry: fs::DirEntry| {
        let metadata = entry.metadata().ok()?;
        let name = entry.file_name();
        let is_own = name.as_encoded_bytes().starts_with(own);
        (metadata.is_file() && !is_own && metadata.modified().ok()? >= time).then_some(name)
    };
    entries.flatten().take(MOST).filter_map(changed).collect()
}

/// The note on files that two runs have written.
pub(super) fn note(first: &BTreeSet<OsString>, second: &BTreeSet<OsString>) -> Option<String> {
    let both: Vec<String> = first
        .intersection(second)
        .map(|name| name.display().to_string())
        .collect();
    let (name, more) = both.split_first()?;
    let more = match more.len() {
        0 => String::new(),
        1 => " and 1 more file".to_owned(),
        more => format!(" and {more} more files"),
    };
    Some(format!(
        "each run writes {name}{more} in the working directory, and replaces what the run before wrote: --output-dir DIR gives \
         each run a folder of its own, which {{output}} in the command names"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn files_that_both_runs_changed_are_named_and_those_of_the_sweep_are_not() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["result", "a.parquet", "a.parquet.partial"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("folder")).unwrap();
        let earlier = SystemTime::now() - Duration::from_secs(60);
        let files = since(folder.path(), earlier, Path::new("data/a.parquet"));
        assert_eq!(files, BTreeSet::from([OsString::from("result")]));
        let note = note(&files, &files).unwrap();
        assert!(
            note.contains("each run writes result in") && note.contains("--output-dir DIR"),
            "{note}"
        );
        assert_eq!(super::note(&files, &BTreeSet::new()), None);
        let later = SystemTime::now() + Duration::from_secs(60);
        assert!(since(folder.path(), later, Path::new("a.parquet")).is_empty());
    }
}
