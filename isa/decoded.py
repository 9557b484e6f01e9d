"""What a decoder says of guest code, whatever its instruction set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A translated block, decoded.

    offsets: byte offset of every instruction. atomic: positions of those that are one indivisible access
    (`lock`, and `xchg` with memory: SDM volume 3, 8.1.2). helped: positions of those that cannot be
    stopped at an access: the emulator makes it in a helper, or something has changed before a store.
    ends_run: the last one transfers control, so that what follows it is another run of instructions.
    repeats: the last one is a repeated string instruction, which the emulator runs as a block of its own
    from its second iteration on. frames: it holds an `enter`, which may fail
    after some of its stores. pairs: byte offsets of instructions that compare and exchange more than a
    register. fences: byte offsets of instructions that make no atomic access and yet wait until the store
    buffer is empty (SDM volume 3, 9.3 and 12.10). privileged: byte offsets of instructions that only a
    kernel may run, or nobody (a general-protection fault). unsupported: offset of the first instruction
    that the emulator would compute wrongly, or -1, and its text. unknown: offset of bytes that are no
    instruction to the decoder (decoding ends there), or -1. coprocessor: it holds instructions of a unit
    that few programs use, and what computes them is loaded for. reserved: byte offsets of instructions
    that programs do not have. illegal: byte offset of what nobody has, though the emulator might run it
    (decoding ends there). rewrites: positions of those that may store where they have read. calls: byte
    offsets of system calls.
    """

    offsets: tuple[int, ...]
    atomic: tuple[int, ...]
    helped: tuple[int, ...]
    ends_run: bool
    repeats: bool
    frames: bool
    pairs: tuple[int, ...]
    fences: tuple[int, ...]
    privileged: tuple[int, ...]
    unsupported: int
    unsupported_text: str
    unknown: int
    coprocessor: bool = False
    reserved: tuple[int, ...] = ()
    illegal: tuple[int, ...] = ()
    rewrites: tuple[int, ...] = ()
    calls: tuple[int, ...] = ()


@dataclass(frozen=True)
class Access:
    """What an instruction may access: its first byte, size in bytes, whether it is written (also: after it
    was read), whether it is addressed as the stack is."""

    address: int
    size: int
    written: bool
    stack: bool


@dataclass(frozen=True)
class Branch:
    """A branch. stack: what it adds to the stack pointer."""

    stack: int


@dataclass(frozen=True)
class RandomRead:
    """An instruction that reads a random number.

    register: its destination's name. size, length: of the number and of the instruction, bytes. kept: bits of
    the destination that stay. flags: (bits of the flags register that stay, bits that are set).
    """

    register: str
    size: int
    length: int
    kept: int
    flags: tuple[int, int]


@dataclass(frozen=True)
class Move:
    """`size` bytes of a value become bytes of another: those from byte `source` on those from `target` on."""

    target: int
    source: int
    size: int


@dataclass(frozen=True)
class Flow:
    """What an instruction's results are made of. written: registers that it sets, by the names of whole ones.
    values: registers whose values go into that, or into what it stores; those that only say where in memory
    are none. loads: whether what it reads from memory does. outside: where its results come from if from
    elsewhere, in words. swaps: what it stores is `values`, and what it reads from memory goes to `written`;
    adds: and that into what it stores. kept: registers of `written` that keep a part of what they held.
    moves: of one that only copies, which bytes of `source` become which of `target`: registers, or '' for
    memory.
    """

    written: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    loads: bool = False
    outside: str = ""
    swaps: bool = False
    adds: bool = False
    kept: frozenset[str] = frozenset()
    moves: tuple[Move, ...] = ()
    source: str = ""
    target: str = ""

    def sets(self) -> int:
        """Of one that only copies, the bytes of its target that it sets, as bits."""
        return sum(((1 << move.size) - 1) << move.target for move in self.moves)

    def asked(self, wanted: int) -> int:
        """Of one that only copies, the bytes of its source that become the `wanted` ones of its target, as
        bits. What it sets to zero beside them comes from none."""
        found = 0
        for move in self.moves:
            found |= (wanted >> move.target & (1 << move.size) - 1) << move.source
        return found
