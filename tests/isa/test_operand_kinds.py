"""What SSE instructions take from memory, against the decoder's sizes and the SDM's exceptions."""

from __future__ import annotations

import itertools

import capstone
from capstone import x86_const as x86

from isa.x86_64.operands import ALIGNED, ANY, EIGHT, FOUR, MEMORY_OPERANDS

_MAPS, _PREFIXES = ("0f", "0f 38", "0f 3a"), ("", "66", "f3", "f2")
#: Of 16 bytes that lie anywhere (SDM volume 1, 11.6.12), or that are on no list of SSE's; of 8 or 4 the
#: emulator reads only those by itself.
_ANYWHERE = """movups movupd movdqu lddqu pcmpestri pcmpestrm pcmpistri pcmpistrm fxsave fxrstor cmpxchg16b
    sha1rnds4 sha1nexte sha1msg1 sha1msg2 sha256rnds2 sha256msg1 sha256msg2 gf2p8mulb gf2p8affineqb
    gf2p8affineinvqb bndldx bndstx bndmov bndcl bndcu bndcn invept invvpid invpcid"""
#: Of 8 bytes, where the decoder says 16.
_SHORTER = "comisd"
_READ_WHOLE = {8: "cvtps2pi cvttps2pi cvtps2pd cvtdq2pd roundsd", 4: "punpcklbw punpcklwd punpckldq roundss"}


def expected(instruction: capstone.CsInsn) -> int:
    size = next((one.size for one in instruction.operands if one.type == x86.X86_OP_MEM), 0)
    name = instruction.mnemonic
    if name in _READ_WHOLE.get(size, "").split():
        return EIGHT if size == 8 else FOUR
    return ALIGNED if size == 16 and name not in (*_ANYWHERE.split(), _SHORTER) else ANY


def test_each_has_what_the_decoder_says() -> None:
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    found, kinds = [], set()
    for (of, head), (column, prefix), opcode in itertools.product(
        enumerate(_MAPS), enumerate(_PREFIXES), range(256)
    ):
        if f"{head} {opcode:02x}" in _MAPS:
            continue
        text = f"{prefix} {head} {opcode:02x} 07"
        for tail in ("", " 00"):
            one = next(decoder.disasm(bytes.fromhex(text + tail), 0, 1), None)
            if one is None or one.size != len(bytes.fromhex(text + tail)):
                continue
            kind = int(MEMORY_OPERANDS[of, column, opcode])
            kinds.add(kind)
            if kind != expected(one):
                found.append(f"{text}{tail}: {one.mnemonic} {one.op_str}: {kind}, not {expected(one)}")
    assert not found
    assert kinds == {ANY, ALIGNED, EIGHT, FOUR}
