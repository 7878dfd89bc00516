//! The routes between nodes: for each pair the chain of links with the least latency, among equals the fewest links, and
//! among those the first found when links are tried in the order of the model (Floyd and Warshall's algorithm, which is
//! small for the few nodes that there are).

use super::Model;

/// A link, in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DirectedLink {
    /// The node that sends.
    pub from: usize,
    /// The node that receives.
    pub to: usize,
    /// Bytes a second.
    pub bandwidth: f64,
    /// What crossing it adds, there and back, in core cycles.
    pub latency: f64,
}

/// All routes of a machine.
#[derive(Clone, Debug)]
pub struct Routes {
    nodes: usize,
    links: Vec<DirectedLink>,
    /// Per pair the latency that the way adds, in core cycles; infinite where there is none.
    latency: Vec<f64>,
    /// Per pair the links of the way.
    ways: Vec<Vec<usize>>,
}

impl Routes {
    /// All links, each direction for itself.
    pub fn links(&self) -> &[DirectedLink] {
        &self.links
    }

    /// What the way between two nodes adds to the latency of the own memory, in core cycles.
    pub fn latency(&self, from: usize, to: usize) -> f64 {
        self.latency[from * self.nodes + to]
    }

    /// The links from one node to another, as positions in `links`.
    pub fn way(&self, from: usize, to: usize) -> &[usize] {
        &self.ways[from * self.nodes + to]
    }

    /// Whether there is a way.
    pub(super) fn reaches(&self, from: usize, to: usize) -> bool {
        self.latency(from, to).is_finite()
    }
}

impl Model {
    /// The routes between the nodes.
    pub fn routes(&self) -> Routes {
        let nodes = self.nodes();
        let frequency = self.frequency();
        let mut links = vec![];
        for link in &self.links {
            for &(a, b) in &link.between {
                for (from, to) in [(a, b), (b, a)] {
                    links.push(DirectedLink {
                        from,
                        to,
                        bandwidth: link.bandwidth.value().0,
                        latency: link.latency.value().cycles(frequency),
                    });
                }
            }
        }
        let mut latency = vec![f64::INFINITY; nodes * nodes];
        let mut ways = vec![vec![]; nodes * nodes];
        for node in 0..nodes {
            latency[node * nodes + node] = 0.0;
        }
        for (index, link) in links.iter().enumerate() {
            let pair = link.from * nodes + link.to;
            latency[pair] = link.latency;
            ways[pair] = vec![index];
        }
        for middle in 0..nodes {
            for from in 0..nodes {
                for to in 0..nodes {
                    let (first, second) = (from * nodes + middle, middle * nodes + to);
                    let pair = from * nodes + to;
                    let through = latency[first] + latency[second];
                    let hops = ways[first].len() + ways[second].len();
                    let shorter =
                        through < latency[pair] - 1e-9 || (through < latency[pair] + 1e-9 && hops < ways[pair].len());
                    if through.is_finite() && shorter {
                        latency[pair] = through;
                        let mut way = ways[first].clone();
                        way.extend(&ways[second]);
                        ways[pair] = way;
                    }
                }
            }
        }
        Routes {
            nodes,
            links,
            latency,
            ways,
        }
    }
}
