//! What one access is, and the code words that encoder and decoder share.
//!
//! A block holds consecutive accesses and events of one thread. It is a sequence of tokens, each a varint
//! `run * 4 + kind`: `run` accesses came as predicted ([`crate::predictor`]), and then something that did not, told
//! by `kind`. Every block starts with empty predictions, so that it can be read without those before it.

/// One data access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The first byte's virtual address in the program.
    pub address: u64,
    /// The instruction that made it, by its virtual address.
    pub pc: u64,
    /// Instructions that the thread began since its access or event before this one: 0 for a further access of the
    /// same instruction, 1 for one of the next.
    pub instructions: u32,
    /// Bytes: a power of two from 1 to 64.
    pub size: u8,
    /// Whether it writes.
    pub write: bool,
}

/// What is the same for all accesses that an instruction makes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The instruction's virtual address.
    pub pc: u64,
    /// Bytes: a power of two from 1 to 64.
    pub size: u8,
    /// Whether it writes.
    pub write: bool,
}

/// An event follows.
pub(crate) const KIND_EVENT: u64 = 0;
/// The bit of a token that says: the site and the instructions before it follow.
pub(crate) const SITE_MISSED: u64 = 1;
/// The bit of a token that says: the address follows.
pub(crate) const ADDRESS_MISSED: u64 = 2;

/// The bit of a site's size byte that says: it writes.
pub(crate) const WRITE_BIT: u8 = 0x80;
/// The greatest size of an access, in bytes.
pub(crate) const GREATEST_SIZE: u8 = 64;
