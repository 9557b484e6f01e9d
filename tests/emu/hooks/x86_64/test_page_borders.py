"""Operands over a page border, one side of which a program may not use, against the processor of this host:
what the signal tells, and that nothing of the instruction has happened."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_vectors import FaultVectors, Told
from guest import DATA
from vectors import NATIVE

import corebraid

#: The border, between two pages of a program's data that nothing else uses.
_BORDER = DATA + 0x4000
_NONE, _READ, _BOTH = 0, 1, 3


def _mov(register: int, value: int) -> str:
    """Of 64 bits to rax, rcx, rdx, rbx, rsp, rbp, rsi or rdi, by number."""
    return f"48 {0xB8 + register:02x} {value.to_bytes(8, 'little').hex(' ')} "


def _protected(address: int, rights: int) -> str:
    return f"{_mov(7, address)} be 00 10 00 00 ba {rights:02x} 00 00 00 b8 0a 00 00 00 0f 05 "


def _over(before: int, lower: int, upper: int, text: str) -> str:
    """An instruction with its operand at rax, so many bytes before the border of pages with these rights."""
    pages = _protected(_BORDER - 4096, lower) + _protected(_BORDER, upper)
    return f"{pages} d9 e8 66 0f 76 c0 {_mov(0, _BORDER - before)} {text}"


def _enter(end: int, lower: int, text: str) -> str:
    """One whose stack pointer begins 0x60 above the border; the page below has these rights."""
    pages = _protected(_BORDER - 4096, lower) + _protected(_BORDER, _BOTH)
    return f"{pages} {_mov(5, _BORDER + 0x80)} {_mov(4, end)} {text}"


_LOADS = {"movups": "0f 10 00", "movupd": "66 0f 10 00", "movdqu": "f3 0f 6f 00", "lddqu": "f2 0f f0 00",
          "movdqu to xmm8": "f3 44 0f 6f 00", "movdqu of rex": "f3 48 0f 6f 00"}  # fmt: skip
_STATES = {"fldenv": "d9 20", "fldenv short": "66 d9 20", "frstor": "dd 20", "frstor short": "66 dd 20"}
_CHANGES = {
    "xor": "66 31 08", "lock xor": "66 f0 31 08", "xchg": "66 87 08", "btc": "0f ba 38 03", "inc": "ff 00",
    "shl": "48 d1 20", "add": "48 01 08", "xadd": "48 0f c1 08", "movups": "0f 11 00", "mov": "48 89 08",
    "cmpxchg": "48 0f b1 08",
}  # fmt: skip
_POPS = {"pop": "8f 40 40", "popw": "66 8f 00", "pop, rsp": "8f 44 24 f8", "pop to its own": "8f 04 24"}

SEQUENCES = {
    # Whether the pages are there is told, too.
    "both are used": f"{_mov(0, _BORDER - 1)} 66 89 08",
    **{f"{name} {before}": _over(before, _BOTH, _NONE, text)
       for name, text in _LOADS.items() for before in (1, 7, 8, 9, 15, 16)},
    **{f"{name} {before}": _over(before, _BOTH, _NONE, text)
       for name, text in _STATES.items() for before in (1, 3, 10, 12, 13, 24, 28, 94, 107)},
    **{f"fxrstor {before}": _over(before, _BOTH, _NONE, "0f ae 08") for before in (16, 64, 416, 496, 512)},
    **{f"{name} {before}": _over(before, lower, upper, text)
       for name, text in _CHANGES.items() for before in (1,)
       for lower, upper in ((_READ, _NONE), (_READ, _READ), (_BOTH, _NONE), (_BOTH, _READ))},
    **{f"enter to {lower} {level}": _enter(_BORDER + 0x60, lower, f"c8 00 04 {level:02x}")
       for lower in (_NONE, _READ, _BOTH) for level in (0, 1, 3, 31, 35)},
    "enter, copies below": _enter(_BORDER + 0x20, _NONE, "c8 00 00 05"),
    "enter over the border": _enter(_BORDER + 0x1C, _NONE, "c8 00 00 03"),
    "enter at the border": _enter(_BORDER + 0x60, _NONE, "c8 58 00 00"),
    "enter to the border": _enter(_BORDER + 0x60, _NONE, "c8 59 00 00"),
    **{name: f"{_protected(_BORDER, _NONE)} {_mov(0, _BORDER + 64)} {_mov(4, _BORDER + 64)} {text}"
       for name, text in _POPS.items()},
    "pop to memory at rsp": f"{_protected(_BORDER, _NONE)} {_mov(4, _BORDER - 8)} 8f 04 24",
}  # fmt: skip
#: Any byte of their operand may be told (docs/processor.md).
_ANYWHERE = ("fldenv", "frstor", "fxrstor")


def _different(name: str, ours: Told, theirs: Told) -> list[str]:
    left_open = "address:" if name.startswith(_ANYWHERE) else "none"
    return [one for one in ours.differences(theirs) if not one.startswith(left_open)]


@pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what one refuses")
@pytest.mark.parametrize(
    "options",
    [{"bus": "page"}, {"bus": "mesi"}, {"bus": "mesi", "slice": 1}, {"bus": "page", "slice": 7}],
    ids=str,
)
def test_signals_are_those_of_the_processor(options: dict[str, object], tmp_path: Path) -> None:
    vectors = FaultVectors(tmp_path, list(SEQUENCES.values()))
    told = zip(vectors.run_recorded(tmp_path / "rec", **options), vectors.run_natively(), strict=True)
    found = dict(zip(SEQUENCES, told, strict=True))
    different = {name: _different(name, *both) for name, both in found.items()}
    assert not {name: what for name, what in different.items() if what}
    # It compares something: most of them are refused.
    signals = [theirs.signal for _, theirs in found.values()]
    assert 0 < signals.count(0) < len(signals) // 4
    assert corebraid.verify(tmp_path / "rec").facts()["sound"]
