/* The machine that corebraid firmware runs on: memory map, device registers, interrupts, start state.
 *
 * Start. Every core starts at the ELF entry in 64-bit long mode, interrupts off, rdi = core id,
 * rsi = number of cores, every other register 0 (rsp too). lib/crt0.S makes a C environment of it.
 *
 * Memory. RAM is [0, memory size), flat, physical = virtual. Page 0 is never mapped. Only pages that a
 * PT_LOAD segment of the image covers can be reached, with the permissions of that segment; anything
 * else faults. Cores see one coherent memory.
 *
 * Registers. One uncached page at MACHINE_MMIO, one register every 8 bytes. Accesses are naturally
 * aligned, 4 or 8 bytes wide; a 4-byte access is to the low half. "per core" registers show each core
 * its own copy; "shared" ones are one for the whole machine.
 *
 *   offset  name          R/W  scope     meaning
 *   0x000   CONSOLE_TX    W    shared    the low byte is printed
 *   0x008   CONSOLE_RX    R    shared    next byte of standard input; all ones (-1) at its end
 *   0x010   POWER_OFF     W    shared    low 8 bits = exit code; the machine stops at the end of this
 *                                        basic block
 *   0x018   CORE_ID       R    per core  this core's number, from 0
 *   0x020   CORE_COUNT    R    shared    number of cores
 *   0x028   CYCLES        R    per core  this core's cycle count
 *   0x030   RANDOM        R    shared    64 random bits of the machine's seeded generator
 *   0x040   TIMER_PERIOD  W    per core  cycles between timer interrupts; 0, or 2^40 and more, = off
 *   0x048   INT_HANDLER   W    per core  address of the interrupt handler; 0 = none, interrupts stay
 *                                        pending
 *   0x050   INT_CAUSE     R    per core  bit 0 timer, bit 1 inter-core interrupt; reading clears it
 *   0x058   IPI_SEND      W    shared    number of the core to interrupt
 *   0x080   DMA_SRC       W    shared    physical address to copy from, 8-byte aligned
 *   0x088   DMA_DST       W    shared    physical address to copy to, 8-byte aligned
 *   0x090   DMA_LEN       W    shared    bytes to copy, a multiple of 8
 *   0x098   DMA_START     W    shared    any value starts the copy; it goes on in pieces while the cores
 *                                        run, and races with them
 *   0x0A0   DMA_STATUS    R    shared    bytes still to copy; 0 = idle
 *   0x100   MAIL_ID       W    per core  identifier of the request that the next message is, or answers
 *   0x108   MAIL_OUT0-3   W    per core  the next message's words, up to 0x120
 *   0x128   MAIL_POST     W    per core  posts it. Bits 0-7 core, 8-15 entry point, 16-19 kind (1 request,
 *                                        2 reply), 20-23 how many words it has
 *   0x130   MAIL_ACCEPT   W    per core  entry points whose requests are taken, a bit each; replies always are
 *   0x138   MAIL_TAKE     R    per core  takes the first message that may be: as written to MAIL_POST, bits
 *                                        0-7 the core it came from; 0 = there is none
 *   0x140   MAIL_AWAIT    R    per core  the same; after a 0 the core rests at the end of this basic block
 *                                        until a message that may be taken has come. Read it again then
 *   0x148   MAIL_FROM     R    per core  the identifier of the message taken last
 *   0x150   MAIL_IN0-3    R    per core  its words, up to 0x168; 0 beyond its last
 *   0x170   MAIL_TEST     RW   per core  write a request's identifier, bit 63 set if its answer has come; the
 *                                        read says whether a test of it answers yes: 0, 1, or 2 = never
 *                                        answer (lib/athapascan.c; a controlled replay decides otherwise)
 *
 * Mail. A message is under way for a time of its own, so messages arrive in any order, also between the same
 * two cores. An identifier (below 2^63) is (virtual processor, entry point, thread, request) of the process
 * that posted the request; the machine only compares identifiers.
 *   0x200   RMA_LOCAL     W    per core  this core's end of a put or get, 8-byte aligned
 *   0x208   RMA_REMOTE    W    per core  the other end, 8-byte aligned
 *   0x210   RMA_LENGTH    W    per core  bytes, a multiple of 8
 *   0x218   RMA_PUT       W    per core  any value starts a put, from local to remote
 *   0x220   RMA_GET       W    per core  any value starts a get, from remote to local
 *   0x228   RMA_OUTSTANDING R  per core  puts and gets of this core that are not finished, at most 16
 *   0x230   SEGMENT_BASE  W    per core  where this core's partition of the global memory begins, and
 *   0x238   SEGMENT_LENGTH W   per core  how many bytes it has, in whole pages: for whoever watches; the
 *                                        machine itself keeps nothing of it
 *
 * Puts and gets go on in pieces while the cores run, in no order among them; they race with the cores.
 * What has been put or got is there for certain once RMA_OUTSTANDING has read 0. A start while 16 are
 * outstanding, or with an end that is not aligned or not in memory, is ignored. Words outside the image's
 * pages are left out. Reading RMA_OUTSTANDING while it is not 0 ends the core's turn.
 *
 * Interrupts. Delivered between two instructions, with RFLAGS.IF = 1 (`sti`) and a handler set. The
 * machine skips a red zone of 128 bytes and writes two words below it:
 *
 *   new rsp = old rsp - 128 - 16;  [rsp] = RFLAGS;  [rsp + 8] = RIP of the interrupted instruction
 *
 * then it clears IF and jumps to the handler, which returns with `popfq; ret $128`. `hlt` waits for an
 * interrupt when IF = 1, and parks the core for good when IF = 0.
 *
 * Instructions. x86-64 with SSE2 and x87; no AVX (no VEX encodings), no branches with a 66 prefix. rdtsc,
 * rdtscp and rdrand work.
 */
