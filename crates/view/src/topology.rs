//! A topology as lines of text.
//!
//! 1. Every object gets a shape: its kind, its cache, its kind of core, the number of nodes attached to it and the
//!    shapes of its children. Equal shapes look alike up to the numbers.
//! 2. An object is *foldable* when all its descendants are alike (every object's children have one shape), it contains
//!    at most one last-level-cache domain, and no node is attached below its first branching.
//! 3. The tree is drawn from the machine down. Neighbouring foldable siblings of one shape become one heading, such as
//!    `12 × L3 32 MiB, each 8 cores (L2 1 MiB, L1d 32 KiB) of 2 PUs`, and one entry for each with its nodes and PUs.
//!    Any other object has its own line, together with its child if it has only one.
//!
//! So every last-level-cache domain and every NUMA node is shown with its own PUs. Smaller objects are shown only if
//! they differ from their neighbours.

use pinfold_core::memory::nodes_of_pus;
use pinfold_core::{
    CacheType, Device, DeviceName, Distances, MemoryKind, NumaNode, ObjectId, ObjectKind, PuSet, Topology, size_text,
    summary,
};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Lines with a place to break them have at most this number of columns.
const WIDTH: usize = 100;

/// The summary and the tree, then the kinds of cores, the distances and the devices, if any.
pub fn page(topology: &Topology, devices: &[Device]) -> String {
    let mut text = format!("{}\n\n{}", summary(topology), tree(topology));
    if !topology.core_kinds().is_empty() {
        text.push_str("\nKinds of cores, the most power-efficient first:\n");
        text.push_str(&core_kinds(topology));
    }
    if let Some(distances) = topology.distances()
        && distances.nodes.len() > 1
    {
        text.push_str("\nRelative latency from node (rows) to node (columns):\n");
        text.push_str(&matrix(distances));
    }
    if !devices.is_empty() {
        text.push_str("\nDevices, as `pinfold run --near` takes them, and the NUMA node that is near:\n");
        text.push_str(&of_devices(topology, devices));
    }
    let all_pus = &topology.object(topology.root()).pus;
    text.push_str("\nThe numbers after a colon are PUs");
    if topology.allowed_pus().len() < all_pus.len() || topology.allowed_nodes().len() < topology.nodes().len() {
        text.push_str("; what is in [brackets] may not be used");
    }
    text.push_str(".\n");
    text
}

fn core_kinds(topology: &Topology) -> String {
    let mut text = String::new();
    for kind in topology.core_kinds() {
        let info: Vec<String> = kind
            .info
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let _ = writeln!(text, "  {}: {}", info.join(", "), list(&kind.pus));
    }
    text
}

fn of_devices(topology: &Topology, devices: &[Device]) -> String {
    let mut text = String::new();
    for device in devices {
        let near = match &device.pus {
            None => "not known".to_owned(),
            Some(pus) => {
                let nodes = nodes_of_pus(topology, pus.iter());
                let nodes: Vec<String> = nodes.iter().map(|node| node.to_string()).collect();
                format!("node {}: {}", nodes.join(", "), list(pus))
            }
        };
        let names: Vec<String> = DeviceName::of(device, devices)
            .iter()
            .map(ToString::to_string)
            .collect();
        let _ = writeln!(text, "  {:<8} {near:<16} {}", device.kind, names.join(", "));
    }
    text
}

fn matrix(distances: &Distances) -> String {
    let numbers = distances.values.iter().flatten().copied();
    let nodes = distances.nodes.iter().map(|node| u64::from(node.0));
    let width = numbers.chain(nodes).max().unwrap_or(0).to_string().len();
    let mut text = " ".repeat(2 + width);
    for node in &distances.nodes {
        let _ = write!(text, "  {:>width$}", node.0);
    }
    text.push('\n');
    for (node, row) in distances.nodes.iter().zip(&distances.values) {
        let _ = write!(text, "  {:>width$}", node.0);
        for value in row {
            let _ = write!(text, "  {value:>width$}");
        }
        text.push('\n');
    }
    text
}

/// The tree. The machine has a line only if a node is attached to it.
fn tree(topology: &Topology) -> String {
    let mut drawing = Drawing::new(topology);
    drawing.siblings(&[topology.root()], 0);
    drawing.text()
}

/// A part of a drawing with its indentation.
enum Block {
    /// One line, broken if it is too long.
    Line(String, usize),
    /// Entries side by side, as many as fit.
    Entries(Vec<String>, usize),
}

