//! What a policy chose in a run, by the record of the run.

use pinfold_core::{PageMapping, Pinning};
use pinfold_runtime::{DecidesOn, Record};
use std::fmt;

/// What a policy chose.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// Nothing yet, when the program ended.
    Undecided {
        /// Why, as a clause or a sentence.
        why: String,
        /// Whether the program ended before the policy had measured enough.
        early: bool,
    },
    /// One placement of the whole program.
    Placement {
        /// The PU of each rank; `None` where threads are left to the operating system.
        pus: Option<Pinning>,
        /// Where pages were moved to; `None` where they were left.
        pages: Option<PageMapping>,
    },
    /// Configurations of this number of parallel regions.
    Regions(usize),
    /// This number of moves of single threads.
    Moves(usize),
}

impl Choice {
    /// The choice of a run, by its record. `decides_on` is that of the record's policy.
    pub fn of(record: &Record, decides_on: DecidesOn) -> Self {
        if let Some(regions) = &record.by_policy.regions {
            return match regions.kept() {
                0 => Self::Placement { pus: None, pages: None },
                kept => Self::Regions(kept),
            };
        }
        if decides_on == DecidesOn::Tasks {
            let moves = &record.by_policy.moves;
            return Self::Moves(moves.iter().filter(|one| !one.moved.makes_room).count());
        }
        let mut searches = [&record.search].into_iter().chain(record.earlier_searches.iter().rev());
        if let Some((search, chosen)) = searches.find_map(|search| Some((search, search.chosen.as_ref()?))) {
            return Self::Placement {
                pus: chosen.pus.clone(),
                pages: search.candidates.get(chosen.candidate).and_then(|one| one.pages),
            };
        }
        match record.kept_from_start() {
            Some(kept) => Self::Placement {
                pus: kept.placed().cloned(),
                pages: kept.pages,
            },
            None => Self::Undecided {
                why: why_not(record, decides_on),
                early: record.program.ended_early.is_some(),
            },
        }
    }

    /// Threads and pages are left to the operating system.
    #[cfg(test)]
    pub(crate) const UNPINNED: Self = Self::Placement { pus: None, pages: None };

    /// Whether something was chosen.
    pub fn is_decided(&self) -> bool {
        !matches!(self, Self::Undecided { .. })
    }

    /// Choices with the same text are counted together: threads move more often in a run that is longer.
    fn kind(&self) -> Self {
        match self {
            Self::Undecided { .. } => Self::Undecided {
                why: String::new(),
                early: false,
            },
            Self::Moves(_) => Self::Moves(0),
            other => other.clone(),
        }
    }
}

/// Why a record has no choice.
fn why_not(record: &Record, decides_on: DecidesOn) -> String {
    // The command line takes such a policy for a program that binds its own threads.
    if decides_on == DecidesOn::Nothing {
        return "The program binds its own threads, by OMP_PROC_BIND or a similar variable; --override places them all the same"
            .to_owned();
    }
    let early = record.program.ended_early.as_ref().map(|early| early.why.clone());
    let unmeasured = || {
        record
            .metric_reason
            .metric_why
            .clone()
            .filter(|_| record.metric.is_none())
    };
    let forecast = || record.by_policy.forecast.as_ref().map(|forecast| forecast.why.clone());
    early
        .or_else(unmeasured)
        .or_else(forecast)
        .unwrap_or_else(|| "the record does not say why".to_owned())
}

/// Equal choices of several runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Choices {
    /// The choice; the one of the first of the runs.
    pub choice: Choice,
    /// The number of runs.
    pub runs: usize,
    /// The fewest and the most moves of a run.
    moves: Option<(usize, usize)>,
}

impl Choices {
    /// The choices of runs, the most frequent first.
    pub fn count<'a>(choices: impl IntoIterator<Item = &'a Choice>) -> Vec<Self> {
        let mut counted: Vec<Self> = vec![];
        for choice in choices {
            let moves = match choice {
                Choice::Moves(moves) => Some((*moves, *moves)),
                _ => None,
            };
            if let Some(same) = counted.iter_mut().find(|one| one.choice.kind() == choice.kind()) {
                same.runs += 1;
                let both = same.moves.zip(moves);
                same.moves = both.map(|(range, one)| (range.0.min(one.0), range.1.max(one.1)));
            } else {
                counted.push(Self {
                    choice: choice.clone(),
                    runs: 1,
                    moves,
                });
            }
        }
        counted.sort_by_key(|one| std::cmp::Reverse(one.runs));
        counted
    }
}

