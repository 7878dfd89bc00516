//! The program's code: the bytes of the blocks that QEMU translated, up to the last instruction that it reached.
//!
//! A simulation decodes the blocks to know the program's computations between two accesses. A block is written when it
//! is translated, so it costs nothing while it runs. Code that the program changes (a just-in-time compiler) has
//! several blocks at one address; the last one is the newest.

use std::io;

/// Consecutive instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// The virtual address of the first instruction.
    pub address: u64,
    /// The bytes of all instructions.
    pub bytes: Vec<u8>,
}

/// The bytes of a block's address and of its length.
const HEAD: usize = 10;

/// The most bytes of a block. QEMU's blocks have at most 512 instructions, and an instruction has at most 15 bytes.
const LONGEST: usize = 512 * 15;

impl CodeBlock {
    /// The most bytes that a block adds to a frame.
    pub const LARGEST: usize = HEAD + LONGEST;

    /// Appends the block to the text of a frame. Blocks that are longer than QEMU's are left out.
    pub fn put(address: u64, code: &[u8], into: &mut Vec<u8>) {
        let length = u16::try_from(code.len()).ok();
        if let Some(length) = length.filter(|_| code.len() <= LONGEST) {
            into.extend(address.to_le_bytes());
            into.extend(length.to_le_bytes());
            into.extend(code);
        }
    }

    /// The blocks of a frame's text. `None` if the text is cut off.
    pub(crate) fn all(mut text: &[u8]) -> Option<Vec<Self>> {
        let mut blocks = vec![];
        while !text.is_empty() {
            let (head, rest) = text.split_at_checked(HEAD)?;
            let address = u64::from_le_bytes(head[..8].try_into().ok()?);
            let length = u16::from_le_bytes(head[8..].try_into().ok()?);
            let (bytes, rest) = rest.split_at_checked(usize::from(length))?;
            blocks.push(Self {
                address,
                bytes: bytes.to_vec(),
            });
            text = rest;
        }
        Some(blocks)
    }
}

/// The text of a frame from its payload. An error if the text does not have `length` bytes.
pub(crate) fn decompressed(payload: &[u8], length: usize) -> io::Result<Vec<u8>> {
    let mut text = vec![0; length];
    let found = zstd::bulk::decompress_to_buffer(payload, &mut text)?;
    text.truncate(found);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_come_back_and_a_text_that_is_cut_off_is_refused(
            blocks in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 1..40)), 1..10),
        ) {
            let mut text = vec![];
            for (address, bytes) in &blocks {
                CodeBlock::put(*address, bytes, &mut text);
            }
            let expected: Vec<CodeBlock> = blocks
                .into_iter()
                .map(|(address, bytes)| CodeBlock { address, bytes })
                .collect();
            prop_assert_eq!(CodeBlock::all(&text), Some(expected));
            prop_assert_eq!(CodeBlock::all(&text[..text.len() - 1]), None);
        }
    }
}