/// The tree's shapes, by object, and the parts that are already drawn.
struct Drawing<'a> {
    topology: &'a Topology,
    shapes: Vec<usize>,
    foldable: Vec<bool>,
    domains: Vec<usize>,
    attached: HashMap<ObjectId, Vec<&'a NumaNode>>,
    blocks: Vec<Block>,
}

impl<'a> Drawing<'a> {
    fn new(topology: &'a Topology) -> Self {
        let objects = topology.objects();
        let mut attached: HashMap<ObjectId, Vec<&NumaNode>> = HashMap::new();
        for node in topology.nodes() {
            attached.entry(node.attached_to).or_default().push(node);
        }
        let mut domains = vec![0; objects.len()];
        for domain in topology.llc_domains() {
            domains[domain.0] = 1;
        }
        let mut known = HashMap::new();
        let mut shapes = vec![0; objects.len()];
        let mut alike = vec![true; objects.len()];
        let mut nodes_below = vec![false; objects.len()];
        let mut nodes_below_branch = vec![false; objects.len()];
        // Children come after their parents, so in reverse order they are known first.
        for (index, object) in objects.iter().enumerate().rev() {
            let children: Vec<usize> = object.children.iter().map(|child| child.0).collect();
            let child_shapes: Vec<usize> = children.iter().map(|&child| shapes[child]).collect();
            let nodes = attached.get(&ObjectId(index)).map_or(0, Vec::len);
            let kind_of_core = topology
                .core_kinds()
                .iter()
                .position(|kind| object.pus.is_subset(&kind.pus));
            alike[index] = children.iter().all(|&child| alike[child])
                && child_shapes.iter().all(|&shape| shape == child_shapes[0]);
            nodes_below[index] = nodes > 0 || children.iter().any(|&child| nodes_below[child]);
            nodes_below_branch[index] = match children[..] {
                [only] => nodes_below_branch[only],
                _ => children.iter().any(|&child| nodes_below[child]),
            };
            domains[index] += children.iter().map(|&child| domains[child]).sum::<usize>();
            let next = known.len();
            shapes[index] = *known
                .entry((object.kind, object.cache, kind_of_core, nodes, child_shapes))
                .or_insert(next);
        }
        let foldable = (0..objects.len())
            .map(|index| alike[index] && domains[index] <= 1 && !nodes_below_branch[index])
            .collect();
        Self {
            topology,
            shapes,
            foldable,
            domains,
            attached,
            blocks: vec![],
        }
    }

    /// Draws siblings, the foldable neighbours of one shape together.
    fn siblings(&mut self, siblings: &[ObjectId], indent: usize) {
        let runs: Vec<&[ObjectId]> = siblings.chunk_by(|&one, &next| self.fold_together(one, next)).collect();
        for run in runs {
            if self.foldable[run[0].0] {
                self.run(String::new(), run, indent);
            } else {
                self.object(run[0], indent);
            }
        }
    }

    fn fold_together(&self, one: ObjectId, next: ObjectId) -> bool {
        self.foldable[one.0] && self.shapes[one.0] == self.shapes[next.0]
    }

    /// Draws an object that cannot be folded, and its descendants.
    fn object(&mut self, mut id: ObjectId, indent: usize) {
        let mut labels = vec![];
        let mut nodes = vec![];
        loop {
            labels.extend(self.label(id));
            nodes.extend(self.nodes(id));
            match self.topology.object(id).children[..] {
                [only] if !self.foldable[only.0] => id = only,
                _ => break,
            }
        }
        if labels.is_empty() && !nodes.is_empty() {
            labels.push("machine".to_owned());
        }
        labels.append(&mut nodes);
        let title = labels.join(", ");
        let topology = self.topology;
        let children = &topology.object(id).children;
        let one_run = children.windows(2).all(|pair| self.fold_together(pair[0], pair[1]));
        if title.is_empty() {
            self.siblings(children, indent);
        } else if one_run && children.first().is_some_and(|first| self.foldable[first.0]) {
            self.run(title, children, indent);
        } else {
            self.heading(&title, indent);
            self.siblings(children, indent + 2);
        }
    }

