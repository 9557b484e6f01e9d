"""Instructions against the processor of this host: the whole state, as a recorded guest sees it.

`make soak` tries all forms, as often as COREBRAID_SOAK says times more.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from engine_suite import SOAK
from instruction_forms import floating_forms, floating_state, form_of, packed_forms, random_state, x87_forms
from vectors import ARITHMETIC, NATIVE, SIZE, Form, Result, State, Vectors

import corebraid

pytestmark = pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what one does")

#: What the emulator by itself computes otherwise, a few forms of each kind.
CORRECTED = {
    "strings": ("66 0f 3a 63 ca 0c", "66 0f 3a 60 ca 4d", "66 0f 3a 61 c1 03", "66 48 0f 3a 61 c1 0c",
                "66 0f 3a 62 07 7f", "66 0f 3a 61 07 1a", "66 48 0f 3a 60 c1 71"),
    "horizontal": ("66 0f 38 01 c0", "66 0f 38 02 c0", "66 0f 38 03 c0", "66 0f 38 05 c0", "66 0f 38 06 c0",
                   "66 0f 38 07 c0", "0f 38 02 c0", "66 0f 38 02 07"),
    "dot products": ("66 0f 3a 40 c1 ff", "66 0f 3a 40 c0 7f", "66 0f 3a 41 c1 31", "66 0f 3a 41 07 33"),
    "NaN": ("f2 0f 58 c1", "0f 5c c1", "66 0f 59 c1", "f3 0f 5e 07", "f2 0f 7c c1", "66 0f d0 c1",
            "0f 51 c1"),
    "counts": ("f3 0f bd c1", "f3 48 0f bd c1", "66 f3 0f bd c8", "f3 0f bd 07", "f3 0f bc c1",
               "f3 48 0f bc 07", "66 f3 0f bc c1", "f3 41 0f bc c0"),
    "extremes": ("0f 5d c1", "66 0f 5f c1", "f3 0f 5d 07", "f2 0f 5f c0"),
    "small numbers": ("f2 0f 5e c1", "0f 59 c1", "f3 0f 5a c1", "f2 0f 5a c1", "66 0f 51 c1", "f3 0f 2a c0"),
    "MMX": ("0f 77", "0f 38 00 c1", "0f 38 1c c1", "0f 3a 0f c1 03", "0f 2a c1", "0f 2a 07", "66 0f 2a 07",
            "66 0f 2a c1", "0f 2d c1"),
}  # fmt: skip


def differing(
    forms: Sequence[Form],
    n: int,
    seed: int,
    folder: Path,
    draw: Callable[[random.Random], State] = random_state,
) -> list[str]:
    """What came out otherwise of n states for each form, in words."""
    rng = random.Random(seed)
    states = [(number, draw(rng)) for number in range(len(forms)) for _ in range(n)]
    found = Vectors(folder, forms).compare(states, folder / "rec")
    return [f"seed {seed}: {form.text} ({form.name}) of {state}: {what}" for form, state, what in found]


@pytest.mark.parametrize("kind", CORRECTED)
def test_what_is_corrected_is_right(kind: str, tmp_path: Path) -> None:
    forms = [form_of(text) or Form(text) for text in CORRECTED[kind]]
    assert not differing(forms, 60 * SOAK, 1, tmp_path)


def test_a_sample_of_all_forms(tmp_path: Path) -> None:
    forms = random.Random(2).sample(packed_forms(), 900)
    assert not differing(forms, 2, 2, tmp_path)


def test_exceptions_of_sse_arithmetic(tmp_path: Path) -> None:
    """Which flags are set; where one is not masked the signal, and an instruction that did nothing."""
    forms = random.Random(5).sample(floating_forms(), 300)
    assert not differing(forms, 3, 5, tmp_path, floating_state)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_many_exceptions_of_sse_arithmetic(part: int, tmp_path: Path) -> None:
    assert not differing(floating_forms()[part::8], 60 * SOAK, 300 + part, tmp_path, floating_state)


#: FPE_FLTDIV, FPE_FLTOVF, FPE_FLTUND, FPE_FLTRES, FPE_FLTINV: an instruction, its operands, and the exception
#: that is not masked.
_RAISING = {
    3: ("f2 0f 5e c1", 0x3FF << 52, 0, 2), 4: ("f2 0f 59 c1", 0x7FE << 52, 0x7FE << 52, 3),
    5: ("f2 0f 59 c1", 1 << 52, 1 << 52, 4), 6: ("f2 0f 5e c1", 0x3FF << 52, 0x4008 << 48, 5),
    7: ("f2 0f 51 c1", 0, 0xBFF << 52, 0),
}  # fmt: skip


def test_an_exception_that_is_not_masked_is_a_signal_and_replays(tmp_path: Path) -> None:
    vectors = Vectors(tmp_path, [Form(text) for text, *_ in _RAISING.values()])
    states = [
        (number, State(mxcsr=0x1F80 & ~(0x80 << bit), xmm=[a, b, *[0] * 14]))
        for number, (_, a, b, bit) in enumerate(_RAISING.values())
    ]
    recorded = vectors.run_recorded(vectors.pack(states), tmp_path / "rec")
    for number, (code, (which, state)) in enumerate(zip(_RAISING, states, strict=True)):
        result = Result.unpack(recorded[number * SIZE :][:SIZE], vectors.forms[which])
        # si_code, the program counter, si_addr: of the instruction, which left its operand as it was.
        assert (result.signal, result.xmm[0]) == ((code, 0, 0), state.xmm[0])
    replayed = corebraid.replay(tmp_path / "rec", 0).facts()
    assert (replayed["bit_exact"], replayed["error"]) == (True, None)
    assert not vectors.compare(states, tmp_path / "again")


def _close(ours: int, theirs: int) -> bool:
    """Whether a register's four numbers are another approximation's: the same where they are no numbers."""
    for lane in range(0, 128, 32):
        a, b = (
            struct.unpack("<f", (one >> lane & 0xFFFFFFFF).to_bytes(4, "little"))[0] for one in (ours, theirs)
        )
        same = (ours ^ theirs) >> lane & 0xFFFFFFFF == 0
        if not same and not (math.isfinite(b) and abs(a - b) <= 3 * 2.0**-12 * abs(b)):
            return False
    return True


def test_reciprocals_are_as_close_as_they_may_be(tmp_path: Path) -> None:
    """To them a denormal number is a zero, and so is a denormal result (SDM volume 2, RCPPS, RSQRTPS).
    Each of two is off by 1.5 * 2**-12 at most."""
    texts = ("0f 53 c1", "f3 0f 53 c1", "0f 52 c1", "f3 0f 52 c1", "0f 53 07", "f3 0f 53 07", "f3 0f 52 07",
             "0f 53 c0", "0f 52 c0")  # fmt: skip
    vectors, rng = Vectors(tmp_path, [Form(text) for text in texts]), random.Random(9)
    states = [(number, random_state(rng)) for number in range(len(texts)) for _ in range(120)]
    zeros = infinities = 0
    packed = vectors.pack(states)
    both = zip(*(_results(raw, vectors, states) for raw in (
        vectors.run_recorded(packed, tmp_path / "again"), vectors.run_natively(packed)
    )), strict=True)  # fmt: skip
    for ours, theirs in both:
        assert replace(ours, xmm=theirs.xmm) == theirs
        assert all(map(_close, ours.xmm, theirs.xmm)), (ours, theirs)
        zeros += sum(value & 0x7FFFFFFF == 0 for value in theirs.xmm[:2])
        infinities += sum(value & 0x7FFFFFFF == 0x7F800000 for value in theirs.xmm[:2])
    assert min(zeros, infinities) > 10


def _results(raw: bytes, vectors: Vectors, states: Sequence[tuple[int, State]]) -> list[Result]:
    return [
        Result.unpack(raw[k * SIZE : (k + 1) * SIZE], vectors.forms[which])
        for k, (which, _) in enumerate(states)
    ]


def test_two_prefixes_that_mean_both(tmp_path: Path) -> None:
    """popcnt and crc32 of 16 bits, `imul` behind a prefix that means nothing: none is refused."""
    texts = ("66 f3 0f b8 c1", "66 f2 0f 38 f1 c1", "66 f2 48 0f 38 f1 07", "66 f3 0f af c1")
    assert not differing([Form(text, flags=ARITHMETIC & ~0xD4) for text in texts], 20, 6, tmp_path)


def test_flags_behind_a_loop_that_is_over(tmp_path: Path) -> None:
    """`loope` and `loopne` whose count is used up leave the flags alone, whatever made them."""
    made = ("ff c8", "39 d0", "00 d0", "f7 d8", "fe c2", "48 83 d8 05", "0f c1 c2", "0f b1 d0", "f8", "84 c0")
    counts = ("b9 01 00 00 00", "b9 02 00 00 00")
    defined = {"84 c0": ARITHMETIC & ~0x10}
    forms = [
        Form(f"{one} {count} {loop} 00", flags=defined.get(one, ARITHMETIC))
        for one in made
        for count in counts
        for loop in ("e0", "e1")
    ]
    assert not differing(forms, 12, 8, tmp_path)


#: Approximations: a processor's may be another in the last bit.
_APPROXIMATE = {"f2xm1", "fyl2x", "fyl2xp1", "fpatan", "fsin", "fcos", "fsincos", "fptan"}


def x87_differing(n: int, seed: int, folder: Path) -> list[str]:
    """Of all x87 instructions, without the approximations."""
    forms = [form for form in x87_forms() if form.name not in _APPROXIMATE]
    return differing(forms, n, seed, folder)


def test_x87_instructions(tmp_path: Path) -> None:
    assert not x87_differing(4, 3, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 212))
def test_many_x87_instructions(seed: int, tmp_path: Path) -> None:
    assert not x87_differing(40 * SOAK, seed, tmp_path)


def apart(ours: Result, theirs: Result) -> int:
    """By how many units in the last place the x87 registers differ; other fields are the same."""
    assert replace(ours, st=()) == replace(theirs, st=())
    return max(abs(place(a) - place(b)) for a, b in zip(ours.st, theirs.st, strict=True))


def place(number: bytes) -> int:
    """Of an x87 number among those of its sign: the next one has the next place, also across a power of 2."""
    significand, exponent = int.from_bytes(number[:8], "little"), int.from_bytes(number[8:], "little")
    return exponent << 63 | significand & (1 << 63) - 1


@pytest.mark.parametrize("name", sorted(_APPROXIMATE))
def test_approximations_are_off_by_a_bit_at_most(name: str, tmp_path: Path) -> None:
    vectors = Vectors(tmp_path, [form for form in x87_forms() if form.name == name])
    rng = random.Random(4)
    states = vectors.pack((0, random_state(rng)) for _ in range(320 * SOAK))
    natively, recorded = vectors.run_natively(states), vectors.run_recorded(states, tmp_path / "rec")
    results = [
        [Result.unpack(raw[at : at + SIZE], vectors.forms[0]) for raw in (recorded, natively)]
        for at in range(0, len(states), SIZE)
    ]
    distances = [apart(*both) for both in results]
    assert max(distances) <= 1
    assert distances.count(0) > 0.8 * len(distances)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(12))
def test_all_forms(part: int, tmp_path: Path) -> None:
    assert not differing(packed_forms()[part::12], 40 * SOAK, 100 + part, tmp_path)


_HALF_WAY = (
    0x380FFFFFFFFFFFFF,
    0x380FFFFFE0000000,
    0x380FFFFFE8000000,
    0x380FFFFFF0000000,
    0x380FFFFFF8000000,
)
_FACTORS = (
    (0x000FFFFFFFFFFFFF, 0x3FF0000000000001), (0x0010000000000001, 0x3FEFFFFFFFFFFFFE),
    (0x0018000000000000, 0x3FE5555555555555), (0x0010000000000000, 0x3FEFFFFFFFFFFFFF),
)  # fmt: skip


def test_what_rounds_up_to_a_normal_number_is_not_tiny(tmp_path: Path) -> None:
    """With flush to zero: it depends on 53 bits of the result, not on those that a denormal one has."""
    vectors = Vectors(tmp_path, [Form("f2 0f 5a c1"), Form("f2 0f 59 c1"), Form("f2 0f 5e c1")])
    states = []
    for mxcsr in (0x9F80, 0xBF80, 0xDF80, 0xFF80, 0x1F80):
        states += [(0, State(mxcsr=mxcsr, xmm=[0, number, *[0] * 14])) for number in _HALF_WAY]
        states += [(1, State(mxcsr=mxcsr, xmm=[a, b, *[0] * 14])) for a, b in _FACTORS]
        states += [(2, State(mxcsr=mxcsr, xmm=[a, 0x7FE0000000000000 - b, *[0] * 14])) for a, b in _FACTORS]
    assert not [(form.text, state, what) for form, state, what in vectors.compare(states, tmp_path / "rec")]


def test_the_first_of_two_nans_is_found_to_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison sees a sign: natively -nan, of the other operand nan."""
    vectors = Vectors(tmp_path, [Form("f2 0f 58 c1")])
    state = State(xmm=[0xFFF8 << 48, 0x7FF8 << 48, *[0] * 14])
    states = vectors.pack([(0, state)])
    other = states.replace(bytes.fromhex("000000000000f8ff"), bytes.fromhex("000000000000f87f"))
    assert other != states
    natively = vectors.run_natively(other)
    monkeypatch.setattr(vectors, "run_natively", lambda _: natively)
    (found,) = vectors.compare([(0, state)], tmp_path / "rec")
    assert found[2] == ["xmm[0]: 0xfff8000000000000, the processor 0x7ff8000000000000"]
