"""Small guests, each for a corner of the recorder: what its cores run, and on how many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from guest import (
    CONSOLE_RX,
    CONSOLE_TX,
    CYCLES,
    DATA,
    DEVICES,
    DMA_DST,
    DMA_LEN,
    DMA_SRC,
    DMA_START,
    DMA_STATUS,
    INT_CAUSE,
    INT_HANDLER,
    IPI_SEND,
    RANDOM,
    TIMER_PERIOD,
    Code,
    elf,
)

STACKS = DATA + 0xD000

DONE = DATA + 0xF000


def start(code: Code) -> Code:
    """A stack of 1 KiB for each core; rbx = core id, rbp = core count."""
    code.raw("48 89 fb  48 89 f5")  # mov rbx, rdi; mov rbp, rsi
    code.raw("48 89 fc  48 c1 e4 0a")  # mov rsp, rdi; shl rsp, 10
    return code.add("rsp", STACKS + 0x400)


def finish(code: Code) -> Code:
    """The last core to come here powers the machine off with exit code 0; the others park."""
    code.mov("rax", 1).emit("0f c1", "rax", DONE, prefix="f0")  # lock xadd [DONE], rax
    code.add("rax", 1).raw("48 39 e8")  # cmp rax, rbp
    code.jump_if("nz", "park").power_off(0)
    return code.label("park").halt()


def sizes(code: Code) -> None:
    """Loads, stores and read-modify-writes of 1 to 8 bytes, at offsets that straddle lines and pages."""
    code.mov("rcx", 6).label("again")
    for line in (DATA + 0x40, DATA + 0x1000):
        for size in (1, 2, 4, 8):
            for offset in (-7, -3, -1, 0):
                code.load("rax", line + offset, size).add("rax", 0x1234567)
                code.store(line + offset, "rax", size)
    code.emit("01", "rcx", DATA + 0x3D).emit("ff", 0, DATA + 0xFFE, wide=False)  # add, inc
    code.loop("rcx", "again")


def vectors(code: Code) -> None:
    """SSE loads and stores, also unaligned and across a page; movnti; maskmovdqu."""
    code.mov("rax", DATA + 0xFF8).mov("rdi", DATA + 0x38).mov("rcx", 5).label("again")
    code.raw("f3 0f 6f 00")  # movdqu xmm0, [rax]
    code.raw("66 0f d4 c0  66 0f 76 c9  66 0f fb c1")  # paddq xmm0, xmm0; pcmpeqd xmm1, xmm1; psubq
    code.raw("f3 0f 7f 00")  # movdqu [rax], xmm0
    code.raw("0f 11 00  0f 10 17  0f 11 17")  # movups [rax], xmm0; movups xmm2, [rdi]; movups [rdi], xmm2
    code.raw("66 0f f7 c1")  # maskmovdqu xmm0, xmm1
    code.raw("48 0f c3 08")  # movnti [rax], rcx
    code.raw("0f 12 17  0f 17 57 04")  # movlps xmm2, [rdi]; movhps [rdi + 4], xmm2
    code.loop("rcx", "again")


def x87(code: Code) -> None:
    """fxsave, fxrstor, fnstenv, 10-byte loads and stores, all of which the emulator runs in helpers."""
    code.mov("rax", DATA + 0x400).mov("rdx", DATA + 0xFFC).mov("rcx", 4).label("again")
    code.raw("d9 eb  d9 e8")  # fldpi; fld1
    code.raw("db 3a  48 89 08  db 2a")  # fstp tbyte [rdx]; mov [rax], rcx; fld tbyte [rdx]
    code.raw("0f ae 00  48 89 48 18  0f ae 08")  # fxsave [rax]; mov [rax + 24], rcx; fxrstor [rax]
    code.raw("d9 72 30  9b  df 3a  db e3")  # fnstenv [rdx + 48]; fwait; fistp qword [rdx]; fninit
    code.loop("rcx", "again")


def strings(code: Code) -> None:
    """Repeated string instructions of every kind, in both directions, on memory that all cores share."""
    for number, (direction, low) in enumerate((("fc", 0), ("fd", 60))):
        for operation in ("f3 a4", "f3 48 a5", "f3 aa", "f3 ab", "f2 ae", "f3 a6", "f3 48 ad", "a4"):
            code.raw(direction).mov("rsi", DATA + 0xFC0 + low).mov("rdi", DATA + 0xFE1 + low)
            code.mov("rcx", 7 + number).mov("rax", 0x55).raw(operation)
            code.emit("89", "rcx", DATA + 0x80)
    code.raw("fc").mov("rcx", 0).raw("f3 a4")


def atomics(code: Code) -> None:
    """Every core adds 1 ten times by each of four atomics; core 0 sees the sum."""
    code.mov("rcx", 10).label("again")
    code.emit("ff", 0, DATA, prefix="f0")  # lock inc [DATA]
    code.mov("rax", 1).emit("0f c1", "rax", DATA + 0x3C, prefix="f0")  # lock xadd, across a line
    code.label("retry").load("rax", DATA + 0x80).raw("48 8d 50 01")  # lea rdx, [rax + 1]
    code.emit("0f b1", "rdx", DATA + 0x80, prefix="f0").jump_if("nz", "retry")  # lock cmpxchg
    code.mov("rdx", 1).emit("87", "rdx", DATA + 0xC0)  # xchg
    code.emit("f7", 3, DATA + 0x100, prefix="f0")  # lock neg
    code.emit("0f ba", 7, DATA + 0x108, prefix="f0").raw("05")  # lock btc [..], 5
    code.raw("49 89 c8")  # mov r8, rcx
    code.label("pair").load("rax", DATA + 0x140).load("rdx", DATA + 0x148)
    code.raw("48 89 c3  48 83 c3 01  48 89 d1  48 83 c1 01")  # rbx = rax + 1; rcx = rdx + 1
    code.emit("0f c7", 1, DATA + 0x140, prefix="f0")  # lock cmpxchg16b
    code.jump_if("nz", "pair")
    code.raw("4c 89 c1").loop("rcx", "again")


def pair_flags(code: Code) -> None:
    """cmpxchg16b and cmpxchg8b behind every way to set flags, which are pushed and kept at once."""
    code.mov("rcx", 4).mov("r9", 0).label("again").mov("rsi", DATA + 0x180)
    ways = ("48 83 c1 00", "4c 29 c9", "48 d3 e2", "0c 80", "f9", "d3 fa", "90", "31 d2")
    for number, flags in enumerate(ways):
        code.mov("rax", 1 << 63 | number).raw(flags)
        code.raw("f0 48 0f c7 0e  9c" if number % 2 else "0f c7 0e  9c").raw("41 58")  # ...; pushfq; pop r8
        code.raw("0f c7 4e 10").emit("31", "r8", DATA + 8 * number)  # cmpxchg8b [rsi + 16]; xor [..], r8
    code.loop("rcx", "again")


def reserved_no_operations(code: Code) -> None:
    """endbr64, and no-operations that the decoder does not know, among ordinary instructions."""
    code.mov("rcx", 5).label("again").raw("f3 0f 1e fa")
    for text in ("0f 1a c3", "0f 1b c3", "0f 1c c3", "0f 1d cb", "0f 1e d3", "66 0f 1c c3", "41 0f 1c c0"):
        code.raw(text).emit("01", "rcx", DATA)
    code.raw("0f 1e 04 25 00 00 00 00  0f 1f 44 00 00  f3 0f 1e fb").loop("rcx", "again")


def calls(code: Code) -> None:
    """push, pop, call, ret, enter (also nested), leave, and pushes of what a shared word holds."""
    code.mov("rcx", 6).label("again").call("leaf").loop("rcx", "again").jump("after")
    code.label("leaf").raw("51 53 c8 10 00 00")  # push rcx; push rbx; enter 16, 0
    code.emit("ff", 6, DATA).emit("8f", 0, DATA + 0x3C).raw("9c 9d")  # push [..]; pop [..]; pushfq; popfq
    code.raw("55 48 89 e5  c8 20 00 03  c9 5d")  # push rbp; mov rbp, rsp; enter 32, 3; leave; pop rbp
    code.raw("c9 5b 59 c3").label("after")  # leave; pop rbx; pop rcx; ret


def own_code(code: Code) -> None:
    """A store changes the constant of an instruction further on in the same block, 8 times over; then the
    same in a block that lies in two pages and changes the second."""
    code.compare("rbx", 0).jump_if("nz", "over")
    code.mov("rcx", 8).mov("rdx", 0).label("again")
    code.raw("88 0d 03 00 00 00  90  80 c2 11  90")  # mov [rip + 3], cl; nop; add dl, 0x11 (patched); nop
    code.emit("00", "rdx", DATA + 0x20, wide=False).loop("rcx", "again")
    code.jump("cross").at(0x100FE0).label("cross").mov("rcx", 8).label("more").at(0x100FF5)
    code.raw("88 0d 0c 00 00 00")  # 0xff5: mov [rip + 12], cl -> 0x1007: the constant below
    code.raw("90 90 90 90 90 90 90 90 90 90  80 c2 11  90")  # 0xffb: nops; 0x1005: add dl, 0x11 (patched)
    code.emit("00", "rdx", DATA + 0x21, wide=False).loop("rcx", "more").label("over")


def own_code_at_odd_addresses(code: Code) -> None:
    """The same by stores that are not aligned, which the emulator makes byte by byte: into the constant
    ahead; and from before the block's first byte on, so that some bytes are stored when it is broken off.
    What is accessed after that, in the same slice, is shared."""
    code.compare("rbx", 0).jump_if("nz", "others").mov("rcx", 8).mov("rdx", 0).label("again")
    code.raw("89 0d 02 00 00 00  81 c2 00 00 00 00")  # mov [rip + 2], ecx; add edx, 0 (patched)
    code.emit("01", "rdx", DATA + 0x20).emit("ff", 0, DATA + 0x28, prefix="f0").loop("rcx", "again")
    code.mov("rcx", 8).mov("rax", 0x90000000).jump("before").align(16).raw("90 90 90 90").label("before")
    code.raw("90  89 05 f6 ff ff ff  83 c0 01")  # nop; mov [rip - 10], eax: 3 bytes and that nop; add eax, 1
    code.emit("01", "rax", DATA + 0x20).emit("ff", 0, DATA + 0x28, prefix="f0")
    code.loop("rcx", "before").jump("over")
    code.label("others").mov("rcx", 40).label("more")
    code.emit("01", "rcx", DATA + 0x20).emit("ff", 0, DATA + 0x28, prefix="f0").loop("rcx", "more")
    code.label("over")


#: Where `own_code_that_it_reads` leaves what it has read last, what it has counted, where it returned to.
READ_LAST, COUNTED, RETURNED, KEPT = DATA + 0x40, DATA + 0x48, DATA + 0x50, DATA + 0x58


def own_code_that_it_reads(code: Code) -> None:
    """Instructions that store into their own block, byte by byte, what they compute from what they read
    there; a string copied over the block that copies it; a return address stored into the block that calls.
    All that is broken off, and done once."""
    code.compare("rbx", 0).jump_if("nz", "others").mov("rcx", 8).label("again").mov("r13", 3)
    # add eax, 0; lock xadd [rip - 12], r13: that constant's upper bytes, before the block of what is locked.
    code.raw("05 00 00 00 00  f0 4c 0f c1 2d f4 ff ff ff").emit("89", "r13", READ_LAST)
    code.emit("01", "rcx", DATA + 0x20).loop("rcx", "again")
    code.mov("rcx", 8).mov("rax", 1).jump("before").align(16).raw("90 90 90 90").label("before")
    # nop; add [rip - 10], eax: three bytes before the block, and that nop.
    code.raw("90  01 05 f6 ff ff ff").emit("01", "rcx", DATA + 0x20).loop("rcx", "before")
    code.emit("8b", "rax", code.address("before") - 3, wide=False).emit("89", "rax", COUNTED)
    code.mov("rcx", 8).jump("kept").align(16).raw("90 90 90 90 90 90 90 90").label("kept")
    # A store before the block stays where an aligned one into the block is broken off: inc edx's constant.
    code.emit("89", "rcx", code.address("kept") - 4, wide=False)
    code.emit("ff", 0, code.address("kept") + 20, wide=False).raw("90 90 90 ba 00 00 00 00")
    code.loop("rcx", "kept")
    code.emit("8b", "rax", code.address("kept") - 4, wide=False).emit("89", "rax", KEPT)
    code.mov("r14", 4).label("copied").mov("rsi", code.address("copied")).mov("rdi", code.address("copied"))
    code.mov("rcx", 32).raw("f3 a4").emit("01", "r14", DATA + 0x20).emit("89", "rsp", "r11").label("called")
    code.mov("r15", 0).mov("rsp", code.address("called") + 10).raw("e8 00 00 00 00").emit("89", "r11", "rsp")
    code.emit("89", "r15", RETURNED).loop("r14", "copied").jump("after")
    code.label("others").mov("rcx", 40).label("more").emit("01", "rcx", DATA + 0x20).loop("rcx", "more")
    code.label("after")


def repeated_over_itself(code: Code) -> None:
    """`rep stosb` that becomes a nop and a `stosb`."""
    code.compare("rbx", 0).jump_if("nz", "after").mov("rax", 0x90).mov("rcx", 5)
    code.raw("48 8d 3d 00 00 00 00  f3 aa").label("after")


def stored_before_its_block(code: Code) -> None:
    """A store before its own block, then an instruction that reads and stores that and goes on into it."""
    code.compare("rbx", 0).jump_if("nz", "after").mov("rcx", 3).jump("here").align(16).raw("90 90 90 90")
    code.label("here").raw("90 90 90").emit("89", "rcx", code.address("here") - 4, wide=False)
    code.emit("01", "rcx", code.address("here") - 3, wide=False).loop("rcx", "here").label("after")


def others_code(code: Code) -> None:
    """Core 0 rewrites a function that the others call; each runs some version, never a mixture."""
    code.mov("r12", 12).compare("rbx", 0).jump_if("nz", "caller")
    code.label("writer").emit("c7", 0, 0x101001, wide=False).raw("90 90 90 90")
    code.emit("89", "r12", 0x101001, wide=False).emit("89", "r12", 0x1010FE, wide=False).loop("r12", "writer")
    code.jump("after")
    code.label("caller").call("function").emit("01", "rax", DATA).loop("r12", "caller").jump("after")
    code.at(0x101000).label("function").raw("b8 01 00 00 00").at(0x1010FC).raw(
        "90 b8 05 00 00 00 90 90 90 90 c3"
    )
    code.label("after")


def others_code_of_other_length(code: Code) -> None:
    """Core 0 rewrites four bytes of a function as four, one or two instructions, while the others, whose own
    code lies in the same page, call it."""
    code.compare("rbx", 0).jump_if("nz", "caller").mov("r12", 15).label("writer")
    for version in ("90 90 90 90", "0f 1f 40 00", "48 ff c0 90"):
        code.emit("c7", 0, 0x101040, wide=False).raw(version)
        code.emit("ff", 0, DATA + 0x40).emit("ff", 0, DATA + 0x48)
    code.loop("r12", "writer").jump("after").at(0x101000).label("caller").mov("r12", 60).label("calls")
    code.mov("rax", 0).call("changing").emit("01", "rax", DATA).loop("r12", "calls").jump("after")
    code.at(0x101040).label("changing").raw("90 90 90 90 c3").label("after")


def inputs(code: Code) -> None:
    """Timestamps, random numbers of every size, and device registers read in every way."""
    code.mov("rcx", 3).mov("r13", DEVICES).label("again")
    code.raw("0f 31").emit("89", "rax", DATA)  # rdtsc
    code.raw("51 0f 01 f9").emit("89", "rcx", DATA + 8).raw("59")  # rdtscp
    for number, text in enumerate(("66 0f c7 f0", "0f c7 f0", "48 0f c7 f0", "49 0f c7 f1", "48 0f c7 f8")):
        code.raw(text).emit("11", "rax", DATA + 8 * number)  # rdrand ax, eax, rax, r9; rdseed rax; adc
    for size in (1, 2, 4, 8):
        code.load("rax", ("r13", RANDOM), size).emit("01", "rax", DATA)
    code.emit("ff", 6, ("r13", RANDOM)).emit("8f", 0, DATA + 0x10)  # push [device]; pop
    code.emit("03", "rax", ("r13", CYCLES)).emit("3b", "rax", ("r13", CONSOLE_RX))  # add, cmp with memory
    code.mov("rsi", DEVICES + CONSOLE_RX).mov("rdi", DATA + 0x3C).raw("48 a5 a5 a4")  # movs from a device
    code.emit("0f 10", 0, ("r13", CYCLES), wide=False)  # movups xmm0, [device]
    code.loop("rcx", "again")


def atomics_on_devices(code: Code) -> None:
    """xchg, lock add and lock cmpxchg with a device register."""
    code.mov("r13", DEVICES).mov("rcx", 3).label("again").mov("rax", 0x2A)
    code.emit("87", "rax", ("r13", CONSOLE_TX)).emit("89", "rax", DATA)
    code.emit("01", "rcx", ("r13", RANDOM), prefix="f0")
    code.emit("0f b1", "rcx", ("r13", CYCLES), prefix="f0").emit("89", "rax", DATA + 8)
    code.loop("rcx", "again")


def helpers_and_devices(code: Code) -> None:
    """Stores that the emulator runs in helpers, right before a device is touched."""
    code.mov("r13", DEVICES).mov("rdx", DATA + 0x400).mov("rcx", 4).label("again")
    code.mov("rax", 0x2E).raw("d9 eb")
    code.raw("0f ae 02").store(("r13", CONSOLE_TX), "rax")  # fxsave [rdx]
    code.raw("0f ae 02").load("rax", ("r13", CONSOLE_RX)).emit("01", "rax", DATA)
    code.raw("db 3a").load("rax", ("r13", RANDOM)).emit("01", "rax", DATA)  # fstp tbyte [rdx]
    code.loop("rcx", "again")


def interrupts(code: Code) -> None:
    """A timer on each core, inter-core interrupts in a ring, work in between; then wait for four."""
    code.jump("main").label("handler").raw("50 41 57 52").ask(INT_CAUSE, "rax").raw("51 5a")
    code.emit("01", "rax", DATA + 0x40).raw("49 ff c4  5a 41 5f 58 9d c2 80 00")  # inc r12; ...; ret 128
    code.label("main").mov("r12", 0).mov("rax", code.address("handler")).device(INT_HANDLER, "rax")
    code.device(TIMER_PERIOD, 6000).raw("fb").mov("rcx", 40).label("work")
    code.emit("ff", 0, DATA).raw("51 59").loop("rcx", "work")
    code.raw("48 8d 43 01  48 31 d2  48 f7 f5").device(IPI_SEND, "rdx")  # (core + 1) mod cores
    code.label("wait").raw("f4").compare("r12", 4).jump_if("l", "wait").raw("fa").device(TIMER_PERIOD, 0)


def dma(code: Code) -> None:
    """Core 0 starts copies between lines that all cores write; everyone reads the target meanwhile."""
    code.mov("rcx", 12).compare("rbx", 0).jump_if("nz", "others")
    code.device(DMA_SRC, DATA + 0x1C0).device(DMA_DST, DATA + 0xFD8).device(DMA_LEN, 0x90).device(
        DMA_START, 1
    )
    code.label("poll").emit("ff", 0, DATA + 0x200).load("rax", DATA + 0x1000)
    code.ask(DMA_STATUS, "rax").compare("rax", 0).jump_if("nz", "poll").jump("after")
    code.label("others").emit("ff", 0, DATA + 0x1F8).emit("01", "rcx", DATA + 0xFFC)
    code.load("rax", DATA + 0x1020).loop("rcx", "others").label("after")


GUESTS: dict[Callable[[Code], None], int] = {
    sizes: 2,
    vectors: 2,
    x87: 2,
    strings: 2,
    atomics: 3,
    pair_flags: 2,
    reserved_no_operations: 2,
    calls: 2,
    own_code: 2,
    own_code_at_odd_addresses: 3,
    own_code_that_it_reads: 3,
    repeated_over_itself: 2,
    others_code: 2,
    others_code_of_other_length: 3,
    inputs: 2,
    atomics_on_devices: 2,
    helpers_and_devices: 2,
    interrupts: 3,
    dma: 3,
}


def build(path: Path, body: Callable[[Code], None]) -> Path:
    """The guest with this body between start and finish."""
    code = start(Code())
    body(code)
    return elf(path / f"{body.__name__}.elf", finish(code))