    /// Draws foldable siblings of one shape after the title of the enclosing objects, which may be empty.
    fn run(&mut self, title: String, run: &[ObjectId], indent: usize) {
        let parts = self.parts(run[0]);
        let mut heading: Vec<String> = vec![];
        let mut rest = &parts[..];
        if !title.is_empty() {
            heading.push(title);
        }
        if let [only] = run {
            // The first part is this object: its entry has its number and its nodes.
            heading.extend(parts[0].names(self));
            heading.extend(self.chain(*only).iter().flat_map(|&id| self.nodes(id)));
            rest = &parts[1..];
        } else {
            heading.push(parts[0].counted(self, run.len()));
            rest = &rest[1..];
        }
        let each = if run.len() > 1 && !rest.is_empty() { "each " } else { "" };
        let rest: Vec<String> = rest.iter().map(|part| part.counted(self, part.count)).collect();
        if !rest.is_empty() {
            heading.push(format!("{each}{}", rest.join(" of ")));
        }
        let heading = heading.join(", ");

        let has_nodes = self.chain(run[0]).iter().any(|id| self.attached.contains_key(id));
        if run.len() == 1 || self.domains[run[0].0] == 0 && !has_nodes {
            let pus: PuSet = run.iter().flat_map(|&id| self.topology.object(id).pus.iter()).collect();
            self.heading(&format!("{heading}: {}", self.pus(&pus)), indent);
        } else {
            self.heading(&format!("{heading}:"), indent);
            let entries: Vec<String> = run.iter().map(|&id| self.entry(id)).collect();
            self.blocks.push(Block::Entries(entries, indent + 2));
        }
    }

    /// One of several folded siblings: its number if that has a meaning, its nodes and its PUs.
    fn entry(&self, id: ObjectId) -> String {
        let object = self.topology.object(id);
        let number = match object.kind {
            ObjectKind::Package | ObjectKind::Die if object.os_index.is_some() => self.label(id),
            _ => None,
        };
        let nodes = self.chain(id).into_iter().flat_map(|id| self.nodes(id));
        let labels: Vec<String> = number.into_iter().chain(nodes).collect();
        let pus = self.pus(&object.pus);
        if labels.is_empty() {
            pus
        } else {
            format!("{}: {pus}", labels.join(", "))
        }
    }

    /// The object and its descendants up to the first branching.
    fn chain(&self, id: ObjectId) -> Vec<ObjectId> {
        let mut chain = vec![id];
        let mut here = id;
        while let [only] = self.topology.object(here).children[..] {
            chain.push(only);
            here = only;
        }
        chain
    }

    /// The levels of a foldable object, in groups that form one unit for a reader: a core with its own caches, a
    /// package with the cache that all its cores share.
    fn parts(&self, id: ObjectId) -> Vec<Part> {
        let mut parts: Vec<Part> = vec![];
        let mut here = id;
        let mut count = 1;
        loop {
            let chain = self.chain(here);
            let last = *chain.last().expect("a chain has its first object");
            let kind = |id: &ObjectId| self.topology.object(*id).kind;
            // Caches belong to the core of the same chain, and otherwise to the enclosing object.
            let split = match chain.iter().position(|id| kind(id) == ObjectKind::Core) {
                Some(_) => chain
                    .iter()
                    .position(|id| matches!(kind(id), ObjectKind::Cache | ObjectKind::Core))
                    .unwrap_or(0),
                None => 0,
            };
            let (enclosing, own) = chain.split_at(split);
            if !enclosing.is_empty() {
                parts.push(Part {
                    count,
                    objects: enclosing.to_vec(),
                });
                count = 1;
            }
            parts.push(Part {
                count,
                objects: own.to_vec(),
            });
            match self.topology.object(last).children[..] {
                [first, ..] => {
                    count = self.topology.object(last).children.len();
                    here = first;
                }
                [] => return parts,
            }
        }
    }

    /// The name of an object; `None` for the machine.
    fn label(&self, id: ObjectId) -> Option<String> {
        let name = self.noun(id)?;
        let object = self.topology.object(id);
        Some(match object.os_index {
            Some(number) if object.cache.is_none() && object.kind != ObjectKind::Group => format!("{name} {number}"),
            _ => name,
        })
    }

    /// The common name of objects like this one; `None` for the machine.
    fn noun(&self, id: ObjectId) -> Option<String> {
        let object = self.topology.object(id);
        let name = match object.kind {
            ObjectKind::Machine => return None,
            ObjectKind::Group => "group",
            ObjectKind::Package => "package",
            ObjectKind::Die => "die",
            ObjectKind::Core => "core",
            ObjectKind::Pu => "PU",
            ObjectKind::Cache => {
                let cache = object.cache?;
                let letter = match cache.cache_type {
                    CacheType::Unified => "",
                    CacheType::Data => "d",
                    CacheType::Instruction => "i",
                };
                let size = cache
                    .size
                    .map(|size| format!(" {}", size_text(size)))
                    .unwrap_or_default();
                return Some(format!("L{}{letter}{size}", cache.level));
            }
        };
        Some(name.to_owned())
    }

