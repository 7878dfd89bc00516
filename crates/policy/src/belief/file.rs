//! Reads beliefs from JSON (docs/formats/beliefs.md).

use super::kernel::{Kernel, Lengths};
use super::point::Point;
use super::prior::Belief;
use crate::rules::Trained;
use pinfold_core::{NodeId, PageMapping, Prefetchers, ThreadMap};
use serde::Deserialize;
use std::str::FromStr;

/// The format version that is read.
const VERSION: u64 = 1;

/// What `pinfold` is in the file of a belief.
const KIND: &str = "belief";

/// The largest file.
pub const MOST_BYTES: usize = 100 * 1024;

/// The largest logarithm of a time, and root of a variance: `exp(20)` is 485 million times as long.
const LARGEST: f64 = 20.0;

/// The largest number of threads on a core. More is a mistake of units.
const MOST_THREADS_PER_CORE: f64 = 64.0;

/// A share that is written with a few digits may be above 1 by this.
const ROUNDING: f64 = 1e-3;

/// Why a text is not a belief. The caller knows the file.
#[derive(Debug, thiserror::Error)]
pub enum BeliefError {
    /// It is larger than a belief may be.
    #[error("a belief has at most {MOST_BYTES} bytes, and this has {0}; train it with fewer points or factors")]
    TooLarge(usize),
    /// It is not JSON, or a key is missing, unknown, or of the wrong type; the message has line and column.
    #[error("{0}; the keys of a belief are in docs/formats/beliefs.md")]
    Json(#[from] serde_json::Error),
    /// A number is NaN or infinite, which JSON does not have.
    #[error("the number at line {line} column {column} is NaN or infinite; the file is damaged: train it again")]
    NotFinite {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// It is JSON of another kind.
    #[error(
        "this is no belief: the key `pinfold` has to be `{KIND}`; give a file that `pinfold learn train belief` wrote"
    )]
    Other,
    /// It is of another version.
    #[error("this belief has version {0}, and this pinfold reads version {VERSION}; train it again")]
    Version(u64),
    /// It lists no configuration.
    #[error("this belief has no points; train it again")]
    Empty,
    /// A list has another length than `points`.
    #[error("`{key}` has {has} entries, and there are {points} points; the file is damaged: train it again")]
    Length {
        /// The key.
        key: &'static str,
        /// The number of its entries.
        has: usize,
        /// The number of points.
        points: usize,
    },
    /// The rows of factors differ in length.
    #[error(
        "row {row} of `factors` has {has} numbers, and the first one has {first}; the file is damaged: train it again"
    )]
    Factors {
        /// The number of the row, from 1.
        row: usize,
        /// The number of its factors.
        has: usize,
        /// The number of factors of the first row.
        first: usize,
    },
    /// A number is outside of its range.
    #[error("`{key}` is {value}, and must be {must}; train it again")]
    Range {
        /// The key; in a list with the number of the entry, from 1.
        key: String,
        /// The number.
        value: f64,
        /// The range in words.
        must: &'static str,
    },
    /// The page map of a point is not known.
    #[error(
        "point {number} has the page map `{page_map}`; there are first_touch, interleave, single, local, remote, locality and balance"
    )]
    PageMap {
        /// The number of the point, from 1.
        number: usize,
        /// Its page map.
        page_map: String,
    },
    /// Last-level-cache domains are compared, and a point does not have them.
    #[error("`kernel.lengths` has `llcs`, and point {0} has none; train it again")]
    NoDomains(usize),
}

