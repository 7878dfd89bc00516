//! The mover on a simulated kernel: pages are numbers in a map.

use super::*;
use crate::memory::Entry;
use pinfold_core::memory::{AreaKind, Spread, Turns};
use pinfold_core::{BrokenOffCode, NodeSet};
use proptest::prelude::*;

const PAGE: u64 = 4096;
/// The start of the area: a multiple of a huge page.
const START: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Kind {
    #[default]
    Own,
    Shared,
    Busy,
    File,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    node: NodeId,
    kind: Kind,
}

/// A process's memory. `huge` has the first address of each huge page.
#[derive(Default)]
struct Played {
    pages: BTreeMap<u64, Page>,
    huge: BTreeSet<u64>,
    /// The number of pages that each node has room for. A node that is not listed has room for all.
    room: BTreeMap<NodeId, u64>,
    /// Pages that the kernel fails to move without reporting a reason.
    stubborn: BTreeSet<u64>,
    /// The addresses of each call that moved pages.
    calls: Vec<(NodeId, Vec<u64>)>,
    /// The number of such calls before the process ends.
    ends_after: Option<usize>,
    paused: Duration,
    /// The number of queries for the nodes of pages, or for the pages in memory.
    asked: usize,
}

impl Played {
    fn relocate(&mut self, address: u64, node: NodeId) -> bool {
        let head = address / HUGE * HUGE;
        let (first, pages) = if self.huge.contains(&head) {
            (head, HUGE / PAGE)
        } else {
            (address, 1)
        };
        if let Some(room) = self.room.get_mut(&node) {
            if *room < pages {
                return false;
            }
            *room -= pages;
        }
        for address in (first..).step_by(number(PAGE)).take(number(pages)) {
            self.pages.get_mut(&address).unwrap().node = node;
        }
        true
    }

    /// Moves the gathered pages. Returns the number of pages that did not move.
    fn flush(&mut self, gathered: &mut Vec<(usize, u64)>, node: NodeId, status: &mut [i32]) -> io::Result<u64> {
        let mut stubborn = 0;
        for &(_, address) in gathered.iter() {
            if self.stubborn.contains(&address) {
                stubborn += 1;
            } else if self.pages[&address].node != node && !self.relocate(address, node) {
                return Err(io::Error::from_raw_os_error(libc::ENOMEM));
            }
        }
        for (index, _) in gathered.drain(..) {
            if stubborn == 0 {
                status[index] = node.0.cast_signed();
            }
        }
        Ok(stubborn)
    }
}

impl MoveCalls for Played {
    fn entries(&mut self, start: u64, end: u64) -> Option<Vec<Entry>> {
        self.asked += 1;
        let word = |address| match self.pages.get(&address) {
            Some(page) => 1 << 63 | u64::from(page.kind == Kind::File) << 61,
            None => 0,
        };
        Some(
            (start..end)
                .step_by(number(PAGE))
                .map(|address| Entry::new(word(address)))
                .collect(),
        )
    }

    fn nodes(&mut self, pages: &[u64], status: &mut [i32]) -> Result<io::Result<()>, StopReason> {
        self.asked += 1;
        for (address, status) in pages.iter().zip(status) {
            *status = self
                .pages
                .get(address)
                .map_or(-libc::ENOENT, |page| page.node.0.cast_signed());
        }
        Ok(Ok(()))
    }

