"""What the recorder notes of lost lines is exactly what the order that ran makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import FIRMWARE
from losses_factory import EVIDENCE, firmware, linux, losses_of
from losses_twin import derived_losses

from corebraid.base.errors import UsageError
from emu.bus.cache import CacheGeometry
from emu.bus.line_state import INVALID, MESI, SHARED
from emu.bus.losses import DOWNGRADED, LOST, LossNotes
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Capture
from recorder.capture.options import RecordOptions
from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.integrity import integrity
from recorder.evidence.losses.log import iter_losses
from recorder.files.reader import Recording, iter_core_records, iter_sealed_truth
from recorder.files.writer import RecordingWriter

#: Agents: DMA, interrupts, puts and gets. Ends: a fault, a limit.
FIRMWARES = [
    ("uts", {"seed": 1}),
    ("uts", {"seed": 2, "cores": 8, "longest_slice": 100}),
    ("spin_ticket", {"seed": 3, "longest_slice": 40, "schedule": "round-robin"}),
    ("dma_race", {"seed": 1, "longest_slice": 200}),
    ("timer", {"seed": 2, "longest_slice": 300, "strata": StrataPolicy.parse("downgrades:20")}),
    ("pgas_uts", {"seed": 1}),
    ("smc", {"seed": 1, "longest_slice": 60}),
    ("primitives", {"seed": 4, "longest_slice": 25}),
    ("rpc_queens", {"seed": 1}),
    ("bug_aba", {"seed": 5, "schedule": "pct:3"}),
    ("bug_lost_update", {"seed": 6, "schedule": "chaos"}),
    ("fault_null", {"seed": 1}),
    ("laplace", {"seed": 1, "limit": 200_000}),
]
#: System calls, page fills over lines that cores hold, signals, faults, threads that end.
LINUX = [
    ("mutexes", {"longest_slice": 300}),
    ("thread_order", {"seed": 2}),
    ("signals", {"longest_slice": 100}),
    ("segv_handler", {"longest_slice": 200}),
    ("mmap_play", {"longest_slice": 400, "seed": 3}),
    ("jit", {"longest_slice": 150}),
    ("futex_raw", {"seed": 4, "longest_slice": 80}),
    ("pipes_poll", {"seed": 1}),
    ("crash", {}),
]


def assert_exact(recording: Recording) -> int:
    """The stream is what the truth says. Returns how many losses there were."""
    found, lines = losses_of(recording), derived_losses(recording)
    assert recording.manifest.agents_say_owned
    assert all(said == true for said, true in lines.told)
    for core, (noted, derived) in enumerate(zip(found, lines.lost, strict=True)):
        for number, pair in enumerate(zip(noted, derived, strict=False)):
            assert pair[0] == pair[1], f"core {core}, loss {number}"
        assert len(noted) == len(derived), f"core {core}"
    assert integrity(recording) == []
    return sum(map(len, found))


@pytest.mark.parametrize(("name", "options"), FIRMWARES, ids=lambda value: "".join(map(str, value)))
@pytest.mark.sampled(5)
def test_losses_of_firmware_are_those_of_the_truth(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    assert assert_exact(firmware(tmp_path / "rec", name, **options)) > 15


@pytest.mark.parametrize(("name", "plan"), LINUX, ids=lambda value: "".join(map(str, value)))
@pytest.mark.sampled(1)
def test_losses_of_linux_programs_are_those_of_the_truth(
    name: str, plan: dict[str, Any], tmp_path: Path
) -> None:
    assert assert_exact(linux(tmp_path / "rec", name, **plan)) > 40


# -- finite caches and store buffers: what the cores' states say ---------------------------------------------


class Onlooker:
    """Looks at all cores' line states between turns: what a core that stood still has lost meanwhile it has
    lost where it stands. Sees nothing of what comes and goes between two looks."""

    def __init__(self, capture: Capture) -> None:
        self._machine = capture.machine
        self._states = self._look()
        self._stood = self._stand()
        self.seen = self.checked = 0

    def _stand(self) -> list[tuple[int, int]]:
        """A core moves by its instructions, and by its stores that commit."""
        return [(core.count, int(core.row["committed"])) for core in self._machine.cores]

    def _look(self) -> list[np.ndarray]:
        return [core.line_state & MESI for core in self._machine.cores]

    def __call__(self, _: int) -> None:
        machine = self._machine
        n = int(machine.state["losses_n"])
        notes = machine.losses._notes[self.seen if self.seen <= n else 0 : n]
        states, stands = self._look(), self._stand()
        for number, core in enumerate(machine.cores):
            if stands[number] != self._stood[number]:
                continue
            mine = notes[notes["core"] == number]
            self.checked += len(mine)
            assert (mine["count"] == core.count).all()
            before, after = self._states[number], states[number]
            shift = int(core.row["line_shift"])
            gone = {int(k) << shift for k in np.flatnonzero((before != INVALID) & (after == INVALID))}
            assert set(mine["line"][mine["way"] == LOST].tolist()) == gone
            less = {int(k) << shift for k in np.flatnonzero((before > SHARED) & (after == SHARED))}
            assert set(mine["line"][mine["way"] == DOWNGRADED].tolist()) - gone == less
        self.seen, self._states, self._stood = n, states, stands


@pytest.mark.sampled(4)
@pytest.mark.parametrize("model", ["sc", "tso"])
@pytest.mark.parametrize("cache", ["unbounded", "1k:2:32", "512:1:16"])
@pytest.mark.parametrize("name", ["uts", "litmus"])
def test_losses_are_what_the_cores_states_show(
    name: str, cache: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = RecordOptions(
        cores=4, seed=1, cache=CacheGeometry.parse(cache), model=model, memory_bytes=4 << 20,
        longest_slice=250, limit=60_000, evidence=("losses",), strata=StrataPolicy.parse("none"),
    )  # fmt: skip
    monkeypatch.setattr(Capture, "room", lambda *_: None)  # one slice after the other, so that it sees each
    capture = Capture(FIRMWARE / f"{name}.elf", tmp_path / "rec", X86_64, options, lambda _: None)
    onlooker = Onlooker(capture)
    with capture.writer:
        capture.run(onlooker)
    assert onlooker.checked > 50
    assert integrity(Recording.open(tmp_path / "rec")) == []


# -- what else must hold of a recording ----------------------------------------------------------------------


@pytest.mark.parametrize("model", ["sc", "tso"])
def test_a_recording_is_the_same_without_losses(model: str, tmp_path: Path) -> None:
    one, other = (
        firmware(tmp_path / way, "litmus", model=model, evidence=evidence, limit=400_000)
        for way, evidence in (("with", ("losses",)), ("without", ()))
    )
    assert [one.has_losses, other.has_losses] == [True, False]
    for core in range(4):
        logs = zip(iter_core_records(one, core), iter_core_records(other, core), strict=True)
        for (rows, blob), (same_rows, same_blob) in logs:
            assert (rows.tobytes(), blob.tobytes()) == (same_rows.tobytes(), same_blob.tobytes())
    both = zip(iter_sealed_truth(one), iter_sealed_truth(other), strict=True)
    assert all(rows.tobytes() == same.tobytes() for rows, same in both)
    with pytest.raises(UsageError):
        next(iter_losses(other, 0))


def test_losses_are_written_ahead_of_every_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed recorder leaves losses as far as it leaves the cores' logs."""
    options = RecordOptions(cores=3, seed=1, evidence=("losses",), limit=6_000_000, model="tso")
    capture = Capture(FIRMWARE / "litmus.elf", tmp_path / "rec", X86_64, options, lambda _: None)
    append, appended = RecordingWriter.append_core, []

    def watched(self: RecordingWriter, *arguments: Any) -> None:
        appended.append(int(capture.machine.state["losses_n"]))
        append(self, *arguments)

    monkeypatch.setattr(RecordingWriter, "append_core", watched)
    with capture.writer:
        capture.run()
    assert len(appended) > 10
    assert set(appended) == {0}


def test_full_notes_are_taken_in_the_middle_of_a_kernels_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often they are: the same losses, in more frames."""
    plain = linux(tmp_path / "plain", "pipes_poll", limit=400_000)
    monkeypatch.setattr(LossNotes, "full", property(lambda notes: bool(notes._machine["losses_n"])))
    often = linux(tmp_path / "often", "pipes_poll", limit=400_000)
    assert losses_of(often) == losses_of(plain)
    frames = [recording.manifest.files[EVIDENCE].frames for recording in (plain, often)]
    assert frames[0] < frames[1]
