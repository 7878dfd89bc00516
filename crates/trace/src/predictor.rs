//! What the next access will be: encoder and decoder make the same guess, and only what it misses is written.
//!
//! 1. After an access of one site comes the site that followed it the last time, as many instructions later.
//! 2. A site's next address is its last one plus its stride. The stride is the last difference of two addresses that
//!    was seen twice running; a site's first difference counts at once. So one jump, such as the start of the next row
//!    of a matrix, costs one miss and not two.
//!
//! Known limits: the first guess fails where two paths through the code alternate, the second for pointers and
//! computed indices.

/// The predictions of one site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Predictor {
    last: u64,
    stride: u64,
    difference: u64,
    /// The site that followed.
    pub(crate) next: u32,
    /// The instructions between.
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

    /// The address before.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The address to come.
    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.last.wrapping_add(self.stride)
    }

    /// The address that came.
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
