//! Page mappings in the table's words: which of its mappings put pages where a policy wants them.
//!
//! Some mappings are the same by their definitions: with all threads on one node, `first_touch`, `local` and
//! `locality` put each page on that node. Others are the same for these threads: pages on one named node are `single` if
//! the first thread is there.

use super::placement::{Placement, Places};
use pinfold_core::memory::main_memory;
use pinfold_core::{NodeId, NodeSet, PageMapping, PuId, ThreadMap, Topology};

/// `single` of a data set: all pages on the node of the first thread.
pub(super) const SINGLE: PageMapping = PageMapping::Single(NodeId(0));

/// The page mapping of a column; `None` if it is no name of one.
pub(super) fn parsed(text: &str) -> Option<PageMapping> {
    match text {
        "single" => Some(SINGLE),
        _ => text.parse().ok(),
    }
}

/// The name in a table.
pub(super) fn name(pages: PageMapping) -> String {
    match pages {
        SINGLE => "single".to_owned(),
        other => other.to_string(),
    }
}

/// The mappings of a table that put the pages of threads on `pus` where `wanted` wants them, the nearest name first.
pub(super) fn equal(wanted: PageMapping, pus: &[PuId], places: &Places, topology: &Topology) -> Vec<PageMapping> {
    const AT_THREADS: [PageMapping; 3] = [PageMapping::FirstTouch, PageMapping::Local, PageMapping::Locality];
    let nodes = places.node_ids(pus);
    let first = pus.first().and_then(|&pu| places.node_id(pu));
    let on_one_node = nodes.len() == 1;
    let all = main_memory(topology);
    let mut equal = vec![wanted];
    match wanted {
        PageMapping::FirstTouch | PageMapping::Locality | PageMapping::Local if on_one_node => equal.extend(AT_THREADS),
        PageMapping::Local => equal.push(PageMapping::FirstTouch),
        PageMapping::Single(node) | PageMapping::Preferred(node) => {
            equal = on_node(node, first, on_one_node, all);
        }
        PageMapping::Bind(nodes) => match nodes.only() {
            Some(node) => equal.extend(on_node(node, first, on_one_node, all)),
            None if nodes == all => equal.push(PageMapping::FirstTouch),
            None => {}
        },
        PageMapping::InterleaveOver(nodes) if nodes == all => equal.push(PageMapping::Interleave),
        _ => {}
    }
    equal
}

/// The mappings that put all pages on one node.
fn on_node(node: NodeId, first: Option<NodeId>, on_one_node: bool, all: NodeSet) -> Vec<PageMapping> {
    if first == Some(node) {
        let at_threads = [PageMapping::Local, PageMapping::FirstTouch, PageMapping::Locality];
        let at_threads = at_threads.into_iter().filter(|_| on_one_node);
        [SINGLE].into_iter().chain(at_threads).collect()
    } else if on_one_node && all.len() == 2 {
        vec![PageMapping::Remote]
    } else {
        vec![]
    }
}

/// Where pages are, so that they need not move if it stays the same. The iterations of a loop go to the threads in
/// equal shares, in the order of their ranks. So the pages of compact threads depend on their nodes only, and those of
/// scattered ones on the number of threads, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PagePlace {
    /// The same for all threads.
    Anywhere(PageMapping),
    /// All on the node of the threads.
    OneNode(PageMapping),
    /// Beside compact threads on this number of nodes.
    Compact(PageMapping, usize),
    /// Beside these threads.
    Threads(PageMapping, Placement),
}

impl PagePlace {
    /// Where a mapping puts the pages of these threads.
    pub(super) fn of(pages: PageMapping, placement: &Placement) -> Self {
        match (pages, placement) {
            (PageMapping::Interleave | PageMapping::InterleaveOver(_) | PageMapping::WeightedInterleave(_), _) => {
                Self::Anywhere(pages)
            }
            (SINGLE, _) => Self::Anywhere(pages),
            (PageMapping::Local | PageMapping::Locality, Placement::Layout(layout)) if layout.nodes == 1 => {
                Self::OneNode(PageMapping::FirstTouch)
            }
            (_, Placement::Layout(layout)) if layout.nodes == 1 => Self::OneNode(pages),
            (_, Placement::Layout(layout)) if layout.map == ThreadMap::Compact => Self::Compact(pages, layout.nodes),
            (_, placement) => Self::Threads(pages, placement.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::placement::Layout;
    use super::super::tests::topology;
    use super::*;

    fn names(wanted: &str, pus: &[u32]) -> Vec<String> {
        let topology = topology();
        let pus: Vec<PuId> = pus.iter().copied().map(PuId).collect();
        let found = equal(wanted.parse().unwrap(), &pus, &Places::new(&topology), &topology);
        found.into_iter().map(name).collect()
    }

    #[test]
    fn pages_of_threads_on_one_node_have_several_names() {
        assert_eq!(names("local", &[0, 1]), ["local", "first_touch", "local", "locality"]);
        assert_eq!(names("local", &[0, 2]), ["local", "first_touch"]);
        assert_eq!(names("locality", &[0, 2]), ["locality"]);
    }

    #[test]
    fn a_named_node_is_single_where_the_first_thread_is_and_remote_where_no_thread_is() {
        assert_eq!(names("single:0", &[0, 2]), ["single"]);
        assert_eq!(names("single:0", &[2, 3]), ["remote"]);
        assert_eq!(names("single:1", &[0, 2]), [""; 0]);
        assert_eq!(
            names("preferred:1", &[2, 3]),
            ["single", "local", "first_touch", "locality"]
        );
        assert_eq!(names("bind:0-1", &[0, 2]), ["bind:0-1", "first_touch"]);
        assert_eq!(names("interleave:0-1", &[0, 2]), ["interleave:0-1", "interleave"]);
    }

    #[test]
    fn pages_stay_where_only_their_name_or_the_number_of_compact_threads_changes() {
        let place = |pages: &str, threads, nodes, map| {
            let layout = Layout {
                threads,
                nodes,
                map,
                per_core: 1,
            };
            PagePlace::of(parsed(pages).unwrap(), &Placement::Layout(layout))
        };
        let (compact, scatter) = (ThreadMap::Compact, ThreadMap::Scatter);
        assert_eq!(place("local", 2, 1, compact), place("locality", 4, 1, compact));
        assert_eq!(place("first_touch", 4, 2, compact), place("first_touch", 8, 2, compact));
        assert_ne!(place("first_touch", 4, 2, scatter), place("first_touch", 8, 2, scatter));
        assert_ne!(place("first_touch", 4, 2, scatter), place("first_touch", 4, 2, compact));
        assert_eq!(place("interleave", 4, 2, scatter), place("interleave", 2, 1, compact));
        assert_ne!(place("remote", 2, 1, compact), place("local", 2, 1, compact));
    }
}
