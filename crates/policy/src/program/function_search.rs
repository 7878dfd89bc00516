//! When a function that shows progress is looked for, and what the policy does meanwhile.
//!
//! To look for a function takes some seconds and a little of the program's time. So it begins only after the
//! initialisation, if no other metric counts often enough, if the user asks for the metric `function`, or if an earlier run was
//! measured by a function. The choice of the metric waits for the result. If there is none, pinfold looks again when the
//! program has run for twice as long: the program may have been reading its input.

use crate::program::metric_choice::Choice;
use pinfold_core::function::{FoundFunction, FunctionRequest, FunctionSearch};
use pinfold_core::{Metric, Sample, TaskId, sources};
use std::collections::BTreeSet;
use std::time::Duration;

/// The search for a function, as the policy sees it.
#[derive(Debug, Default)]
pub(crate) struct FunctionSearcher {
    /// The position of the metric; `None` if the machine cannot find functions.
    metric: Option<usize>,
    /// The identity of the function of an earlier run.
    preferred: Option<String>,
    /// What the machine is asked with the next decision.
    request: Option<FunctionRequest>,
    /// Whether a search was requested whose result was not seen yet.
    asked: bool,
    /// The time of the next search, after one without a result.
    again: Option<Duration>,
}

/// What a look at the search means for the choice of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunctionStep {
    /// The choice is made now.
    Choose,
    /// A search begins, and the choice waits.
    Begins,
    /// The choice waits for the search.
    Waits,
    /// A function was found. Its first calls are counted before the choice.
    Counts,
}

/// Whether an earlier run was measured by a function.
pub(crate) fn is_identity(known: &str) -> bool {
    let code = known.strip_prefix(sources::FUNCTION.code);
    code.is_some_and(|rest| rest.starts_with(':'))
}

impl FunctionSearcher {
    /// The run begins on a machine with these metrics. `known` is the metric of an earlier run.
    pub(crate) fn start(&mut self, metrics: &[Metric], known: Option<&str>) {
        self.metric = metrics.iter().position(|metric| metric.source == &sources::FUNCTION);
        self.preferred = known.filter(|known| is_identity(known)).map(str::to_owned);
    }

    /// Looks at a sample at the end of a window. `wanted` says whether the user asks for this metric, and `choice` has
    /// the metric that would be taken now.
    pub(crate) fn look(
        &mut self,
        sample: &Sample,
        wanted: bool,
        choice: &Choice,
        working: &BTreeSet<TaskId>,
    ) -> FunctionStep {
        if self.metric.is_none() || choice.metric == self.metric {
            return FunctionStep::Choose;
        }
        let lacks_metric = choice.metric.is_none() || choice.coarse;
        let wanted = wanted || self.preferred.is_some() || lacks_metric;
        match &sample.function {
            FunctionSearch::NotBegun if wanted && !self.asked => self.begin(working),
            FunctionSearch::NotBegun => FunctionStep::Choose,
            FunctionSearch::Running | FunctionSearch::Found(_) if !wanted => {
                self.request = Some(FunctionRequest::Stop);
                FunctionStep::Choose
            }
            FunctionSearch::Running => FunctionStep::Waits,
            FunctionSearch::Found(_) if std::mem::take(&mut self.asked) => FunctionStep::Counts,
            FunctionSearch::Found(_) => {
                // It was found, but no longer counts.
                if choice.metric.is_some() {
                    self.request = Some(FunctionRequest::Stop);
                }
                FunctionStep::Choose
            }
            FunctionSearch::Nothing { may_change, .. } => {
                self.preferred = None;
                let again = *self.again.get_or_insert(sample.at * 2);
                if *may_change && lacks_metric && sample.at >= again {
                    self.again = None;
                    self.begin(working);
                }
                FunctionStep::Choose
            }
        }
    }

    fn begin(&mut self, working: &BTreeSet<TaskId>) -> FunctionStep {
        self.asked = true;
        self.request = Some(FunctionRequest::Search {
            tasks: working.clone(),
            preferred: self.preferred.clone(),
        });
        FunctionStep::Begins
    }

    /// The request for the machine. Each is returned once.
    pub(crate) fn take_request(&mut self) -> Option<FunctionRequest> {
        self.request.take()
    }

    /// The function whose calls a metric counts; `None` for another metric.
    pub(crate) fn found(&self, metric: Option<usize>, sample: &Sample) -> Option<FoundFunction> {
        match &sample.function {
            FunctionSearch::Found(found) if metric.is_some() && metric == self.metric => Some(found.clone()),
            _ => None,
        }
    }
}