#[derive(Deserialize)]
struct Head {
    pinfold: Option<serde_json::Value>,
    version: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "pinfold")]
    _kind: String,
    #[serde(rename = "version")]
    _version: u64,
    origin: Trained,
    points: Vec<FilePoint>,
    mean: Vec<f64>,
    factors: Vec<Vec<f64>>,
    residual: Vec<f64>,
    kernel: FileKernel,
    noise: f64,
    doubt: FileDoubt,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePoint {
    threads: f64,
    cores: f64,
    nodes: f64,
    llcs: Option<f64>,
    /// On one node all maps are the same.
    thread_map: Option<ThreadMap>,
    page_map: String,
    /// `None`: nothing set them, and a machine starts with all of them on.
    prefetch: Option<Prefetchers>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileKernel {
    weight: f64,
    variance: f64,
    lengths: FileLengths,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLengths {
    threads: f64,
    cores: f64,
    nodes: f64,
    llcs: Option<f64>,
    thread_map: f64,
    page_map: f64,
    prefetch: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileDoubt {
    machine: f64,
}

impl FromStr for Belief {
    type Err = BeliefError;

    fn from_str(text: &str) -> Result<Self, BeliefError> {
        if text.len() > MOST_BYTES {
            return Err(BeliefError::TooLarge(text.len()));
        }
        let head: Head = serde_json::from_str(text).map_err(|error| not_json(error, text))?;
        if head.pinfold.as_ref().and_then(serde_json::Value::as_str) != Some(KIND) {
            return Err(BeliefError::Other);
        }
        if let Some(other) = head.version.filter(|&version| version != VERSION) {
            return Err(BeliefError::Version(other));
        }
        let file: File = serde_json::from_str(text)?;
        check_lengths(&file)?;
        check_numbers(&file)?;
        let compares_domains = file.kernel.lengths.llcs.is_some();
        let points = file.points.into_iter().enumerate();
        let points = points.map(|(place, one)| point(one, place + 1, compares_domains));
        Ok(Self {
            origin: file.origin,
            points: points.collect::<Result<_, _>>()?,
            mean: file.mean,
            factors: file.factors,
            residual: file.residual,
            kernel: kernel(&file.kernel),
            noise: file.noise,
            doubt: file.doubt.machine,
        })
    }
}

/// Python writes `NaN` and `Infinity` for numbers that JSON does not have.
fn not_json(error: serde_json::Error, text: &str) -> BeliefError {
    let (line, column) = (error.line(), error.column());
    let before = text
        .lines()
        .nth(line.saturating_sub(1))
        .and_then(|line| line.get(column.saturating_sub(2)..));
    let is_number = before.is_some_and(|text| {
        let text = text.trim_start_matches([' ', ',', '[', ':', '-']);
        text.starts_with("NaN") || text.starts_with("Infinity")
    });
    if is_number {
        BeliefError::NotFinite { line, column }
    } else {
        error.into()
    }
}

fn check_lengths(file: &File) -> Result<(), BeliefError> {
    let points = file.points.len();
    if points == 0 {
        return Err(BeliefError::Empty);
    }
    let lists = [
        ("mean", file.mean.len()),
        ("factors", file.factors.len()),
        ("residual", file.residual.len()),
    ];
    if let Some((key, has)) = lists.into_iter().find(|(_, has)| *has != points) {
        return Err(BeliefError::Length { key, has, points });
    }
    let first = file.factors.first().map_or(0, Vec::len);
    match file.factors.iter().position(|row| row.len() != first) {
        None => Ok(()),
        Some(place) => Err(BeliefError::Factors {
            row: place + 1,
            has: file.factors[place].len(),
            first,
        }),
    }
}

/// The ranges of numbers, with their names in errors.
type Range = (&'static str, fn(f64) -> bool);

const LOGARITHM: Range = ("from -20 to 20", |value| value.abs() <= LARGEST);
const VARIANCE: Range = ("from 0 to 400", |value| (0.0..=LARGEST * LARGEST).contains(&value));
const NOISE: Range = ("above 0, and at most 400", |value| {
    value > 0.0 && value <= LARGEST * LARGEST
});
const SHARE: Range = ("from 0 to 1", |value| (0.0..=1.0).contains(&value));
const LENGTH: Range = ("above 0.001, and below a million", |value| value > 1e-3 && value < 1e6);

fn check((must, holds): Range, value: f64, key: impl FnOnce() -> String) -> Result<(), BeliefError> {
    if holds(value) {
        return Ok(());
    }
    Err(BeliefError::Range {
        key: key(),
        value,
        must,
    })
}

fn check_numbers(file: &File) -> Result<(), BeliefError> {
    for (place, &mean) in file.mean.iter().enumerate() {
        check(LOGARITHM, mean, || format!("mean {}", place + 1))?;
    }
    for (place, row) in file.factors.iter().enumerate() {
        for &factor in row {
            check(LOGARITHM, factor, || format!("factors {}", place + 1))?;
        }
    }
    for (place, &residual) in file.residual.iter().enumerate() {
        check(VARIANCE, residual, || format!("residual {}", place + 1))?;
    }
    let kernel = &file.kernel;
    let lengths = &kernel.lengths;
    check(SHARE, kernel.weight, || "kernel.weight".to_owned())?;
    check(VARIANCE, kernel.variance, || "kernel.variance".to_owned())?;
    check(NOISE, file.noise, || "noise".to_owned())?;
    check(VARIANCE, file.doubt.machine, || "doubt.machine".to_owned())?;
    for (choice, length) in [
        ("threads", Some(lengths.threads)),
        ("cores", Some(lengths.cores)),
        ("nodes", Some(lengths.nodes)),
        ("llcs", lengths.llcs),
        ("thread_map", Some(lengths.thread_map)),
        ("page_map", Some(lengths.page_map)),
        ("prefetch", Some(lengths.prefetch)),
    ] {
        check(LENGTH, length.unwrap_or(1.0), || format!("kernel.lengths.{choice}"))?;
    }
    Ok(())
}

fn point(one: FilePoint, number: usize, compares_domains: bool) -> Result<Point, BeliefError> {
    const SHARE: Range = ("above 0, and at most 1", |value| value > 0.0 && value <= 1.0 + ROUNDING);
    const THREADS: Range = ("above 0, and at most 64", |value| {
        value > 0.0 && value <= MOST_THREADS_PER_CORE
    });
    for (key, range, value) in [
        ("threads", THREADS, Some(one.threads)),
        ("cores", SHARE, Some(one.cores)),
        ("nodes", SHARE, Some(one.nodes)),
        ("llcs", SHARE, one.llcs),
    ] {
        check(range, value.unwrap_or(1.0), || format!("{key} of point {number}"))?;
    }
    if compares_domains && one.llcs.is_none() {
        return Err(BeliefError::NoDomains(number));
    }
    let Some(page_map) = page_map(&one.page_map) else {
        let page_map = one.page_map;
        return Err(BeliefError::PageMap { number, page_map });
    };
    Ok(Point {
        threads: one.threads,
        cores: one.cores,
        nodes: one.nodes,
        llcs: one.llcs,
        thread_map: one.thread_map.unwrap_or(ThreadMap::Compact),
        page_map,
        prefetch: one.prefetch.unwrap_or(Prefetchers::ALL),
    })
}

/// A page map by its name in data sets.
fn page_map(name: &str) -> Option<PageMapping> {
    match name {
        "single" => Some(PageMapping::Single(NodeId(0))),
        other => other
            .parse()
            .ok()
            .filter(|mapping: &PageMapping| mapping.named().is_empty()),
    }
}

fn kernel(file: &FileKernel) -> Kernel {
    let lengths = &file.lengths;
    Kernel {
        weight: file.weight,
        variance: file.variance,
        lengths: Lengths {
            threads: lengths.threads,
            cores: lengths.cores,
            nodes: lengths.nodes,
            llcs: lengths.llcs,
            thread_map: lengths.thread_map,
            page_map: lengths.page_map,
            prefetch: lengths.prefetch,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{self, document};
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn a_file_is_read() {
        assert_eq!(document().to_string().parse::<Belief>().unwrap(), examples::belief());
    }

    #[test]
    fn what_is_not_a_choice_has_its_usual_value() {
        let mut file = document();
        file["points"][0]["thread_map"] = json!(null);
        file["points"][0]["prefetch"] = json!(null);
        assert_eq!(file.to_string().parse::<Belief>().unwrap(), examples::belief());
    }

    fn refused(change: impl FnOnce(&mut Value)) -> String {
        let mut file = document();
        change(&mut file);
        file.to_string().parse::<Belief>().unwrap_err().to_string()
    }

    #[test]
    fn a_file_that_is_damaged_or_of_another_kind_is_refused_with_the_reason() {
        for (message, expected) in [
            (refused(|file| *file = json!({"react_model": 3})), "this is no belief"),
            (refused(|file| file["pinfold"] = json!("run")), "this is no belief"),
            (refused(|file| *file = json!(12)), "docs/formats/beliefs.md"),
            (
                refused(|file| file["version"] = json!(2)),
                "version 2, and this pinfold reads version 1",
            ),
            (refused(|file| file["points"] = json!([])), "no points"),
            (
                refused(|file| file["mean"] = json!([0.0])),
                "`mean` has 1 entries, and there are 2 points",
            ),
            (
                refused(|file| file["residual"] = json!([0.0, 0.1, 0.2])),
                "`residual` has 3 entries",
            ),
            (
                refused(|file| file["factors"] = json!([[0.1]])),
                "`factors` has 1 entries",
            ),
            (
                refused(|file| file["factors"][1] = json!([0.1, 0.2])),
                "row 2 of `factors` has 2 numbers, and the first one has 1",
            ),
            (
                refused(|file| file["residual"][1] = json!(-0.1)),
                "`residual 2` is -0.1, and must be from 0 to 400",
            ),
            (
                refused(|file| file["mean"][0] = json!(1e30)),
                "`mean 1` is 1000000000000000000000000000000",
            ),
            (refused(|file| file["mean"][0] = json!(null)), "invalid type: null"),
            (
                refused(|file| file["factors"][0][0] = json!(-21.0)),
                "`factors 1` is -21",
            ),
            (
                refused(|file| file["noise"] = json!(0.0)),
                "`noise` is 0, and must be above 0",
            ),
            (
                refused(|file| file["doubt"]["machine"] = json!(-1.0)),
                "`doubt.machine` is -1",
            ),
            (
                refused(|file| file["kernel"]["weight"] = json!(1.5)),
                "`kernel.weight` is 1.5",
            ),
            (
                refused(|file| file["kernel"]["variance"] = json!(-1.5)),
                "`kernel.variance` is -1.5",
            ),
            (
                refused(|file| file["kernel"]["lengths"]["nodes"] = json!(0.0)),
                "`kernel.lengths.nodes` is 0",
            ),
            (
                refused(|file| file["kernel"]["lengths"]["llcs"] = json!(1.0)),
                "point 1 has none",
            ),
            (
                refused(|file| file["points"][0]["cores"] = json!(1.5)),
                "`cores of point 1` is 1.5",
            ),
            (
                refused(|file| file["points"][1]["threads"] = json!(0.0)),
                "`threads of point 2` is 0",
            ),
            (
                refused(|file| file["points"][1]["page_map"] = json!("interleave:1")),
                "point 2 has the page map `interleave:1`",
            ),
            (
                refused(|file| file["points"][1]["prefetch"] = json!("00")),
                "`00` is no prefetcher setting",
            ),
            (refused(|file| file["more"] = json!(1)), "unknown field `more`"),
            (
                refused(|file| {
                    file.as_object_mut().unwrap().remove("version");
                }),
                "missing field `version`",
            ),
        ] {
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn nan_and_infinity_as_python_writes_them_are_named() {
        for number in ["NaN", "Infinity", "-Infinity"] {
            let text = document()
                .to_string()
                .replace("\"noise\":0.0001", &format!("\"noise\":{number}"));
            let error = text.parse::<Belief>().unwrap_err();
            assert!(
                matches!(error, BeliefError::NotFinite { line: 1, .. }),
                "{number}: {error}"
            );
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let text = document().to_string() + &" ".repeat(MOST_BYTES);
        assert!(matches!(text.parse::<Belief>(), Err(BeliefError::TooLarge(_))));
    }

    proptest! {
        #[test]
        fn damage_is_an_error_or_another_belief(place in 0usize..2000, byte in any::<u8>()) {
            let mut bytes = document().to_string().into_bytes();
            let place = place % bytes.len();
            bytes[place] = byte;
            if let Ok(belief) = String::from_utf8_lossy(&bytes).parse::<Belief>() {
                let prior = belief.over(belief.points.clone(), "new");
                prop_assert!(prior.mean().iter().all(|mean| mean.is_finite()));
                prop_assert!(prior.covariances(0).iter().all(|covariance| covariance.is_finite()));
            }
        }
    }
}