#ifndef MACHINE_H
#define MACHINE_H

#define MACHINE_MMIO 0xF0000000

#define MACHINE_CONSOLE_TX 0x000
#define MACHINE_CONSOLE_RX 0x008
#define MACHINE_POWER_OFF 0x010
#define MACHINE_CORE_ID 0x018
#define MACHINE_CORE_COUNT 0x020
#define MACHINE_CYCLES 0x028
#define MACHINE_RANDOM 0x030
#define MACHINE_TIMER_PERIOD 0x040
#define MACHINE_INT_HANDLER 0x048
#define MACHINE_INT_CAUSE 0x050
#define MACHINE_IPI_SEND 0x058
#define MACHINE_DMA_SRC 0x080
#define MACHINE_DMA_DST 0x088
#define MACHINE_DMA_LEN 0x090
#define MACHINE_DMA_START 0x098
#define MACHINE_DMA_STATUS 0x0A0
#define MACHINE_MAIL_ID 0x100
#define MACHINE_MAIL_OUT 0x108
#define MACHINE_MAIL_POST 0x128
#define MACHINE_MAIL_ACCEPT 0x130
#define MACHINE_MAIL_TAKE 0x138
#define MACHINE_MAIL_AWAIT 0x140
#define MACHINE_MAIL_FROM 0x148
#define MACHINE_MAIL_IN 0x150
#define MACHINE_MAIL_TEST 0x170

#define MACHINE_MAIL_REQUEST 1
#define MACHINE_MAIL_REPLY 2
#define MACHINE_MAIL_COME (1UL << 63)
#define MACHINE_RMA_LOCAL 0x200
#define MACHINE_RMA_REMOTE 0x208
#define MACHINE_RMA_LENGTH 0x210
#define MACHINE_RMA_PUT 0x218
#define MACHINE_RMA_GET 0x220
#define MACHINE_RMA_OUTSTANDING 0x228
#define MACHINE_SEGMENT_BASE 0x230
#define MACHINE_SEGMENT_LENGTH 0x238

#define MACHINE_RMA_MOST 16

#define MACHINE_CAUSE_TIMER 1
#define MACHINE_CAUSE_IPI 2

#define MACHINE_MAX_CORES 64
#define MACHINE_LINE_BYTES 64
#define MACHINE_PAGE_BYTES 4096
#define MACHINE_RED_ZONE_BYTES 128

#ifndef __ASSEMBLER__

static inline void machine_write(unsigned long reg, unsigned long value) {
    *(volatile unsigned long *)(MACHINE_MMIO + reg) = value;
}

static inline unsigned long machine_read(unsigned long reg) {
    return *(volatile unsigned long *)(MACHINE_MMIO + reg);
}

/* Stops the machine; does not return. */
static inline void __attribute__((noreturn)) machine_power_off(unsigned exit_code) {
    machine_write(MACHINE_POWER_OFF, exit_code);
    for (;;)
        __asm__ volatile("cli; hlt");
}

#endif
#endif
