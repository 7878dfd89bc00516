//! The configurations of a sweep within one run, with their columns in a data set.

use crate::spaces::{Point, SpaceMachine, Spaces, is_baseline, page_map_name};
use anyhow::Result;
use pinfold_core::{PageMapping, Pinning, Prefetchers, RegionKeeps};
use pinfold_dataset::{ConfigurationColumns, Layout};

/// What configurations are made of.
#[derive(Clone, Debug)]
pub struct WithinSpace {
    /// The values of `--space`.
    pub names: Vec<String>,
    /// The value of `--limit`.
    pub limit: Option<usize>,
    /// The machine.
    pub machine: SpaceMachine,
    /// Why pages cannot be placed by who accesses them; `None` if they can.
    pub no_accesses: Option<String>,
}

/// A configuration with its columns.
#[derive(Clone, Debug)]
pub struct WithinConfiguration {
    /// The number of threads of a region's team; `None` for the program's own.
    pub threads: Option<usize>,
    /// The PUs of the ranks; `None` for the unpinned program.
    pub pinning: Option<Pinning>,
    /// Where the pages are; `None` for first touch.
    pub pages: Option<PageMapping>,
    /// The prefetchers that are on; `None` leaves them as they are.
    pub prefetchers: Option<Prefetchers>,
    /// The columns of the data set.
    pub columns: ConfigurationColumns,
    /// Whether others are compared with this one.
    pub baseline: bool,
}

impl WithinConfiguration {
    /// Whether a region that keeps this of a program with `threads` threads cannot have the configuration.
    pub fn is_refused_by(&self, keeps: RegionKeeps, threads: usize) -> bool {
        let has_others = self.threads.is_some_and(|number| number != threads);
        keeps.threads && has_others || keeps.places && self.pinning.is_some()
    }
}

/// The configurations, and what the machine lacks of the spaces.
#[derive(Clone, Debug)]
pub struct WithinSelection {
    /// First the unpinned program, then the points of the spaces.
    pub configurations: Vec<WithinConfiguration>,
    /// A sentence for each, without a full stop.
    pub left_out: Vec<String>,
}

impl WithinSpace {
    /// The most threads of a configuration; `None` if all have the program's own number.
    ///
    /// # Errors
    ///
    /// A space is unknown, or the machine is too small for it.
    pub fn most_threads(&self) -> Result<Option<usize>> {
        let counts = self.spaces()?.thread_counts(&self.machine)?;
        Ok(counts.and_then(|counts| counts.into_iter().max()))
    }

    /// The configurations of a program with `threads` threads.
    ///
    /// # Errors
    ///
    /// A space is unknown, or too large, or the machine is too small for it.
    pub fn configurations(&self, threads: usize) -> Result<WithinSelection> {
        let spaces = self.spaces()?;
        let (counts, more) = match spaces.thread_counts(&self.machine)? {
            Some(counts) => counts.into_iter().partition(|&count| count <= threads),
            None => (vec![threads], vec![]),
        };
        let mut left_out: Vec<String> = more
            .iter()
            .map(|more| {
                format!("the configurations of {more} threads are left out: the program has {threads}; --threads {more} gives it more")
            })
            .collect();
        let mut points: Vec<Point> = vec![];
        for count in counts {
            let mut selection = spaces.points(&self.machine, count)?;
            points.append(&mut selection.points);
            left_out.append(&mut selection.left_out);
        }
        if let Some(why) = &self.no_accesses {
            let before = points.len();
            points.retain(|point| !point.pages.needs_accesses());
            let without = before - points.len();
            if without > 0 {
                left_out.push(format!(
                    "{without} configurations with the page maps locality and balance are left out: {why}"
                ));
            }
        }
        left_out.sort();
        left_out.dedup();
        // Prefetchers that are on everywhere need not be set.
        let sets_prefetchers = points.iter().any(|point| point.prefetchers != Prefetchers::ALL);
        let mut configurations = vec![unpinned(threads)];
        configurations.extend(points.iter().map(|point| {
            let baseline = is_baseline(&self.machine, point);
            pinned(point, sets_prefetchers, baseline)
        }));
        if configurations.len() > 1 && !configurations.iter().any(|one| one.baseline) {
            configurations[1].baseline = true;
        }
        Ok(WithinSelection {
            configurations,
            left_out,
        })
    }

