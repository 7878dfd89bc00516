//! One decoded instruction: the registers that it reads and writes, and the next instruction.

use crate::class::{self, Class};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// A set of registers, one bit for each: general registers, vector registers, flags, masks, the x87 stack.
pub(crate) type Registers = u64;

/// The number of registers that the decoder distinguishes.
pub(crate) const REGISTERS: usize = 58;
const FIRST_VECTOR: usize = 16;
const FLAGS: usize = 48;
const FIRST_MASK: usize = 49;
const X87: usize = 57;

/// The next instruction of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// At the next instruction.
    Next,
    /// At an address.
    To(u64),
    /// At an address or at the next instruction.
    Condition(u64),
    /// At an address that the instruction computes.
    Unknown,
}

/// A decoded instruction.
#[expect(clippy::struct_excessive_bools, reason = "they are independent properties")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded {
    pub(crate) address: u64,
    pub(crate) next: u64,
    pub(crate) flow: Flow,
    pub(crate) class: Class,
    /// Registers that the address of its memory access is computed from.
    pub(crate) address_reads: Registers,
    /// All other registers that it reads.
    pub(crate) reads: Registers,
    pub(crate) writes: Registers,
    pub(crate) loads: bool,
    pub(crate) stores: bool,
    /// Bits of its widest register. For a repeated instruction, bits of its memory operand.
    pub(crate) bits: u16,
    /// Whether it can fuse with a conditional branch after it.
    pub(crate) fuses: bool,
    /// Whether it has a repeat prefix, so that it may follow itself.
    pub(crate) repeats: bool,
}

impl Decoded {
    /// Whether it accesses memory.
    pub(crate) fn accesses(&self) -> bool {
        self.loads || self.stores
    }
}

/// Decodes instructions.
pub(crate) struct Reader {
    factory: InstructionInfoFactory,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self {
            factory: InstructionInfoFactory::new(),
        }
    }

    /// The instructions of a block, up to the first invalid one.
    pub(crate) fn block(&mut self, address: u64, bytes: &[u8]) -> Vec<Decoded> {
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let mut decoded = vec![];
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                break;
            }
            decoded.push(self.one(&instruction));
        }
        decoded
    }

    fn one(&mut self, instruction: &iced_x86::Instruction) -> Decoded {
        let info = self.factory.info(instruction);
        let class = class::of(instruction);
        let (mut loads, mut stores) = (false, false);
        for memory in info.used_memory() {
            loads |= reads(memory.access()) && class != Class::Nop;
            stores |= writes(memory.access());
        }
        let mut address_reads = 0;
        if loads || stores {
            for memory in info.used_memory() {
                address_reads |= bit(memory.base()) | bit(memory.index());
            }
        }
        let (mut all_reads, mut all_writes, mut merged) = (0, 0, 0);
        let mut bits = 0;
        for used in info.used_registers() {
            let register = bit(used.register());
            let size = u16::try_from(used.register().size() * 8).unwrap_or(u16::MAX);
            bits = bits.max(size);
            if reads(used.access()) {
                all_reads |= register;
            }
            if writes(used.access()) {
                all_writes |= register;
                // A write to a part of a register depends on the register's old value.
                if conditional(used.access()) || used.register().is_gpr8() || used.register().is_gpr16() {
                    merged |= register;
                }
            }
        }
        let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        if repeats {
            bits = u16::try_from(instruction.memory_size().size() * 8).unwrap_or(bits);
        }
        if instruction.rflags_read() != 0 {
            all_reads |= 1 << FLAGS;
        }
        if instruction.rflags_modified() != 0 {
            all_writes |= 1 << FLAGS;
        }
        // The processor tracks the stack pointer separately, so its value is always ready.
        let stack = bit(Register::RSP);
        let reads = all_reads & !address_reads | operand_reads(instruction, info) | merged;
        Decoded {
            address: instruction.ip(),
            next: instruction.next_ip(),
            flow: flow(instruction),
            class,
            address_reads: address_reads & !stack,
            reads: reads & !stack,
            writes: all_writes & !stack,
            loads,
            stores,
            bits,
            fuses: matches!(
                instruction.mnemonic(),
                Mnemonic::Cmp
                    | Mnemonic::Test
                    | Mnemonic::Add
                    | Mnemonic::Sub
                    | Mnemonic::And
                    | Mnemonic::Inc
                    | Mnemonic::Dec
            ),
            repeats,
        }
    }
}

/// The registers that are read as operands. Registers that are read only for an address are not included.
fn operand_reads(instruction: &iced_x86::Instruction, info: &InstructionInfo) -> Registers {
    (0..instruction.op_count())
        .filter(|&operand| instruction.op_kind(operand) == OpKind::Register && reads(info.op_access(operand)))
        .map(|operand| bit(instruction.op_register(operand)))
        .fold(0, |all, one| all | one)
}

fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

fn conditional(access: OpAccess) -> bool {
    matches!(access, OpAccess::CondWrite | OpAccess::ReadCondWrite)
}

