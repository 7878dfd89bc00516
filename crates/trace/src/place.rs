//! Where the code of a parallel region lies: in which file, and where in it. So a region has a name wherever the
//! loader put the file.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Where the code of a parallel region lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionPlace {
    /// The region's identity, as events have it.
    pub identity: u64,
    /// The file that the program had mapped there.
    pub file: PathBuf,
    /// The identity's place in the file, in bytes.
    pub offset: u64,
    /// The file's size then, in bytes.
    pub file_size: u64,
    /// When the file had been changed last, in seconds since 1970.
    pub file_modified: i64,
}

/// The numbers before the file's name.
const NUMBERS: usize = 32;

impl RegionPlace {
    /// Whether this is still the file that was recorded, as far as size and time tell.
    pub fn is_of(&self, file: &Metadata) -> bool {
        (file.size(), file.mtime()) == (self.file_size, self.file_modified)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(NUMBERS + self.file.as_os_str().len());
        bytes.extend(self.identity.to_le_bytes());
        bytes.extend(self.offset.to_le_bytes());
        bytes.extend(self.file_size.to_le_bytes());
        bytes.extend(self.file_modified.to_le_bytes());
        bytes.extend(self.file.as_os_str().as_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, name) = bytes.split_at_checked(NUMBERS)?;
        let number = |at: usize| -> [u8; 8] { std::array::from_fn(|i| numbers[at + i]) };
        Some(Self {
            identity: u64::from_le_bytes(number(0)),
            offset: u64::from_le_bytes(number(8)),
            file_size: u64::from_le_bytes(number(16)),
            file_modified: i64::from_le_bytes(number(24)),
            file: OsString::from_vec(name.to_vec()).into(),
        })
    }
}

/// The code of functions, by its place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Functions {
    /// What the user called them.
    pub name: String,
    /// The file, without symbolic links.
    pub file: PathBuf,
    /// Where in the file their code lies, in bytes.
    pub ranges: Vec<Range<u64>>,
}

impl Functions {
    /// Whether a region's code is in them.
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
    fn a_place_comes_back_and_what_is_cut_off_does_not() {
        let bytes = place(0x1234).to_bytes();
        assert_eq!(RegionPlace::from_bytes(&bytes), Some(place(0x1234)));
        assert_eq!(RegionPlace::from_bytes(&bytes[..31]), None);
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
