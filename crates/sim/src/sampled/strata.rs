//! Pieces that do the same, and which of them are simulated.
//!
//! 1. Pieces of the same kind (parts or whole phases) in the same regions are grouped by their signatures, with
//!    k-means. The number of groups is the least for which what remains of the variance is small (Sherwood et al.,
//!    ASPLOS 2002, choose it by a score of the same purpose).
//! 2. Of each group, pieces are taken at equal distances in time, in an order in which each beginning is spread as well
//!    (van der Corput's sequence). So the simulation may stop after any number of them. They are not the pieces nearest
//!    to the centre: their spread is what the interval of an estimate is made of.

use super::pieces::Piece;
use super::scan::{Atom, DIMENSIONS};
use std::collections::BTreeMap;

/// Pieces that do the same, in the order of their simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stratum {
    /// Its pieces, in the order of time.
    pub(super) members: Vec<usize>,
    /// Those that may be simulated, the first one first.
    pub(super) order: Vec<usize>,
}

/// The distance of signatures from the centres of their groups that may remain, relative to the signatures (both as
/// root mean squares). Chosen so that loops of one program are distinguished, and noise is not.
const REMAINING: f64 = 0.05;
/// The most groups of one kind of pieces.
const MOST_GROUPS: usize = 8;
/// The most kinds of pieces that are distinguished by their regions.
const MOST_KINDS: usize = 16;
/// Rounds of k-means. It converges in fewer.
const ROUNDS: usize = 30;

type Signature = [f64; DIMENSIONS];

/// Groups the pieces. At most `most` of all are taken for simulation, and at least two of each group that has as many.
pub(super) fn strata(atoms: &[Atom], pieces: &[Piece], most: usize) -> Vec<Stratum> {
    let mut kinds: BTreeMap<(bool, Vec<u64>), Vec<usize>> = BTreeMap::new();
    for (number, piece) in pieces.iter().enumerate() {
        let mut regions: Vec<u64> = atoms[piece.atoms.clone()].iter().map(|atom| atom.regions).collect();
        regions.sort_unstable();
        regions.dedup();
        kinds.entry((piece.phase.is_some(), regions)).or_default().push(number);
    }
    if kinds.len() > MOST_KINDS {
        kinds = pieces
            .iter()
            .enumerate()
            .fold(BTreeMap::new(), |mut kinds, (number, piece)| {
                kinds
                    .entry((piece.phase.is_some(), vec![]))
                    .or_insert_with(Vec::new)
                    .push(number);
                kinds
            });
    }
    let groups: Vec<Vec<usize>> = kinds
        .into_values()
        .flat_map(|members| {
            let signatures: Vec<Signature> = members.iter().map(|&piece| signature(atoms, &pieces[piece])).collect();
            let groups = grouped(&signatures);
            (0..=groups.iter().copied().max().unwrap_or(0))
                .map(move |group| {
                    members
                        .iter()
                        .zip(&groups)
                        .filter(|(_, of)| **of == group)
                        .map(|(&piece, _)| piece)
                        .collect::<Vec<usize>>()
                })
                .collect::<Vec<_>>()
        })
        .filter(|group| !group.is_empty())
        .collect();
    let all: usize = groups.iter().map(Vec::len).sum();
    groups
        .into_iter()
        .map(|members| {
            let share = (most * members.len()).div_ceil(all.max(1));
            let number = share.max(2).min(members.len());
            Stratum {
                order: spread(members.len(), number)
                    .into_iter()
                    .map(|place| members[place])
                    .collect(),
                members,
            }
        })
        .collect()
}

/// The mean signature of a piece, by instructions.
fn signature(atoms: &[Atom], piece: &Piece) -> Signature {
    let mut sum = [0.0; DIMENSIONS];
    let mut weight = 0.0;
    for atom in &atoms[piece.atoms.clone()] {
        let instructions = atom.instructions.iter().sum::<u64>() as f64;
        weight += instructions;
        for (sum, &value) in sum.iter_mut().zip(&atom.signature) {
            *sum += f64::from(value) * instructions;
        }
    }
    sum.map(|sum| sum / weight.max(1.0))
}

/// The group of each signature.
fn grouped(signatures: &[Signature]) -> Vec<usize> {
    let scale: f64 = signatures.iter().map(square).sum();
    let mut groups = vec![0; signatures.len()];
    for number in 1..=MOST_GROUPS.min(signatures.len()) {
        let (found, remaining) = k_means(signatures, number);
        groups = found;
        if remaining <= REMAINING * REMAINING * scale {
            break;
        }
    }
    groups
}

