"""Call stacks on memory and tables made by hand: where they end, and that they do."""

from __future__ import annotations

import random
import sys
import time

import pytest
from stack_factory import RBP, RETURN, RSP, FrameTable, Words, frame, kept, uleb

from corebraid.names.debug_files import DebugFiles
from corebraid.names.placed_files import PlacedFiles, PlacedPart
from corebraid.names.unwinding import stack as stack_module
from corebraid.names.unwinding.stack import CallStack, Frame
from isa.registry import frame_registers_of, isa_named

BIAS, STACK = 0x7000_0000, 0x10_0000
#: Code as the file counts it: an ordinary function, one by the frame pointer, the outermost one, one that a
#: signal leads to, one without tables, one that switches to another stack, and one that says it has none.
PLAIN, BY_POINTER, OUTERMOST, SIGNAL, BARE, SWITCH = 0x1000, 0x1100, 0x1200, 0x1300, 0x1400, 0x1500
NO_STACK = 0x1600
NUMBERING = frame_registers_of(isa_named("x86_64"))


def files() -> PlacedFiles:
    table = FrameTable()
    common = table.common(frame(RSP, 8) + kept(RETURN, 8))
    table.code(common, PLAIN, PLAIN + 0x100, b"\x0e" + uleb(32) + kept(3, 16))
    table.code(common, BY_POINTER, BY_POINTER + 0x100, frame(RBP, 16) + kept(RBP, 16))
    table.code(common, OUTERMOST, OUTERMOST + 0x100, b"\x07" + uleb(RETURN))
    signal = table.common(letters="zRS")
    # Stored above the stack pointer: the interrupted pc, then its stack pointer.
    code = frame(RSP, 0) + b"\x10" + uleb(RETURN) + b"\x02\x77\x00" + b"\x10" + uleb(RSP) + b"\x02\x77\x08"
    table.code(signal, SIGNAL, SIGNAL + 0x100, code)
    table.code(common, SWITCH, SWITCH + 0x100, b"\x10" + uleb(RSP) + b"\x02\x77\x00")
    table.code(common, NO_STACK, NO_STACK + 0x100, b"\x07" + uleb(RSP))
    raw = table.elf()
    return PlacedFiles([PlacedPart(BIAS + PLAIN, BIAS + 0x2000, BIAS, "a.out", raw)])


def walk(registers: dict[str, int], words: dict[int, int], *, call: bool = True) -> tuple[list[Frame], str]:
    """The frames and the remark. Registers and words: code as the file counts it is placed."""
    place = {value: value + BIAS for value in range(PLAIN, 0x1700)}
    stack = CallStack(
        {name: place.get(value, value) for name, value in registers.items()},
        Words({at: place.get(value, value) for at, value in words.items()}),
        files(),
        NUMBERING,
        lambda pc: call,
        DebugFiles(),
    )
    return list(stack.frames()), stack.remark


def pcs(frames: list[Frame]) -> list[int]:
    return [frame.pc - BIAS if frame.pc > BIAS else frame.pc for frame in frames]


def test_an_ordinary_stack_ends_without_a_remark() -> None:
    words = {
        STACK + 24: BY_POINTER + 5, STACK + 16: 77,
        STACK + 0x108: OUTERMOST + 9, STACK + 0x100: 0x4321,
    }  # fmt: skip
    registers = {"rip": PLAIN + 4, "rsp": STACK, "rbp": STACK + 0x100, "rbx": 1, "rax": 2}
    frames, remark = walk(registers, words)
    assert (pcs(frames), remark) == ([PLAIN + 4, BY_POINTER + 5, OUTERMOST + 9], "")
    assert [one.address for one in frames] == [STACK + 32, STACK + 0x110, STACK + 0x118]
    assert [one.exact for one in frames] == [True, False, False]
    assert frames[0].place == frames[0].pc
    assert frames[1].place == frames[1].pc - 1
    # What a function keeps is known of its callers, the rest only of the innermost.
    numbers = NUMBERING.numbers
    assert frames[1].registers[numbers["rbx"]] == 77
    assert numbers["rax"] in frames[0].registers
    assert numbers["rax"] not in frames[1].registers
    assert frames[2].registers[numbers["rbp"]] == 0x4321
    assert frames[2].registers[RSP] == STACK + 0x110


