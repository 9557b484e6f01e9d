/* Start of every core: a stack of its own, then main(core_id, core_count).
 * What main returns on core 0 is the exit code of the machine; any other core parks for good. */
#include "machine.h"

#define STACK_BYTES 16384

    .section .text.start, "ax", @progbits
    .globl _start
    .type _start, @function
_start:
    mov     %edi, %ebx
    lea     1(%rdi), %rax
    imul    $STACK_BYTES, %rax, %rax
    lea     core_stacks(%rax), %rsp
    xor     %ebp, %ebp
    call    main
    test    %ebx, %ebx
    jnz     park_core
    mov     $MACHINE_MMIO, %edx
    mov     %eax, %eax
    mov     %rax, MACHINE_POWER_OFF(%rdx)
    .size _start, . - _start

    .globl park_core
    .type park_core, @function
park_core:
    cli
1:  hlt
    jmp     1b
    .size park_core, . - park_core

    .section .bss.core_stacks, "aw", @nobits
    .balign 4096
    .globl core_stacks
    .type core_stacks, @object
core_stacks:
    .skip   STACK_BYTES * MACHINE_MAX_CORES
    .size core_stacks, . - core_stacks

    .section .note.GNU-stack, "", @progbits
