"""Forms of instructions that a program may run, found by decoding every opcode with a few operands."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from functools import lru_cache

import capstone
from capstone import x86_const as x86
from vectors import ARITHMETIC, INTEL, NAMES, Form, State

_MAPS = ("0f", "0f 38", "0f 3a")
_PREFIXES = ("", "66", "f2", "f3")
#: Registers 0 and 1, one register twice, memory at rdi, a high register.
_OPERANDS = ("c1", "c0", "07", "d8")
#: Of the second operand of instructions with an immediate byte.
_IMMEDIATES = ("00", "01", "0c", "0d", "1a", "3f", "40", "4c", "71", "7f", "ff")
#: That of `cmpps` and its like says which comparison; with other bits it is refused (docs/processor.md).
_PREDICATES = tuple(f"{number:02x}" for number in range(8))
#: What CPUID does not offer, what is no business of a program, what has no one answer, what goes elsewhere.
_GROUPS = """
    AVX AVX2 AVX512 BMI BMI2 ADX SHA FMA FMA4 XOP TBM SSE4A 3DNOW VM RTM HLE FSGSBASE PRIVILEGE INT IRET
    JUMP CALL RET CDI ERI PFI DQI BWI VLX MODE32 NOVLX F16C SGX
"""
_EXCLUDED_GROUPS = {
    getattr(x86, f"X86_GRP_{name}") for name in _GROUPS.split() if hasattr(x86, f"X86_GRP_{name}")
}
_EXCLUDED = """
    cmpps cmppd cmpss cmpsd
    cpuid rdtsc rdtscp rdrand rdseed rdpid movbe syscall sysenter fxrstor fxrstor64 xsave xrstor xsaveopt
    xsave64 xrstor64 xsaveopt64 xgetbv xsetbv emms ldmxcsr rcpps rcpss rsqrtps rsqrtss maskmovq maskmovdqu
    fnsave frstor fldenv fnstenv fxsave fxsave64 clzero prefetchwt1 fstpnce ud0 ud1 ud2 ud2b rsm getsec
    lsl lar verr verw sldt str smsw sgdt sidt clflush clflushopt clwb wbnoinvd fnop femms encls enclu vmfunc
    xtest xend xabort xbegin ptwrite bndcl bndcn bndcu bndldx bndmk bndmov bndstx gf2p8affineinvqb
    gf2p8affineqb gf2p8mulb lfs lgs lss montmul xcryptctr xstore wrssd wrussd enclv xcryptcbc xcryptcfb
    xcryptecb xcryptofb xsha1 xsha256 invpcid skinit stac clac endbr64 endbr32 wrpkru rdpkru cldemote
    movdiri movdir64b monitorx mwaitx pconfig incsspd incsspq rdsspd rdsspq bound
