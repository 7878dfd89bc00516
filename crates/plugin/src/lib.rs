//! The plugin of qemu-user that records a program's data accesses. `pinfold record` loads it.
//!
//! QEMU calls the plugin in the thread that runs the recorded code: at the start of each translation block, at each
//! data access, and before and after each system call. It also calls it when it translates a block, when a thread is
//! created, and at the end. A thread is identified by its vcpu index. QEMU reuses an index after its thread has ended.
//! So the plugin creates a new state when QEMU reports that a vcpu starts; the creating thread makes that call. QEMU
//! 7.2 does not report the end of a thread: the system call `exit` shows it (`calls`). Threads share no state on the
//! path of an access, and take no lock there.
//!
//! Known limits: memory that the kernel reads and writes for a system call is not recorded, except for the pages that
//! `read`, `pread64` and `recvfrom` touch first. Child processes of the program are not recorded, nor is a program that
//! replaces the process by `exec`. Memory that `shmat` attaches belongs to no mapping.

#![expect(
    clippy::cast_possible_truncation,
    reason = "this is for x86-64, and a site's number has 32 bits in the datum"
)]

mod calls;
mod code;
mod mapping;
mod memory_call;
mod place;
mod qemu;
mod recorder;
mod thread;
mod touches;

use calls::{CREATING, Creating, on_syscall, on_syscall_return};
use pinfold_trace::shared::{self, Status};
use pinfold_trace::{EventKind, NO_PARENT, Output, Writer};
use recorder::WINDOW;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt::Display;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering};
use thread::Thread;

/// The version of QEMU's plugin interface. QEMU looks for this symbol.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = qemu::VERSION;

/// The thread of each vcpu index.
static STATES: [AtomicPtr<Thread>; shared::SLOTS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; shared::SLOTS];
/// Held by a thread in a callback outside translated code, and at the end of the process.
static BUSY: [AtomicBool; shared::SLOTS] = [const { AtomicBool::new(false) }; shared::SLOTS];

/// QEMU's name for this plugin.
static PLUGIN: AtomicU64 = AtomicU64::new(0);
/// Whether the instrumentation of translated code was removed, or is about to be.
static REMOVED: AtomicBool = AtomicBool::new(false);

/// QEMU calls this once, with the arguments from the command line: `memory=FILE`.
///
/// # Safety
///
/// As in QEMU's documentation: `info` and `count` strings in `arguments` are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: qemu::Id,
    info: *const qemu::Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes a valid description.
    let info = unsafe { &*info };
    // SAFETY: the name is a string that stays valid.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    if info.system_emulation || target.to_bytes() != b"x86_64" || info.version_min > qemu::VERSION {
        say("the recording plugin works only in qemu-x86_64 (user mode, plugin interface 1)");
        return 1;
    }
    let memory = (0..usize::try_from(count).unwrap_or(0)).find_map(|i| {
        // SAFETY: there are `count` strings.
        let argument = unsafe { CStr::from_ptr(*arguments.add(i)) };
        argument.to_str().ok()?.strip_prefix("memory=")
    });
    let Some(memory) = memory else {
        say("the recording plugin needs memory=FILE; `pinfold record` passes it");
        return 1;
    };
    if let Err(error) = recorder::start(memory) {
        say(format_args!("the recording plugin cannot use its memory: {error}"));
        return 1;
    }
    PLUGIN.store(id, Ordering::Relaxed);
    register_calls_outside_code(id);
    // SAFETY: the callback has the type that QEMU's interface prescribes, and stays: a plugin is never unloaded.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation) };
    0
}

/// Registers all callbacks that do not instrument translated code.
fn register_calls_outside_code(id: qemu::Id) {
    // SAFETY: the callbacks have the types that QEMU's interface prescribes, and stay: a plugin is never unloaded.
    unsafe {
        qemu::qemu_plugin_register_vcpu_init_cb(id, on_thread);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
        qemu::qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
        qemu::qemu_plugin_register_atexit_cb(id, on_exit, std::ptr::null_mut());
    }
}

