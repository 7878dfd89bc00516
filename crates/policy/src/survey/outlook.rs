//! What is still to be done in a survey, and how long that takes.
//!
//! After each pass it is known which configurations need more measurements, and by their scatter how many. A
//! measurement takes as long as one of this run did on average, with the moves of pages between them.

use super::findings::SurveyProgress;
use super::known::Due;
use std::collections::BTreeMap;
use std::time::Duration;

/// From this number of measurements of this run on, their length says something about those that follow.
const ENOUGH: usize = 6;

/// What is to be done after a pass, in measurements of each subject.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outlook {
    /// Measurements, also of earlier runs, when this was estimated.
    done: usize,
    /// Those that follow.
    rest: usize,
    is_least: bool,
    /// Whether the user knows that the time is too short.
    has_warned: bool,
}

impl Outlook {
    /// The outlook when `done` measurements are made, and these configurations are due. A pass measures each of them in
    /// each of its `rounds`, and the references.
    pub(super) fn see(&mut self, done: usize, due: &BTreeMap<usize, Due>, references: &[usize], rounds: usize) {
        let needs = |due: &Due| due.needs.next_multiple_of(rounds);
        let longest = due.values().map(needs).max().unwrap_or(0);
        let of_reference = |one: &usize| longest - due.get(one).map_or(0, needs);
        self.done = done;
        self.rest = due.values().map(needs).sum::<usize>() + references.iter().map(of_reference).sum::<usize>();
        self.is_least = due.values().any(|due| due.is_least);
    }

    /// How far the survey is, when `done` measurements are made. The `own` ones of this run took `lasted`.
    pub(super) fn progress(
        &self,
        configurations: usize,
        measured: usize,
        done: usize,
        own: usize,
        lasted: Duration,
    ) -> SurveyProgress {
        let planned = (self.done + self.rest).max(done);
        SurveyProgress {
            configurations,
            measured,
            done,
            planned,
            remaining: (own > 0).then(|| lasted.as_secs_f64() / own as f64 * (planned - done) as f64),
            is_least: self.is_least,
        }
    }

    /// What the user should know if the survey needs more time than there is. `limit` is the time until the limit of the
    /// survey, and `usual` until the program has lasted as long as in an earlier run.
    pub(super) fn warning(
        &mut self,
        progress: &SurveyProgress,
        own: usize,
        limit: Option<Duration>,
        usual: Option<Duration>,
    ) -> Option<String> {
        let remaining = progress.remaining.filter(|_| own >= ENOUGH && !self.has_warned)?;
        let is_short = |left: &Duration| left.as_secs_f64() < remaining;
        let why = match (limit.filter(is_short), usual.filter(is_short)) {
            (Some(limit), usual) if usual.is_none_or(|usual| limit <= usual) => {
                format!("the time limit is reached in {:.0} s", limit.as_secs_f64())
            }
            (_, Some(usual)) => {
                format!(
                    "the program ends in {:.0} s if it runs as long as before",
                    usual.as_secs_f64()
                )
            }
            _ => return None,
        };
        self.has_warned = true;
        Some(format!(
            "The sweep needs {} {remaining:.0} s more, and {why}: it will probably be incomplete.",
            progress.how_exact()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(needs: &[usize], is_least: bool) -> BTreeMap<usize, Due> {
        let one = |&needs| Due {
            has: 0,
            needs,
            is_least,
        };
        needs.iter().map(one).enumerate().collect()
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn the_rest_takes_as_long_as_the_measurements_of_this_run_took() {
        let mut outlook = Outlook::default();
        // The reference 5 is not due, and is measured in each of three passes.
        outlook.see(10, &due(&[3, 1, 2], false), &[0, 5], 1);
        let progress = outlook.progress(6, 3, 12, 4, seconds(8));
        assert_eq!((progress.done, progress.planned, progress.is_least), (12, 19, false));
        assert!((progress.remaining.unwrap() - 14.0).abs() < 1e-9, "{progress:?}");
        assert_eq!(outlook.progress(6, 3, 10, 0, seconds(8)).remaining, None);
    }

    #[test]
    fn a_visit_of_several_rounds_measures_more_than_is_needed() {
        let mut outlook = Outlook::default();
        outlook.see(0, &due(&[3, 3], true), &[0], 2);
        let progress = outlook.progress(2, 0, 0, 0, seconds(0));
        assert_eq!((progress.planned, progress.is_least), (8, true));
    }

    #[test]
    fn the_user_is_warned_once_by_what_ends_first_and_not_if_there_is_time() {
        let mut outlook = Outlook::default();
        outlook.see(0, &due(&[20], false), &[], 1);
        let progress = outlook.progress(1, 1, 10, 10, seconds(10));
        assert_eq!(outlook.warning(&progress, 10, Some(seconds(11)), None), None);
        assert_eq!(
            outlook.warning(&progress, 2, Some(seconds(5)), None),
            None,
            "too little is known"
        );
        let text = outlook
            .warning(&progress, 10, Some(seconds(8)), Some(seconds(5)))
            .unwrap();
        assert!(
            text.contains("about 10 s more") && text.contains("ends in 5 s"),
            "{text}"
        );
        assert_eq!(outlook.warning(&progress, 10, Some(seconds(8)), Some(seconds(5))), None);
        let mut other = Outlook::default();
        let text = other
            .warning(&progress, 10, Some(seconds(8)), Some(seconds(9)))
            .unwrap();
        assert!(text.contains("time limit is reached in 8 s"), "{text}");
    }
}
