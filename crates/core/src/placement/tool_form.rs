//! A placement as options and variables of other tools.

use crate::{PageMapping, Pinning, PuId, PuSet};
use std::fmt;
use std::str::FromStr;

/// A form of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolForm {
    /// A set as hwloc writes it, for `hwloc-bind` and `hwloc-calc`.
    HwlocCalc,
    /// The option of util-linux's `taskset`.
    Taskset,
    /// The option of `likwid-pin`: by rank, with the numbers of the operating system.
    Likwid,
    /// Options of `numactl`.
    Numactl,
    /// The option of Slurm's `srun` for a task: the mask of all its threads.
    Slurm,
    /// Variables of OpenMP (5.2, sections 21.1.6 and 21.2.2): a place for each rank, in their order.
    OmpPlaces,
    /// The variable of LLVM's and Intel's OpenMP runtimes.
    KmpAffinity,
    /// The variable of GCC's OpenMP runtime.
    GompCpuAffinity,
}

/// The forms with their names.
const NAMES: [(&str, ToolForm); 8] = [
    ("hwloc-calc", ToolForm::HwlocCalc),
    ("taskset", ToolForm::Taskset),
    ("likwid", ToolForm::Likwid),
    ("numactl", ToolForm::Numactl),
    ("slurm", ToolForm::Slurm),
    ("OMP_PLACES", ToolForm::OmpPlaces),
    ("KMP_AFFINITY", ToolForm::KmpAffinity),
    ("GOMP_CPU_AFFINITY", ToolForm::GompCpuAffinity),
];

/// A text names no form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no form of another tool: there are hwloc-calc, taskset, likwid, numactl, slurm, OMP_PLACES, KMP_AFFINITY and \
     GOMP_CPU_AFFINITY"
)]
pub struct ParseToolFormError(String);

impl FromStr for ToolForm {
    type Err = ParseToolFormError;

    fn from_str(text: &str) -> Result<Self, ParseToolFormError> {
        let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        let form = named.map(|&(_, form)| form);
        form.ok_or_else(|| ParseToolFormError(text.to_owned()))
    }
}

impl fmt::Display for ToolForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = NAMES[*self as usize];
        f.write_str(name)
    }
}

/// Where threads run: each rank on its PU, or all of them on these PUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads<'a> {
    /// By rank.
    Pinned(&'a Pinning),
    /// The operating system chooses among these.
    Within(&'a PuSet),
}

impl Threads<'_> {
    fn set(self) -> PuSet {
        match self {
            Self::Pinned(pinning) => pinning.pus().iter().copied().collect(),
            Self::Within(pus) => pus.clone(),
        }
    }
}

impl ToolForm {
    /// The forms, in the order of their names in errors and help.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// The placement in this form; `None` if the tool has no form of it.
    pub fn of(self, threads: Threads<'_>) -> Option<String> {
        let set = threads.set();
        let by_rank = |separator: &str, show: fn(PuId) -> String| match threads {
            Threads::Pinned(pinning) => {
                let pus: Vec<String> = pinning.pus().iter().map(|&pu| show(pu)).collect();
                pus.join(separator)
            }
            Threads::Within(pus) => {
                let pus: Vec<String> = pus.iter().map(|pu| pu.to_string()).collect();
                format!("{{{}}}", pus.join(","))
            }
        };
        let is_pinned = matches!(threads, Threads::Pinned(_));
        Some(match self {
            Self::HwlocCalc => hwloc_set(&set),
            Self::Taskset => format!("--cpu-list {set}"),
            Self::Likwid if is_pinned => format!("-c {}", by_rank(",", |pu| pu.to_string())),
            Self::Numactl => format!("--physcpubind={set}"),
            Self::Slurm => format!("--cpu-bind=mask_cpu:{}", mask(&set)),
            Self::OmpPlaces => {
                let places = by_rank(",", |pu| format!("{{{pu}}}"));
                format!("OMP_PLACES='{places}' OMP_PROC_BIND=close")
            }
            Self::KmpAffinity => {
                let list = by_rank(",", |pu| pu.to_string());
                format!("KMP_AFFINITY='granularity=fine,proclist=[{list}],explicit'")
            }
            Self::GompCpuAffinity if is_pinned => {
                format!("GOMP_CPU_AFFINITY='{}'", by_rank(" ", |pu| pu.to_string()))
            }
            Self::Likwid | Self::GompCpuAffinity => return None,
        })
    }

