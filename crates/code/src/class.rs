//! The classes of instructions: instructions of one class take the same time on a microarchitecture.
//!
//! Published tables have thousands of rows, one for each form of an instruction. Most forms of a kind have the same
//! latency and use the same execution ports, so a row for each class is enough here.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use serde::Deserialize;

macro_rules! classes {
    ($($(#[$documentation:meta])* $name:ident,)*) => {
        /// A class of instructions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Class {
            $($(#[$documentation])* $name,)*
        }

        impl Class {
            /// All classes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

classes! {
    /// Takes a place in the pipeline and no execution port: `nop`, hints.
    Nop,
    /// Copies a general register.
    Move,
    /// Copies a vector register.
    MoveVector,
    /// Simple integer arithmetic and logic.
    Alu,
    /// Integer arithmetic with carry.
    Carry,
    /// Shifts and rotations by a constant.
    Shift,
    /// Shifts and rotations by a register.
    ShiftByRegister,
    /// Address arithmetic with at most two parts.
    Lea,
    /// Address arithmetic with three parts or a scale.
    LeaLong,
    /// Integer multiplication with one result.
    Multiply,
    /// Integer multiplication with a result of two registers.
    MultiplyWide,
    /// Integer division of 32 bits or fewer.
    Divide,
    /// Integer division of 64 bits.
    DivideLong,
    /// Bit scans and counts.
    BitScan,
    /// Conditional moves.
    ConditionalMove,
    /// Sets a byte by a condition.
    SetByCondition,
    /// Jumps, calls and returns.
    Branch,
    /// Only a load or a store.
    Memory,
    /// Floating-point addition, subtraction, minimum, maximum and comparison to a mask.
    FloatAdd,
    /// Floating-point multiplication.
    FloatMultiply,
    /// Fused multiplication and addition.
    FloatFused,
    /// Floating-point division, single precision.
    FloatDivide,
    /// Floating-point division, double precision.
    FloatDivideDouble,
    /// Square root, single precision.
    Root,
    /// Square root, double precision.
    RootDouble,
    /// Floating-point comparison to the flags.
    FloatCompare,
    /// Rounding to whole numbers.
    Round,
    /// Logic on vectors.
    VectorLogic,
    /// Integer arithmetic on vectors.
    VectorAlu,
    /// Integer multiplication on vectors.
    VectorMultiply,
    /// Shifts on vectors.
    VectorShift,
    /// Moves parts within 128 bits.
    Shuffle,
    /// Moves parts across 128 bits.
    ShuffleLong,
    /// Conversion of an integer in a general register to floating point.
    IntegerToFloat,
    /// Conversion of floating point to an integer in a general register.
    FloatToInteger,
    /// Conversion between formats of vector registers.
    Convert,
    /// Copy of a vector register to a general register.
    VectorToGeneral,
    /// Copy of a general register to a vector register.
    GeneralToVector,
    /// Arithmetic of the x87 unit, except division.
    X87,
    /// Division and functions of the x87 unit.
    X87Long,
    /// Exchanges, comparisons with exchange, string instructions and the rest.
    Complex,
    /// Waits for all earlier instructions: `cpuid`, fences.
    Serial,
}

/// The class of an instruction.
pub(crate) fn of(instruction: &Instruction) -> Class {
    let mnemonic = instruction.mnemonic();
    let text = format!("{mnemonic:?}").to_ascii_lowercase();
    // The VEX and EVEX forms have the classes of the SSE forms.
    let name = text.strip_prefix('v').unwrap_or(&text);
    integer(instruction, mnemonic, &text)
        .or_else(|| moves(instruction, name))
        .or_else(|| float(name))
        .or_else(|| vector(instruction, name))
        .unwrap_or(if text.starts_with('f') {
            x87(&text)
        } else {
            Class::Complex
        })
}

fn integer(instruction: &Instruction, mnemonic: Mnemonic, text: &str) -> Option<Class> {
    let wide = [0, 1].into_iter().any(|operand| match instruction.op_kind(operand) {
        OpKind::Register => instruction.op_register(operand).size() == 8,
        OpKind::Memory => instruction.memory_size().size() == 8,
        _ => false,
    });
    let by_register = instruction.op_count() > 1 && instruction.op_kind(1) == OpKind::Register;
    Some(match text {
        "nop" | "endbr64" | "endbr32" | "pause" | "prefetcht0" | "prefetcht1" | "prefetcht2" | "prefetchnta"
        | "prefetchw" | "reservednop" | "vzeroupper" | "vzeroall" | "emms" => Class::Nop,
        "add" | "sub" | "and" | "or" | "xor" | "cmp" | "test" | "inc" | "dec" | "neg" | "not" | "cdq" | "cqo"
        | "cwde" | "cdqe" | "cbw" | "cwd" | "bswap" | "bt" | "bts" | "btr" | "btc" | "stc" | "clc" | "cmc" | "andn"
        | "blsr" | "blsi" | "blsmsk" | "bzhi" | "lahf" | "sahf" | "movbe" => Class::Alu,
        "adc" | "sbb" | "adcx" | "adox" => Class::Carry,
        "shl" | "sal" | "shr" | "sar" | "rol" | "ror" if by_register => Class::ShiftByRegister,
        "shl" | "sal" | "shr" | "sar" | "rol" | "ror" | "rorx" | "shlx" | "shrx" | "sarx" | "bextr" => Class::Shift,
        "rcl" | "rcr" | "shld" | "shrd" => Class::ShiftByRegister,
        "lea" => lea(instruction),
        "imul" if instruction.op_count() > 1 => Class::Multiply,
        "imul" | "mul" | "mulx" => Class::MultiplyWide,
        "div" | "idiv" if wide => Class::DivideLong,
        "div" | "idiv" => Class::Divide,
        "bsf" | "bsr" | "lzcnt" | "tzcnt" | "popcnt" | "crc32" | "pdep" | "pext" => Class::BitScan,
        "push" | "pop" => Class::Memory,
        "cpuid" | "mfence" | "lfence" | "sfence" | "serialize" | "rdtsc" | "rdtscp" | "xgetbv" | "syscall" => {
            Class::Serial
        }
        "jmp" | "call" | "ret" => Class::Branch,
        _ if text.starts_with("cmov") => Class::ConditionalMove,
        _ if text.starts_with("set") => Class::SetByCondition,
        _ if instruction.is_jcc_short_or_near() || matches!(mnemonic, Mnemonic::Jrcxz | Mnemonic::Jecxz) => {
            Class::Branch
        }
        _ => return None,
    })
}

fn lea(instruction: &Instruction) -> Class {
    let parts = [
        instruction.memory_base() != Register::None,
        instruction.memory_index() != Register::None,
        instruction.memory_displacement64() != 0,
    ];
    let scaled = instruction.memory_index() != Register::None && instruction.memory_index_scale() > 1;
    if parts == [true; 3] || scaled {
        Class::LeaLong
    } else {
        Class::Lea
    }
}

fn moves(instruction: &Instruction, name: &str) -> Option<Class> {
    let memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    let general =
        |operand: u32| instruction.op_kind(operand) == OpKind::Register && instruction.op_register(operand).is_gpr();
    let plain = matches!(
        name,
        "mov"
            | "movzx"
            | "movsx"
            | "movsxd"
            | "movd"
            | "movq"
            | "movaps"
            | "movapd"
            | "movups"
            | "movupd"
            | "movdqa"
            | "movdqu"
            | "movdqa32"
            | "movdqa64"
            | "movdqu8"
            | "movdqu16"
            | "movdqu32"
            | "movdqu64"
            | "lddqu"
            | "movss"
            | "movsd"
            | "movnti"
            | "movntdq"
            | "movntps"
            | "movntpd"
            | "movntdqa"
            | "broadcastss"
            | "broadcastsd"
            | "broadcastf128"
            | "broadcasti128"
    );
    if !plain {
        return None;
    }
    Some(match name {
        _ if memory => Class::Memory,
        "movd" | "movq" if general(0) => Class::VectorToGeneral,
        "movd" | "movq" if general(1) => Class::GeneralToVector,
        "mov" | "movzx" | "movsx" | "movsxd" if instruction.op_kind(1) != OpKind::Register => Class::Alu,
        "mov" => Class::Move,
        "movzx" | "movsx" | "movsxd" => Class::Alu,
        "movss" | "movsd" => Class::Shuffle,
        _ if name.starts_with("broadcast") => Class::ShuffleLong,
        _ => Class::MoveVector,
    })
}

fn float(name: &str) -> Option<Class> {
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    if !ends(&["ps", "pd", "ss", "sd", "2si", "dq", "2usi"]) {
        return None;
    }
    let starts = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    let double = ends(&["pd", "sd"]);
    Some(match name {
        _ if starts(&["cvtsi2", "cvtusi2"]) => Class::IntegerToFloat,
        _ if starts(&["cvt"]) && ends(&["2si", "2usi"]) => Class::FloatToInteger,
        _ if starts(&["cvt"]) => Class::Convert,
        _ if starts(&["fmadd", "fmsub", "fnmadd", "fnmsub"]) => Class::FloatFused,
        _ if starts(&["ucomis", "comis"]) => Class::FloatCompare,
        _ if starts(&["add", "sub", "min", "max", "cmp", "hadd", "hsub"]) => Class::FloatAdd,
        _ if starts(&["mul", "rcp", "rsqrt", "dpp"]) => Class::FloatMultiply,
        _ if starts(&["div"]) && double => Class::FloatDivideDouble,
        _ if starts(&["div"]) => Class::FloatDivide,
        _ if starts(&["sqrt"]) && double => Class::RootDouble,
        _ if starts(&["sqrt"]) => Class::Root,
        _ if starts(&["round", "rndscale"]) => Class::Round,
        _ if starts(&["and", "or", "xor", "blend"]) => Class::VectorLogic,
        _ if starts(&["perm2", "permpd", "permps"]) => Class::ShuffleLong,
        _ if starts(&[
            "shuf",
            "unpck",
            "perm",
            "movhl",
            "movlh",
            "movh",
            "movl",
            "movshdup",
            "movsldup",
            "movddup",
            "insert",
            "extract",
            "broadcast",
        ]) =>
        {
            Class::Shuffle
        }
        "movmskps" | "movmskpd" => Class::VectorToGeneral,
        _ => return None,
    })
}

fn vector(instruction: &Instruction, name: &str) -> Option<Class> {
    let uses_vectors = (0..instruction.op_count()).any(|operand| {
        instruction.op_kind(operand) == OpKind::Register && instruction.op_register(operand).is_vector_register()
    });
    if !uses_vectors {
        return None;
    }
    let starts = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    Some(match name {
        "pmovmskb" => Class::VectorToGeneral,
        _ if starts(&["pextr", "extractps"]) => Class::VectorToGeneral,
        _ if starts(&["pinsr"]) => Class::GeneralToVector,
        _ if starts(&["pmul", "pmadd", "psadbw"]) => Class::VectorMultiply,
        _ if starts(&["psll", "psrl", "psra", "prol", "pror"]) => Class::VectorShift,
        _ if starts(&["perm", "extract", "insert", "pbroadcast"]) => Class::ShuffleLong,
        _ if starts(&[
            "pshuf", "punpck", "pack", "palign", "pmovzx", "pmovsx", "align", "pslldq", "psrldq",
        ]) =>
        {
            Class::Shuffle
        }
        _ if starts(&["pand", "por", "pxor", "pblend", "pternlog", "ptest"]) => Class::VectorLogic,
        _ if starts(&["padd", "psub", "pcmp", "pmin", "pmax", "pabs", "pavg", "psign"]) => Class::VectorAlu,
        _ => return None,
    })
}

fn x87(name: &str) -> Class {
    match name {
        "fld" | "fst" | "fstp" | "fxch" | "fild" | "fistp" | "fist" | "fisttp" | "fnstcw" | "fldcw" | "fld1"
        | "fldz" | "fadd" | "faddp" | "fsub" | "fsubp" | "fsubr" | "fsubrp" | "fmul" | "fmulp" | "fchs" | "fabs"
        | "fcomi" | "fcomip" | "fucomi" | "fucomip" | "fnstsw" | "fcmovb" | "fcmovbe" => Class::X87,
        _ => Class::X87Long,
    }
}
