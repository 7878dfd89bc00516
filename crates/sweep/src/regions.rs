//! Regions in the recordings of one program with several numbers of threads: which regions have results with all
//! numbers.

use crate::joined::{CodePlace, listed};
use crate::journal::Outcome;
use crate::subject::{Member, Subject};
use std::collections::{BTreeMap, BTreeSet};

/// A region of a run on a machine: the machine's position, the command, and the code.
type RegionOfRun = (usize, String, CodePlace);

/// The regions of the joined recordings that lack results.
pub(crate) struct JoinedRegions {
    /// By region: the numbers of threads without a result. Regions that lack none are absent.
    missing: BTreeMap<RegionOfRun, Vec<usize>>,
    /// By command: the addresses of regions whose code is in no file.
    unplaced: BTreeMap<String, BTreeSet<u64>>,
}

/// The most regions that a note names.
const NAMED: usize = 4;

impl JoinedRegions {
    /// Checks the regions of all results.
    pub(crate) fn new<'a>(jobs: impl Iterator<Item = (&'a Subject, &'a Outcome)>) -> Self {
        let mut counts: BTreeMap<usize, &[usize]> = BTreeMap::new();
        let mut found: BTreeMap<RegionOfRun, BTreeSet<usize>> = BTreeMap::new();
        let mut unplaced: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for (subject, outcome) in jobs {
            let Some(member) = &subject.joined else { continue };
            counts.insert(subject.machine, &member.counts);
            for region in outcome.rows.iter().filter_map(|row| row.region) {
                match member.code(region) {
                    Some(code) => {
                        let region = (subject.machine, member.command.clone(), code.clone());
                        found
                            .entry(region)
                            .or_default()
                            .insert(subject.configuration.num_threads);
                    }
                    None => {
                        unplaced.entry(member.command.clone()).or_default().insert(region);
                    }
                }
            }
        }
        Self {
            missing: missing(&counts, found),
            unplaced,
        }
    }

    /// Whether the region of a row has results with all numbers of threads. The whole program always has them.
    pub(crate) fn is_complete(&self, machine: usize, member: &Member, region: Option<u64>) -> bool {
        region.is_none_or(|region| {
            let key = |code: &CodePlace| (machine, member.command.clone(), code.clone());
            member
                .code(region)
                .is_some_and(|code| !self.missing.contains_key(&key(code)))
        })
    }

    /// Notes for the user about regions that are not complete. `machines` has the names of the machines.
    pub(crate) fn notes(&self, machines: &[&str]) -> Vec<String> {
        let mut by_run: BTreeMap<(usize, &str), Vec<String>> = BTreeMap::new();
        for ((machine, command, code), threads) in &self.missing {
            by_run.entry((*machine, command)).or_default().push(format!(
                "{}+{:#x} (not with {})",
                code.object,
                code.offset,
                listed(threads)
            ));
        }
        let missing = by_run.into_iter().map(|((machine, command), regions)| {
            let more = regions.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "`{command}`, {}: regions without results with all numbers of threads, which have region_complete = false: \
                 {}{more}",
                machines[machine],
                regions[..regions.len().min(NAMED)].join(", "),
            )
        });
        let unplaced = self.unplaced.iter().map(|(command, regions)| {
            format!(
                "`{command}`: {} regions have code in no file, and cannot be joined: they have region_complete = false",
                regions.len()
            )
        });
        missing.chain(unplaced).collect()
    }
}

/// The numbers of threads that each region lacks, without regions that lack none.
fn missing(
    counts: &BTreeMap<usize, &[usize]>,
    found: BTreeMap<RegionOfRun, BTreeSet<usize>>,
) -> BTreeMap<RegionOfRun, Vec<usize>> {
    let lacking = |(key, threads): (RegionOfRun, BTreeSet<usize>)| {
        let wanted = counts[&key.0].iter().copied();
        let missing: Vec<usize> = wanted.filter(|count| !threads.contains(count)).collect();
        (key, missing)
    };
    let all = found.into_iter().map(lacking);
    all.filter(|(_, missing)| !missing.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_trace::RegionPlace;

    fn region(identity: u64) -> RegionPlace {
        RegionPlace {
            identity,
            file: "/a/stream".into(),
            offset: 0x1000,
            file_size: 9,
            file_modified: 0,
        }
    }

    #[test]
    fn a_region_has_one_place_at_any_address_and_lacks_the_numbers_in_which_it_did_not_run() {
        let regions = [0x7f00_1000, 0x5500_1000].map(region);
        let member = Member {
            command: "stream".to_owned(),
            counts: vec![8, 16, 32],
            baseline: false,
            regions: regions
                .iter()
                .map(|region| (region.identity, CodePlace::new(region)))
                .collect(),
        };
        let one = member.code(0x7f00_1000).unwrap();
        assert_eq!((one.object.as_str(), one.offset), ("stream", 0x1000));
        assert_eq!(Some(one), member.code(0x5500_1000));
        assert_eq!(member.code(0x1000), None);
        let key = |command: &str| (0, command.to_owned(), one.clone());
        let found = BTreeMap::from([
            (key("a"), BTreeSet::from([8, 32])),
            (key("b"), BTreeSet::from([8, 16, 32])),
        ]);
        let counts = BTreeMap::from([(0, &[8, 16, 32][..])]);
        assert_eq!(missing(&counts, found), BTreeMap::from([(key("a"), vec![16])]));
    }
}
