//! Tables of the machine's topology and of its latencies, for the active cores.

use crate::model::{Latency, Model, Routes, Sourced};
use crate::window::time::{Ticks, ticks};

/// Latencies of a line that the caches of one domain send to another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transfer {
    pub(super) other_package: bool,
    pub(super) clean: Ticks,
    pub(super) modified: Ticks,
}

/// Cores and last-level-cache domains are numbered among the active ones.
#[derive(Debug)]
pub(crate) struct Topology<const W: usize> {
    /// By core.
    pub(super) domain_of_core: Vec<usize>,
    /// By domain: a bit for each core.
    pub(super) cores_of_domain: Vec<[u64; W]>,
    /// By domain.
    pub(super) node_of_domain: Vec<usize>,
    /// By domain.
    pub(super) package_of_domain: Vec<usize>,
    /// By receiving and sending domain.
    transfers: Vec<Transfer>,
    pub(super) same_domain_clean: Ticks,
    pub(super) same_domain_modified: Ticks,
    nodes: usize,
    /// By node and home node.
    memory_latency: Vec<Ticks>,
    /// By sending and receiving node: the links of the route.
    routes: Vec<Vec<usize>>,
}

impl<const W: usize> Topology<W> {
    /// The tables for these cores, which are sorted.
    pub(super) fn new(model: &Model, cores: &[usize]) -> Self {
        let frequency = model.frequency();
        let mut domains: Vec<usize> = cores.iter().map(|&core| model.domain_of_core(core)).collect();
        domains.dedup();
        let domain_of_core: Vec<usize> = cores
            .iter()
            .map(|&core| domains.partition_point(|&domain| domain < model.domain_of_core(core)))
            .collect();
        let mut cores_of_domain = vec![[0; W]; domains.len()];
        for (core, &domain) in domain_of_core.iter().enumerate() {
            cores_of_domain[domain][core / 64] |= 1 << (core % 64);
        }
        let first_core = |domain: usize| domain * model.cores_per_domain();
        let node_of_domain: Vec<usize> = domains
            .iter()
            .map(|&domain| model.node_of_core(first_core(domain)))
            .collect();
        let package_of_domain: Vec<usize> = domains
            .iter()
            .map(|&domain| model.package_of_core(first_core(domain)))
            .collect();
        let routes = model.routes();
        let nodes = model.nodes();
        let local = model.memory.latency.value().cycles(frequency);
        let pairs = || (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
        let figure =
            |figure: Option<&Sourced<Latency>>| figure.map_or(0, |figure| ticks(figure.value().cycles(frequency)));
        Self {
            domain_of_core,
            cores_of_domain,
            transfers: transfers(model, &routes, &node_of_domain, &package_of_domain),
            node_of_domain,
            package_of_domain,
            same_domain_clean: figure(model.coherence.same_domain_clean.as_ref()),
            same_domain_modified: figure(model.coherence.same_domain_modified.as_ref()),
            nodes,
            memory_latency: pairs().map(|(a, b)| ticks(local + routes.latency(a, b))).collect(),
            routes: pairs().map(|(a, b)| routes.route(a, b).to_vec()).collect(),
        }
    }

    /// The number of active domains.
    pub(super) fn domains(&self) -> usize {
        self.node_of_domain.len()
    }

    /// The node of a core.
    #[inline]
    pub(crate) fn node_of_core(&self, core: usize) -> usize {
        self.node_of_domain[self.domain_of_core[core]]
    }

    /// The latencies of a transfer from one domain to another.
    #[inline]
    pub(super) fn transfer(&self, from: usize, to: usize) -> &Transfer {
        &self.transfers[to * self.node_of_domain.len() + from]
    }

    /// The latency of an acknowledgement from one domain to another, or within one.
    #[inline]
    pub(super) fn acknowledgement(&self, from: usize, to: usize) -> Ticks {
        if from == to {
            self.same_domain_clean
        } else {
            self.transfer(from, to).clean
        }
    }

    /// The latency of the memory of `home` for a core of `node`, without waiting.
    #[inline]
    pub(super) fn memory_latency(&self, node: usize, home: usize) -> Ticks {
        self.memory_latency[node * self.nodes + home]
    }

    /// The links from one node to another.
    #[inline]
    pub(super) fn route(&self, from: usize, to: usize) -> &[usize] {
        &self.routes[from * self.nodes + to]
    }

    /// The shortest transfer latency between the caches of two cores; 0 if no two cores are active.
    pub(crate) fn shortest_transfer(&self) -> Ticks {
        let between = self.transfers.iter().map(|transfer| transfer.clean);
        let within = [self.same_domain_clean, self.same_domain_modified];
        between.chain(within).filter(|&time| time > 0).min().unwrap_or(0)
    }
}

/// The transfer latencies by receiving and sending domain. The model's figures hold for the nearest pair of their kind.
/// A pair with a longer distance takes longer by the latency of the additional links.
fn transfers(model: &Model, routes: &Routes, node_of_domain: &[usize], package_of_domain: &[usize]) -> Vec<Transfer> {
    let frequency = model.frequency();
    let coherence = &model.coherence;
    let nodes = model.nodes();
    let package_of_node = |node: usize| node * model.packages() / nodes;
    let nearest = |to: usize, other_package: bool| {
        (0..nodes)
            .filter(|&from| (package_of_node(from) != package_of_node(to)) == other_package)
            .filter(|&from| from != to || model.cores_per_domain() * nodes < model.cores() || nodes == 1)
            .map(|from| routes.latency(from, to))
            .fold(f64::INFINITY, f64::min)
    };
    let mut all = vec![];
    for (&to, &to_package) in node_of_domain.iter().zip(package_of_domain) {
        for (&from, &from_package) in node_of_domain.iter().zip(package_of_domain) {
            let other_package = from_package != to_package;
            let (clean, modified) = if other_package {
                (&coherence.other_package_clean, &coherence.other_package_modified)
            } else {
                (&coherence.same_package_clean, &coherence.same_package_modified)
            };
            let base = nearest(to, other_package);
            let further = if base.is_finite() {
                (routes.latency(from, to) - base).max(0.0)
            } else {
                0.0
            };
            let latency = |figure: &Option<Sourced<Latency>>| {
                figure
                    .as_ref()
                    .map_or(0, |figure| ticks(figure.value().cycles(frequency) + further))
            };
            all.push(Transfer {
                other_package,
                clean: latency(clean),
                modified: latency(modified),
            });
        }
    }
    all
}
