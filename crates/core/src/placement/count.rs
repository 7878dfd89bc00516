//! The number of placements, by arithmetic.
//!
//! 1. Each class of subtrees has a generating polynomial: its coefficient k is the number of placements of k threads in
//!    one such subtree. A PU has 1 + x.
//! 2. m interchangeable children with polynomial p hold a multiset of m placements. There are `p_k` placements with k
//!    threads, so j children hold such placements in C(`p_k` + j - 1, j) combinations (multisets of size j). A table
//!    over k counts the combinations by the number of children in use and their threads.
//! 3. Children of different classes are independent: their polynomials are multiplied.
//!
//! All polynomials are truncated at the requested number of threads. With m children of capacity c a class costs O(m³ c
//! log c) operations on big integers: some hundred thousand for a machine of 384 PUs, or a few milliseconds. The
//! placements themselves are not enumerated.

use super::symmetry::{ClassId, Tree};
use num_bigint::BigUint;

/// Coefficient k is the number of placements of k threads.
type Polynomial = Vec<BigUint>;

/// The number of placements of `threads` threads; zero if there are more threads than PUs.
pub(super) fn placements(tree: &Tree, threads: usize) -> BigUint {
    let mut known = vec![None; tree.classes.len()];
    let mut polynomial = polynomial(tree, tree.root.class, threads, &mut known);
    if threads < polynomial.len() {
        polynomial.swap_remove(threads)
    } else {
        BigUint::ZERO
    }
}

/// The polynomial of a class up to `most` threads. `known` has those that were already computed.
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

/// The polynomial of multisets of `members` placements, each one counted by `one`.
fn multiset_power(one: &[BigUint], members: usize, most: usize) -> Polynomial {
    let degree = most.min(members * (one.len() - 1));
    // combinations[used][threads]: multisets of `used` placements, none of them empty, with `threads` threads in all.
    let mut combinations = vec![vec![BigUint::ZERO; degree + 1]; members + 1];
    combinations[0][0] = BigUint::from(1u8);
    for (threads_each, kinds) in one.iter().enumerate().skip(1).take(degree) {
        let multisets = multisets_up_to(kinds, members.min(degree / threads_each));
        // Downwards, so that the terms of this number of threads are not added twice.
        for used in (0..members).rev() {
            for threads in 0..=degree {
                if combinations[used][threads] == BigUint::ZERO {
                    continue;
                }
                let fit = (members - used).min((degree - threads) / threads_each);
                for more in 1..=fit {
                    let added = &combinations[used][threads] * &multisets[more];
                    combinations[used + more][threads + more * threads_each] += added;
                }
            }
        }
    }
    // The children that are not in use are empty: one combination.
    (0..=degree)
        .map(|threads| combinations.iter().map(|row| &row[threads]).sum())
        .collect()
}

/// The numbers of multisets of size 0, 1 … `most` of `kinds` elements: C(kinds + size - 1, size).
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
    fn two_caches_of_two_cores_have_two_placements_of_two_threads() {
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
