"""What the translator writes for `cmpxchg` of 32 bits, `lock neg` and illegal bit tests, seen from guests."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from engine_suite import SOAK
from guest import DATA, Code
from instruction_forms import random_state
from static_guest import call, record_linux_guest
from vectors import NATIVE, Form, State, Vectors

from isa.x86_64.registers import X86_64
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay

#: Memory at rdi, registers, one register twice, rax among them; 8, 16, 64 bits, which are left alone; several
#: in a row; instructions beside them that the translator writes in the same way.
FORMS = (
    "0f b1 07", "0f b1 0f", "0f b1 17", "0f b1 c1", "0f b1 d9", "0f b1 c0", "0f b1 d0", "0f b1 c8",
    "45 0f b1 c1", "41 0f b1 d1", "44 0f b1 c8", "f0 0f b1 0f", "f0 44 0f b1 07", "f0 0f b1 07",
    "66 0f b1 0f", "48 0f b1 0f", "0f b0 0f", "f0 48 0f b1 0f", "f0 66 0f b1 0f", "f0 0f b0 0f",
    "f0 f7 1f", "f0 48 f7 1f", "f0 66 f7 1f", "f0 f6 1f", "f7 1f", "f7 d8",
    "0f b1 0f 0f b1 0f", "f0 0f b1 0f f0 0f b1 17 89 c0 89 d1", "89 c0 89 d2 0f b1 d1 89 c9",
    "f0 f7 1f 7f 00 7a 02 89 d1", "0f b1 c1 0f b1 d1 0f b1 cb 48 0f b1 c3",
    "0f b0 c1 89 c0 0f b1 d1 66 0f b1 d3 89 ca", "89 c9 89 d2 0f b0 d1 89 d1 89 c8",
)  # fmt: skip


def state_of(rng: random.Random) -> State:
    """Any, but what is compared is often the same in its lower half."""
    state = random_state(rng)
    in_memory, upper = int.from_bytes(state.memory[:8], "little"), rng.getrandbits(32) << 32
    lower = (1 << 32) - 1
    equal = rng.randrange(5)
    if equal == 0:
        state.registers["rax"] = upper | in_memory & lower
    elif equal == 1:
        state.registers["rax"] = in_memory
    elif equal == 2:
        state.registers["rax"] = upper | state.registers[rng.choice(("rcx", "r8", "r9", "rbx"))] & lower
    return state


@pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what one does")
def test_they_do_what_the_processor_does(tmp_path: Path) -> None:
    rng, vectors = random.Random(9), Vectors(tmp_path, [Form(text) for text in FORMS])
    states = [(number, state_of(rng)) for number in range(len(FORMS)) for _ in range(80 * SOAK)]
    found = vectors.compare(states, tmp_path / "rec")
    assert not [f"seed 9: {form.text} of {state}: {what}" for form, state, what in found]


def kept() -> Code:
    """Exit code: bit 0 if `lock cmpxchg` of equals has left the upper half of rax, bit 1 if `cmpxchg` of
    different registers has left that of the other, bit 2 the sign after `lock neg` of 1."""
    code = Code().mov("rax", 5 << 32).mov("rcx", 7).mov("rdi", 0)
    code.raw("f0 0f b1 0c 25").raw(DATA.to_bytes(4, "little").hex())
    code.raw("48 c1 e8 20").compare("rax", 5).jump_if("nz", "lost").add("rdi", 1).label("lost")
    code.mov("rax", 1).mov("rdx", 6 << 32).raw("0f b1 ca 48 c1 ea 20").compare("rdx", 6)
    code.jump_if("nz", "cleared").add("rdi", 2).label("cleared")
    code.mov("rax", 1).store(DATA, "rax").emit("f7", 3, DATA, wide=False, prefix="f0")
    code.jump_if("ns", "positive").add("rdi", 4).label("positive")
    return call(code, 231)


@pytest.mark.parametrize(("revision", "expected"), [(0, 0), (1, 0), (2, 7)])
def test_recordings_of_before_are_as_they_were(
    revision: int, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("static_guest.X86_64", replace(X86_64, revision=revision))
    recording = Recording.open(record_linux_guest(kept(), tmp_path, "sc"))
    assert recording.manifest.end is not None
    assert recording.manifest.end.exit_code == expected
    assert all(True for _ in CoreReplay(recording, 0).run())


#: A constant that ends in f0 before a legal `bts`, and what a `bts` before a `lock` of another kind leaves.
LOOKS_LOCKED = ("b8 00 00 00 f0 0f ab c8", "48 8d 7f f0 48 8d 7f 10 0f ab 07 0f ab c8", "6a f0 0f ab c8 58")


@pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what one does")
def test_what_looks_like_a_locked_bit_test_is_run_as_it_is(tmp_path: Path) -> None:
    rng, vectors = random.Random(10), Vectors(tmp_path, [Form(text, flags=1) for text in LOOKS_LOCKED])
    states = [(number, random_state(rng)) for number in range(len(LOOKS_LOCKED)) for _ in range(20)]
    for _, state in states:
        state.registers["rax"] &= 0x3F
    assert not [what for _, _, what in vectors.compare(states, tmp_path / "rec")]