    fn spaces(&self) -> Result<Spaces> {
        Spaces::new(&self.names, self.limit)
    }
}

fn unpinned(threads: usize) -> WithinConfiguration {
    WithinConfiguration {
        threads: None,
        pinning: None,
        pages: None,
        prefetchers: None,
        columns: ConfigurationColumns {
            num_threads: threads,
            layout: None,
            page_map: page_map_name(PageMapping::FirstTouch).to_owned(),
            prefetch: Prefetchers::ALL.to_string(),
            pinning: None,
        },
        baseline: false,
    }
}

fn pinned(point: &Point, sets_prefetchers: bool, baseline: bool) -> WithinConfiguration {
    WithinConfiguration {
        threads: Some(point.threads),
        pinning: Some(point.pinning.clone()),
        pages: (point.pages != PageMapping::FirstTouch).then_some(point.pages),
        prefetchers: sets_prefetchers.then_some(point.prefetchers),
        columns: ConfigurationColumns {
            num_threads: point.threads,
            layout: Some(Layout {
                num_nodes: point.num_nodes,
                threads_per_core: Some(point.threads_per_core),
                thread_map: point.thread_map.map(|map| map.name().to_owned()),
            }),
            page_map: page_map_name(point.pages).to_owned(),
            prefetch: point.prefetchers.to_string(),
            pinning: Some(point.pinning.to_string()),
        },
        baseline,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_sim::model::builtin;

    fn space(names: &[&str]) -> WithinSpace {
        WithinSpace {
            names: names.iter().map(ToString::to_string).collect(),
            limit: None,
            machine: SpaceMachine::of_model(&builtin("e5-4650x4").unwrap()),
            no_accesses: None,
        }
    }

    #[test]
    fn the_unpinned_program_is_first_and_one_configuration_is_the_baseline() {
        for (names, configurations) in [(&["hints"][..], None), (&["numa"], Some(9)), (&["ics20"], Some(289))] {
            let all = space(names).configurations(32).unwrap().configurations;
            assert!(
                configurations.is_none_or(|number| all.len() == number),
                "{names:?}: {}",
                all.len()
            );
            assert!(all[0].pinning.is_none() && all[1..].iter().all(|one| one.pinning.is_some()));
            assert_eq!(all.iter().filter(|one| one.baseline).count(), 1, "{names:?}");
            let sets = names == ["ics20"];
            assert_eq!(all[1..].iter().all(|one| one.prefetchers.is_some()), sets, "{names:?}");
        }
    }

    #[test]
    fn what_needs_more_threads_or_unknown_accesses_is_left_out_and_said() {
        let without = WithinSpace {
            no_accesses: Some("no access can be sampled".to_owned()),
            ..space(&["ics20"])
        };
        assert_eq!(without.most_threads().unwrap(), Some(32));
        let selection = without.configurations(8).unwrap();
        assert!(selection.configurations.iter().all(|one| one.columns.num_threads == 8));
        assert!(
            selection
                .configurations
                .iter()
                .all(|one| !one.pages.is_some_and(PageMapping::needs_accesses))
        );
        let said = selection.left_out.join("; ");
        for part in ["of 16 threads", "of 32 threads"] {
            assert!(said.contains(part), "{said}");
        }
        // On several nodes pages are also mapped by who accesses them.
        let selection = without.configurations(32).unwrap();
        assert!(selection.configurations.iter().any(|one| one.columns.num_threads == 32));
        let said = selection.left_out.join("; ");
        assert!(said.contains("no access can be sampled"), "{said}");
    }
}
