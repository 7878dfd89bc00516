//! What the record of a run shows: the number of threads, whether the placement was applied, and what was counted.

use pinfold_core::Pinning;
use pinfold_runtime::{MetricSeries, RunDocument, Timeline};
use pinfold_sweep::{Exact, Point};

/// The most tasks that were alive at one time. A program that ended before it was read once counts with all tasks that it
/// had. `None` without a task.
pub(super) fn threads(document: &RunDocument) -> Option<usize> {
    let timeline = document.record.timeline.as_ref()?;
    let at = |point: usize| timeline.tasks.iter().filter(|task| task.at(point).is_some()).count();
    let most = (0..timeline.at.len()).map(at).max().filter(|&most| most > 0);
    let all = usize::try_from(document.record.program.tasks).ok();
    most.or(all).filter(|&threads| threads > 0)
}

/// Why the program did not run in this configuration; `None` if it did.
pub(super) fn not_applied(document: &RunDocument, point: &Point) -> Option<String> {
    let pinning = &point.pinning;
    if let Some(refusal) = document.record.refused.first() {
        return Some(refusal.why.clone());
    }
    let candidates = &document.record.search.candidates;
    if let Some(why) = candidates.iter().find_map(|candidate| candidate.not_pinned.clone()) {
        return Some(why);
    }
    let pages = &document.record.pages;
    if point.pages.needs_accesses() && pages.page_samples.is_empty() && pages.page_profiles.is_empty() {
        return Some(
            "the program ended before its accesses were known, by which its pages are placed; --page-options \
             profile=FILE.pft takes them from a recording, and sample-time=TIME samples for a shorter time"
                .to_owned(),
        );
    }
    let applied = document.record.timeline.as_ref()?.configurations.last()?;
    (applied.pus.as_ref() != Some(pinning)).then(|| {
        format!(
            "its threads ran on {} and not on {pinning}",
            Pinning::text(applied.pus.as_ref())
        )
    })
}

/// What was counted in the whole run: name, unit and count of each metric.
pub(super) fn metrics(document: &RunDocument) -> Vec<(String, String, Exact)> {
    let Some(timeline) = &document.record.timeline else {
        return vec![];
    };
    let counted = |series: &MetricSeries| {
        let count = total(timeline, series)?;
        Some((series.name.clone(), series.unit.clone(), Exact(count)))
    };
    timeline.metrics.iter().filter_map(counted).collect()
}

/// The counts of a metric: its rates times the times between them; `None` if none is known.
fn total(timeline: &Timeline, series: &MetricSeries) -> Option<f64> {
    let mut since = 0.0;
    let mut sum = None;
    for (&at, rate) in timeline.at.iter().zip(&series.rates) {
        let Some(rate) = rate else { continue };
        sum = Some(sum.unwrap_or(0.0) + rate * (at - since));
        since = at;
    }
    sum
}
