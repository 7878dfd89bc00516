//! Hashes that identify contents: programs, recordings, models, rules.

use twox_hash::XxHash3_128;

/// The 128-bit XXH3 of these bytes. It is not a cryptographic hash: a forged recording or program gains nothing here.
pub fn content_hash(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_contents_have_equal_hashes_and_others_do_not() {
        assert_eq!(content_hash(b"pinfold"), content_hash(b"pinfold"));
        assert_ne!(content_hash(b"pinfold"), content_hash(b"pinfolds"));
    }
}
