/* A program whose data accesses are known exactly: it uses no stack, and each line below says what it accesses.
   The instructions up to the end are 2 + 1000 * 7 + 12. */
        .globl _start
        .text
_start:
        mov     $1000, %ecx
        lea     buffer(%rip), %rdi
1:      mov     (%rdi), %rax            /* 1000 reads of 8 bytes, 16 bytes apart */
        mov     %eax, 8(%rdi)           /* 1000 writes of 4 bytes */
        addw    $1, counter(%rip)       /* 1000 reads and 1000 writes of 2 bytes */
        movb    counter(%rip), %al      /* 1000 reads of 1 byte */
        add     $16, %rdi
        dec     %ecx
        jnz     1b
        lea     buffer(%rip), %rdi
        movups  (%rdi), %xmm0           /* a read of 16 bytes, which QEMU splits */
        movups  %xmm0, 32(%rdi)         /* a write of 16 bytes */
        lea     64(%rdi), %rsi
        mov     $5, %ecx
        fldt    (%rdi)                  /* a read of 10 bytes, which are 8 and 2 */
        rep movsb                       /* 5 reads and 5 writes of 1 byte, in 5 or 6 instructions */
        xor     %edi, %edi
        mov     $231, %eax              /* exit_group */
        syscall
        .bss
        .balign 64
buffer: .skip   32768
counter: .skip  64
