//! The order of runs: blocks of configurations in random order, each with the references.
//!
//! In a round each configuration that needs another run has one. A round is dealt at random into blocks of about the
//! same size. Each block has the references too (the unpinned program and the baseline), so that a drift of the machine
//! is seen although a round of a large space may take hours. The order within a block is random: no configuration is
//! always the first after another.

use pinfold_core::random::Random;

/// The most configurations of a block, beside the references. Two references cost a quarter of the configurations' runs
/// then, and in few configurations, which need repetitions anyway, nothing.
pub(super) const MOST: usize = 8;

/// The blocks of one round. A reference that is also among `jobs` runs once in each block.
pub(super) fn blocks(jobs: &[usize], references: &[usize], random: &mut Random) -> Vec<Vec<usize>> {
    let mut others: Vec<usize> = jobs.iter().copied().filter(|job| !references.contains(job)).collect();
    if others.is_empty() && jobs.is_empty() {
        return vec![];
    }
    random.shuffle(&mut others);
    let number = others.len().div_ceil(MOST).max(1);
    let mut blocks = vec![references.to_vec(); number];
    for (place, job) in others.into_iter().enumerate() {
        blocks[place % number].push(job);
    }
    for block in &mut blocks {
        random.shuffle(block);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_job_is_in_one_block_and_each_reference_in_all(
            number in 0usize..60, references in 0usize..3, seed in 0u64..1000
        ) {
            let jobs: Vec<usize> = (0..number).collect();
            let references: Vec<usize> = (0..references.min(number)).collect();
            let blocks = blocks(&jobs, &references, &mut Random::new(seed));
            prop_assert_eq!(blocks.is_empty(), jobs.is_empty());
            for &job in &jobs {
                let times = blocks.iter().flatten().filter(|&&one| one == job).count();
                prop_assert_eq!(times, if references.contains(&job) { blocks.len() } else { 1 });
            }
            let sizes: Vec<usize> = blocks.iter().map(Vec::len).collect();
            if let (Some(least), Some(most)) = (sizes.iter().min(), sizes.iter().max()) {
                prop_assert!(most - least <= 1 && most - references.len() <= MOST);
            }
        }
    }

    #[test]
    fn another_seed_gives_another_order_and_the_same_seed_the_same() {
        let jobs: Vec<usize> = (0..20).collect();
        let of = |seed| blocks(&jobs, &[0, 1], &mut Random::new(seed));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn a_reference_alone_runs_once() {
        assert_eq!(blocks(&[1], &[0, 1], &mut Random::new(0)).concat().len(), 2);
    }
}
