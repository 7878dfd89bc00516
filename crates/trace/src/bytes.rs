//! Variable-length integers: seven bits per byte, the least significant first, the top bit set in all but the last
//! (LEB128). Signed differences are folded first (0, -1, 1, -2 become 0, 1, 2, 3).

#![expect(clippy::cast_possible_truncation, reason = "a byte takes the lowest bits")]

/// The longest variable-length integer, in bytes.
pub(crate) const LONGEST: usize = 10;

/// Writes `value` at `bytes[at]` and returns the position after it.
#[inline]
pub(crate) fn put(bytes: &mut [u8], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        bytes[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    bytes[at] = value as u8;
    at + 1
}

/// Reads an integer at `bytes[*at]` and moves `at` past it. `None` if it is truncated or does not fit 64 bits.
#[inline]
pub(crate) fn get(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut value = u64::from(first & 0x7f);
    for place in 1..LONGEST {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if place == LONGEST - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Folds the difference of two addresses, so that a small difference of either sign becomes a small number.
#[inline]
pub(crate) fn fold(difference: u64) -> u64 {
    (difference << 1) ^ (difference.cast_signed() >> 63).cast_unsigned()
}

/// Reverses `fold`.
#[inline]
pub(crate) fn unfold(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_integer_comes_back(value: u64) {
            let mut bytes = [0; LONGEST];
            let end = put(&mut bytes, 0, value);
            let mut at = 0;
            prop_assert_eq!(get(&bytes[..end], &mut at), Some(value));
            prop_assert_eq!(at, end);
        }

        #[test]
        fn a_truncated_integer_is_none(value in 128..u64::MAX) {
            let mut bytes = [0; LONGEST];
            let end = put(&mut bytes, 0, value);
            prop_assert_eq!(get(&bytes[..end - 1], &mut 0), None);
        }

        #[test]
        fn a_difference_comes_back(value: u64) {
            prop_assert_eq!(unfold(fold(value)), value);
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        assert_eq!(get(&[0xff; 10], &mut 0), None);
        assert_eq!(
            get(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &mut 0),
            None
        );
    }
}
