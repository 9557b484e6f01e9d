"""The opcode maps: every opcode with operands of all kinds, sequences of them, and what may differ from a
processor (docs/processor.md)."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from instruction_forms import decode, form_of
from vectors import ARITHMETIC, Form

# -- the maps ------------------------------------------------------------------------------------------------

#: Memory at rdi and a register, each with all eight numbers in the other operand's place; then rdi + 8, by a
#: SIB byte, relative to rip, one register twice.
_MODRM = [f"{7 | k << 3:02x}" for k in range(8)] + [f"{0xC1 | k << 3:02x}" for k in range(8)]
_MODRM += ["4f 08", "0c 27", "0d 90 90 90 90", "c0", "ff", "d2"]
#: What is no business of a sweep: VEX and EVEX, calls of the kernel, what no two processors answer alike.
#: And what is not offered, and to the processor would touch other vectors: `xsave`, `wrfsbase`.
_LEFT_OUT = re.compile(
    r"^(c4|c5|62|0f 05|0f 34|cd|0f 0[ef]|0f 31|0f a2|0f c7 [f37]|0f c7 2[7f]|0f ae ([23]7|d[129])"
    r"|0f 01 f9|8f)"
)
_ONE_BYTE_PREFIXES = (0x26, 0x2E, 0x36, 0x3E, *range(0x40, 0x50), 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3)
_NO_MODRM = (
    *(opcode for opcode in range(0x40) if opcode & 7 > 3), *range(0x50, 0x62), *range(0x64, 0x69), 0x6A,
    *range(0x6C, 0x80), *range(0x90, 0xC0), 0xC2, 0xC3, *range(0xC8, 0xD0), *range(0xD4, 0xD8),
    *range(0xE0, 0xF6), *range(0xF8, 0xFE),
)  # fmt: skip
#: Branches of 8 bits.
_NEAR = (*range(0x70, 0x80), *range(0xE0, 0xE4), 0xEB)
_IMMEDIATES = ("", "00", "7f", "81", "0c", "05 00", "ff ff")


def _tails(map_: str, opcode: int) -> Iterator[str]:
    if map_ == "" and opcode in _NEAR:
        # Onto the nops: anywhere else is another vector's code.
        yield from ("00", "01")
        return
    if map_ == "" and opcode in _NO_MODRM:
        yield from _IMMEDIATES
        yield "00 00 00 00"
        yield "c0 00 20 00 00 00 00 00"
        return
    for modrm in _MODRM:
        yield modrm
        if map_ == "0f 3a" or map_ == "" or opcode in (0x70, 0x71, 0x72, 0x73, 0xA4, 0xAC, 0xBA, 0xC2, 0xC4):
            yield f"{modrm} 03"
            yield f"{modrm} 84"


def map_forms(map_: str, opcodes: Sequence[int], prefixes: Sequence[str]) -> list[str]:
    """All operands of these opcodes of a map ("" for one byte, "0f", "0f 38", "0f 3a") behind each of the
    prefixes. Behind the instruction are nops, which are its immediate where it has none of its own."""
    forms = []
    for opcode, prefix in itertools.product(opcodes, prefixes):
        if map_ == "" and (opcode in _ONE_BYTE_PREFIXES or opcode == 0x0F):
            continue
        if map_ == "0f" and opcode in (0x38, 0x3A):
            continue
        for tail in _tails(map_, opcode):
            body = f"{map_} {opcode:02x} {tail}".strip()
            if not _LEFT_OUT.match(body):
                forms.append(f"{prefix} {body}{' 90' * 8}".strip())
    return forms


MAPS = ("", "0f", "0f 38", "0f 3a")
PREFIXES = (
    "", "66", "f2", "f3", "f0", "67", "48", "41", "44", "45", "4f", "66 48", "f3 48", "f2 48", "66 f3",
    "66 f2", "66 41", "f3 45", "f2 4f", "67 66", "64", "2e", "f0 48", "f0 66", "f2 67", "f3 67", "66 45",
    "f3 66",
)  # fmt: skip


# -- what is documented --------------------------------------------------------------------------------------

#: What CPUID does not offer, or a program may not use, and this host's processor has: a prefetch of a
#: register; vmcall, xsetbv, vmmcall, serialize, xresldtrk and their like; SSE4a; xrstor; clwb, clflushopt;
#: rdfsbase; lock verw; invpcid; movbe, adcx, movdiri; sha1rnds4; gf2p8mulb; hreset.
_NOT_OFFERED = re.compile(
    "|".join((
        "0f (0d|18) [c-f].", "0f 01 (c1|d1|d9|e8|e9|ee|ef|f[a-f])", "(66|f2) (.. )*0f 7[89]",
        "f[23] (.. )*0f 2b",
        "0f ae 2f", "0f c7 1f", "66 (.. )*0f ae [37f].", "f3 (.. )*0f ae [c-e].",
        "f0 (.. )*0f 00 2f", "66 (.. )*0f 38 82", "0f 38 f[01689]", "0f 38 c[8-f]", "0f 3a (c[cef]|f0)",
    ))
)  # fmt: skip
_ILLEGAL = "signal: 0x200000004,"
_PREFIX = "^((26|2e|36|3e|64|65|66|67|f0|f2|f3|4.) )*"
#: What it is; instructions, with their prefixes; what may differ of them; how it may.
_DOCUMENTED = tuple(
    (what, re.compile(text), re.compile(names), re.compile(how))
    for what, text, names, how in (
        ("control and debug registers", _PREFIX + "0f 2[0-3]", ".", "."),
        ("shifts of 16 bits by more", ".*66 (.. )*0f a[5d]", r"(flags|memory|registers\[\d+\])$", "."),
        # Bits above the lower half, and nothing else.
        (
            "bsf and bsr of zero",
            _PREFIX + "0f b[cd]",
            r"registers\[\d+\]$",
            r"0x(?:[0-9a-f]*?)([0-9a-f]{1,8}), the processor 0x[0-9a-f]+\1$",
        ),
        ("where the last x87 instruction was", _PREFIX + "(d9 37|dd 37|0f ae 07)", "memory$", "."),
        ("approximations", _PREFIX + "(d9 f[01239bef]|0f 5[23])", r"(st|xmm)\[\d+\]$", "."),
        ("fxsave and its like that are refused", _PREFIX + "0f ae (0|4f)", r"(address|signal\[1\])$", "."),
        ("stores of MMX registers that fault", _PREFIX + "0f (7[ef]|e7)", r"(st\[\d\]|x87\[1\])$", "."),
        ("frstor with REX.W", ".*4[8-f] dd 27", r"(st\[\d+\]|x87\[\d\])$", "."),
        ("far calls and jumps with REX.W", ".*4[8-f] ff [12]f", "error$", "."),
        ("a call to no address", _PREFIX + "ff (17|d.)", "pushed$", "."),
        ("enter on the line bus", "(.. )*c8 ", "pushed$", "."),
    )
)


def documented(form: Form, found: Sequence[str]) -> str:
    """Why docs/processor.md has these differences, empty if it does not."""
    if found[0].startswith(_ILLEGAL) and _NOT_OFFERED.search(form.text):
        return "not offered"
    if "f1" in form.text.split() and _is_before_int1(found):
        return "int1 below a hypervisor"
    parts = [one.split(": ", 1) for one in found]
    for what, text, names, how in _DOCUMENTED:
        if text.match(form.text) and all(names.match(name) and how.search(said) for name, said in parts):
            return what
    return ""


def _is_before_int1(found: Sequence[str]) -> bool:
    """Whether all that differs is where a signal was, by an `int1` and its prefixes."""
    lengths = set[int]()
    for one in found:
        name, said = one.split(": ", 1)
        ours, theirs = (int(value, 16) for value in said.split(", the processor "))
        if name not in ("address", "at", "signal[1]", "signal[2]"):
            return False
        lengths.add(ours - theirs)
    return len(lengths) == 1 and 1 <= lengths.pop() <= 3


# -- sequences -----------------------------------------------------------------------------------------------

_EXCLUDED = re.compile(
    "rep|f2xm1|fyl2x|fpatan|fsin|fcos|fptan|rcp|rsqrt|fnstenv|fnsave|fxsave|frstor|fldenv|shld|shrd|bs[fr]|xsave|xrstor|loop"
)
_PIECES = ("", "66", "f2", "f3", "48", "41", "66 48")


@lru_cache(maxsize=1)
def _pieces() -> list[Form]:
    """Instructions that are computed as on this processor, whatever they find."""
    found = []
    for map_ in MAPS:
        for text in map_forms(map_, range(256), _PIECES):
            first = decode(text)
            if first is None or (map_ and random.Random(text).random() > 0.2):
                continue
            form = form_of(" ".join(text.split()[: first.size]))
            if form is None or _EXCLUDED.match(form.name):
                continue
            if (form.flags, form.status) == (ARITHMETIC, 0xFFFF):
                found.append(form)
    return found


def sequences(seed: int, n: int) -> list[str]:
    """Two instructions, one after the other, n times. Each defines all that it changes."""
    rng, pieces = random.Random(seed), _pieces()
    return [f"{rng.choice(pieces).text} {rng.choice(pieces).text}" for _ in range(n)]