"""
_EXCLUDED_NAMES = frozenset(_EXCLUDED.split())


@lru_cache(maxsize=1)
def _decoder() -> capstone.Cs:
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.detail = True
    return decoder


def form_of(text: str) -> Form | None:
    """The form that these bytes are, as a whole; None: none that a program may run anywhere."""
    found = decode(text)
    if (
        found is None
        or found.size != len(bytes.fromhex(text))
        or found.mnemonic[0] == "v"
        or found.mnemonic in _EXCLUDED_NAMES
    ):
        return None
    if _EXCLUDED_GROUPS & set(found.groups) and found.mnemonic != "tzcnt":
        return None
    if found.mnemonic in ("bt", "bts", "btr", "btc") and " 07" in text and "0f ba" not in text:
        return None  # A bit far away.
    if found.mnemonic in ("bsf", "bsr") and found.operands[0].size == 4:
        return None  # Of zero the manual leaves open what the destination is.
    if found.mnemonic in ("shld", "shrd") and found.operands[0].size == 2 and _count(found) > 16:
        return None  # The manual leaves open what is shifted in, and the flags.
    return shape(text, found)


def decode(text: str) -> capstone.CsInsn | None:
    """The first instruction of these bytes."""
    return next(_decoder().disasm(bytes.fromhex(text), 0x1000, 1), None)


def shape(text: str, found: capstone.CsInsn) -> Form:
    """What these bytes, which begin with that instruction, define."""
    status = _status(found.mnemonic) if x86.X86_GRP_FPU in found.groups else 0xFFFF
    element = 0 if INTEL else _DOT_PRODUCTS.get(found.mnemonic, 0)
    return Form(
        text,
        status=status,
        flags=ARITHMETIC & ~_undefined(found),
        name=found.mnemonic,
        element=element,
    )


#: Bytes of a number.
_DOT_PRODUCTS = {"dpps": 4, "dppd": 8}


#: Condition codes, which of them an x87 instruction defines (SDM volume 2); others are C1 alone.
_C0, _C1, _C2, _C3 = 0x100, 0x200, 0x400, 0x4000
_DEFINED = (
    ("fcom fcomp fcompp fucom fucomp fucompp ftst fxam fprem fprem1", _C0 | _C1 | _C2 | _C3),
    # Which way an approximation is rounded depends on what is rounded.
    ("fsin fcos fsincos fptan", _C2),
    ("f2xm1 fyl2x fyl2xp1 fpatan", 0),
    # The manual has C1 cleared; processors leave it as it is.
    ("fcomi fcompi fucomi fucompi", _C0 | _C2 | _C3),
    ("ffree ffreep fnop wait fnclex fninit fldcw fnstcw fnstsw", 0),
    ("fcmovb fcmovnb fcmove fcmovne fcmovbe fcmovnbe fcmovu fcmovnu", 0),
)
_CODES = {name: codes for names, codes in _DEFINED for name in names.split()}


def _status(x87: str) -> int:
    """Bits of the status word that the instruction defines: exceptions, top, and some condition codes."""
    return 0xB8FF | _CODES.get(x87, _C1)


def _count(shift: capstone.CsInsn) -> int:
    """By how much it shifts at most."""
    last = shift.operands[-1]
    return last.imm & 0x1F if last.type == x86.X86_OP_IMM else 0x1F


#: Of which OF is defined only where they shift by 1 (SDM volume 2).
_SHIFTS = {"shl", "sal", "shr", "sar", "rol", "ror", "rcl", "rcr", "shld", "shrd"}


def _undefined(instruction: capstone.CsInsn) -> int:
    bits = {"OF": 0x800, "SF": 0x80, "ZF": 0x40, "AF": 0x10, "PF": 4, "CF": 1}
    if x86.X86_GRP_FPU in instruction.groups:
        return 0
    if instruction.mnemonic == "imul":
        return 0xD4  # SF, ZF, AF, PF: newer editions of the SDM define SF, AMD's manual none.
    if instruction.mnemonic in ("lzcnt", "tzcnt"):
        return 0x894  # All but ZF and CF.
    shifted = 0 if instruction.mnemonic not in _SHIFTS or _count(instruction) in (0, 1) else bits["OF"]
    eflags = instruction.eflags
    return shifted | sum(
        bit for name, bit in bits.items() if eflags & getattr(x86, f"X86_EFLAGS_UNDEFINED_{name}", 0)
    )


def _texts() -> Iterator[str]:
    for map_, opcode, prefix in itertools.product(_MAPS, range(256), _PREFIXES):
        head = f"{prefix} {map_} {opcode:02x}".strip()
        if f"{map_} {opcode:02x}" in _MAPS:
            continue
        for operands in _OPERANDS:
            yield f"{head} {operands}"
            for immediate in _PREDICATES if f"{map_} {opcode:02x}" == "0f c2" else _IMMEDIATES:
                yield f"{head} {operands} {immediate}"


def packed_forms() -> list[Form]:
    """Of the two-byte and three-byte opcodes: SSE, MMX, and what else is there."""
    return [form for text in _texts() if (form := form_of(text)) is not None]


def x87_forms() -> list[Form]:
    """Of the escape opcodes: registers 0 to 7, and memory at rdi."""
    texts = [f"{opcode:02x} {operand:02x}" for opcode in range(0xD8, 0xE0) for operand in range(0xC0, 0x100)]
    texts += [f"{opcode:02x} {7 | k << 3:02x}" for opcode in range(0xD8, 0xE0) for k in range(8)]
    return [form for text in texts if (form := form_of(text)) is not None]


# -- states --------------------------------------------------------------------------------------------------

_INTEGERS = (
    0,
    1,
    2,
    3,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    1 << 63,
    (1 << 64) - 1,
)
_SINGLES = (
    0,
    1 << 31,
    0x3F800000,
    0xBF800000,
    0x7F800000,
    0xFF800000,
    0x7FC00000,
    0xFFC00001,
    0x7F800001,
    1,
    0x807FFFFF,
)
_DOUBLES = (
    0, 1 << 63, 0x3FF << 52, 0xBFF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0xFFF8000000000001,
    0x7FF0000000000001, 1, 0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x41E0000000000000, 0xC3E0000000000000,
)  # fmt: skip


def _single(rng: random.Random) -> int:
    if rng.random() < 0.4:
        return rng.choice(_SINGLES)
    return (
        rng.getrandbits(1) << 31
        | rng.choice((rng.randrange(256), rng.randrange(110, 150))) << 23
        | rng.getrandbits(23)
    )


def _double(rng: random.Random) -> int:
    if rng.random() < 0.4:
        return rng.choice(_DOUBLES)
    exponent = rng.choice((rng.randrange(2048), rng.randrange(1000, 1060)))
    return rng.getrandbits(1) << 63 | exponent << 52 | rng.getrandbits(52)


def _integer(rng: random.Random) -> int:
    return rng.choice(_INTEGERS) if rng.random() < 0.5 else rng.getrandbits(rng.choice((8, 16, 32, 64)))


def _sixteen_bytes(rng: random.Random) -> int:
    kind = rng.randrange(4)
    if kind == 0:
        return sum(_single(rng) << 32 * k for k in range(4))
    if kind == 1:
        return sum(_double(rng) << 64 * k for k in range(2))
    if kind == 2:
        return sum(rng.choice((0, 0x61, 0x62, 0x80, rng.getrandbits(8))) << 8 * k for k in range(16))
    return _integer(rng) << 64 | _integer(rng)


def extended(rng: random.Random) -> tuple[int, int]:
    """A number of the x87 format: mostly of one that it has, sometimes any bits."""
    sign = rng.getrandbits(1) << 15
    kind = rng.randrange(12)
    if kind < 7:
        return rng.getrandbits(64) | 1 << 63, sign | rng.choice(
            (rng.randrange(1, 0x7FFF), rng.randrange(16300, 16460))
        )
    if kind == 7:
        return 0, sign
    if kind == 8:
        return 1 << 63, sign | 0x7FFF
    if kind == 9:
        return 1 << 63 | rng.getrandbits(63), sign | 0x7FFF
    if kind == 10:
        return rng.getrandbits(63), sign
    return rng.choice((1 << 63, 3 << 62)), sign | rng.randrange(16380, 16390)


def random_state(rng: random.Random) -> State:
    """Anything that a program can bring about: modes, numbers that are none, full and empty registers."""
    state = State(
        {name: _integer(rng) for name in NAMES},
        0x202 | rng.getrandbits(12) & ARITHMETIC,
        b"".join(_sixteen_bytes(rng).to_bytes(16, "little") for _ in range(4)),
    )
    state.xmm = [_sixteen_bytes(rng) for _ in range(16)]
    modes = rng.choice((0, 0, 0x8000, 0x40, 0x8040)) | rng.choice((0, 0, 0x2000, 0x4000, 0x6000))
    state.mxcsr = 0x1F80 | modes
    state.fcw = 0x37F if rng.random() < 0.6 else 0x7F | rng.choice((0, 0x200, 0x300)) | rng.randrange(4) << 10
    state.fsw = rng.randrange(8) << 11 | rng.getrandbits(16) & 0x4700 | rng.choice((0, 0, rng.getrandbits(7)))
    full = rng.choice((8, 8, 4, 2))
    state.st = [extended(rng) if k < full else None for k in range(8)]
    return state


# -- exceptions of SSE arithmetic ----------------------------------------------------------------------------

_COMPARES = re.compile(r"cmp(n?(eq|lt|le)|unord|ord)[ps][sd]$")
_FLOATING = re.compile(r"(u?comis|cvt|(add|sub|mul|div|sqrt|min|max|round|dp|hadd|hsub|addsub)[ps])")


def floating_forms() -> list[Form]:
    """Of SSE instructions that note exceptions in MXCSR."""
    return [form for form in packed_forms() if _FLOATING.match(form.name) or _COMPARES.match(form.name)]


def _near_limits(rng: random.Random, exponent: int, fraction: int) -> tuple[int, int]:
    """Two numbers of so many bits of exponent and fraction, whose product or quotient is about the largest,
    the smallest normal or the smallest number that there is."""
    top, bias = (1 << exponent) - 1, (1 << exponent - 1) - 1
    goal = rng.choice((top, 1, 1 - fraction)) + rng.randrange(-2, 3)
    first = rng.randrange(1, top)
    second = rng.choice((goal - first + bias, first + bias - goal))
    numbers = []
    for one in (first, min(max(second, 0), top - 1)):
        few = rng.getrandbits(3) << fraction - 3
        bits = rng.choice((0, few, rng.getrandbits(fraction), (1 << fraction) - 1))
        numbers.append((rng.getrandbits(1) << exponent | one) << fraction | bits)
    return numbers[0], numbers[1]


def floating_state(rng: random.Random) -> State:
    """Any exceptions set and masked, results at the limits of what there is."""
    state = random_state(rng)
    if rng.random() < 0.5:
        parts = [_near_limits(rng, 8, 23) for _ in range(4)]
        pairs = [sum(part[k] << 32 * lane for lane, part in enumerate(parts)) for k in (0, 1)]
    else:
        parts = [_near_limits(rng, 11, 52) for _ in range(2)]
        pairs = [sum(part[k] << 64 * lane for lane, part in enumerate(parts)) for k in (0, 1)]
    if rng.random() < 0.5:
        state.xmm[:4] = [pairs[0], pairs[1], pairs[0], pairs[1]]
        state.memory = pairs[1].to_bytes(16, "little") + state.memory[16:]
    unmasked = rng.choice((0, 0, 1 << rng.randrange(6), rng.getrandbits(6), 0x3F)) << 7
    state.mxcsr = state.mxcsr & ~unmasked | rng.choice((0, 0, rng.getrandbits(6), 0x3F))
    return state