/// The group of each signature, and the sum of the squares of the distances to the groups' centres.
fn k_means(signatures: &[Signature], number: usize) -> (Vec<usize>, f64) {
    let mut centres = farthest(signatures, number);
    let mut groups = vec![0; signatures.len()];
    for _ in 0..ROUNDS {
        let nearest: Vec<usize> = signatures
            .iter()
            .map(|signature| nearest(signature, &centres).0)
            .collect();
        let done = nearest == groups;
        groups = nearest;
        for (group, centre) in centres.iter_mut().enumerate() {
            let members = || signatures.iter().zip(&groups).filter(|(_, of)| **of == group);
            let count = members().count();
            if count > 0 {
                *centre = std::array::from_fn(|dimension| {
                    members().map(|(signature, _)| signature[dimension]).sum::<f64>() / count as f64
                });
            }
        }
        if done {
            break;
        }
    }
    let remaining = signatures.iter().map(|signature| nearest(signature, &centres).1).sum();
    (groups, remaining)
}

/// The first signature, and then always the one that is farthest from those before.
fn farthest(signatures: &[Signature], number: usize) -> Vec<Signature> {
    let mut centres = vec![signatures[0]];
    while centres.len() < number {
        let mut best = (0, -1.0);
        for (place, signature) in signatures.iter().enumerate() {
            let (_, distance) = nearest(signature, &centres);
            if distance > best.1 {
                best = (place, distance);
            }
        }
        centres.push(signatures[best.0]);
    }
    centres
}

/// The nearest centre, and the square of its distance.
fn nearest(signature: &Signature, centres: &[Signature]) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    for (number, centre) in centres.iter().enumerate() {
        let difference: Signature = std::array::from_fn(|dimension| signature[dimension] - centre[dimension]);
        let distance = square(&difference);
        if distance < best.1 {
            best = (number, distance);
        }
    }
    best
}

fn square(signature: &Signature) -> f64 {
    signature.iter().map(|value| value * value).sum()
}

/// `number` different places below `length`, such that each beginning of the list is spread.
fn spread(length: usize, number: usize) -> Vec<usize> {
    let mut places: Vec<usize> = vec![];
    let mut taken = vec![false; length];
    let mut index = 0u32;
    while places.len() < number {
        // The bits of the index, mirrored at the binary point. The middle comes first.
        index += 1;
        let place = ((u64::from(index.reverse_bits()) * length as u64) >> 32) as usize;
        if !taken[place] {
            taken[place] = true;
            places.push(place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn atom(kind: u8, noise: f32) -> Atom {
        let mut signature = [0.0; DIMENSIONS];
        signature[usize::from(kind)] = 1.0 + noise;
        Atom {
            slices: 0,
            instructions: vec![100],
            accesses: 10,
            meets: false,
            orders: false,
            signature,
            regions: 0,
        }
    }

    fn pieces(number: usize) -> Vec<Piece> {
        (0..number)
            .map(|number| Piece {
                atoms: number..number + 1,
                phase: Some(0),
            })
            .collect()
    }

    proptest! {
        #[test]
        fn strata_have_each_piece_once_and_are_always_the_same(
            kinds in proptest::collection::vec((0u8..4, -0.01f32..0.01), 1..120),
        ) {
            let atoms: Vec<Atom> = kinds.iter().map(|&(kind, noise)| atom(kind, noise)).collect();
            let pieces = pieces(atoms.len());
            let found = strata(&atoms, &pieces, 20);
            prop_assert_eq!(&found, &strata(&atoms, &pieces, 20));
            let mut members: Vec<usize> = found.iter().flat_map(|stratum| &stratum.members).copied().collect();
            members.sort_unstable();
            prop_assert_eq!(members, (0..atoms.len()).collect::<Vec<_>>());
            for stratum in &found {
                let first = kinds[stratum.members[0]].0;
                prop_assert!(stratum.members.iter().all(|&member| kinds[member].0 == first));
                prop_assert!(stratum.order.len() >= stratum.members.len().min(2));
                prop_assert!(stratum.order.iter().all(|piece| stratum.members.contains(piece)));
            }
        }
    }

    #[test]
    fn each_beginning_of_the_order_is_spread() {
        assert_eq!(spread(8, 8), [4, 2, 6, 1, 5, 3, 7, 0]);
        assert_eq!(spread(3, 3).len(), 3);
    }
}
