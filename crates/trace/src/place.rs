//! The place of a parallel region's code: the file, and the offset in it. It identifies the region at any address where
//! the loader puts the file.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The place of a parallel region's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionPlace {
    /// The region's identity, as in events.
    pub identity: u64,
    /// The file that the program had mapped there.
    pub file: PathBuf,
    /// The identity's offset in the file, in bytes.
    pub offset: u64,
    /// The file's size when it was recorded, in bytes.
    pub file_size: u64,
    /// The time of its last modification, in seconds since 1970.
    pub file_modified: i64,
}

impl RegionPlace {
    /// Whether the file is still the recorded one, by its size and time.
    pub fn is_of(&self, file: &Metadata) -> bool {
        (file.size(), file.mtime()) == (self.file_size, self.file_modified)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let numbers = [
            self.identity,
            self.offset,
            self.file_size,
            self.file_modified.cast_unsigned(),
        ];
        to_bytes(numbers, &self.file)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let ([identity, offset, file_size, file_modified], file) = from_bytes(bytes)?;
        Some(Self {
            identity,
            offset,
            file_size,
            file_modified: file_modified.cast_signed(),
            file,
        })
    }
}

/// A file that the program mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedFile {
    /// The file's number in mappings.
    pub number: u64,
    /// The file's name.
    pub file: PathBuf,
    /// The file's size when it was recorded, in bytes.
    pub size: u64,
    /// The time of its last modification, in seconds since 1970.
    pub modified: i64,
}

impl MappedFile {
    /// Whether the file is still the recorded one, by its size and time.
    pub fn is_of(&self, file: &Metadata) -> bool {
        (file.size(), file.mtime()) == (self.size, self.modified)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        to_bytes([self.number, self.size, self.modified.cast_unsigned()], &self.file)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let ([number, size, modified], file) = from_bytes(bytes)?;
        Some(Self {
            number,
            size,
            modified: modified.cast_signed(),
            file,
        })
    }
}

/// Numbers, followed by a file's name.
fn to_bytes<const N: usize>(numbers: [u64; N], file: &Path) -> Vec<u8> {
    let name = file.as_os_str().as_bytes();
    let numbers = numbers.into_iter().flat_map(u64::to_le_bytes);
    numbers.chain(name.iter().copied()).collect()
}

fn from_bytes<const N: usize>(bytes: &[u8]) -> Option<([u64; N], PathBuf)> {
    let (numbers, name) = bytes.split_at_checked(8 * N)?;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| numbers[8 * at + i]));
    Some((std::array::from_fn(number), OsString::from_vec(name.to_vec()).into()))
}

/// The code of functions, by its offsets in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Functions {
    /// The name that the user gave.
    pub name: String,
    /// The file, without symbolic links.
    pub file: PathBuf,
    /// The parts of the file with their code, in bytes.
    pub ranges: Vec<Range<u64>>,
}

impl Functions {
    /// Whether the functions contain a region's code.
    pub fn hold(&self, place: &RegionPlace) -> bool {
        place.file == self.file && self.ranges.iter().any(|range| range.contains(&place.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: u64) -> RegionPlace {
        RegionPlace {
            identity: 0x4000_1234,
            file: "/a/program".into(),
            offset,
            file_size: 20_000,
            file_modified: -3,
        }
    }

    #[test]
    fn a_place_is_read_back_and_a_truncated_one_is_not() {
        let bytes = place(0x1234).to_bytes();
        assert_eq!(RegionPlace::from_bytes(&bytes), Some(place(0x1234)));
        assert_eq!(RegionPlace::from_bytes(&bytes[..31]), None);
    }

    #[test]
    fn a_mapped_file_is_read_back_and_a_truncated_one_is_not() {
        let file = MappedFile {
            number: 3,
            file: "/lib/a library".into(),
            size: 70_000,
            modified: -1,
        };
        assert_eq!(MappedFile::from_bytes(&file.to_bytes()), Some(file.clone()));
        assert_eq!(MappedFile::from_bytes(&file.to_bytes()[..23]), None);
    }

    #[test]
    fn a_region_is_in_the_functions_of_its_own_file_alone() {
        let functions = |file: &str| Functions {
            name: "main".to_owned(),
            file: file.into(),
            ranges: vec![100..200, 300..350],
        };
        for (offset, held) in [
            (99, false),
            (100, true),
            (199, true),
            (200, false),
            (349, true),
            (350, false),
        ] {
            assert_eq!(functions("/a/program").hold(&place(offset)), held, "{offset}");
            assert!(!functions("/a/library").hold(&place(offset)));
        }
    }
}