def test_a_return_address_of_zero_is_the_end() -> None:
    frames, remark = walk({"rip": PLAIN, "rsp": STACK}, {STACK + 24: 0, STACK + 16: 0})
    assert (pcs(frames), remark) == ([PLAIN], "")


def test_what_a_signal_interrupted_is_looked_up_where_it_stands() -> None:
    """At the first instruction of a function: one before it is another's."""
    words = {STACK + 24: SIGNAL + 1, STACK + 16: 0, STACK + 32: BY_POINTER, STACK + 40: STACK + 0x200}
    words |= {STACK + 0x208: OUTERMOST + 1, STACK + 0x200: 0}
    frames, remark = walk({"rip": PLAIN, "rsp": STACK, "rbp": STACK + 0x200}, words)
    assert (pcs(frames), remark) == ([PLAIN, SIGNAL + 1, BY_POINTER, OUTERMOST + 1], "")
    assert [one.signal for one in frames] == [False, True, False, False]
    assert frames[2].exact
    assert frames[2].place == frames[2].pc


def test_what_a_signal_interrupted_is_found_without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the code that a handler returns to, and the kernel's frame above it."""

    class Memory(Words):
        def read(self, address: int, size: int) -> bytes | None:
            if address == BIAS + BARE + 3:
                return NUMBERING.signal_return[:size]
            return super().read(address, size)

    monkeypatch.setattr(sys.modules[__name__], "Words", Memory)
    saved, top = NUMBERING.saved, STACK + 32
    words = {STACK + 24: BARE + 3, STACK + 16: 0, STACK + 0x1008: OUTERMOST + 1, STACK + 0x1000: 0}
    words |= {top + place: 0xAA00 + number for number, place in saved.items()}
    words |= {top + saved[RETURN]: BY_POINTER, top + saved[RBP]: STACK + 0x1000}
    words |= {top + saved[RSP]: STACK + 0x900}
    frames, remark = walk({"rip": PLAIN, "rsp": STACK}, words)
    assert (pcs(frames), remark) == ([PLAIN, BARE + 3, BY_POINTER, OUTERMOST + 1], "")
    assert [one.signal for one in frames] == [False, True, False, False]
    assert frames[2].exact
    assert frames[2].registers[NUMBERING.numbers["rax"]] == 0xAA00


def test_code_that_is_not_known_is_shown_and_ends_it() -> None:
    words = {STACK + 24: 0x4141414141414141, STACK + 16: 0}
    frames, remark = walk({"rip": PLAIN, "rsp": STACK}, words)
    assert pcs(frames)[0] == PLAIN
    assert frames[1].pc == 0x4141414141414141
    assert "overwritten" in remark


def test_code_without_tables() -> None:
    frames, remark = walk({"rip": PLAIN, "rsp": STACK}, {STACK + 24: BARE + 3, STACK + 16: 0})
    assert (pcs(frames), remark) == (
        [PLAIN, BARE + 3], "the caller is not known: no frame table tells of this code"
    )  # fmt: skip


def test_a_stack_that_is_not_there() -> None:
    frames, remark = walk({"rip": PLAIN, "rsp": STACK}, {})
    assert pcs(frames) == [PLAIN]
    assert frames[0].address == STACK + 32
    assert remark == f"the caller is not known: nothing is known of the memory at {STACK + 24:#x}"
    frames, remark = walk({"rip": BY_POINTER, "rsp": STACK}, {})
    assert (pcs(frames), frames[0].address) == ([BY_POINTER], None)
    assert "a register that is not known" in remark


