//! A placement on a small drawing of the machine: a cell for each PU, the PUs of a core on top of each other, the cores
//! of a node side by side.

use crate::nodes::{self, Nodes};
use maud::{Markup, html};
use pinfold_core::{ObjectKind, Pinning, Topology};
use pinfold_runtime::Candidate;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The width of a drawing, in pixels.
const WIDTH: usize = 288;

/// Between nodes, and the height of a node's name.
const GAP: usize = 12;
const NAME: usize = 16;

/// The nodes of a machine with the cells of their cores.
pub(super) struct Miniature {
    nodes: Nodes,
    /// By node: the PUs of each core.
    cores: Vec<Vec<Vec<u32>>>,
    /// The size of a cell, in pixels, with its gap.
    cell: usize,
    /// Nodes in a row of the drawing.
    in_row: usize,
}

/// The place of a PU, in pixels.
type Cell = (usize, usize);

impl Miniature {
    pub(super) fn new(topology: &Topology) -> Self {
        let nodes = Nodes::new(topology);
        let mut cores: Vec<Vec<Vec<u32>>> = vec![vec![]; nodes.ids().len()];
        let mut seen = BTreeSet::new();
        for (_, core) in topology.objects_of(ObjectKind::Core) {
            let pus: Vec<u32> = core.pus.iter().map(|pu| pu.0).collect();
            if let Some(node) = pus.first().and_then(|&pu| nodes.of(pu)) {
                seen.extend(pus.iter().copied());
                cores[node].push(pus);
            }
        }
        // A machine may be described without cores.
        for (node, cores) in cores.iter_mut().enumerate() {
            let alone = nodes.pus(node).filter(|pu| !seen.contains(pu));
            cores.extend(alone.map(|pu| vec![pu]));
        }
        let in_row = cores.iter().filter(|cores| !cores.is_empty()).count().clamp(1, 4);
        let most = cores.iter().map(Vec::len).max().unwrap_or(0);
        Self {
            cell: match width(in_row) / most.max(1) {
                room @ 7..12 => room,
                12.. => 12,
                // The cores of a node take several rows.
                _ if most <= 64 => 7,
                _ => 5,
            },
            in_row,
            nodes,
            cores,
        }
    }

    /// The drawing of a candidate, which has this name.
    pub(super) fn markup(&self, candidate: &Candidate, name: &str) -> Markup {
        let pus: BTreeSet<u32> = candidate
            .placed()
            .into_iter()
            .flat_map(Pinning::pus)
            .map(|pu| pu.0)
            .collect();
        let within = |pu: u32| {
            candidate
                .within
                .as_ref()
                .is_some_and(|within| within.contains(pinfold_core::PuId(pu)))
        };
        let (places, names, height) = self.places();
        let mut free = String::new();
        let mut used: BTreeMap<&str, String> = BTreeMap::new();
        let mut on: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (&pu, &(x, y)) in &places {
            let size = self.cell - 2;
            let node = self.nodes.of(pu);
            let path = if pus.contains(&pu) || within(pu) {
                if let Some(node) = node {
                    on.entry(node).or_default().push(pu.to_string());
                }
                used.entry(nodes::class(node)).or_default()
            } else {
                &mut free
            };
            let _ = write!(path, "M{x} {y}h{size}v{size}h-{size}z");
        }
        let spoken = on
            .iter()
            .map(|(&node, pus)| format!("node {}: CPUs {}", self.nodes.ids()[node], pus.join(", ")));
        let spoken: Vec<String> = spoken.collect();
        let spoken = if spoken.is_empty() {
            "no CPU is named".to_owned()
        } else {
            spoken.join("; ")
        };
        html! {
            svg.miniature width=(WIDTH) height=(height) role="img" aria-label={ (name) ". " (spoken) "." } {
                path.free d=(free) {}
                @for (class, path) in &used { path class={ "used " (class) } d=(path) {} }
                @for (position, (x, y)) in &names {
                    text class={ "name " (nodes::class(Some(*position))) } x=(x) y=(y) {
                        @if self.in_row < 4 { "node " }
                        (self.nodes.ids()[*position])
                    }
                }
            }
        }
    }

    /// The place of each PU, the place of each node's name, and the height of all.
    fn places(&self) -> (BTreeMap<u32, Cell>, Vec<(usize, Cell)>, usize) {
        let width = width(self.in_row);
        let columns = (width / self.cell).max(1);
        let (mut places, mut names) = (BTreeMap::new(), vec![]);
        let (mut top, mut bottom) = (0, 0);
        let shown = self.cores.iter().enumerate().filter(|(_, cores)| !cores.is_empty());
        for (number, (position, cores)) in shown.enumerate() {
            let left = number % self.in_row * (width + GAP);
            if number > 0 && number % self.in_row == 0 {
                top = bottom + GAP / 2;
            }
            names.push((position, (left, top + NAME - 4)));
            let mut y = top + NAME;
            for row in cores.chunks(columns) {
                for (column, core) in row.iter().enumerate() {
                    let cells = core.iter().zip(0..);
                    places.extend(cells.map(|(&pu, under)| (pu, (left + column * self.cell, y + under * self.cell))));
                }
                y += row.iter().map(Vec::len).max().unwrap_or(0) * self.cell + 2;
            }
            bottom = bottom.max(y);
        }
        (places, names, bottom)
    }
}

/// The width of a node, if a row has this many of them.
fn width(in_row: usize) -> usize {
    (WIDTH - GAP * (in_row - 1)) / in_row
}