    fn move_to(
        &mut self,
        pages: &[u64],
        node: NodeId,
        all: bool,
        status: &mut [i32],
    ) -> Result<io::Result<u64>, StopReason> {
        if self.ends_after.is_some_and(|calls| self.calls.len() >= calls) {
            return Err(StopReason::Ended);
        }
        self.calls.push((node, pages.to_vec()));
        // Linux gathers pages until one cannot be gathered, and moves the gathered pages together. If one of them does
        // not move, the call ends there and reports the node of none of them.
        let mut gathered = vec![];
        for (index, address) in pages.iter().enumerate() {
            let error = match self.pages.get(address) {
                None => libc::ENOENT,
                Some(page) if page.kind == Kind::Shared && !all => libc::EACCES,
                Some(page) if page.kind == Kind::Busy => libc::EBUSY,
                Some(_) => {
                    gathered.push((index, *address));
                    continue;
                }
            };
            match self.flush(&mut gathered, node, status) {
                Ok(0) => status[index] = -error,
                Ok(stubborn) => return Ok(Ok(stubborn + (pages.len() - index) as u64)),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(self.flush(&mut gathered, node, status))
    }

    fn pause(&mut self, duration: Duration) -> Result<(), StopReason> {
        if duration.is_zero() {
            return Ok(());
        }
        self.paused += duration;
        // Time does not advance here, so the mover would wait without end.
        Err(StopReason::Interrupted)
    }
}

/// An area with these pages. `None` is a page that does not exist.
fn played<P: Into<Option<Page>> + Copy>(pages: &[P]) -> (Played, MemoryArea) {
    let mut played = Played::default();
    let mut area = MemoryArea {
        start: START,
        end: START + PAGE * pages.len() as u64,
        kind: AreaKind::Anonymous,
        policy: "default".to_owned(),
        page_size: PAGE,
        huge: 0,
        resident: BTreeMap::new(),
        stack: false,
    };
    for (address, page) in (START..).step_by(number(PAGE)).zip(pages) {
        if let Some(page) = (*page).into() {
            played.pages.insert(address, page);
            *area.resident.entry(page.node).or_default() += PAGE;
        }
    }
    (played, area)
}

fn own(node: u32) -> Page {
    of_kind(node, Kind::Own)
}

fn of_kind(node: u32, kind: Kind) -> Page {
    Page {
        node: NodeId(node),
        kind,
    }
}

fn limits() -> Limits {
    Limits {
        selection: Selection::default(),
        rate: None,
        page_size: PAGE,
    }
}

fn moved(played: &mut Played, area: &MemoryArea, goal: &mut dyn PageGoal, limits: Limits) -> PageMoves {
    let mut moves = PageMoves::default();
    move_pages(
        played,
        std::slice::from_ref(area),
        goal,
        limits,
        &mut moves,
        &mut |_, _| {},
    );
    moves
}

fn count(moves: &PageMoves, why: Left) -> u64 {
    moves.left.get(&why).map_or(0, |count| count.pages)
}

#[test]
fn each_reason_why_a_page_stays_is_counted() {
    let (mut played, area) = played(&[
        Some(own(0)),
        Some(own(2)),
        None,
        Some(of_kind(0, Kind::Shared)),
        Some(of_kind(1, Kind::Busy)),
        Some(own(1)),
    ]);
    played.stubborn.insert(START + 5 * PAGE);
    let moves = moved(&mut played, &area, &mut Spread::On(NodeId(2)), limits());
    assert_eq!((moves.moved.pages, moves.in_place.pages), (1, 1));
    assert_eq!(count(&moves, Left::Shared), 1);
    assert_eq!(count(&moves, Left::Busy), 1);
    assert_eq!(count(&moves, Left::InUse), 1);
    assert_eq!(moves.left.len(), 3);
}

#[test]
fn shared_pages_move_where_the_user_asks() {
    let (mut played, area) = played(&[of_kind(0, Kind::Shared)]);
    let mut limits = limits();
    limits.selection.shared = true;
    assert_eq!(
        moved(&mut played, &area, &mut Spread::On(NodeId(1)), limits)
            .moved
            .pages,
        1
    );
}

#[test]
fn of_a_private_mapping_of_a_file_only_the_written_pages_move() {
    let (mut played, mut area) = played(&[of_kind(0, Kind::File), own(0)]);
    area.kind = AreaKind::PrivateFile;
    let moves = moved(&mut played, &area, &mut Spread::On(NodeId(1)), limits());
    assert_eq!((moves.moved.pages, count(&moves, Left::File)), (1, 1));
}

#[test]
fn a_full_node_gets_no_more_and_the_rest_is_counted() {
    let (mut played, area) = played(&vec![own(0); 80_000]);
    played.room.insert(NodeId(1), 50_000);
    let moves = moved(&mut played, &area, &mut Spread::On(NodeId(1)), limits());
    assert_eq!(
        (moves.moved.pages, count(&moves, Left::Full(NodeId(1)))),
        (50_000, 30_000)
    );
    assert_eq!(moves.broken_off, None);
    assert_eq!(played.calls.len(), 2, "a full node was asked again");
}

#[test]
fn what_is_behind_a_page_that_cannot_be_moved_is_moved() {
    let mut pages = [own(0); 100];
    pages[60] = of_kind(0, Kind::Shared);
    let (mut played, area) = played(&pages);
    played.stubborn.insert(START + 50 * PAGE);
    let moves = moved(&mut played, &area, &mut Spread::On(NodeId(1)), limits());
    assert_eq!(
        (
            moves.moved.pages,
            count(&moves, Left::InUse),
            count(&moves, Left::Shared)
        ),
        (98, 1, 1)
    );
}

#[test]
fn a_huge_page_is_moved_once_by_its_first_address() {
    let small = number(HUGE / PAGE);
    let (mut played, mut area) = played(&vec![own(0); 2 * small]);
    played.huge = [START, START + HUGE].into();
    area.huge = 2 * HUGE;
    let moves = moved(&mut played, &area, &mut Spread::On(NodeId(1)), limits());
    assert_eq!((moves.moved.pages, moves.moved.bytes), (2, 2 * HUGE));
    assert_eq!(played.calls, [(NodeId(1), vec![START, START + HUGE])]);
}

#[test]
fn a_stretch_that_only_looks_like_a_huge_page_is_moved_page_by_page() {
    let small = number(HUGE / PAGE);
    let (mut played, mut area) = played(&vec![own(0); small]);
    // Another huge page is elsewhere in the area.
    area.huge = HUGE;
    let moves = moved(&mut played, &area, &mut Spread::On(NodeId(1)), limits());
    assert_eq!(moves.moved.bytes, HUGE);
    assert!(played.pages.values().all(|page| page.node == NodeId(1)));
}

#[test]
fn nothing_is_looked_for_behind_the_last_page_of_a_vast_area() {
    let (mut played, mut area) = played(&[own(0)]);
    area.end = START + (1 << 46);
    assert_eq!(
        moved(&mut played, &area, &mut Spread::On(NodeId(1)), limits())
            .moved
            .pages,
        1
    );
    area.resident.clear();
    let nothing = moved(&mut played, &area, &mut Spread::On(NodeId(2)), limits());
    assert_eq!((nothing.moved.pages, nothing.left.len()), (0, 0));
}

#[test]
fn of_an_area_that_is_whole_on_one_node_nothing_is_asked() {
    let (mut played, area) = played(&vec![own(0); 1000]);
    // The page is unmapped after the areas were read.
    played.pages.remove(&(START + 500 * PAGE));
    let moves = moved(&mut played, &area, &mut Spread::On(NodeId(1)), limits());
    assert_eq!((moves.moved.pages, count(&moves, Left::Absent)), (999, 1));
    assert_eq!((played.asked, played.calls.len()), (0, 1));
}

#[test]
fn a_call_has_one_target_and_no_more_than_a_batch() {
    let (mut played, area) = played(&vec![own(3); 80_000]);
    let nodes: NodeSet = [0, 1].map(NodeId).into_iter().collect();
    let mut goal = Spread::InTurn(Turns::even(&nodes).unwrap());
    moved(&mut played, &area, &mut goal, limits());
    assert!(played.calls.iter().all(|(_, pages)| pages.len() as u64 * PAGE <= BATCH));
    assert!(played.calls.len() <= 8, "{} calls", played.calls.len());
}

#[test]
fn when_the_process_ends_the_rest_is_unfinished() {
    let (mut played, area) = played(&vec![own(0); 40_000]);
    played.ends_after = Some(1);
    let moves = moved(&mut played, &area, &mut Spread::On(NodeId(1)), limits());
    let code = moves.broken_off.as_ref().map(|reason| reason.code);
    assert_eq!(code, Some(BrokenOffCode::Ended));
    assert_eq!(
        (moves.moved.pages, count(&moves, Left::Unfinished)),
        (32_768, 40_000 - 32_768)
    );
}

#[test]
fn a_rate_makes_it_wait_between_batches() {
    let (mut played, area) = played(&vec![own(0); 10_000]);
    let limits = Limits {
        rate: Some(SMALLEST_BATCH as f64 / 1000.0),
        ..limits()
    };
    moved(&mut played, &area, &mut Spread::On(NodeId(1)), limits);
    assert_eq!(played.calls.len(), 1);
    assert!(played.paused > Duration::from_secs(900), "{:?}", played.paused);
}

fn pages() -> impl Strategy<Value = Vec<Option<Page>>> {
    let kind = prop_oneof![6 => Just(Kind::Own), 1 => Just(Kind::Shared), 1 => Just(Kind::Busy), 1 => Just(Kind::File)];
    let page = (0u32..5, kind).prop_map(|(node, kind)| Page {
        node: NodeId(node),
        kind,
    });
    proptest::collection::vec(proptest::option::weighted(0.9, page), 1..1600)
}

proptest! {
    #[test]
    fn pages_go_to_allowed_nodes_only_and_every_page_is_accounted_for(
        pages in pages(),
        nodes in proptest::collection::btree_set(0u32..5, 1..4),
        room in proptest::collection::btree_map(0u32..5, 0u64..900, 0..3),
        within: bool,
        ends_after in proptest::option::of(0usize..4),
        huge: bool,
    ) {
        let (mut played, mut area) = played(&pages);
        played.room = room.into_iter().map(|(node, room)| (NodeId(node), room)).collect();
        played.ends_after = ends_after;
        area.huge = u64::from(huge) * HUGE;
        let before = played.pages.clone();
        let allowed: NodeSet = nodes.into_iter().map(NodeId).collect();
        let turns = Turns::even(&allowed).unwrap();
        let mut goal = if within { Spread::Within(turns) } else { Spread::InTurn(turns) };
        let moves = moved(&mut played, &area, &mut goal, limits());

        let changed = before.iter().filter(|(address, page)| played.pages[address].node != page.node).count();
        prop_assert!(moves.moved.pages >= changed as u64);
        for (address, page) in &played.pages {
            prop_assert!(page.node == before[address].node || allowed.contains(page.node));
        }
        for (node, _) in &played.calls {
            prop_assert!(allowed.contains(*node));
        }
        let left: u64 = moves.left.values().map(|count| count.bytes).sum();
        prop_assert_eq!(moves.moved.bytes + moves.in_place.bytes + left, area.resident_bytes());
    }
}