def test_a_call_of_a_null_pointer_has_the_caller_that_the_call_has_stored() -> None:
    words = {STACK: PLAIN + 5, STACK + 32: OUTERMOST + 1, STACK + 24: 0}
    registers = {"rip": 0, "rsp": STACK, "rbp": 3}
    frames, remark = walk(registers, words)
    assert (pcs(frames), remark) == ([0, PLAIN + 5, OUTERMOST + 1], "")
    # Not where no call ends there, nor where what is stored is no code with a table.
    for other, call in ((words, False), ({STACK: BARE + 5}, True), ({STACK: 0}, True), ({}, True)):
        frames, remark = walk(registers, other, call=call)
        assert pcs(frames) == [0]
        assert "no call has led there" in remark


def test_a_frame_that_leads_back_ends_it() -> None:
    """The frame pointer was overwritten: it points below."""
    words = {STACK - 0x40 + 8: BY_POINTER + 1, STACK - 0x40: STACK - 0x40}
    frames, remark = walk({"rip": BY_POINTER, "rsp": STACK, "rbp": STACK - 0x40}, words)
    assert pcs(frames) == [BY_POINTER]
    assert "leads back" in remark
    # At the same place again and again.
    words = {STACK + 8: BY_POINTER + 1, STACK: STACK}
    frames, remark = walk({"rip": BY_POINTER, "rsp": STACK, "rbp": STACK}, words)
    assert len(frames) == 2
    assert "leads back" in remark


def test_signals_that_interrupt_each_other_in_a_circle_end() -> None:
    words = {STACK: SIGNAL + 1, STACK + 8: STACK}
    frames, remark = walk({"rip": SIGNAL + 1, "rsp": STACK}, words)
    assert len(frames) < 4
    assert "leads back" in remark


def test_a_frame_without_a_stack_ends_it() -> None:
    frames, remark = walk({"rip": NO_STACK, "rsp": STACK}, {STACK: PLAIN + 1})
    assert pcs(frames) == [NO_STACK]
    assert "nothing tells where its stack is" in remark


def test_a_switch_of_stacks_may_go_up_only() -> None:
    words = {STACK: STACK + 0x1000, STACK + 0x1000: OUTERMOST, STACK - 8: 0}
    frames, remark = walk({"rip": SWITCH, "rsp": STACK}, words)
    assert "return" not in remark
    assert len(frames) <= 2


def test_deep_recursion_is_gone_through_to_a_bound(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    class Deep:
        def read(self, address: int, size: int) -> bytes:
            return (BIAS + PLAIN + 9).to_bytes(8, "little")

    monkeypatch.setattr(stack_module, "_MOST_FRAMES", 5000)
    stack = CallStack(
        {"rip": BIAS + PLAIN, "rsp": STACK}, Deep(), files(), NUMBERING, lambda pc: True, DebugFiles()
    )
    assert sum(1 for _ in stack.frames()) == 5000
    assert stack.remark == "more than 5000 frames"


def test_random_stacks_end() -> None:
    """Whatever lies on the stack, code of ours above all."""
    draw, began = random.Random(7), time.monotonic()
    starts = (PLAIN, BY_POINTER, OUTERMOST, SIGNAL, BARE, SWITCH)
    for _ in range(300):
        words = {}
        for at in range(STACK - 0x100, STACK + 0x400, 8):
            code, near = draw.choice(starts) + draw.randrange(0x100), STACK + draw.randrange(-0x100, 0x400, 8)
            words[at] = draw.choice((0, code, code, near, near, draw.getrandbits(64)))
        registers = {"rip": draw.choice(starts), "rsp": STACK, "rbp": STACK + draw.randrange(0, 0x200, 8)}
        frames, _ = walk(registers, words)
        assert 1 <= len(frames) < 1000
    assert time.monotonic() - began < 60