/// Writes a message to standard error. If that fails, the program continues without a recording.
fn say(message: impl Display) {
    let _ = io::stderr().write_all(format!("pinfold: {message}\n").as_bytes());
}

/// The state of the thread that runs as `vcpu`.
///
/// # Safety
///
/// The caller is a callback of this vcpu, in its thread, and drops the reference before it returns or calls this again.
/// So this is the only reference to the state. The state exists until the thread has ended. The end of the process also
/// reads it, but stops translated code first and waits for BUSY.
#[inline]
unsafe fn state<'callback>(vcpu: c_uint) -> Option<&'callback mut Thread> {
    let state = STATES.get(vcpu as usize)?.load(Ordering::Relaxed);
    // SAFETY: a state comes from a box, and by the caller's promise it is not freed yet and not referred to elsewhere.
    unsafe { state.as_mut() }
}

/// A vcpu starts. This runs in the creating thread.
#[expect(clippy::cast_ptr_alignment, reason = "slots begin at multiples of pages")]
extern "C" fn on_thread(_: qemu::Id, vcpu: c_uint) {
    if recorder::stopped() {
        return;
    }
    let Some(memory) = recorder::slot(vcpu as usize) else {
        recorder::add_to_status(Status::Unrecorded);
        return;
    };
    let number = recorder::next_thread();
    let creating = CREATING.get();
    let parent = creating.map(|creating| creating.parent);
    // SAFETY: the slot is large enough and page-aligned, and an Output is plain numbers. The previous thread with this
    // index has ended, so no other thread uses the slot.
    let output = unsafe { &mut *memory.cast::<Output>() };
    let window = WINDOW.load(Ordering::Relaxed);
    let mut thread = Box::new(Thread::new(number, output, window, window % 2 == 1));
    thread.event(EventKind::ThreadBegin {
        parent: u64::from(parent.unwrap_or(NO_PARENT)),
    });
    if window % 2 == 1 && recorder::windowed() {
        thread.event(EventKind::WindowBegin {});
    }
    match creating {
        Some(creating) => {
            thread.clear_at_end = creating.clear_at_end;
            CREATING.set(Some(Creating {
                child: Some(number),
                ..creating
            }));
        }
        None => recorder::append(Ok(Writer::thread(number, std::process::id(), NO_PARENT))),
    }
    let gone = STATES[vcpu as usize].swap(Box::into_raw(thread), Ordering::Relaxed);
    if !gone.is_null() {
        // SAFETY: it came from a box, and its thread has ended.
        drop(unsafe { Box::from_raw(gone) });
    }
}

/// The datum of an instruction holds its number, and in these low bits its index in its block.
const INDEX_BITS: u32 = 16;

extern "C" fn on_translation(_: qemu::Id, block: *mut qemu::TranslationBlock) {
    if recorder::stopped() {
        return;
    }
    // SAFETY: QEMU's block is valid during this call and has this many instructions, whose bytes QEMU has read. A user
    // datum is a plain number.
    unsafe {
        let count = qemu::qemu_plugin_tb_n_insns(block);
        let mut code: Vec<u8> = vec![];
        let mut begin = 0;
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, qemu::NO_REGISTERS, count as *mut c_void);
        for index in 0..count {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            let address = qemu::qemu_plugin_insn_vaddr(instruction);
            place::set_guest_base(qemu::qemu_plugin_insn_haddr(instruction) as u64, address);
            let data = qemu::qemu_plugin_insn_data(instruction);
            let bytes = std::slice::from_raw_parts(data, qemu::qemu_plugin_insn_size(instruction));
            if index == 0 {
                begin = address;
            }
            code.extend_from_slice(bytes);
            let pc = recorder::Pc {
                address,
                locked: is_atomic(bytes),
            };
            if leaves_block(bytes) {
                continue;
            }
            let number = u64::from(pc.number());
            let datum = (number << INDEX_BITS | index as u64) as *mut c_void;
            qemu::qemu_plugin_register_vcpu_mem_cb(
                instruction,
                on_access,
                qemu::NO_REGISTERS,
                qemu::READS_AND_WRITES,
                datum,
            );
        }
        code::translated(begin, &code);
    }
}