/// The bit of a register. 0 for a register that no computation waits for.
fn bit(register: Register) -> Registers {
    let place = if register.is_gpr() {
        register.full_register().number()
    } else if register.is_vector_register() {
        FIRST_VECTOR + register.number()
    } else if register.is_k() {
        FIRST_MASK + register.number()
    } else if register.is_st() {
        X87
    } else {
        return 0;
    };
    1 << place
}

fn flow(instruction: &iced_x86::Instruction) -> Flow {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch | FlowControl::Call => Flow::To(instruction.near_branch_target()),
        FlowControl::ConditionalBranch => Flow::Condition(instruction.near_branch_target()),
        FlowControl::IndirectBranch | FlowControl::Return | FlowControl::IndirectCall | FlowControl::Exception => {
            Flow::Unknown
        }
        FlowControl::Next | FlowControl::Interrupt | FlowControl::XbeginXabortXend => Flow::Next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: &[u8]) -> Decoded {
        Reader::new().block(0x1000, bytes)[0]
    }

    fn registers(all: &[Register]) -> Registers {
        all.iter().map(|&register| bit(register)).fold(0, |set, one| set | one)
    }

    #[test]
    fn a_load_reads_its_address_and_writes_its_result() {
        // mov rax, [rbx + rcx * 8]
        let load = one(&[0x48, 0x8b, 0x04, 0xcb]);
        assert!(load.loads && !load.stores && load.class == Class::Memory);
        assert_eq!(load.address_reads, registers(&[Register::RBX, Register::RCX]));
        assert_eq!((load.reads, load.writes), (0, registers(&[Register::RAX])));
    }

    #[test]
    fn a_load_of_its_own_address_does_not_read_it_as_an_operand() {
        // mov rax, [rax + 8]; add rax, [rax]
        let load = one(&[0x48, 0x8b, 0x40, 0x08]);
        assert_eq!((load.address_reads, load.reads), (registers(&[Register::RAX]), 0));
        let add = one(&[0x48, 0x03, 0x00]);
        assert_eq!((add.address_reads, add.reads), (add.reads, registers(&[Register::RAX])));
    }

    #[test]
    fn an_addition_to_memory_reads_and_writes_it() {
        // add [rdi], rax
        let add = one(&[0x48, 0x01, 0x07]);
        assert!(add.loads && add.stores && add.class == Class::Alu);
        assert_eq!(add.address_reads, registers(&[Register::RDI]));
        assert_eq!(add.reads, registers(&[Register::RAX]));
    }

    #[test]
    fn a_register_that_is_cleared_depends_on_nothing() {
        // xor eax, eax
        assert_eq!(one(&[0x31, 0xc0]).reads, 0);
    }

    #[test]
    fn addresses_that_are_only_computed_are_not_accessed() {
        // lea rax, [rbx + rcx * 8]; nop word [rax + rax]; prefetcht0 [rdi]
        let lea = one(&[0x48, 0x8d, 0x04, 0xcb]);
        assert!(!lea.accesses() && lea.class == Class::LeaLong);
        assert_eq!(lea.reads, registers(&[Register::RBX, Register::RCX]));
        assert!(!one(&[0x66, 0x0f, 0x1f, 0x04, 0x00]).accesses());
        assert!(!one(&[0x0f, 0x18, 0x0f]).accesses());
    }

    #[test]
    fn a_part_of_a_register_is_written_into_its_old_value() {
        // mov al, 1
        assert_eq!(one(&[0xb0, 0x01]).reads, registers(&[Register::RAX]));
    }

    #[test]
    fn instructions_have_their_classes() {
        for (bytes, class) in [
            (&[0xf2, 0x0f, 0x58, 0xc1][..], Class::FloatAdd), // addsd xmm0, xmm1
            (&[0xf2, 0x0f, 0x5e, 0xc1], Class::FloatDivideDouble), // divsd xmm0, xmm1
            (&[0x48, 0x0f, 0xaf, 0xc3], Class::Multiply),     // imul rax, rbx
            (&[0x48, 0xf7, 0xf3], Class::DivideLong),         // div rbx
            (&[0xf7, 0xf3], Class::Divide),                   // div ebx
            (&[0xf2, 0x48, 0x0f, 0x2a, 0xc0], Class::IntegerToFloat), // cvtsi2sd xmm0, rax
            (&[0x66, 0x0f, 0xfe, 0xc1], Class::VectorAlu),    // paddd xmm0, xmm1
            (&[0x66, 0x0f, 0x70, 0xc1, 0x0e], Class::Shuffle), // pshufd xmm0, xmm1, 14
            (&[0x66, 0x48, 0x0f, 0x6e, 0xc0], Class::GeneralToVector), // movq xmm0, rax
            (&[0x75, 0x10], Class::Branch),                   // jne
            (&[0x48, 0xd3, 0xe0], Class::ShiftByRegister),    // shl rax, cl
            (&[0x48, 0x89, 0xd8], Class::Move),               // mov rax, rbx
            (&[0xc5, 0xf3, 0x59, 0xc2], Class::FloatMultiply), // vmulsd xmm0, xmm1, xmm2
            (&[0xd8, 0xc1], Class::X87),                      // fadd st0, st1
        ] {
            assert_eq!(one(bytes).class, class, "{bytes:02x?}");
        }
    }
}
