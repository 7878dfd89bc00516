//! What a change costs: the program stands still while its threads or its pages move.
//!
//! A table of times does not say what moves cost. The user can give it. Otherwise the cost of pages is the program's
//! memory over an assumed bandwidth, and what is not known is assumed, and said.

use pinfold_core::{CostSource, MoveCost, MoveCosts};
use std::time::Duration;

/// Threads that move find cold caches. Assumed: some megabytes of cache are filled again at 10 GB/s.
const THREADS: Duration = Duration::from_millis(1);

/// How long pages take if the memory of the program is not known. Assumed: a tenth of a gigabyte.
const PAGES: Duration = Duration::from_millis(100);

/// The bandwidth of moving pages, in bytes per second. Assumed: 4 us for a page of 4 KiB, as on simulated machines.
const BANDWIDTH: f64 = 1e9;

/// What the user says of the costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenCosts {
    /// How long the program stands still when its threads move.
    pub threads: Option<Duration>,
    /// The same for pages.
    pub pages: Option<Duration>,
}

impl GivenCosts {
    /// The costs of a program with this memory, in bytes, if it is known.
    pub(super) fn costs(self, footprint: Option<u64>) -> MoveCosts {
        let cost = |given: Option<Duration>, otherwise: MoveCost| {
            given.map_or(otherwise, |given| MoveCost {
                seconds: given.as_secs_f64(),
                source: CostSource::Given,
            })
        };
        let assumed = |lasts: Duration| MoveCost {
            seconds: lasts.as_secs_f64(),
            source: CostSource::Assumed,
        };
        let of_footprint = |bytes: u64| MoveCost {
            seconds: bytes as f64 / BANDWIDTH,
            source: CostSource::Footprint,
        };
        MoveCosts {
            threads: cost(self.threads, assumed(THREADS)),
            pages: cost(self.pages, footprint.map_or(assumed(PAGES), of_footprint)),
        }
    }
}

/// What is assumed of the costs, as a sentence; `None` if the user gave them.
pub(super) fn note(costs: &MoveCosts) -> Option<String> {
    let text = |cost: MoveCost| match cost.source {
        CostSource::Given => None,
        CostSource::Footprint => Some("its memory over 1 GB/s"),
        CostSource::Assumed => Some("assumed"),
    };
    let parts = [(costs.threads, "threads"), (costs.pages, "pages")];
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(cost, what)| Some(format!("{what} {} s ({})", cost.seconds, text(cost)?)))
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "The table does not say how long moves take: {}. --move-cost gives it.",
            parts.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_gives_comes_first_then_the_memory_and_then_an_assumption() {
        let given = GivenCosts {
            threads: None,
            pages: Some(Duration::from_secs(2)),
        };
        let costs = given.costs(Some(1 << 30));
        assert_eq!(costs.pages.source, CostSource::Given);
        assert_eq!(costs.threads.source, CostSource::Assumed);
        assert!(note(&costs).unwrap().contains("threads 0.001 s (assumed)"));
        let costs = GivenCosts::default().costs(Some(500_000_000));
        assert_eq!(costs.pages.source, CostSource::Footprint);
        assert!((costs.pages.seconds - 0.5).abs() < 1e-12);
        let both = GivenCosts {
            threads: Some(Duration::ZERO),
            ..given
        };
        assert_eq!(note(&both.costs(None)), None);
    }
}