    /// The nodes attached to an object, with their memory. Nodes that are not allowed are in brackets.
    fn nodes(&self, id: ObjectId) -> Vec<String> {
        let nodes = self.attached.get(&id).map_or(&[][..], Vec::as_slice);
        nodes
            .iter()
            .map(|node| {
                let name = if self.topology.allowed_nodes().contains(&node.id) {
                    format!("node {}", node.id)
                } else {
                    format!("[node {}]", node.id)
                };
                let memory = match node.memory {
                    None => "memory unknown".to_owned(),
                    Some(0) => "no memory".to_owned(),
                    Some(memory) => size_text(memory),
                };
                let details: Vec<String> = node
                    .subtype
                    .clone()
                    .into_iter()
                    .chain([memory])
                    .chain(self.own(node))
                    .collect();
                format!("{name} ({})", details.join(", "))
            })
            .collect()
    }

    /// The PUs of a node where the place in the tree does not show them. Memory of another kind than DRAM seldom has
    /// any.
    fn own(&self, node: &NumaNode) -> Option<String> {
        let is_special = node.kind().is_some_and(|kind| kind != MemoryKind::Dram);
        if self.topology.is_cut(node) {
            Some(format!("PUs {}", self.pus(&node.pus)))
        } else if node.pus.is_empty() && !is_special {
            Some("no PUs".to_owned())
        } else {
            None
        }
    }

    /// A list of PUs. Those that are not allowed are in brackets.
    fn pus(&self, pus: &PuSet) -> String {
        let allowed = pus.intersection(self.topology.allowed_pus());
        let others = pus.difference(&allowed);
        match (allowed.is_empty(), others.is_empty()) {
            (true, true) => "no PUs".to_owned(),
            (false, true) => list(&allowed),
            (true, false) => format!("[{}]", list(&others)),
            (false, false) => format!("{} [{}]", list(&allowed), list(&others)),
        }
    }

    /// Adds a heading with a capital first letter.
    fn heading(&mut self, text: &str, indent: usize) {
        let mut letters = text.chars();
        let capital: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        self.blocks.push(Block::Line(capital + letters.as_str(), indent));
    }

    /// The drawn text, with the entries of all headings in columns of one width.
    fn text(&self) -> String {
        const GAP: usize = 3;
        let entries = self.blocks.iter().flat_map(|block| match block {
            Block::Line(..) => &[][..],
            Block::Entries(entries, _) => entries,
        });
        let widest = entries.map(|entry| columns(entry)).max().unwrap_or(0);
        let mut text = String::new();
        for block in &self.blocks {
            match block {
                Block::Line(line, indent) => text.push_str(&broken(line, *indent)),
                Block::Entries(entries, indent) => {
                    let fitting = (WIDTH.saturating_sub(*indent) + GAP) / (widest + GAP);
                    for row in entries.chunks(fitting.max(1)) {
                        let cells: Vec<String> = row.iter().map(|entry| format!("{entry:widest$}")).collect();
                        text.push_str(&broken(&cells.join(&" ".repeat(GAP)), *indent));
                    }
                }
            }
        }
        text
    }
}

/// A line. One that is too long is broken after commas outside parentheses.
fn broken(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut line = " ".repeat(indent);
    let mut depth = 0;
    let pieces = text.trim_end().split_inclusive(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ',' && depth == 0
    });
    for (position, piece) in pieces.enumerate() {
        if position > 0 && columns(&line) + columns(piece) > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = " ".repeat(indent + 4) + piece.trim_start();
        } else {
            line.push_str(piece);
        }
    }
    lines + &line + "\n"
}

/// Objects of a chain that form one unit for a reader, and their number in the enclosing object.
struct Part {
    count: usize,
    objects: Vec<ObjectId>,
}

