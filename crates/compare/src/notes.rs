//! Notes below the table: undecided policies, disturbed runs, cold caches, short runs.

use crate::{Choice, Comparison, Role, Variant};
use pinfold_core::measurement::Median;

/// In seconds. A shorter program measures mostly its own start, which takes milliseconds.
const SHORT: f64 = 0.005;

/// A run is disturbed if its time is further from the median. The unit is the standard deviation of a normal
/// distribution with the same median of absolute deviations. Iglewicz and Hoaglin use 3.5 ("How to Detect and Handle
/// Outliers", 1993). The limit here is higher, because times of undisturbed runs are skewed and several units are
/// common.
const DISTURBED: f64 = 10.0;

/// The standard deviation of a normal distribution over the median of its absolute deviations (the same source).
const DEVIATION: f64 = 1.0 / 0.6745;

/// Outliers are searched among at least this many runs.
const ENOUGH: usize = 5;

/// The notes, each one line without a newline.
pub(crate) fn notes(comparison: &Comparison) -> Vec<String> {
    let variants = || comparison.variants.iter().filter(|variant| !variant.runs.is_empty());
    let mut notes: Vec<String> = variants().filter_map(undecided).collect();
    if comparison.simulated.is_none() {
        notes.extend(variants().filter_map(slow_start));
        notes.extend(disturbed(variants()));
        notes.extend(short(comparison));
    }
    notes.extend(variants().filter_map(failed));
    if comparison.has_runs() && variants().all(|variant| variant.runs.len() < 2) {
        notes.push(
            "A single run of each variant does not show the noise, so differences are not judged; give --runs 5."
                .to_owned(),
        );
    }
    if !comparison.left_out.is_empty() {
        let names: Vec<&str> = comparison.left_out.iter().map(|one| one.policy.as_str()).collect();
        notes.push(format!(
            "Not compared, because this machine lacks what they need: {}.",
            names.join(", ")
        ));
    }
    notes
}

/// A note on a policy that had not decided when the program ended.
fn undecided(variant: &Variant) -> Option<String> {
    let reasons: Vec<(&str, bool)> = variant
        .runs
        .iter()
        .filter_map(|run| match run.choice.as_ref()? {
            Choice::Undecided { why, early } => Some((why.as_str(), *early)),
            _ => None,
        })
        .collect();
    let &(why, early) = reasons.first()?;
    let all = variant.runs.len();
    let remedy = if early {
        " Shorter times (--initialise, --warm-up, -t) let it decide earlier."
    } else {
        ""
    };
    Some(format!(
        "{} had decided in {} of {all} runs. Reason: {}.{remedy}",
        variant.name,
        all - reasons.len(),
        why.trim_end_matches('.')
    ))
}

/// The distance of each run from the median, in units of the usual deviation; empty if that deviation is not known.
fn distances(variant: &Variant) -> Vec<f64> {
    let times = variant.times();
    let distances = |median: f64| {
        let deviation = DEVIATION * Median::of(times.iter().map(|time| (time - median).abs()))?.value;
        let all = || times.iter().map(|time| (time - median) / deviation).collect();
        (deviation > 0.0 && times.len() >= ENOUGH).then(all)
    };
    let median = Median::of(times.iter().copied());
    median.and_then(|median| distances(median.value)).unwrap_or_default()
}

/// A note on a first run that is much slower than the others.
fn slow_start(variant: &Variant) -> Option<String> {
    distances(variant).first().filter(|distance| **distance > DISTURBED)?;
    let summary = variant.summary()?;
    Some(format!(
        "The first run of {} took {:.3} s, and the median is {:.3} s. It may have read files from the disk that were in memory \
         later. With -w 1 everything runs once before it is measured.",
        variant.name,
        variant.runs.first()?.time,
        summary.median
    ))
}