    /// The option for a page mapping; `None` if the tool has none.
    pub fn of_pages(self, pages: PageMapping) -> Option<String> {
        if self != Self::Numactl {
            return None;
        }
        Some(match pages {
            PageMapping::Interleave => "--interleave=all".to_owned(),
            PageMapping::InterleaveOver(nodes) => format!("--interleave={nodes}"),
            PageMapping::WeightedInterleave(nodes) => format!("--weighted-interleave={nodes}"),
            PageMapping::Bind(nodes) => format!("--membind={nodes}"),
            PageMapping::Single(node) => format!("--membind={node}"),
            PageMapping::Preferred(node) => format!("--preferred={node}"),
            PageMapping::FirstTouch => "--localalloc".to_owned(),
            PageMapping::Local | PageMapping::Remote | PageMapping::Locality | PageMapping::Balance => return None,
        })
    }
}

/// The words of a mask, lowest first.
fn words(set: &PuSet) -> Vec<u32> {
    let mut words = vec![];
    for pu in set.iter() {
        let word = (pu.0 / 32) as usize;
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << (pu.0 % 32);
    }
    words
}

/// Words of 32 bits, the highest first, with commas between.
fn hwloc_set(set: &PuSet) -> String {
    let words: Vec<String> = words(set).iter().rev().map(|word| format!("0x{word:08x}")).collect();
    words.join(",")
}

/// One hexadecimal number.
fn mask(set: &PuSet) -> String {
    let words: Vec<String> = words(set).iter().rev().map(|word| format!("{word:08x}")).collect();
    format!("0x{}", words.concat().trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn form(name: &str, pus: &str) -> String {
        let pinning = Pinning::new(PuSet::parse_ordered(pus).unwrap()).unwrap();
        let form: ToolForm = name.parse().unwrap();
        form.of(Threads::Pinned(&pinning)).unwrap()
    }

    #[test]
    fn each_tool_has_its_form_of_a_pinning() {
        for (name, wanted) in [
            ("hwloc-calc", "0x00000001,0x00000106"),
            ("taskset", "--cpu-list 1-2,8,32"),
            ("likwid", "-c 8,1,2,32"),
            ("numactl", "--physcpubind=1-2,8,32"),
            ("slurm", "--cpu-bind=mask_cpu:0x100000106"),
            ("OMP_PLACES", "OMP_PLACES='{8},{1},{2},{32}' OMP_PROC_BIND=close"),
            (
                "KMP_AFFINITY",
                "KMP_AFFINITY='granularity=fine,proclist=[8,1,2,32],explicit'",
            ),
            ("GOMP_CPU_AFFINITY", "GOMP_CPU_AFFINITY='8 1 2 32'"),
        ] {
            assert_eq!(form(name, "8,1-2,32"), wanted);
            assert_eq!(name.parse::<ToolForm>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn threads_that_are_not_pinned_have_one_place_or_no_form() {
        let set: PuSet = "2-3".parse().unwrap();
        let form = |name: &str| name.parse::<ToolForm>().unwrap().of(Threads::Within(&set));
        assert_eq!(form("omp_places").unwrap(), "OMP_PLACES='{2,3}' OMP_PROC_BIND=close");
        assert!(form("KMP_AFFINITY").unwrap().contains("proclist=[{2,3}]"));
        assert_eq!(form("taskset").unwrap(), "--cpu-list 2-3");
        assert_eq!((form("likwid"), form("GOMP_CPU_AFFINITY")), (None, None));
    }

    #[test]
    fn an_unknown_tool_is_named_with_those_that_there_are() {
        let error = "lstopo".parse::<ToolForm>().unwrap_err().to_string();
        for name in ToolForm::names() {
            assert!(error.contains(name), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_mask_has_the_bits_of_its_set(pus in proptest::collection::btree_set(0u32..200, 1..30)) {
            let set: PuSet = pus.iter().copied().map(PuId).collect();
            let text = hwloc_set(&set);
            let words: Vec<u32> = text
                .split(',')
                .rev()
                .map(|word| u32::from_str_radix(word.trim_start_matches("0x"), 16).unwrap())
                .collect();
            let bits = (0..200).filter(|pu| words.get((pu / 32) as usize).is_some_and(|word| word >> (pu % 32) & 1 == 1));
            prop_assert_eq!(bits.collect::<Vec<u32>>(), pus.into_iter().collect::<Vec<u32>>());
            let digits = text.replace("0x", "").replace(',', "");
            prop_assert_eq!(mask(&set), format!("0x{}", digits.trim_start_matches('0')));
        }
    }
}