impl Part {
    /// The object that names the part, and the other objects in it. A core's only PU is not mentioned.
    fn noun(&self, drawing: &Drawing<'_>) -> (ObjectId, Vec<String>) {
        let kind = |id: &ObjectId| drawing.topology.object(*id).kind;
        let named = self
            .objects
            .iter()
            .find(|id| kind(id) == ObjectKind::Core)
            .or_else(|| self.objects.iter().find(|id| kind(id) != ObjectKind::Machine))
            .unwrap_or(&self.objects[0]);
        let others = self
            .objects
            .iter()
            .filter(|id| *id != named && kind(id) != ObjectKind::Pu)
            .filter_map(|&id| drawing.label(id))
            .collect();
        (*named, others)
    }

    /// `core 3 (L2 1 MiB, L1d 32 KiB)`; without a core one name for each object: `package 0`, `L3 30 MiB`.
    fn names(&self, drawing: &Drawing<'_>) -> Vec<String> {
        let (id, others) = self.noun(drawing);
        if drawing.topology.object(id).kind == ObjectKind::Core {
            drawing.label(id).map(|name| with(name, &others)).into_iter().collect()
        } else {
            self.objects.iter().filter_map(|&id| drawing.label(id)).collect()
        }
    }

    /// `8 cores (L2 1 MiB, L1d 32 KiB)`, `12 × L3 32 MiB`.
    fn counted(&self, drawing: &Drawing<'_>, count: usize) -> String {
        let (id, others) = self.noun(drawing);
        let noun = drawing.noun(id).unwrap_or_default();
        let noun = match (drawing.topology.object(id).kind, count) {
            (ObjectKind::Cache, 1) => noun,
            (ObjectKind::Cache, _) => format!("{count} × {noun}"),
            (_, 1) => format!("1 {noun}"),
            _ => format!("{count} {noun}s"),
        };
        with(noun, &others)
    }
}

fn with(noun: String, others: &[String]) -> String {
    if others.is_empty() {
        noun
    } else {
        format!("{noun} ({})", others.join(", "))
    }
}

/// The number of columns of a text. The drawing has no wide characters.
fn columns(text: &str) -> usize {
    text.chars().count()
}

