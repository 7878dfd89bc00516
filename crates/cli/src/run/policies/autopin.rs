//! `--policy autopin`: candidates are compared while the program runs.

use super::{Built, Initial, PolicyEntry, PolicyRequest, Prepared, Setting};
use crate::run::number;
use anyhow::Result;
use clap::{Args, Command, FromArgMatches, ValueEnum};
use pinfold_policy::{Candidates, Options, Search, Watch};

pub(super) struct Autopin;

#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy autopin")]
struct Flags {
    /// Try at most N pinnings from the topology, beside the program as it is.
    #[arg(long, default_value = "8", value_parser = number::within(1usize, 65_536), value_name = "N", conflicts_with = "schedule")]
    candidates: usize,

    /// How candidates are compared.
    #[arg(long, value_enum, default_value_t = SearchName::Exhaustive, value_name = "SEARCH")]
    search: SearchName,

    /// Search again when the rate falls by this many percent after the choice and stays down; 0 for never.
    #[arg(long, default_value = "10", value_parser = number::parse_percent, value_name = "PERCENT")]
    search_again: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SearchName {
    /// Each candidate is measured for its full time.
    Exhaustive,
    /// A candidate is dropped as soon as the measurements show that another one is better.
    Racing,
}

impl PolicyEntry for Autopin {
    fn name(&self) -> &'static str {
        "autopin"
    }

    fn about(&self) -> &'static str {
        "measures the program as it is, tries candidates while it runs and keeps the best that is better than leaving threads to \
         the operating system"
    }

    fn explained(&self) -> &'static str {
        "tries pinnings while the program runs and keeps the one with the highest rate"
    }

    fn flags(&self, command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = Flags::from_arg_matches(request.flags)?;
        Ok(Prepared::new(move |setting| build(&flags, setting)))
    }
}

fn build(flags: &Flags, setting: &Setting<'_>) -> Result<Built> {
    let common = setting.common.clone();
    let options = Options {
        times: common.times,
        search: match flags.search {
            SearchName::Exhaustive => Search::Exhaustive,
            SearchName::Racing => Search::Racing,
        },
        candidates: if common.schedules.is_empty() {
            Candidates::Topology { most: flags.candidates }
        } else {
            Candidates::Schedule(common.schedules)
        },
        threads: common.threads,
        skip: common.skip,
        metric: common.metric,
        watch: (flags.search_again != 0.0).then(|| Watch {
            fall: flags.search_again,
            ..Watch::default()
        }),
    };
    options.check(setting.topology)?;
    Ok(Built {
        initial: options.candidates.first_pinning().map(|pinning| Initial {
            pinning,
            why: "it is the first of the pinnings that were asked for".to_owned(),
        }),
        ..Built::new(pinfold_policy::Autopin::new(options))
    })
}
