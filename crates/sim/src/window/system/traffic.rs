//! The resources that transfers occupy: the memory of each node, the links between nodes, the packages' buses, and the
//! connection of each LLC domain to the rest of its package.

use crate::model::{Bandwidth, LINE_BYTES, Model, Queueing, Sourced};
use crate::window::server::Server;
use crate::window::time::{Ticks, ticks};

#[derive(Debug)]
pub(crate) struct Traffic {
    /// By node.
    pub(crate) memory: Vec<Server>,
    /// By link.
    pub(crate) links: Vec<Server>,
    /// By package; empty if there are no buses.
    pub(crate) buses: Vec<Server>,
    /// By LLC domain, for the lines that enter it; empty if its connection does not limit them.
    into_domain: Vec<Server>,
    /// The same for the lines that leave it.
    out_of_domain: Vec<Server>,
    /// No thread's clock is before it, except for threads that others had to release.
    pub(crate) floor: Ticks,
}

impl Traffic {
    /// Servers without traffic.
    pub(super) fn new(model: &Model) -> Self {
        let servers = |bandwidth: Option<&Sourced<Bandwidth>>, count: usize| {
            bandwidth.map_or(vec![], |bandwidth| {
                vec![Server::new(line_service(bandwidth.value().0, model)); count]
            })
        };
        let domains = model.cores() / model.cores_per_domain();
        Self {
            memory: vec![memory_server(model); model.nodes()],
            links: model
                .routes()
                .links()
                .iter()
                .map(|link| {
                    let server = Server::new(line_service(link.bandwidth, model));
                    with_measured_waits(server, model.links[link.kind].queueing.as_ref(), model)
                })
                .collect(),
            buses: servers(model.memory.front_side_bus.as_ref(), model.packages()),
            into_domain: servers(model.memory.domain_in.as_ref(), domains),
            out_of_domain: servers(model.memory.domain_out.as_ref(), domains),
            floor: 0,
        }
    }

    /// Occupies the memory of a node with a line that is read. Returns the wait for it.
    #[inline]
    pub(super) fn read(&mut self, node: usize, time: Ticks) -> Ticks {
        self.memory[node].serve(time, self.floor)
    }

    /// Occupies the memory of a node with a line that is written.
    #[inline]
    pub(super) fn write(&mut self, node: usize, time: Ticks) {
        self.memory[node].serve_write(time, self.floor);
    }

    /// Occupies the links of a route with a line. Returns the wait for them.
    #[inline]
    pub(super) fn cross(&mut self, route: &[usize], time: Ticks) -> Ticks {
        let mut wait = 0;
        for &link in route {
            wait += self.links[link].serve(time, self.floor);
        }
        wait
    }

    /// Occupies a package's bus, if it has one, with a line. Returns the wait for it.
    #[inline]
    pub(super) fn cross_bus(&mut self, package: usize, time: Ticks) -> Ticks {
        serve(&mut self.buses, package, time, self.floor)
    }

    /// Occupies a domain's connection, if it has a limit, with a line that enters the domain. Returns the wait for it.
    /// No line enters before the written ones that others replaced have left.
    #[inline]
    pub(super) fn enter_domain(&mut self, domain: usize, time: Ticks) -> Ticks {
        let wait = serve(&mut self.into_domain, domain, time, self.floor);
        self.out_of_domain
            .get(domain)
            .map_or(wait, |out| wait.max(out.backlog(time)))
    }

    /// The same with a line that leaves the domain.
    #[inline]
    pub(super) fn leave_domain(&mut self, domain: usize, time: Ticks) -> Ticks {
        serve(&mut self.out_of_domain, domain, time, self.floor)
    }
}

/// Serves a line, if the machine has such servers. Returns the wait.
#[inline]
fn serve(servers: &mut [Server], index: usize, time: Ticks, floor: Ticks) -> Ticks {
    servers.get_mut(index).map_or(0, |server| server.serve(time, floor))
}

/// How long a line occupies a resource of this bandwidth.
fn line_service(bytes_per_second: f64, model: &Model) -> Ticks {
    ticks(LINE_BYTES as f64 / bytes_per_second * model.frequency().0)
}

fn memory_server(model: &Model) -> Server {
    let mut server = Server::new(line_service(model.memory.bandwidth.value().0, model));
    if let Some(cost) = &model.memory.write_cost {
        server = server.with_write_cost(cost.value().0);
    }
    with_measured_waits(server, model.memory.queueing.as_ref(), model)
}

/// The server with the model's measured waits, if it has any.
fn with_measured_waits(server: Server, queueing: Option<&Sourced<Queueing>>, model: &Model) -> Server {
    let Some(queueing) = queueing else {
        return server;
    };
    let waits = queueing.value().waits(model.frequency());
    let waits: Vec<(f64, Ticks)> = waits.into_iter().map(|(load, cycles)| (load, ticks(cycles))).collect();
    server.with_waits(&waits)
}
