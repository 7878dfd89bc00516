//! Operations of the host's processor that are faster than plain code: prefetching into its caches, and comparing many
//! words at the same time. The accesses to the engine's tables limit its speed: a miss makes half a dozen random
//! accesses to them and searches some sets of up to 48 ways.

/// Prefetches the host's cache line of `place`.
#[inline]
pub(crate) fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(place);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// The position of the first of `words` that equals `wanted` under `mask`.
#[inline]
pub(crate) fn position(words: &[u32], mask: u32, wanted: u32) -> Option<usize> {
    let (chunks, rest) = words.as_chunks::<16>();
    for (number, chunk) in chunks.iter().enumerate() {
        let equal = equal16(chunk, mask, wanted);
        if equal != 0 {
            return Some(number * 16 + equal.trailing_zeros() as usize);
        }
    }
    let (chunks, end) = rest.as_chunks::<4>();
    let base = words.len() - rest.len();
    for (number, chunk) in chunks.iter().enumerate() {
        let equal = equal4(chunk, mask, wanted);
        if equal != 0 {
            return Some(base + number * 4 + equal.trailing_zeros() as usize);
        }
    }
    let base = words.len() - end.len();
    end.iter()
        .position(|word| word & mask == wanted)
        .map(|place| base + place)
}

/// A bit for each word that equals `wanted` under `mask`.
#[cfg(target_arch = "x86_64")]
#[inline]
fn equal16(words: &[u32; 16], mask: u32, wanted: u32) -> u32 {
    use safe_arch::{
        bitand_m128i, cmp_eq_mask_i32_m128i, m128i, move_mask_i8_m128i, pack_i16_to_i8_m128i, pack_i32_to_i16_m128i,
    };
    let mask = m128i::from([mask; 4]);
    let wanted = m128i::from([wanted; 4]);
    let equal = |at: usize| {
        let four = m128i::from([words[at], words[at + 1], words[at + 2], words[at + 3]]);
        cmp_eq_mask_i32_m128i(bitand_m128i(four, mask), wanted)
    };
    let low = pack_i32_to_i16_m128i(equal(0), equal(4));
    let high = pack_i32_to_i16_m128i(equal(8), equal(12));
    move_mask_i8_m128i(pack_i16_to_i8_m128i(low, high)).cast_unsigned()
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn equal4(words: &[u32; 4], mask: u32, wanted: u32) -> u32 {
    use safe_arch::{bitand_m128i, cast_to_m128_from_m128i, cmp_eq_mask_i32_m128i, m128i, move_mask_m128};
    let four = bitand_m128i(m128i::from(*words), m128i::from([mask; 4]));
    let equal = cmp_eq_mask_i32_m128i(four, m128i::from([wanted; 4]));
    move_mask_m128(cast_to_m128_from_m128i(equal)).cast_unsigned()
}

#[cfg(not(target_arch = "x86_64"))]
fn equal16(words: &[u32; 16], mask: u32, wanted: u32) -> u32 {
    equal(words, mask, wanted)
}

#[cfg(not(target_arch = "x86_64"))]
fn equal4(words: &[u32; 4], mask: u32, wanted: u32) -> u32 {
    equal(words, mask, wanted)
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn equal(words: &[u32], mask: u32, wanted: u32) -> u32 {
    let bit = |(place, word): (usize, &u32)| u32::from(word & mask == wanted) << place;
    words.iter().enumerate().map(bit).fold(0, |all, bit| all | bit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_position_is_that_of_a_plain_search(words in proptest::collection::vec(0u32..100, 0..60), wanted in 0u32..12) {
            let plain = words.iter().position(|word| word & !7 == wanted * 8);
            prop_assert_eq!(position(&words, !7, wanted * 8), plain);
        }
    }
}
