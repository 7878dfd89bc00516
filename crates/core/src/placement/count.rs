//! How many placements there are, by arithmetic.
//!
//! 1. Each class of subtrees has a generating polynomial: its coefficient k is the number of placements of k threads in
//!    one such subtree. A PU has 1 + x.
//! 2. m interchangeable children with polynomial p hold a multiset of m placements. Of the placements with k threads
//!    there are `p_k`, and j of the children hold such ones in C(`p_k` + j - 1, j) ways (multisets of size j). Going
//!    through k, a table counts the ways by the number of children that are used and of threads that they hold.
//! 3. Children of different classes are independent: their polynomials are multiplied.
//!
//! All polynomials are cut off at the number of threads asked for. With m children of capacity c a class costs
//! O(m³ c log c) operations on big integers: some hundred thousand for a machine of 384 PUs, or a few milliseconds.
//! The placements themselves are never looked at.

use super::symmetry::{ClassId, Tree};
use num_bigint::BigUint;

/// Coefficient k is the number of placements of k threads.
type Polynomial = Vec<BigUint>;

/// The number of placements of `threads` threads; zero where they are more than the PUs.
pub(super) fn placements(tree: &Tree, threads: usize) -> BigUint {
    let mut known = vec![None; tree.classes.len()];
    let mut polynomial = polynomial(tree, tree.root.class, threads, &mut known);
    if threads < polynomial.len() {
        polynomial.swap_remove(threads)
    } else {
        BigUint::ZERO
    }
}

/// The polynomial of a class up to `most` threads. `known` has those that were computed before.
fn polynomial(tree: &Tree, class: ClassId, most: usize, known: &mut [Option<Polynomial>]) -> Polynomial {
    if let Some(polynomial) = &known[class] {
        return polynomial.clone();
    }
    let children = &tree.classes[class].children;
    let result = if children.is_empty() {
        vec![BigUint::from(1u8), BigUint::from(1u8)]
    } else {
        let mut product = vec![BigUint::from(1u8)];
        for group in children.chunk_by(PartialEq::eq) {
            let one = polynomial(tree, group[0], most, known);
            product = multiply(&product, &multiset_power(&one, group.len(), most), most);
        }
        product
    };
    known[class] = Some(result.clone());
    result
}

/// The polynomial of the multisets of `members` placements, each out of those that `one` counts.
fn multiset_power(one: &[BigUint], members: usize, most: usize) -> Polynomial {
    let degree = most.min(members * (one.len() - 1));
    // ways[used][threads]: multisets of `used` placements, none of them empty, with `threads` threads in all.
    let mut ways = vec![vec![BigUint::ZERO; degree + 1]; members + 1];
    ways[0][0] = BigUint::from(1u8);
    for (threads_each, kinds) in one.iter().enumerate().skip(1).take(degree) {
        let multisets = multisets_up_to(kinds, members.min(degree / threads_each));
        // Downwards, so that what this number of threads adds is not added to again.
        for used in (0..members).rev() {
            for threads in 0..=degree {
                if ways[used][threads] == BigUint::ZERO {
                    continue;
                }
                let fit = (members - used).min((degree - threads) / threads_each);
                for more in 1..=fit {
                    let added = &ways[used][threads] * &multisets[more];
                    ways[used + more][threads + more * threads_each] += added;
                }
            }
        }
    }
    // The children that are not used are empty, in one way.
    (0..=degree)
        .map(|threads| ways.iter().map(|row| &row[threads]).sum())
        .collect()
}

/// The number of multisets of 0, 1 … `most` things out of `kinds`: C(kinds + size - 1, size).
fn multisets_up_to(kinds: &BigUint, most: usize) -> Vec<BigUint> {
    let mut numbers = vec![BigUint::from(1u8)];
    for size in 1..=most {
        // The division leaves no remainder: the product is size · C(kinds + size - 1, size).
        let next = &numbers[size - 1] * (kinds + (size - 1)) / size;
        numbers.push(next);
    }
    numbers
}

fn multiply(left: &[BigUint], right: &[BigUint], most: usize) -> Polynomial {
    let degree = most.min(left.len() + right.len() - 2);
    let mut product = vec![BigUint::ZERO; degree + 1];
    for (i, a) in left.iter().enumerate().take(degree + 1) {
        for (j, b) in right.iter().enumerate().take(degree - i + 1) {
            product[i + j] += a * b;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: &[u32]) -> Vec<BigUint> {
        values.iter().map(|&value| BigUint::from(value)).collect()
    }

    #[test]
    fn a_multiset_is_a_choice_with_repetition() {
        // Of three kinds: 1, 3, 6, 10.
        assert_eq!(multisets_up_to(&BigUint::from(3u8), 3), numbers(&[1, 3, 6, 10]));
    }

    #[test]
    fn two_caches_of_two_cores_hold_two_threads_in_two_ways() {
        // {0,0}, {1,0}, {2,0} and {1,1}, {2,1}, {2,2}.
        let cache = numbers(&[1, 1, 1]);
        assert_eq!(multiset_power(&cache, 2, 9), numbers(&[1, 1, 2, 1, 1]));
        assert_eq!(multiset_power(&cache, 2, 2), numbers(&[1, 1, 2]));
    }

    #[test]
    fn different_children_multiply() {
        let product = multiply(&numbers(&[1, 1]), &numbers(&[1, 1, 1]), 2);
        assert_eq!(product, numbers(&[1, 2, 2]));
    }
}
