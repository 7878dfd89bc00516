//! The cores and PUs of the threads of a window.

use super::configuration::WindowConfiguration;
use super::directory::DOMAINS;
use super::options::WindowError;
use super::profile::PageProfile;
use crate::model::Model;
use pinfold_core::{PageMapping, PuId};
use std::collections::BTreeMap;

/// The places of the threads.
pub(super) struct Placement {
    /// The cores that have threads, sorted.
    pub(super) cores: Vec<usize>,
    /// By PU that has threads, sorted by core and sibling: the position of its core in `cores`, and its threads.
    pub(super) pus: Vec<(usize, Vec<usize>)>,
    /// By thread: its node.
    pub(super) nodes: Vec<usize>,
    /// By PU: its core and sibling in the model.
    places: Vec<(usize, usize)>,
}

impl Placement {
    /// `also` are PUs that threads may come to later.
    pub(super) fn new(
        model: &Model,
        configuration: &WindowConfiguration,
        profile: Option<&PageProfile>,
        threads: usize,
        also: &[PuId],
    ) -> Result<Self, WindowError> {
        if threads == 0 {
            return Err(WindowError::NoThreads);
        }
        match configuration.pages {
            PageMapping::Single(node) if node.0 as usize >= model.nodes() => {
                return Err(WindowError::NoSuchNode {
                    node: node.0,
                    machine: model.name.clone(),
                    last: model.nodes() - 1,
                });
            }
            mapping @ (PageMapping::Locality | PageMapping::Balance) if profile.is_none() => {
                return Err(WindowError::NoProfile(mapping));
            }
            _ => {}
        }
        let mut by_pu: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        let mut nodes = vec![];
        let place = |pu: PuId| {
            model.core_of_pu(pu.0).ok_or_else(|| WindowError::NoSuchPu {
                pu,
                machine: model.name.clone(),
                last: model.pus() - 1,
            })
        };
        for thread in 0..threads {
            let (core, sibling) = place(configuration.pinning.pu(thread))?;
            by_pu.entry((core, sibling)).or_default().push(thread);
            nodes.push(model.node_of_core(core));
        }
        for &pu in also {
            by_pu.entry(place(pu)?).or_default();
        }
        let mut cores: Vec<usize> = by_pu.keys().map(|&(core, _)| core).collect();
        cores.dedup();
        let mut domains: Vec<usize> = cores.iter().map(|&core| model.domain_of_core(core)).collect();
        domains.dedup();
        if domains.len() > DOMAINS {
            return Err(WindowError::TooManyDomains(domains.len()));
        }
        let places = by_pu.keys().copied().collect();
        let pus = by_pu
            .into_iter()
            .map(|((core, _), threads)| (cores.partition_point(|&active| active < core), threads))
            .collect();
        Ok(Self {
            cores,
            pus,
            nodes,
            places,
        })
    }

    /// The position of one of its PUs in `pus`.
    pub(super) fn position(&self, model: &Model, pu: PuId) -> Option<usize> {
        let place = model.core_of_pu(pu.0)?;
        self.places.binary_search(&place).ok()
    }
}
