//! The part of QEMU's plugin interface, version 1, that the plugin uses, from QEMU 7.2 (include/qemu/qemu-plugin.h;
//! Debian packages no header). QEMU exports the functions; they are resolved when it loads the plugin.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The version of the interface.
pub(crate) const VERSION: c_int = 1;

/// QEMU's identifier of a plugin.
pub type Id = u64;

/// A translation block; its content is private to QEMU.
#[repr(C)]
pub(crate) struct TranslationBlock([u8; 0]);
/// An instruction of a translation block.
#[repr(C)]
pub(crate) struct Instruction([u8; 0]);

/// The first part of `qemu_info_t`.
#[repr(C)]
pub struct Info {
    pub(crate) target_name: *const c_char,
    pub(crate) version_min: c_int,
    pub(crate) version_current: c_int,
    pub(crate) system_emulation: bool,
}

/// `QEMU_PLUGIN_CB_NO_REGS`: the callback does not access registers.
pub(crate) const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`. In 7.2 a filter for only reads or only writes is not exact.
pub(crate) const READS_AND_WRITES: c_int = 3;

pub(crate) type OnVcpu = extern "C" fn(Id, c_uint);
pub(crate) type OnTranslation = extern "C" fn(Id, *mut TranslationBlock);
pub(crate) type OnBlock = extern "C" fn(c_uint, *mut c_void);
pub(crate) type OnAccess = extern "C" fn(c_uint, u32, u64, *mut c_void);
pub(crate) type OnSyscall = extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub(crate) type OnSyscallReturn = extern "C" fn(Id, c_uint, i64, i64);
pub(crate) type OnReset = extern "C" fn(Id);
pub(crate) type OnExit = extern "C" fn(Id, *mut c_void);

unsafe extern "C" {
    pub(crate) fn qemu_plugin_register_vcpu_init_cb(id: Id, callback: OnVcpu);
    pub(crate) fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: OnTranslation);
    pub(crate) fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut TranslationBlock,
        callback: OnBlock,
        flags: c_int,
        user_data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: OnAccess,
        flags: c_int,
        reads_or_writes: c_int,
        user_data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_syscall_cb(id: Id, callback: OnSyscall);
    pub(crate) fn qemu_plugin_register_vcpu_syscall_ret_cb(id: Id, callback: OnSyscallReturn);
    pub(crate) fn qemu_plugin_register_atexit_cb(id: Id, callback: OnExit, user_data: *mut c_void);
    /// Removes all callbacks, also from translated code. Then calls `callback`, while all threads are outside
    /// translated code.
    pub(crate) fn qemu_plugin_reset(id: Id, callback: OnReset);
    pub(crate) fn qemu_plugin_tb_n_insns(block: *const TranslationBlock) -> usize;
    pub(crate) fn qemu_plugin_tb_get_insn(block: *const TranslationBlock, index: usize) -> *mut Instruction;
    pub(crate) fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub(crate) fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const u8;
    pub(crate) fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub(crate) fn qemu_plugin_insn_haddr(instruction: *const Instruction) -> *const c_void;
    pub(crate) fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub(crate) fn qemu_plugin_mem_is_store(info: u32) -> bool;
}
