//! Who proposed which placement, and what became of it.

use super::{counted, number};
use crate::record::{Comparison, Proposal, Record};
use pinfold_core::{ComparedCode, ProposerCode};
use std::fmt::Write as _;

/// The proposals and comparisons of one search: its position among the earlier ones, or their number for the last.
pub(super) fn explain(record: &Record, search: usize, text: &mut String) {
    for proposal in record.by_policy.proposals.iter().filter(|one| one.search == search) {
        let _ = writeln!(text, "{}", proposal.explain(record));
    }
    for comparison in record.by_policy.comparisons.iter().filter(|one| one.search == search) {
        let _ = writeln!(text, "{}", comparison.explain());
    }
}

fn who(by: ProposerCode) -> &'static str {
    match by {
        ProposerCode::Known => "an earlier run of this program",
        ProposerCode::OtherBuild => "an earlier run of another build of this program",
        ProposerCode::Classify => "a placement model",
        ProposerCode::Hints => "learned rules for hints",
        ProposerCode::Sharing => "the sharing of data between threads",
        ProposerCode::Contention => "the contention for memory",
        ProposerCode::Regions => "the times of parallel regions",
        ProposerCode::Topology => "the topology",
        ProposerCode::Neighbour => "the neighbourhood of the best one",
        ProposerCode::Phase => "the phase before",
        ProposerCode::User => "the user",
        ProposerCode::Unknown => "a proposer that this pinfold does not know",
    }
}

impl Proposal {
    fn explain(&self, record: &Record) -> String {
        let search = record.earlier_searches.get(self.search).unwrap_or(&record.search);
        let candidate = search.candidates.get(self.candidate);
        let place = candidate.map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let gain = match self.gain {
            Some(gain) => format!(", with an expected gain of {:.1} %", 100.0 * gain),
            None => String::new(),
        };
        format!(
            "At {} s {} proposed candidate {}, {place}{gain}: {}.",
            number(self.at),
            who(self.by),
            self.candidate.saturating_add(1),
            self.why.trim_end_matches('.')
        )
    }
}

impl Comparison {
    fn explain(&self) -> String {
        let (candidate, with) = (self.candidate.saturating_add(1), self.with.saturating_add(1));
        let begin = format!("At {} s candidate {candidate}", number(self.at));
        let turns = counted(self.turns, "turn");
        let (Some(gain), Some(error)) = (self.gain, self.error) else {
            return format!("{begin} could not be compared with candidate {with}: nothing was counted.");
        };
        let result = match self.code {
            ComparedCode::Faster => "it is faster beyond the noise",
            ComparedCode::NotFaster => "it is not faster by what is worth looking for",
            ComparedCode::NotKnown => "the noise is larger than the difference",
            ComparedCode::NotMeasured | ComparedCode::Unknown => "no result",
        };
        format!(
            "{begin} had run in {turns} with candidate {with}, {:.3} ± {error:.3} times as fast: {result}.",
            1.0 + gain
        )
    }
}
