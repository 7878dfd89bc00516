//! The routes between nodes: for each pair the sequence of links with the least latency, among equals the one with the
//! fewest links, and among these the first found in the order of the model's links (Floyd and Warshall's algorithm,
//! whose cost is small for few nodes).

use super::Model;

/// A link, in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DirectedLink {
    /// The node that sends.
    pub from: usize,
    /// The node that receives.
    pub to: usize,
    /// Bytes per second.
    pub bandwidth: f64,
    /// The latency that crossing it adds, there and back, in core cycles.
    pub latency: f64,
    /// Its position in the model's list of links.
    pub kind: usize,
}

/// All routes of a machine.
#[derive(Clone, Debug)]
pub struct Routes {
    nodes: usize,
    links: Vec<DirectedLink>,
    /// By pair: the latency that the route adds, in core cycles; infinite if there is no route.
    latency: Vec<f64>,
    /// By pair: the links of the route.
    paths: Vec<Vec<usize>>,
}

impl Routes {
    /// All links, each direction as a separate one.
    pub fn links(&self) -> &[DirectedLink] {
        &self.links
    }

    /// The latency that the route between two nodes adds to local memory's latency, in core cycles.
    pub fn latency(&self, from: usize, to: usize) -> f64 {
        self.latency[from * self.nodes + to]
    }

    /// The links from one node to another, as positions in `links`.
    pub fn route(&self, from: usize, to: usize) -> &[usize] {
        &self.paths[from * self.nodes + to]
    }

    /// Whether there is a route between two nodes.
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
        for (kind, link) in self.links.iter().enumerate() {
            for &(a, b) in &link.between {
                for (from, to) in [(a, b), (b, a)] {
                    links.push(DirectedLink {
                        from,
                        to,
                        bandwidth: link.bandwidth.value().0,
                        latency: link.latency.value().cycles(frequency),
                        kind,
                    });
                }
            }
        }
        let mut latency = vec![f64::INFINITY; nodes * nodes];
        let mut routes = vec![vec![]; nodes * nodes];
        for node in 0..nodes {
            latency[node * nodes + node] = 0.0;
        }
        for (index, link) in links.iter().enumerate() {
            let pair = link.from * nodes + link.to;
            latency[pair] = link.latency;
            routes[pair] = vec![index];
        }
        for middle in 0..nodes {
            for from in 0..nodes {
                for to in 0..nodes {
                    let (first, second) = (from * nodes + middle, middle * nodes + to);
                    let pair = from * nodes + to;
                    let through = latency[first] + latency[second];
                    let hops = routes[first].len() + routes[second].len();
                    let shorter =
                        through < latency[pair] - 1e-9 || (through < latency[pair] + 1e-9 && hops < routes[pair].len());
                    if through.is_finite() && shorter {
                        latency[pair] = through;
                        let mut route = routes[first].clone();
                        route.extend(&routes[second]);
                        routes[pair] = route;
                    }
                }
            }
        }
        Routes {
            nodes,
            links,
            latency,
            paths: routes,
        }
    }
}