/// The choice in words.
impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.choice, self.moves) {
            (Choice::Undecided { .. }, _) => f.write_str("nothing yet"),
            (Choice::Placement { pus, pages }, _) => {
                match pus {
                    None => f.write_str("unpinned")?,
                    Some(pinning) => write!(f, "CPUs {pinning}")?,
                }
                pages.map_or(Ok(()), |pages| write!(f, ", pages {pages}"))
            }
            (Choice::Regions(regions), _) => write!(f, "configurations of {regions} parallel regions"),
            (Choice::Moves(_), Some((0, 0))) => f.write_str("no move of a thread"),
            (Choice::Moves(_), Some((least, most))) if least < most => {
                write!(f, "{least} to {most} moves of threads")
            }
            (Choice::Moves(moves), _) => write!(f, "{moves} moves of threads"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::PuId;
    use pinfold_runtime::RunDocument;

    fn record(text: &str) -> Record {
        RunDocument::read(text).unwrap().record
    }

    fn pinned(pus: &[u32]) -> Choice {
        Choice::Placement {
            pus: Pinning::new(pus.iter().copied().map(PuId).collect()),
            pages: None,
        }
    }

    #[test]
    fn pages_that_were_moved_are_a_part_of_the_choice() {
        let moved = record(
            r#"{"policy": "auto",
                "candidates": [{"pus": null, "pages": "interleave", "rate": 2.0, "spread": null, "measured": 1.0}],
                "chosen": {"candidate": 0, "pus": null, "rate": 2.0, "spread": null, "gain_over_first": null,
                           "gain_over_worst": null, "at": 1.0}}"#,
        );
        let choices = [Choice::of(&moved, DecidesOn::Program)];
        assert_eq!(Choices::count(&choices)[0].to_string(), "unpinned, pages interleave");
    }

    #[test]
    fn a_choice_is_that_of_the_last_search_that_ended() {
        let chosen = r#"{"candidate": 1, "pus": [1, 0], "rate": 2.0, "spread": null, "gain_over_first": null,
                         "gain_over_worst": null, "at": 1.0}"#;
        let last = record(&format!(
            r#"{{"policy": "autopin", "candidates": [], "chosen": {chosen}}}"#
        ));
        let pinned = pinned(&[1, 0]);
        assert_eq!(Choice::of(&last, DecidesOn::Program), pinned);
        let earlier = record(&format!(
            r#"{{"policy": "autopin", "candidates": [], "chosen": null,
                 "earlier_searches": [{{"candidates": [], "chosen": {chosen}}}]}}"#
        ));
        assert_eq!(Choice::of(&earlier, DecidesOn::Program), pinned);
        let kept = record(
            r#"{"policy": "packed", "candidates": [{"pus": [1, 0], "rate": null, "spread": null, "measured": null}]}"#,
        );
        assert_eq!(
            Choice::of(&kept, DecidesOn::Program),
            pinned,
            "it is kept from the start"
        );
    }

    #[test]
    fn a_program_that_ends_early_leaves_the_reason() {
        let early = record(
            r#"{"policy": "autopin", "candidates": [],
                "ended_early": {"best": null, "rate": null, "why": "the program ended"}}"#,
        );
        let why = "the program ended".to_owned();
        assert_eq!(
            Choice::of(&early, DecidesOn::Program),
            Choice::Undecided { why, early: true }
        );
        let unmeasured = record(r#"{"policy": "autopin", "candidates": [], "metric_why": "nothing counts"}"#);
        let why = "nothing counts".to_owned();
        assert_eq!(
            Choice::of(&unmeasured, DecidesOn::Program),
            Choice::Undecided { why, early: false }
        );
    }

    #[test]
    fn a_policy_that_had_to_leave_the_threads_to_the_program_says_so() {
        let left = record(r#"{"policy": "none", "candidates": []}"#);
        let Choice::Undecided { why, early } = Choice::of(&left, DecidesOn::Nothing) else {
            panic!("something was chosen");
        };
        assert!(why.contains("--override") && !early, "{why}");
    }

    #[test]
    fn a_policy_that_decides_on_tasks_has_chosen_moves_and_may_have_made_none() {
        let still = record(r#"{"policy": "of another build", "candidates": []}"#);
        assert_eq!(Choice::of(&still, DecidesOn::Tasks), Choice::Moves(0));
    }

    #[test]
    fn equal_choices_are_counted_together() {
        let pinned = pinned(&[0, 2]);
        let undecided = |why: &str| Choice::Undecided {
            why: why.to_owned(),
            early: true,
        };
        let all = [
            undecided("a"),
            pinned.clone(),
            undecided("b"),
            Choice::Moves(3),
            Choice::Moves(1),
        ];
        let texts: Vec<(usize, String)> = Choices::count(&all)
            .iter()
            .map(|one| (one.runs, one.to_string()))
            .collect();
        let expected = [(2, "nothing yet"), (2, "1 to 3 moves of threads"), (1, "CPUs 0,2")];
        assert_eq!(texts, expected.map(|(runs, text)| (runs, text.to_owned())));
        assert_eq!(
            Choices::count(&[Choice::Moves(0)])[0].to_string(),
            "no move of a thread"
        );
    }
}
