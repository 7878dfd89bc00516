//! The program's code: each translated block is written to the recording once.
//!
//! QEMU translates a block again when its cache is full or when another thread needs the block at another place. The
//! block's address and a hash of its bytes identify it. Blocks are collected, and written before the accesses that they
//! make.

use crate::recorder::{self, lock};
use pinfold_trace::{BLOCK_CAPACITY, CodeBlock, Writer};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

struct Code {
    /// The address and the hash of the bytes of each block that was translated.
    known: Option<HashSet<(u64, u64)>>,
    /// The text of the next frame.
    text: Vec<u8>,
}

static CODE: Mutex<Code> = Mutex::new(Code {
    known: None,
    text: vec![],
});

/// A block was translated.
pub(crate) fn translated(address: u64, bytes: &[u8]) {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let mut code = lock(&CODE);
    if code.known.get_or_insert_default().insert((address, hasher.finish())) {
        if code.text.len() + CodeBlock::LARGEST > BLOCK_CAPACITY {
            write(&mut code);
        }
        CodeBlock::put(address, bytes, &mut code.text);
    }
}

/// Writes the blocks that are not in the file yet.
pub(crate) fn flush() {
    write(&mut lock(&CODE));
}

fn write(code: &mut Code) {
    if !code.text.is_empty() {
        recorder::append(Writer::code(&code.text));
        code.text.clear();
    }
}
