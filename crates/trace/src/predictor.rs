//! Predicts the next access: encoder and decoder make the same prediction, and only mispredictions are written.
//!
//! 1. After an access of one site, the site that last followed it is predicted, after the same number of instructions.
//! 2. A site's next address is its last one plus its stride. The stride is the last difference of two addresses that
//!    occurred twice in a row; a site's first difference counts at once. So one jump, such as the start of the next row
//!    of a matrix, costs one misprediction and not two.
//!
//! Known limits: the first prediction fails if two paths through the code alternate, the second for pointers and
//! computed indices.

/// The predictions of one site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Predictor {
    last: u64,
    stride: u64,
    difference: u64,
    /// The site that followed.
    pub(crate) next: u32,
    /// The instructions in between.
    pub(crate) next_instructions: u32,
}

/// A difference that no two addresses of user space have.
const NO_DIFFERENCE: u64 = 1 << 63;
/// A site that does not exist.
pub(crate) const NO_SITE: u32 = u32::MAX;

impl Predictor {
    /// A site that has made its first access.
    pub(crate) const fn new(address: u64) -> Self {
        Self {
            last: address,
            stride: 0,
            difference: NO_DIFFERENCE,
            next: NO_SITE,
            next_instructions: 0,
        }
    }

    /// The last address.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The predicted address.
    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.last.wrapping_add(self.stride)
    }

    /// The difference from an address to the next.
    #[inline]
    pub(crate) fn stride(&self) -> u64 {
        self.stride
    }

    /// The predicted site, and the instructions in between.
    #[inline]
    pub(crate) fn following(&self) -> (u32, u32) {
        (self.next, self.next_instructions)
    }

    /// Updates after `times` predicted addresses, at least one.
    #[inline]
    pub(crate) fn observe_predicted(&mut self, times: u64) {
        self.last = self.last.wrapping_add(self.stride.wrapping_mul(times));
        self.difference = self.stride;
    }

    /// Updates with the actual address.
    #[inline]
    pub(crate) fn observe(&mut self, address: u64) {
        let difference = address.wrapping_sub(self.last);
        if difference == self.difference || self.difference == NO_DIFFERENCE {
            self.stride = difference;
        }
        self.difference = difference;
        self.last = address;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn predicted_addresses_may_be_observed_one_by_one_or_at_once(
            before in prop::collection::vec(0u64..100, 1..6),
            times in 1u64..20,
            after in prop::collection::vec(0u64..100, 0..4),
        ) {
            let mut one_by_one = Predictor::new(before[0]);
            for address in before {
                one_by_one.observe(address);
            }
            let mut at_once = one_by_one;
            for _ in 0..times {
                one_by_one.observe(one_by_one.address());
            }
            at_once.observe_predicted(times);
            prop_assert_eq!(one_by_one.address(), at_once.address());
            for address in after {
                one_by_one.observe(address);
                at_once.observe(address);
                prop_assert_eq!(one_by_one.address(), at_once.address());
            }
        }
    }
}