/// A note on later runs that differ much from the others.
fn disturbed<'a>(variants: impl Iterator<Item = &'a Variant>) -> Option<String> {
    let far = |variant: &Variant| {
        let distances = distances(variant).into_iter().skip(1);
        let far = distances.filter(|distance| distance.abs() > DISTURBED).count();
        (far > 0).then(|| format!("{far} of {} of {}", variant.runs.len(), variant.name))
    };
    let far: Vec<String> = variants.filter_map(far).collect();
    (!far.is_empty()).then(|| {
        format!(
            "Some runs differ much from the other runs of their variant: {}. Other programs may have disturbed them; repeat the \
             comparison on an idle machine, or with more runs.",
            far.join(", ")
        )
    })
}

/// A note on a program that is too short to be measured from outside.
fn short(comparison: &Comparison) -> Option<String> {
    let alone = comparison.variants.iter().find(|variant| variant.role == Role::Alone)?;
    (alone.summary()?.mean < SHORT).then(|| {
        "Alone, the program takes less than 5 ms, so these times are mainly those of starting a process. Give it more work."
            .to_owned()
    })
}

/// A note on runs that ended with a status other than 0, which the user allowed.
fn failed(variant: &Variant) -> Option<String> {
    let mut statuses: Vec<i32> = variant.runs.iter().map(|run| run.exit_status).collect();
    statuses.retain(|status| *status != 0);
    let failed = statuses.len();
    statuses.sort_unstable();
    statuses.dedup();
    let shown: Vec<String> = statuses.iter().map(i32::to_string).collect();
    (failed > 0).then(|| {
        format!(
            "{failed} of {} runs of {} failed, with status {}.",
            variant.runs.len(),
            variant.name,
            shown.join(" or ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{comparison, variant};

    /// The notes about one variant with these times.
    fn about(times: &[f64]) -> Vec<String> {
        notes(&comparison(vec![variant("alone", Role::Alone, times)]))
    }

    #[test]
    fn quiet_runs_have_no_notes() {
        assert_eq!(about(&[1.0, 1.01, 0.99, 1.02, 0.98]), [""; 0]);
        assert_eq!(about(&[1.0; 6]), [""; 0]);
    }

    #[test]
    fn a_slow_first_run_is_about_caches_and_a_later_one_about_other_programs() {
        let first = about(&[3.0, 1.01, 0.99, 1.02, 0.98, 1.0]);
        assert!(first.len() == 1 && first[0].contains("With -w 1"), "{first:?}");
        let later = about(&[1.0, 1.01, 0.99, 3.0, 0.98, 1.02]);
        assert!(later.len() == 1 && later[0].contains("1 of 6 of alone"), "{later:?}");
    }

    #[test]
    fn short_runs_and_single_runs_are_named() {
        let short = about(&[0.001, 0.001_1]);
        assert!(short.len() == 1 && short[0].contains("less than 5 ms"), "{short:?}");
        let single = about(&[1.0]);
        assert!(single.len() == 1 && single[0].contains("--runs"), "{single:?}");
    }

    #[test]
    fn a_policy_that_never_decides_is_named_with_reason_and_remedy() {
        let mut policy = variant("autopin", Role::Policy, &[1.0, 1.0]);
        for (run, early) in policy.runs.iter_mut().zip([true, false]) {
            let why = "the program ended in its first sample".to_owned();
            run.choice = Some(if early {
                Choice::Undecided { why, early }
            } else {
                Choice::UNPINNED
            });
        }
        let notes = notes(&comparison(vec![policy]));
        assert!(notes[0].contains("1 of 2 runs") && notes[0].contains("-t"), "{notes:?}");
        assert!(notes[0].contains("the program ended in its first sample"), "{notes:?}");
    }

    #[test]
    fn failed_runs_are_counted_with_their_status() {
        let mut alone = variant("alone", Role::Alone, &[1.0, 1.0, 1.0]);
        alone.runs[1].exit_status = 3;
        let notes = notes(&comparison(vec![alone]));
        assert_eq!(notes, ["1 of 3 runs of alone failed, with status 3."]);
    }
}