/// Whether an x86-64 instruction that accesses memory is atomic: it has a `lock` prefix, or is an `xchg`, which needs
/// none (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3, section on bus locking).
fn is_atomic(bytes: &[u8]) -> bool {
    for byte in bytes {
        match byte {
            0xf0 => return true,
            // Prefixes: sizes, repetition, segments, and REX.
            0x66 | 0x67 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0x40..=0x4f => {}
            opcode => return matches!(opcode, 0x86 | 0x87),
        }
    }
    false
}

/// Whether it is `syscall` or `pause`, which access no memory. QEMU 7.2 must not be asked for their accesses: it leaves
/// the block with the callbacks still set, and uses them after `qemu_plugin_reset` has freed them.
fn leaves_block(bytes: &[u8]) -> bool {
    bytes == [0x0f, 0x05] || bytes == [0xf3, 0x90]
}

extern "C" fn on_block(vcpu: c_uint, length: *mut c_void) {
    // SAFETY: this is a callback of the vcpu, and the reference ends with it.
    let Some(thread) = (unsafe { state(vcpu) }) else { return };
    let window = WINDOW.load(Ordering::Relaxed);
    if window != thread.window {
        thread.window = window;
        thread.set_active(window % 2 == 1);
    }
    let begun = thread.begin_block(length as u64);
    if begun >= thread.next_look {
        look(thread, begun);
    }
}

#[cold]
fn look(thread: &mut Thread, begun: u64) {
    if begun == 0 && thread.number == 0 {
        mapping::tell_begin(thread);
    }
    if recorder::window_is_of_instructions() {
        recorder::add_instructions(begun - thread.published);
        thread.published = begun;
        thread.next_look = begun + recorder::LOOK;
        if recorder::last_window_ended() && may_remove() && !REMOVED.swap(true, Ordering::Relaxed) {
            // SAFETY: QEMU removes the callbacks when no thread is in translated code, and then calls `on_removed`.
            unsafe { qemu::qemu_plugin_reset(PLUGIN.load(Ordering::Relaxed), on_removed) };
        }
    } else {
        thread.next_look = u64::MAX;
    }
}

/// Whether the callbacks may be removed: the program has had only one thread, or ends after the window. In QEMU 7.2 a
/// thread that leaves a block within an instruction keeps a pointer to the callbacks of its accesses, and uses it after
/// they are freed: three of five runs of a program with eight threads crashed. So a program with several threads keeps
/// its callbacks, which do nothing after the last window.
fn may_remove() -> bool {
    recorder::stops_after_window() || recorder::threads() <= 1
}

/// The last window has ended, and QEMU has removed all callbacks: the program continues without instrumentation. Events
/// of system calls are still recorded. With `--stop` the program ends here.
extern "C" fn on_removed(id: qemu::Id) {
    let window = WINDOW.load(Ordering::Relaxed);
    for vcpu in 0..shared::SLOTS {
        outside_code(vcpu as c_uint, |thread| {
            thread.window = window;
            thread.set_active(false);
            thread.flush();
        });
    }
    if recorder::stops_after_window() {
        complete();
        // SAFETY: all threads are outside translated code. The program's own clean-up does not run, as after SIGKILL.
        unsafe { libc::_exit(0) };
    }
    register_calls_outside_code(id);
}

extern "C" fn on_access(vcpu: c_uint, info: u32, address: u64, datum: *mut c_void) {
    // SAFETY: this is a callback of the vcpu, and the reference ends with it.
    let Some(thread) = (unsafe { state(vcpu) }) else { return };
    let kind = KINDS.get(info as usize).map_or(0, |kind| kind.load(Ordering::Relaxed));
    if kind == 0 {
        return on_unknown_access(thread, info, address, datum as u64);
    }
    on_known_access(thread, u32::from(kind), address, datum as u64);
}

