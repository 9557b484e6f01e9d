"""What instructions' results are made of, by the manual."""

from __future__ import annotations

import pytest

from isa.x86_64.flow import family, flow

#: Code: (written, values, loads).
_KNOWN = {
    "48 8b 43 08": ({"rax"}, set(), True),  # mov rax, [rbx + 8]
    "48 89 43 08": (set(), {"rax"}, False),  # mov [rbx + 8], rax
    "48 8d 04 8b": ({"rax"}, {"rbx", "rcx"}, False),  # lea rax, [rbx + 4 * rcx]
    "31 c0": ({"rax"}, set(), False),  # xor eax, eax
    "01 d8": ({"rax"}, {"rax", "rbx"}, False),  # add eax, ebx
    "48 03 03": ({"rax"}, {"rax"}, True),  # add rax, [rbx]
    "48 01 03": (set(), {"rax"}, True),  # add [rbx], rax
    "c7 03 05 00 00 00": (set(), set(), False),  # mov dword [rbx], 5
    "50": (set(), {"rax"}, False),  # push rax
    "48 f7 e3": ({"rax", "rdx"}, {"rax", "rbx"}, False),  # mul rbx
    "f3 0f 6f 03": ({"xmm0"}, set(), True),  # movdqu xmm0, [rbx]
    "66 0f ef c0": ({"xmm0"}, set(), False),  # pxor xmm0, xmm0
    "a5": (set(), set(), True),  # movsd
    "aa": (set(), {"rax"}, False),  # stosb
}


@pytest.mark.parametrize("code", _KNOWN)
def test_where_values_go(code: str) -> None:
    found, (written, values, loads) = flow(bytes.fromhex(code), 0x1000), _KNOWN[code]
    stack = {"rsp"} | ({"rsi", "rdi"} if code in ("a5", "aa") else set())
    assert (found.written - stack, found.values - {"rsp"}, found.loads) == (written, values, loads)


def test_what_exchanges_memory_with_a_register() -> None:
    xchg, xadd = flow(bytes.fromhex("48 87 03"), 0), flow(bytes.fromhex("f0 48 0f c1 03"), 0)
    assert (xchg.swaps, xchg.adds, xadd.swaps, xadd.adds) == (True, False, True, True)
    assert "rax" in xchg.values & xchg.written & xadd.values & xadd.written
    # lock cmpxchg [rbx], rcx: what is stored is rcx; rax only decides whether.
    compared = flow(bytes.fromhex("f0 48 0f b1 0b"), 0)
    assert (compared.values, compared.swaps) == (frozenset({"rcx"}), True)


def test_what_keeps_a_part_and_what_comes_from_outside() -> None:
    assert flow(bytes.fromhex("88 d8"), 0).kept == {"rax"}  # mov al, bl
    assert not flow(bytes.fromhex("89 d8"), 0).kept  # mov eax, ebx
    assert flow(bytes.fromhex("0f 05"), 0).outside == "a system call"
    assert "rax" in flow(bytes.fromhex("0f 05"), 0).written
    assert flow(b"\x06", 0).written == frozenset()


#: Code: (source, target, bytes of the source that the target's 16 are made of, from the first on; None: of
#: none), and of the target's those that stay.
_COPIED = {
    "0f 10 03": ("", "xmm0", [*range(16)], []),  # movups xmm0, [rbx]
    "66 0f 7f 03": ("xmm0", "", [*range(16)], []),  # movdqa [rbx], xmm0
    "0f 28 c1": ("xmm1", "xmm0", [*range(16)], []),  # movaps xmm0, xmm1
    "f3 0f 7e 03": ("", "xmm0", [*range(8)] + [None] * 8, []),  # movq xmm0, [rbx]
    "66 48 0f 6e c0": ("rax", "xmm0", [*range(8)] + [None] * 8, []),  # movq xmm0, rax
    "0f 16 03": ("", "xmm0", [None] * 8 + [*range(8)], [*range(8)]),  # movhps xmm0, [rbx]
    "0f 17 03": ("xmm0", "", [*range(8, 16)] + [None] * 8, []),  # movhps [rbx], xmm0
    "0f 12 c1": ("xmm1", "xmm0", [*range(8, 16)] + [None] * 8, [*range(8, 16)]),  # movhlps xmm0, xmm1
    "66 0f 6c c1": ("xmm1", "xmm0", [None] * 8 + [*range(8)], [*range(8)]),  # punpcklqdq xmm0, xmm1
    "f3 0f 7e c1": ("xmm1", "xmm0", [*range(8)] + [None] * 8, []),  # movq xmm0, xmm1
    "f3 0f 10 03": ("", "xmm0", [*range(4)] + [None] * 12, []),  # movss xmm0, [rbx]
    "f3 0f 10 c1": ("xmm1", "xmm0", [*range(4)] + [None] * 12, [*range(4, 16)]),  # movss xmm0, xmm1
    "89 d8": ("rbx", "rax", [*range(4)] + [None] * 12, []),  # mov eax, ebx
    "88 d8": ("rbx", "rax", [0] + [None] * 15, [*range(1, 16)]),  # mov al, bl
    "50": ("rax", "", [*range(8)] + [None] * 8, []),  # push rax
    "58": ("", "rax", [*range(8)] + [None] * 8, []),  # pop rax
    "a5": ("", "", [*range(4)] + [None] * 12, []),  # movsd
}


@pytest.mark.parametrize("code", _COPIED)
def test_which_bytes_are_copied(code: str) -> None:
    found, (source, target, made, stay) = flow(bytes.fromhex(code), 0x1000), _COPIED[code]
    assert (found.source, found.target) == (source, target)
    asked = [found.asked(1 << byte) for byte in range(16)]
    assert asked == [0 if byte is None else 1 << byte for byte in made]
    left = [byte for byte in range(16) if target in found.kept and not found.sets() >> byte & 1]
    assert left == stay


@pytest.mark.parametrize(
    "code", ["88 e0", "01 d8", "48 01 03", "c7 03 05 00 00 00", "66 0f 6f c0 90", "66 0f fe c1"]
)
def test_what_computes_or_begins_elsewhere_copies_nothing(code: str) -> None:
    """mov al, ah; add; add to memory; a constant; paddd. `movdqa xmm0, xmm0` does copy."""
    found = flow(bytes.fromhex(code), 0x1000)
    assert bool(found.moves) == code.startswith("66 0f 6f")


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("al", "rax"), ("ah", "rax"), ("eax", "rax"), ("ax", "rax"), ("sil", "rsi"), ("r8d", "r8"),
        ("r10b", "r10"), ("ymm3", "xmm3"), ("rsp", "rsp"), ("bpl", "rbp"), ("st(0)", "st(0)"),
    ],
)  # fmt: skip
def test_whole_registers(part: str, whole: str) -> None:
    assert family(part) == whole
