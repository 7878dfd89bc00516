//! The data of an access, and the code words of encoder and decoder.
//!
//! A block holds consecutive accesses and events of one thread. It is a sequence of tokens, each a varint `run * 4 +
//! kind`: `run` predicted accesses ([`crate::predictor`]), and then one unpredicted item of the kind `kind`. Each block
//! starts with empty predictions, so that it can be read without the earlier blocks.

/// One data access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The first byte's virtual address in the program.
    pub address: u64,
    /// The instruction that made it, by its virtual address.
    pub pc: u64,
    /// Instructions that the thread started since its last access or event: 0 for a further access of the same
    /// instruction, 1 for an access of the next one.
    pub instructions: u32,
    /// Bytes: a power of two from 1 to 64.
    pub size: u8,
    /// Whether it writes.
    pub write: bool,
    /// Whether its instruction is atomic: it has a `lock` prefix, or is an `xchg`. QEMU reports its read and its write
    /// as two accesses or, in a program with several threads, as one write.
    pub locked: bool,
}

/// The common properties of all accesses of one kind that an instruction makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The instruction's virtual address.
    pub pc: u64,
    /// Bytes: a power of two from 1 to 64.
    pub size: u8,
    /// Whether it writes.
    pub write: bool,
    /// Whether its instruction is atomic: it has a `lock` prefix, or is an `xchg`. Its read and its write are two
    /// accesses.
    pub locked: bool,
}

/// An event follows.
pub(crate) const KIND_EVENT: u64 = 0;
/// The bit of a token that the site and the instructions before it follow.
pub(crate) const SITE_MISSED: u64 = 1;
/// The bit of a token that the address follows.
pub(crate) const ADDRESS_MISSED: u64 = 2;

/// The greatest size of an access, in bytes.
pub(crate) const GREATEST_SIZE: u8 = 64;

/// The bit of a site's byte for a write.
const WRITE_BIT: u8 = 0x80;
/// The bit of a site's byte for an atomic instruction.
const LOCKED_BIT: u8 = 0x40;

impl Site {
    /// The site without its address, in a byte: the size's logarithm and two bits.
    pub(crate) fn byte(self) -> u8 {
        debug_assert!(self.size.is_power_of_two() && self.size <= GREATEST_SIZE);
        let bit = |bit: u8, set: bool| if set { bit } else { 0 };
        #[expect(clippy::cast_possible_truncation, reason = "at most 6")]
        let logarithm = self.size.trailing_zeros() as u8;
        logarithm | bit(WRITE_BIT, self.write) | bit(LOCKED_BIT, self.locked)
    }

    /// The site at `pc` with the rest in `byte`. `None` if its size is not valid.
    pub(crate) fn from_byte(pc: u64, byte: u8) -> Option<Self> {
        let size = 1u8.checked_shl(u32::from(byte & !(WRITE_BIT | LOCKED_BIT)))?;
        (size <= GREATEST_SIZE).then_some(Self {
            pc,
            size,
            write: byte & WRITE_BIT != 0,
            locked: byte & LOCKED_BIT != 0,
        })
    }
}
