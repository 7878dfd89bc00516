//! The state in which a running program has left the caches of a machine, kept for other configurations.
//!
//! It depends on the machine, on the cores of the threads, on the program's past, and on whether adjacent lines are
//! prefetched. It does not depend on other prefetchers, nor on the nodes of pages that already have one. So
//! configurations that differ only in these share it, and the past is read once for all of them.

use super::pages::TranslationBuffer;

/// Caches, directory and translations, with what the past says about pages without a node.
pub(crate) struct CacheState {
    /// The words of all private caches, then of all last-level caches.
    pub(crate) caches: Vec<Sparse>,
    /// By block: the words of its entries.
    pub(crate) directory: Vec<Scattered>,
    /// By core.
    pub(crate) translations: Vec<TranslationBuffer>,
    /// By page number: the node of the thread that touched the page last, or `UNPLACED`.
    pub(crate) touchers: Vec<u8>,
}

impl CacheState {
    /// The memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let caches: usize = self.caches.iter().map(Sparse::bytes).sum();
        let directory: usize = self.directory.iter().map(Scattered::bytes).sum();
        let translations: usize = self.translations.iter().map(TranslationBuffer::bytes).sum();
        caches + directory + translations + self.touchers.len()
    }
}

/// Words of a chunk: a page of the host has 4 KiB.
const CHUNK: usize = 512;

/// The chunks of a slice that are not all zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sparse {
    /// The number of each chunk.
    places: Vec<usize>,
    /// Their words, one chunk after the other. The last chunk of the slice may be shorter than the others.
    words: Vec<u32>,
}

impl Sparse {
    pub(crate) fn of(all: &[u32]) -> Self {
        let used = |chunk: &[u32]| chunk.iter().any(|&word| word != 0);
        let chunks = || all.chunks(CHUNK).enumerate().filter(|(_, chunk)| used(chunk));
        let places: Vec<usize> = chunks().map(|(place, _)| place).collect();
        let mut words = Vec::with_capacity(places.len() * CHUNK);
        for (_, chunk) in chunks() {
            words.extend_from_slice(chunk);
        }
        Self { places, words }
    }

    /// Copies the chunks to their places in `to`, which is as long as the slice was, and all zero.
    pub(crate) fn copy_to(&self, to: &mut [u32]) {
        for (&place, chunk) in self.places.iter().zip(self.words.chunks(CHUNK)) {
            let begin = place * CHUNK;
            to[begin..begin + chunk.len()].copy_from_slice(chunk);
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(self.places.as_slice()) + size_of_val(self.words.as_slice())
    }
}

/// The words of a slice that are not zero, one by one: a program that walks in steps leaves single entries all over the
/// directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scattered {
    /// The position of each word.
    places: Vec<u32>,
    words: Vec<u64>,
}

impl Scattered {
    pub(crate) fn of(all: &[u64]) -> Self {
        let (places, words) = (0..).zip(all).filter(|&(_, &word)| word != 0).unzip();
        Self { places, words }
    }

    /// Copies the words to their places in `to`, which is as long as the slice was, and all zero.
    pub(crate) fn copy_to(&self, to: &mut [u64]) {
        for (&place, &word) in self.places.iter().zip(&self.words) {
            to[place as usize] = word;
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(self.places.as_slice()) + size_of_val(self.words.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn scattered_words_are_copied_as_they_were(all in proptest::collection::vec(0u64..3, 0..300)) {
            let scattered = Scattered::of(&all);
            let mut copy = vec![0; all.len()];
            scattered.copy_to(&mut copy);
            prop_assert_eq!(&copy, &all);
            prop_assert_eq!(scattered.words.len(), all.iter().filter(|&&word| word != 0).count());
        }

        #[test]
        fn a_slice_is_copied_as_it_was_and_chunks_of_zeros_take_no_memory(
            used in proptest::collection::btree_map(0usize..5000, 1u32..9, 0..20),
            length in 5000usize..5600,
        ) {
            let mut all = vec![0; length];
            for (place, word) in used {
                all[place] = word;
            }
            let sparse = Sparse::of(&all);
            let mut copy = vec![0; length];
            sparse.copy_to(&mut copy);
            prop_assert_eq!(&copy, &all);
            let chunks = all.chunks(CHUNK).filter(|chunk| chunk.iter().any(|&word| word != 0)).count();
            prop_assert_eq!(sparse.places.len(), chunks);
        }
    }
}
