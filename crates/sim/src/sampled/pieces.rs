//! Where the execution is cut.
//!
//! A phase lies between two meetings of the threads. A long phase is cut into parts at atoms. Short phases are joined
//! until they are long enough. So a piece is a part of one phase, or a number of whole phases.

use super::scan::Atom;
use std::ops::Range;

/// A piece of the execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its atoms.
    pub(super) atoms: Range<usize>,
    /// The phase that contains it; `None` if it consists of whole phases.
    pub(super) phase: Option<usize>,
}

/// A phase is cut if it has at least as many accesses as this number of pieces.
const LONG_PHASE: u64 = 3;

/// Cuts the atoms into pieces of about `size` accesses. They are disjoint, in order, and have all atoms.
pub(super) fn cut(atoms: &[Atom], size: u64) -> Vec<Piece> {
    let mut pieces = vec![];
    let mut joined: Option<Range<usize>> = None;
    for (number, phase) in phases(atoms).into_iter().enumerate() {
        if accesses(&atoms[phase.clone()]) < LONG_PHASE * size {
            let whole = joined.map_or(phase.start, |range| range.start)..phase.end;
            joined = Some(whole);
        } else {
            pieces.extend(joined.take().map(whole_phases));
            pieces.extend(parts(atoms, phase, size).into_iter().map(|atoms| Piece {
                atoms,
                phase: Some(number),
            }));
        }
        joined = match joined {
            Some(range) if accesses(&atoms[range.clone()]) >= size => {
                pieces.push(whole_phases(range));
                None
            }
            other => other,
        };
    }
    pieces.extend(joined.map(whole_phases));
    pieces
}

fn whole_phases(atoms: Range<usize>) -> Piece {
    Piece { atoms, phase: None }
}

fn phases(atoms: &[Atom]) -> Vec<Range<usize>> {
    let mut begin = 0;
    let mut phases = vec![];
    for (number, atom) in atoms.iter().enumerate() {
        if atom.meets || number + 1 == atoms.len() {
            phases.push(begin..number + 1);
            begin = number + 1;
        }
    }
    phases
}

/// Parts of a phase, of about the same size each.
fn parts(atoms: &[Atom], phase: Range<usize>, size: u64) -> Vec<Range<usize>> {
    let mut parts = vec![];
    let mut begin = phase.start;
    let mut left = accesses(&atoms[phase.clone()]);
    let mut done = 0;
    for number in phase.clone() {
        done += atoms[number].accesses;
        left -= atoms[number].accesses;
        // The rest becomes a separate piece if it is at least half of one.
        if done >= size && 2 * left >= size {
            parts.push(begin..number + 1);
            begin = number + 1;
            done = 0;
        }
    }
    if begin < phase.end {
        parts.push(begin..phase.end);
    }
    parts
}

fn accesses(atoms: &[Atom]) -> u64 {
    atoms.iter().map(|atom| atom.accesses).sum()
}

#[cfg(test)]
mod tests {
    use super::super::scan::DIMENSIONS;
    use super::*;
    use proptest::prelude::*;

    fn atoms(sizes: &[(u64, bool)]) -> Vec<Atom> {
        let atom = |&(accesses, meets): &(u64, bool)| Atom {
            slices: 0,
            instructions: vec![],
            accesses,
            meets,
            orders: false,
            signature: [0.0; DIMENSIONS],
            regions: 0,
        };
        sizes.iter().map(atom).collect()
    }

    proptest! {
        #[test]
        fn pieces_are_disjoint_and_have_all_atoms_and_only_one_phase_where_they_are_parts(
            sizes in proptest::collection::vec((1u64..60, any::<bool>()), 1..200),
        ) {
            let atoms = atoms(&sizes);
            let pieces = cut(&atoms, 100);
            let covered: Vec<usize> = pieces.iter().flat_map(|piece| piece.atoms.clone()).collect();
            prop_assert_eq!(covered, (0..atoms.len()).collect::<Vec<_>>());
            for piece in &pieces {
                let inner = &atoms[piece.atoms.start..piece.atoms.end - 1];
                let ends = piece.atoms.end == atoms.len() || atoms[piece.atoms.end - 1].meets;
                let holds = match piece.phase {
                    Some(_) => inner.iter().all(|atom| !atom.meets),
                    None => ends,
                };
                prop_assert!(holds, "{piece:?}");
            }
        }
    }

    #[test]
    fn a_long_phase_is_cut_and_short_ones_are_joined() {
        let mut sizes = vec![(40, true); 4];
        sizes.extend([(50, false); 7]);
        sizes.push((50, true));
        let pieces = cut(&atoms(&sizes), 100);
        let shapes: Vec<(usize, bool)> = pieces
            .iter()
            .map(|piece| (piece.atoms.len(), piece.phase.is_some()))
            .collect();
        assert_eq!(
            shapes,
            [(3, false), (1, false), (2, true), (2, true), (2, true), (2, true)]
        );
    }
}