/// The decoded form of QEMU's descriptions of accesses: the size in bytes, times two, plus one for a write. 0 if QEMU
/// was not asked yet. Two queries per access would take longer than the rest of an access. QEMU 7.2 has fewer
/// descriptions than this table.
static KINDS: [AtomicU8; 1 << 18] = [const { AtomicU8::new(0) }; 1 << 18];

#[inline]
fn on_known_access(thread: &mut Thread, kind: u32, address: u64, datum: u64) {
    let site = (datum >> INDEX_BITS) as u32 * 2 + kind % 2;
    thread.access(site, datum & ((1 << INDEX_BITS) - 1), address, kind / 2);
}

#[cold]
#[inline(never)]
fn on_unknown_access(thread: &mut Thread, info: u32, address: u64, datum: u64) {
    mapping::note_access(address);
    // SAFETY: the functions depend only on their argument.
    let (shift, write) = unsafe {
        (
            qemu::qemu_plugin_mem_size_shift(info),
            qemu::qemu_plugin_mem_is_store(info),
        )
    };
    let kind = 2 << shift | u32::from(write);
    if let Some(known) = KINDS.get(info as usize) {
        known.store(kind as u8, Ordering::Relaxed);
    }
    on_known_access(thread, kind, address, datum);
}

/// Runs `act` with the calling thread's state, and excludes the end of the process meanwhile.
fn outside_code(vcpu: c_uint, act: impl FnOnce(&mut Thread)) {
    let Some(busy) = BUSY.get(vcpu as usize) else { return };
    while busy.swap(true, Ordering::Acquire) {
        std::hint::spin_loop();
    }
    if !recorder::stopped()
        // SAFETY: the callers are callbacks of the vcpu, and the reference ends before they do.
        && let Some(thread) = unsafe { state(vcpu) }
    {
        act(thread);
    }
    busy.store(false, Ordering::Release);
}

/// The process ends normally. QEMU has stopped translated code and removed all callbacks.
extern "C" fn on_exit(_: qemu::Id, _: *mut c_void) {
    if recorder::stopped() {
        return;
    }
    for (state, busy) in STATES.iter().zip(&BUSY) {
        let state = state.load(Ordering::Relaxed);
        // SAFETY: translated code that calls the plugin is gone. BUSY, which is not released, keeps other callbacks
        // away.
        if let Some(thread) = unsafe { state.as_mut() } {
            while busy.swap(true, Ordering::Acquire) {
                std::hint::spin_loop();
            }
            thread.flush();
        }
    }
    complete();
}

/// Ends the recording after all blocks are written.
fn complete() {
    code::flush();
    recorder::append(Ok(Writer::end()));
    recorder::set_status(Status::Complete, 1);
    recorder::stop();
}

#[cfg(test)]
mod tests {
    use super::is_atomic;

    #[test]
    fn atomic_instructions_have_a_lock_prefix_or_are_exchanges() {
        // lock add [rdi], eax; lock cmpxchg [r8], rcx; xchg [rdi], rax; gs lock dec dword [rax]
        for atomic in [
            &[0xf0, 0x01, 0x07][..],
            &[0xf0, 0x49, 0x0f, 0xb1, 0x08],
            &[0x48, 0x87, 0x07],
            &[0x65, 0xf0, 0xff, 0x08],
        ] {
            assert!(is_atomic(atomic), "{atomic:02x?}");
        }
        // add [rdi], eax; mov rax, [rdi]; rep movsb; nothing
        for plain in [&[0x01, 0x07][..], &[0x48, 0x8b, 0x07], &[0xf3, 0xa4], &[]] {
            assert!(!is_atomic(plain), "{plain:02x?}");
        }
    }
}
