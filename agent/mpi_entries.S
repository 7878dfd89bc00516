/*
 * The entries of the interposer of MPI: MPI_Send, PMPI_Send and so on, for each function of mpi_functions.h.
 *
 * An entry counts and jumps to the next definition of its function. It leaves the stack and the registers with
 * arguments as they are. So it serves every implementation of MPI, whatever the types and the number of the arguments,
 * and the function returns to the caller directly. An entry only uses registers that a called function may overwrite
 * and that have no arguments.
 *
 *   MPI_X counts, unless the MPI library calls itself. It stores the call site.
 *   PMPI_X counts at the call sites that mpi.c has found to count.
 *
 * The slow path, pinfold_mpi_enter() in mpi.c, handles the first call of a thread, functions whose next definition is
 * not known or depends on the caller, and new call sites of PMPI_X.
 */
#include "mpi_functions.h"

#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

#if defined __x86_64__

    .macro counted
    movq pinfold_mpi_counter@gottpoff(%rip), %r11
    movq %fs:(%r11), %r11
    testq %r11, %r11
    je 8f
    lock incq (%r11)
    .endm

    .macro enter name
    .globl \name
    .type \name, @function
    .balign 16
\name:
    .cfi_startproc
    _CET_ENDBR
    movq pinfold_mpi_targets+8*entry(%rip), %rax
    testq %rax, %rax
    je 8f
    .endm

    .macro leave_entry name
9:  jmp *%rax
8:  movl $entry, %r11d
    jmp slow_path
    .cfi_endproc
    .size \name, . - \name
    .set entry, entry + 1
    .endm

    .macro mpi_entry name
    enter \name
    movq (%rsp), %r11
    movq pinfold_mpi_site@gottpoff(%rip), %r10
    movq %r11, %fs:(%r10)
    subq pinfold_mpi_library(%rip), %r11
    cmpq pinfold_mpi_library+8(%rip), %r11
    jb 9f
    counted
    leave_entry \name
    .endm

    .macro pmpi_entry name
    enter \name
    movq (%rsp), %r11
    cmpq pinfold_mpi_silent_sites+8*entry(%rip), %r11
    je 9f
    cmpq pinfold_mpi_counted_sites+8*entry(%rip), %r11
    jne 8f
    counted
    leave_entry \name
    .endm

    .text
    .type slow_path, @function
    .balign 16
slow_path: /* %r11d: the number of the entry; the return address of the caller is on top of the stack. */
    .cfi_startproc
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    subq $176, %rsp
    movq %rdi, (%rsp)
    movq %rsi, 8(%rsp)
    movq %rdx, 16(%rsp)
    movq %rcx, 24(%rsp)
    movq %r8, 32(%rsp)
    movq %r9, 40(%rsp)
    /* No function of MPI has an argument in a vector register. They are saved for one of the future. */
    movups %xmm0, 48(%rsp)
    movups %xmm1, 64(%rsp)
    movups %xmm2, 80(%rsp)
    movups %xmm3, 96(%rsp)
    movups %xmm4, 112(%rsp)
    movups %xmm5, 128(%rsp)
    movups %xmm6, 144(%rsp)
    movups %xmm7, 160(%rsp)
    movl %r11d, %edi
    movq 8(%rbp), %rsi
    call pinfold_mpi_enter
    movq %rax, %r11
    movq (%rsp), %rdi
    movq 8(%rsp), %rsi
    movq 16(%rsp), %rdx
    movq 24(%rsp), %rcx
    movq 32(%rsp), %r8
    movq 40(%rsp), %r9
    movups 48(%rsp), %xmm0
    movups 64(%rsp), %xmm1
    movups 80(%rsp), %xmm2
    movups 96(%rsp), %xmm3
    movups 112(%rsp), %xmm4
    movups 128(%rsp), %xmm5
    movups 144(%rsp), %xmm6
    movups 160(%rsp), %xmm7
    leave
    .cfi_def_cfa %rsp, 8
    jmp *%r11
    .cfi_endproc
    .size slow_path, . - slow_path

#elif defined __aarch64__

    .macro counted
    adrp x9, :gottprel:pinfold_mpi_counter
    ldr x9, [x9, :gottprel_lo12:pinfold_mpi_counter]
    mrs x10, tpidr_el0
    ldr x9, [x10, x9]
    cbz x9, 8f
7:  ldxr x10, [x9]
    add x10, x10, #1
    stxr w11, x10, [x9]
    cbnz w11, 7b
    .endm

    .macro load register, table
    adrp \register, \table+8*entry
    ldr \register, [\register, :lo12:\table+8*entry]
    .endm

    .macro enter name
    .globl \name
    .type \name, %function
    .balign 16
\name:
    .cfi_startproc
    hint #34 /* bti c */
    load x16, pinfold_mpi_targets
    cbz x16, 8f
    .endm

    .macro leave_entry name
9:  br x16
8:  mov w17, #entry
    b slow_path
    .cfi_endproc
    .size \name, . - \name
    .set entry, entry + 1
    .endm

    .macro mpi_entry name
    enter \name
    adrp x9, :gottprel:pinfold_mpi_site
    ldr x9, [x9, :gottprel_lo12:pinfold_mpi_site]
    mrs x10, tpidr_el0
    str x30, [x10, x9]
    adrp x9, pinfold_mpi_library
    add x9, x9, :lo12:pinfold_mpi_library
    ldp x10, x11, [x9]
    sub x10, x30, x10
    cmp x10, x11
    b.lo 9f
    counted
    leave_entry \name
    .endm

    .macro pmpi_entry name
    enter \name
    load x9, pinfold_mpi_silent_sites
    cmp x9, x30
    b.eq 9f
    load x9, pinfold_mpi_counted_sites
    cmp x9, x30
    b.ne 8f
    counted
    leave_entry \name
    .endm

    .text
    .type slow_path, %function
    .balign 16
slow_path: /* w17: the number of the entry; x30: the return address of the caller. */
    .cfi_startproc
    stp x29, x30, [sp, #-224]!
    .cfi_def_cfa_offset 224
    .cfi_offset x29, -224
    .cfi_offset x30, -216
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    /* No function of MPI has an argument in a vector register. They are saved for one of the future. */
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    mov w0, w17
    mov x1, x30
    bl pinfold_mpi_enter
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    ldp x29, x30, [sp], #224
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
    .size slow_path, . - slow_path

#else
#error "the interposer of MPI has entries for x86-64 and aarch64"
#endif

    .hidden pinfold_mpi_counter
    .hidden pinfold_mpi_site
    .hidden pinfold_mpi_targets
    .hidden pinfold_mpi_library
    .hidden pinfold_mpi_counted_sites
    .hidden pinfold_mpi_silent_sites
    .hidden pinfold_mpi_enter

    .globl pinfold_mpi_entries_begin
    .hidden pinfold_mpi_entries_begin
    .globl pinfold_mpi_entries_end
    .hidden pinfold_mpi_entries_end

    .set entry, 0
#define ENTRIES(name) mpi_entry MPI_##name; pmpi_entry PMPI_##name;
pinfold_mpi_entries_begin:
    MPI_FUNCTIONS(ENTRIES)
pinfold_mpi_entries_end:

    .section .note.GNU-stack, "", %progbits