/// Why no function was found: a clause; `None` if none was looked for or one was found.
pub(crate) fn why_none(sample: &Sample) -> Option<&str> {
    match &sample.function {
        FunctionSearch::Nothing { why, .. } => Some(why),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{MetricCode, Scope};

    const SECOND: Duration = Duration::from_secs(1);

    fn task() -> TaskId {
        TaskId {
            serial: 1,
            process: 7,
            thread: 8,
        }
    }

    fn searcher(known: Option<&str>) -> FunctionSearcher {
        let mut searcher = FunctionSearcher::default();
        let metrics = [
            sources::REGIONS.metric(Scope::Program),
            sources::FUNCTION.metric(Scope::Program),
        ];
        searcher.start(&metrics, known);
        searcher
    }

    fn found() -> FunctionSearch {
        FunctionSearch::Found(FoundFunction {
            name: "step".to_owned(),
            file: "solver".to_owned(),
            calls_per_second: 100.0,
            threads: 2,
            spread: 0.1,
            cost: 0.001,
        })
    }

    fn nothing(may_change: bool) -> FunctionSearch {
        FunctionSearch::Nothing {
            why: "none".to_owned(),
            may_change,
        }
    }

    fn look(searcher: &mut FunctionSearcher, at: u32, function: FunctionSearch, choice: Option<usize>) -> FunctionStep {
        let sample = Sample {
            at: SECOND * at,
            function,
            ..Sample::default()
        };
        searcher.look(&sample, false, &chosen(choice, false), &[task()].into())
    }

    fn chosen(metric: Option<usize>, coarse: bool) -> Choice {
        Choice {
            metric,
            per_second: 0.0,
            code: MetricCode::NearestToProgress,
            why: String::new(),
            coarse,
            waits: false,
        }
    }

    #[test]
    fn a_function_is_looked_for_if_nothing_else_counts() {
        let mut searcher = searcher(None);
        assert_eq!(
            look(&mut searcher, 1, FunctionSearch::NotBegun, None),
            FunctionStep::Begins
        );
        let expected = FunctionRequest::Search {
            tasks: [task()].into(),
            preferred: None,
        };
        assert_eq!(searcher.take_request(), Some(expected));
        assert_eq!(searcher.take_request(), None);
        assert_eq!(
            look(&mut searcher, 2, FunctionSearch::Running, None),
            FunctionStep::Waits
        );
        assert_eq!(look(&mut searcher, 3, found(), None), FunctionStep::Counts);
        assert_eq!(look(&mut searcher, 4, found(), Some(1)), FunctionStep::Choose);
        assert_eq!(searcher.take_request(), None);
    }

    #[test]
    fn no_function_is_looked_for_if_another_metric_counts() {
        let mut searcher = searcher(None);
        assert_eq!(
            look(&mut searcher, 1, FunctionSearch::NotBegun, Some(0)),
            FunctionStep::Choose
        );
        assert_eq!(searcher.take_request(), None);
    }

    #[test]
    fn a_function_is_looked_for_if_the_metric_is_coarse() {
        let mut searcher = searcher(None);
        let step = searcher.look(&Sample::default(), false, &chosen(Some(0), true), &[task()].into());
        assert_eq!(step, FunctionStep::Begins);
    }

    #[test]
    fn a_metric_that_begins_to_count_ends_the_search() {
        for state in [FunctionSearch::Running, found()] {
            let mut searcher = searcher(None);
            look(&mut searcher, 1, FunctionSearch::NotBegun, None);
            searcher.take_request();
            assert_eq!(look(&mut searcher, 2, state, Some(0)), FunctionStep::Choose);
            assert_eq!(searcher.take_request(), Some(FunctionRequest::Stop));
        }
    }

    #[test]
    fn the_function_of_an_earlier_run_is_looked_for_first() {
        let mut searcher = searcher(Some("function:step of solver"));
        assert_eq!(
            look(&mut searcher, 1, FunctionSearch::NotBegun, Some(0)),
            FunctionStep::Begins
        );
        let request = searcher.take_request();
        assert!(
            matches!(&request, Some(FunctionRequest::Search { preferred: Some(name), .. }) if name == "function:step of solver"),
            "{request:?}"
        );
        assert_eq!(look(&mut searcher, 2, nothing(true), Some(0)), FunctionStep::Choose);
    }

    #[test]
    fn without_a_result_the_next_search_is_when_the_program_has_run_twice_as_long() {
        let mut searcher = searcher(None);
        look(&mut searcher, 1, FunctionSearch::NotBegun, None);
        searcher.take_request();
        for (at, asks) in [(4, false), (7, false), (8, true), (9, false)] {
            assert_eq!(look(&mut searcher, at, nothing(true), None), FunctionStep::Choose);
            assert_eq!(searcher.take_request().is_some(), asks, "at {at} s");
        }
    }

    #[test]
    fn what_is_not_allowed_is_not_tried_again() {
        let mut searcher = searcher(None);
        look(&mut searcher, 1, FunctionSearch::NotBegun, None);
        searcher.take_request();
        for at in [2, 20, 200] {
            assert_eq!(look(&mut searcher, at, nothing(false), None), FunctionStep::Choose);
            assert_eq!(searcher.take_request(), None);
        }
    }

    #[test]
    fn a_machine_that_finds_no_functions_is_not_waited_for() {
        let mut searcher = FunctionSearcher::default();
        searcher.start(&[sources::REGIONS.metric(Scope::Program)], None);
        assert_eq!(
            look(&mut searcher, 1, FunctionSearch::NotBegun, None),
            FunctionStep::Choose
        );
        let mut searcher = super::tests::searcher(None);
        look(&mut searcher, 1, FunctionSearch::NotBegun, None);
        assert_eq!(
            look(&mut searcher, 2, FunctionSearch::NotBegun, None),
            FunctionStep::Choose
        );
    }
}