/// A CPU list with strides for PUs at a regular distance (`0-44:4`), which `taskset` and `PuSet` also accept.
fn list(pus: &PuSet) -> String {
    /// Fewer PUs than this are written one by one.
    const SHORTEST: usize = 4;
    let numbers: Vec<u32> = pus.iter().map(|pu| pu.0).collect();
    let mut parts = vec![];
    let mut rest = &numbers[..];
    while let [first, ..] = *rest {
        let stride = rest.get(1).map_or(1, |second| second - first);
        let length = 1 + rest.windows(2).take_while(|pair| pair[1] - pair[0] == stride).count();
        let taken = match (stride, length) {
            (1, 1) => {
                parts.push(first.to_string());
                1
            }
            (1, _) => {
                parts.push(format!("{first}-{}", rest[length - 1]));
                length
            }
            (_, SHORTEST..) => {
                parts.push(format!("{first}-{}:{stride}", rest[length - 1]));
                length
            }
            _ => {
                parts.push(first.to_string());
                1
            }
        };
        rest = &rest[taken..];
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{NodeId, PuId, TopologyBuilder};
    use pinfold_linux::topology::{Source, read};
    use proptest::prelude::*;

    fn drawn(description: &str) -> String {
        tree(&read(&Source::Synthetic(description.to_owned())).unwrap())
    }

    #[test]
    fn a_domain_and_its_node_are_one_entry_under_their_package() {
        let text = drawn("package:2 numa:2 l3:1(size=5MiB) core:6 pu:1");
        let expected = "\
Package 0, 2 × L3 5 MiB, each 6 cores:
  node 0 (1 GiB): 0-5     node 1 (1 GiB): 6-11
Package 1, 2 × L3 5 MiB, each 6 cores:
  node 2 (1 GiB): 12-17   node 3 (1 GiB): 18-23
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_core_is_drawn_with_its_caches_and_the_one_node_with_the_machine() {
        let text = drawn("package:2 l3:2(size=16MiB) l2:2(size=1MiB) l1d:1(size=32KiB) core:1 pu:2");
        let expected = "\
Machine, node 0 (1 GiB)
  Package 0, 2 × L3 16 MiB, each 2 cores (L2 1 MiB, L1d 32 KiB) of 2 PUs:
    0-3     4-7
  Package 1, 2 × L3 16 MiB, each 2 cores (L2 1 MiB, L1d 32 KiB) of 2 PUs:
    8-11    12-15
";
        assert_eq!(text, expected);
    }

    /// Two packages of two cores, the second core of the second package with one PU more; a node without memory on
    /// the first package, one without PUs on the machine.
    fn lopsided() -> Topology {
        let mut builder = TopologyBuilder::new("lopsided");
        let root = builder.root();
        let mut packages = vec![];
        let mut pu = 0;
        for number in 0..2 {
            let package = builder.object(root, ObjectKind::Package, Some(number));
            for core in 0..2 {
                let object = builder.object(package, ObjectKind::Core, Some(2 * number + core));
                for _ in 0..if (number, core) == (1, 1) { 2 } else { 1 } {
                    builder.pu(object, PuId(pu));
                    pu += 1;
                }
            }
            packages.push(package);
        }
        for (id, attached_to, pus, memory) in [(0, packages[0], "0-1", 0), (1, root, "", 1 << 30)] {
            builder.node(NumaNode {
                id: NodeId(id),
                attached_to,
                pus: pus.parse().unwrap(),
                memory: Some(memory),
                subtype: None,
            });
        }
        builder.build(&"0,2-3".parse().unwrap(), &[NodeId(1)]).unwrap()
    }

    #[test]
    fn unlike_siblings_and_what_is_not_allowed_are_shown_one_by_one() {
        let expected = "\
Machine, node 1 (1 GiB, no PUs)
  Package 0, [node 0] (no memory), 2 cores: 0 [1]
  Package 1
    Core 2: 2
    Core 3, 2 PUs: 3 [4]
";
        assert_eq!(tree(&lopsided()), expected);
    }

    #[test]
    fn a_node_that_cuts_across_packages_has_its_pus_beside_it() {
        let mut builder = TopologyBuilder::new("cut");
        let root = builder.root();
        for package in 0..2 {
            let object = builder.object(root, ObjectKind::Package, Some(package));
            for pu in [2 * package, 2 * package + 1] {
                builder.pu(object, PuId(pu));
            }
        }
        for (id, pus) in [(0, "0,2"), (1, "1,3")] {
            builder.node(NumaNode {
                id: NodeId(id),
                attached_to: root,
                pus: pus.parse().unwrap(),
                memory: Some(1 << 30),
                subtype: None,
            });
        }
        let expected = "\
Machine, node 0 (1 GiB, PUs 0,2), node 1 (1 GiB, PUs 1,3), 2 packages, each 2 PUs:
  package 0: 0-1   package 1: 2-3
";
        assert_eq!(tree(&builder.build_all().unwrap()), expected);
    }

    #[test]
    fn long_lines_are_broken_after_commas_outside_parentheses() {
        let mut builder = TopologyBuilder::new("many nodes");
        let root = builder.root();
        builder.pu(root, PuId(0));
        for id in 0..5 {
            builder.node(NumaNode {
                id: NodeId(id),
                attached_to: root,
                pus: PuSet::new(),
                memory: Some(1 << 30),
                subtype: Some("GPUMemory".to_owned()),
            });
        }
        let text = tree(&builder.build_all().unwrap());
        assert_eq!(text.lines().count(), 2, "{text}");
        for line in text.lines() {
            assert!(columns(line) <= WIDTH, "{line}");
            assert_eq!(line.matches('(').count(), line.matches(')').count(), "{line}");
        }
    }

    #[test]
    fn regular_gaps_are_written_as_a_stride() {
        for (pus, text) in [
            ("0,4,8,12", "0-12:4"),
            ("0,4,8", "0,4,8"),
            ("0-3,8", "0-3,8"),
            ("0,2,4,6,7,8", "0-6:2,7-8"),
            ("", ""),
        ] {
            assert_eq!(list(&pus.parse().unwrap()), text);
        }
    }

    proptest! {
        #[test]
        fn a_list_with_strides_parses_back(pus in proptest::collection::btree_set(0u32..200, 0..60)) {
            let set: PuSet = pus.into_iter().map(PuId).collect();
            prop_assert_eq!(list(&set).parse::<PuSet>().unwrap(), set);
        }

        #[test]
        fn every_node_is_drawn_once(packages in 1usize..4, nodes in 1usize..4, domains in 1usize..4, cores in 1usize..4) {
            let text = drawn(&format!("package:{packages} numa:{nodes} l3:{domains} core:{cores} pu:2"));
            for node in 0..packages * nodes {
                let name = format!("node {node} (");
                prop_assert_eq!(text.to_lowercase().matches(&name).count(), 1, "{}", text);
            }
        }
    }
}
