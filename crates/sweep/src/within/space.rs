//! The configurations of a sweep within one run, with their columns in a data set.

use crate::spaces::Spaces;
use anyhow::{Result, bail};
use pinfold_core::hint::AffinityHint;
use pinfold_core::memory::node_of_pu;
use pinfold_core::placement::{Placements, different};
use pinfold_core::{PageMapping, Pinning, Prefetchers, Topology};
use pinfold_dataset::{ConfigurationColumns, Layout};
use pinfold_sim::model::Model;
use pinfold_sim::sweep::{Point, ics20, page_map_name};
use std::collections::BTreeSet;

/// What configurations are made of.
#[derive(Clone)]
pub struct WithinSpace {
    /// The values of `--space`.
    pub names: Vec<String>,
    /// The value of `--limit`.
    pub limit: Option<usize>,
    /// The model of a simulated machine.
    pub model: Option<Model>,
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

impl WithinSpace {
    /// The configurations of a program with `threads` threads: first the unpinned program, then the points of the space.
    ///
    /// # Errors
    ///
    /// A space is unknown, or too large, or the machine is too small for it.
    pub fn configurations(&self, topology: &Topology, threads: usize) -> Result<Vec<WithinConfiguration>> {
        let mut swept = vec![unpinned(threads)];
        match &self.model {
            Some(model) => {
                let spaces = Spaces::new(&self.names, self.limit)?;
                let counts = match spaces.thread_counts(model)? {
                    Some(counts) => counts.into_iter().filter(|&count| count <= threads).collect(),
                    None => vec![threads],
                };
                for count in counts {
                    for point in spaces.points(model, topology, count)? {
                        swept.push(of_point(model, count, &point));
                    }
                }
            }
            None => {
                for name in &self.names {
                    let points = self.here(name, topology, threads)?.into_iter();
                    swept.extend(points.map(|pinning| pinned(topology, threads, pinning)));
                }
            }
        }
        if swept.len() > 1 && !swept.iter().any(|one| one.baseline) {
            swept[1].baseline = true;
        }
        // Prefetchers that are on everywhere need not be set.
        if swept
            .iter()
            .all(|one| one.prefetchers.is_none_or(|setting| setting == Prefetchers::ALL))
        {
            for one in &mut swept {
                one.prefetchers = None;
            }
        }
        Ok(swept)
    }

    /// The pinnings of a named space on this machine.
    fn here(&self, name: &str, topology: &Topology, threads: usize) -> Result<Vec<Pinning>> {
        let placed = threads.min(topology.allowed_pus().len());
        Ok(match (name, self.limit) {
            ("hints", _) => AffinityHint::ALL
                .iter()
                .map(|hint| hint.pinning(topology, placed))
                .collect::<Result<_, _>>()?,
            ("threads", Some(limit)) => different::most_different(topology, placed, limit),
            ("threads", None) => Placements::new(topology, placed)?.iter().collect(),
            _ => bail!("--space {name} is not measured within a run"),
        })
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
            pinning: String::new(),
        },
        baseline: false,
    }
}

fn pinned(topology: &Topology, threads: usize, pinning: Pinning) -> WithinConfiguration {
    let nodes: BTreeSet<_> = pinning
        .pus()
        .iter()
        .filter_map(|&pu| node_of_pu(topology, pu))
        .collect();
    WithinConfiguration {
        columns: ConfigurationColumns {
            num_threads: threads,
            layout: Some(Layout {
                num_nodes: nodes.len(),
                thread_map: None,
            }),
            page_map: page_map_name(PageMapping::FirstTouch).to_owned(),
            prefetch: Prefetchers::ALL.to_string(),
            pinning: pinning.to_string(),
        },
        threads: Some(threads),
        pinning: Some(pinning),
        pages: None,
        prefetchers: None,
        baseline: false,
    }
}

fn of_point(model: &Model, threads: usize, point: &Point) -> WithinConfiguration {
    let configuration = &point.configuration;
    WithinConfiguration {
        columns: ConfigurationColumns {
            num_threads: threads,
            layout: Some(Layout {
                num_nodes: point.num_nodes,
                thread_map: point.thread_map.map(|map| map.name().to_owned()),
            }),
            page_map: page_map_name(configuration.pages).to_owned(),
            prefetch: configuration.prefetchers.to_string(),
            pinning: configuration.pinning.to_string(),
        },
        threads: Some(threads),
        pinning: Some(configuration.pinning.clone()),
        pages: (configuration.pages != PageMapping::FirstTouch).then_some(configuration.pages),
        prefetchers: Some(configuration.prefetchers),
        baseline: ics20::is_baseline(model, threads, point),
    }
}
