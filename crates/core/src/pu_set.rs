//! Sets of PUs, and the kernel's text form of them: `0-3,8`.

use crate::{PuId, digits};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A set of PUs, ordered by operating-system index.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PuSet(BTreeSet<PuId>);

/// Why a text is not a CPU list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{list}` is not a CPU list: {why}; write numbers and ranges such as 0-3,8 or 0-14:2")]
pub struct ParsePuSetError {
    /// The whole text.
    pub list: String,
    /// The error, with the offending part.
    pub why: String,
}

impl PuSet {
    /// The highest index of a PU on a real or simulated machine: Linux's `CONFIG_NR_CPUS` is at most 8192 on x86, and
    /// hwloc's synthetic machines are hardly larger. The limit keeps `0-4294967295` from filling the memory.
    pub const HIGHEST: PuId = PuId(65_535);

    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of PUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no PU is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `pu` is in the set.
    pub fn contains(&self, pu: PuId) -> bool {
        self.0.contains(&pu)
    }

    /// Adds `pu`; whether it was not there before.
    pub fn insert(&mut self, pu: PuId) -> bool {
        self.0.insert(pu)
    }

    /// The PUs, lowest index first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = PuId> + '_ {
        self.0.iter().copied()
    }

    /// The lowest-numbered PU.
    pub fn first(&self) -> Option<PuId> {
        self.0.first().copied()
    }

    /// The PUs in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// The PUs of this set that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// Whether every PU of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Parses a CPU list and keeps its order and its repetitions: `3,1-2` gives 3, 1, 2. `GOMP_CPU_AFFINITY` and each
    /// schedule have this form: the position is a thread's rank. Ranges may have a stride (`0-14:2`), as in the
    /// kernel's cpulist format.
    pub fn parse_ordered(list: &str) -> Result<Vec<PuId>, ParsePuSetError> {
        let error = |why: String| ParsePuSetError {
            list: list.to_owned(),
            why,
        };
        let number = |text: &str| -> Result<u32, ParsePuSetError> {
            let text = text.trim();
            let value: u32 = digits::decimal(text).ok_or_else(|| error(format!("`{text}` is not a number")))?;
            if value > Self::HIGHEST.0 {
                return Err(error(format!("{value} is above {}", Self::HIGHEST)));
            }
            Ok(value)
        };
        let mut pus = Vec::new();
        if list.trim().is_empty() {
            return Ok(pus);
        }
        for part in list.split(',') {
            let (range, stride) = match part.split_once(':') {
                Some((range, stride)) => (range, number(stride)?),
                None => (part, 1),
            };
            if stride == 0 {
                return Err(error(format!("`{}` has stride 0", part.trim())));
            }
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None if stride == 1 => {
                    let pu = number(range)?;
                    (pu, pu)
                }
                None => {
                    return Err(error(format!("`{}` has a stride but no range", part.trim())));
                }
            };
            if first > last {
                return Err(error(format!("`{}` runs backwards", range.trim())));
            }
            pus.extend((first..=last).step_by(stride as usize).map(PuId));
        }
        Ok(pus)
    }
}

impl FromIterator<PuId> for PuSet {
    fn from_iter<I: IntoIterator<Item = PuId>>(pus: I) -> Self {
        Self(pus.into_iter().collect())
    }
}

impl Extend<PuId> for PuSet {
    fn extend<I: IntoIterator<Item = PuId>>(&mut self, pus: I) {
        self.0.extend(pus);
    }
}

impl FromStr for PuSet {
    type Err = ParsePuSetError;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        Ok(Self::parse_ordered(list)?.into_iter().collect())
    }
}

/// The kernel's cpulist format: ascending, runs joined with `-`. The empty set is the empty text.
impl fmt::Display for PuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pus = self.iter().map(|pu| pu.0).peekable();
        let mut separator = "";
        while let Some(first) = pus.next() {
            let mut last = first;
            while pus.peek() == Some(&(last + 1)) {
                last += 1;
                pus.next();
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl Serialize for PuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_printed_parses_back(pus in proptest::collection::btree_set(0u32..2000, 0..60)) {
            let set: PuSet = pus.into_iter().map(PuId).collect();
            prop_assert_eq!(set.to_string().parse::<PuSet>().unwrap(), set);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[-0-9,: a]{0,24}") {
            if let Err(error) = text.parse::<PuSet>() {
                prop_assert!(error.to_string().contains(&text));
            }
        }
    }

    #[test]
    fn strides_and_spaces_are_understood() {
        let set: PuSet = "8, 0-6:2".parse().unwrap();
        assert_eq!(set.to_string(), "0,2,4,6,8");
    }

    #[test]
    fn order_and_repetition_are_kept_where_they_mean_ranks() {
        let pus = PuSet::parse_ordered("3,1-2,3").unwrap();
        assert_eq!(pus, [3, 1, 2, 3].map(PuId));
    }

    #[test]
    fn each_error_names_the_offending_part() {
        for (list, part) in [
            ("0-x", "`x`"),
            ("0-+3", "`+3`"),
            ("3-1", "backwards"),
            ("1-4:0", "stride 0"),
            ("0-99999", "99999"),
        ] {
            let error = list.parse::<PuSet>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
