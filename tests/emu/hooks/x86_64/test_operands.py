"""Operands of SSE instructions in memory: what must be aligned, how much is read, against this processor."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fault_vectors import ROOM, FaultVectors
from guest import DATA, Code, elf, run_guest
from instruction_forms import form_of
from static_guest import call, record_linux_guest
from vectors import NATIVE

import corebraid
from isa.x86_64.registers import X86_64
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay

#: Where the data of a program ends; how far from there operands are, and from a multiple of 16.
_END, _FROM_END, _OFF = DATA + 0x10000, (1, 2, 4, 8, 16), (1, 8)
#: Sequences of one program: its code ends where its data begins.
_AT_ONCE = 1400
#: What `form_of` leaves out.
_MORE = ("0f 52 07", "0f 53 07", "f3 0f 52 07", "f3 0f 53 07", "0f c2 07 01", "66 0f c2 07 02")


def forms() -> list[str]:
    """Of all opcodes of SSE and MMX and beside them, one with memory at rdi."""
    found = [*_MORE]
    for of, opcode, prefix in itertools.product(("0f", "0f 38", "0f 3a"), range(256), ("", "66", "f2", "f3")):
        text = f"{prefix} {of} {opcode:02x} 07"
        if text.strip().startswith(("0f c7", "0f 38 07 ", "0f 3a 07 ")):
            continue
        found += [one for one in (text, f"{text} 00") if form_of(one) is not None][:1]
    return found


def _at(address: int, text: str) -> str:
    return f"bf {address.to_bytes(4, 'little').hex(' ')} {text}"


@pytest.mark.soak
@pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what one refuses")
def test_operands_are_refused_as_the_processor_refuses_them(tmp_path: Path) -> None:
    """Where they are not aligned, and where they reach beyond the end of memory."""
    places = [_END - n for n in _FROM_END] + [ROOM + n for n in _OFF]
    texts = [_at(place, text) for text in forms() for place in places]
    differing, signals = [], []
    for first in range(0, len(texts), _AT_ONCE):
        folder, some = tmp_path / str(first), texts[first : first + _AT_ONCE]
        folder.mkdir()
        vectors = FaultVectors(folder, some)
        told = zip(some, vectors.run_recorded(folder / "rec"), vectors.run_natively(), strict=True)
        for text, ours, theirs in told:
            signals.append((theirs.signal, theirs.code))
            if what := ours.differences(theirs):
                differing.append(f"{text}: {what[:3]}")
    assert not differing
    # Misaligned ones (SI_KERNEL), pages that are not there, and nothing.
    assert all(signals.count(one) > 300 for one in ((11, 128), (11, 1), (0, 0)))


#: An instruction with its operand at rsi, and the sizes of its accesses.
_READ = {
    "cvtps2pd": ("0f 5a 06", [8]), "cvtdq2pd": ("f3 0f e6 06", [8]), "cvtps2pi": ("0f 2d 06", [8]),
    "cvttps2pi": ("0f 2c 06", [8]), "roundsd": ("66 0f 3a 0b 06 00", [8]),
    "roundss": ("66 0f 3a 0a 06 00", [4]),
    "punpcklbw": ("0f 60 06", [4]), "cvtpd2ps": ("66 0f 5a 06", [8, 8]), "movups": ("0f 10 06", [8, 8]),
}  # fmt: skip


@pytest.mark.parametrize("name", _READ)
def test_a_trace_shows_what_is_read(name: str, tmp_path: Path) -> None:
    text, sizes = _READ[name]
    path = record_linux_guest(call(Code().mov("rsi", DATA + 64).raw(text), 231, rdi=0), tmp_path, "sc")
    rows = np.concatenate([rows for rows, _ in corebraid.trace(path, 0)])
    assert rows["size"][(rows["addr"] >= DATA) & (rows["addr"] < _END)].tolist() == sizes


_MISALIGNED = "0f 28 46 04"


@pytest.mark.parametrize(("revision", "expected"), [(0, 0), (1, 0), (2, 128 + 11)])
def test_a_recording_of_before_has_operands_anywhere(
    revision: int, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("static_guest.X86_64", replace(X86_64, revision=revision))
    code = call(Code().mov("rsi", DATA).raw(_MISALIGNED).raw("0f 5a 06"), 231, rdi=0)
    recording = Recording.open(record_linux_guest(code, tmp_path, "sc"))
    assert recording.manifest.end is not None
    assert recording.manifest.end.exit_code == expected
    for core in range(2):
        assert all(True for _ in CoreReplay(recording, core).run())


def test_firmware_ends_there(tmp_path: Path) -> None:
    """A machine without an operating system has nobody to take the fault."""
    program = elf(tmp_path / "guest", Code().mov("rsi", DATA).raw("0f 28 06").raw(_MISALIGNED))
    run = run_guest(program, tmp_path / "rec")
    end = run.recording.manifest.end
    assert end is not None
    assert (end.reason, end.count) == ("fault", 2)
    assert "a general-protection fault" in end.text
    assert all(True for _ in CoreReplay(run.recording, 0).run())
