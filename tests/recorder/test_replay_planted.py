"""Planted bugs: each must be caught, or the tests beside this one prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guest import DATA, RANDOM, TEXT, Code, elf, run_guest, write_schedule
from numpy.typing import NDArray

from bench.soak import IMAGES, Plan, examine
from bench.true_order import Broken, NaiveMemory, held_traces, in_true_order
from corebraid.base.errors import Divergence, OrderError
from corebraid.base.rows.record import DIGEST, INPUT, MISS
from emu.board.firmware import Machine, Stopped
from emu.bus.line_state import INVALID, MESI, MODIFIED, SEEN, SHARED
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import record
from recorder.files.reader import Recording, iter_agent_rows, iter_core_records, iter_image, iter_sealed_truth
from recorder.files.writer import RecordingWriter
from recorder.replay.core import CoreReplay, replay_core
from solver.check.checker import check_slices

#: The planted bugs can make a guest wait for ever.
PLAN = Plan("uts", 3, 1, longest_slice=200, limit=200_000)
RunSlice = Callable[..., Stopped]


def record_plan(path: Path, plan: Plan = PLAN) -> Recording:
    record(IMAGES / f"{plan.program}.elf", path, X86_64, plan.options(b""), lambda text: None)
    return Recording.open(path)


# -- the bus ---------------------------------------------------------------------------------------------


def before_slices(monkeypatch: pytest.MonkeyPatch, meddle: Callable[[Machine, int], None]) -> None:
    """Call `meddle(machine, core)` before every slice."""
    run_slice: RunSlice = Machine.run_slice

    def meddled(machine: Machine, number: int, length: int, **options: Any) -> Stopped:
        meddle(machine, number)
        return run_slice(machine, number, length, **options)

    monkeypatch.setattr(Machine, "run_slice", meddled)
    monkeypatch.setattr(Machine, "take_stretch", lambda *arguments: None)


def test_lost_invalidation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A core goes on reading a line that another has taken: its trace contradicts every order."""
    lost: list[int] = []

    def keep_a_line(machine: Machine, number: int) -> None:
        if lost or number != 1:
            return
        states, other = machine.cores[1].line_state, machine.cores[0].line_state
        taken = ((states & SEEN) != 0) & ((states & MESI) == INVALID) & ((other & MESI) == MODIFIED)
        lines = np.flatnonzero(taken)
        if len(lines) > 2:
            states[lines] |= SHARED
            lost.extend(lines.tolist())

    before_slices(monkeypatch, keep_a_line)
    record_plan(tmp_path / "rec")
    assert lost
    with pytest.raises((Broken, OrderError)):
        examine(tmp_path / "rec")


def test_private_byte_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A core's memory is not what its records made it: its next digest says so."""
    done: list[int] = []

    def flip(machine: Machine, number: int) -> None:
        core = machine.cores[1]
        if not done and number == 1 and core.count > 500:
            lines = np.flatnonzero((core.line_state & MESI) == MODIFIED)
            if len(lines):
                core.memory[int(lines[0]) * 64 + 63] ^= 0x80
                done.append(int(lines[0]))

    before_slices(monkeypatch, flip)
    recording = record_plan(tmp_path / "rec")
    assert done
    with pytest.raises(Divergence):
        replay_core(recording, 1)


# -- the log ---------------------------------------------------------------------------------------------

Edit = Callable[[NDArray[np.void], NDArray[np.uint8]], NDArray[np.void]]


def rewrite(recording: Recording, target: Path, core: int, edit: Edit) -> Recording:
    """The recording again, by the project's own writer, one core's records edited."""
    manifest = recording.manifest
    assert manifest.end is not None
    with RecordingWriter.create(target, manifest) as writer:
        for number in range(manifest.n_cores):
            for rows, blob in iter_core_records(recording, number):
                blob = blob.copy()
                writer.append_core(number, edit(rows, blob) if number == core else rows, blob)
        for rows in iter_agent_rows(recording):
            writer.append_agent(rows)
        for rows in iter_sealed_truth(recording):
            writer.append_truth(rows)
        for name in ("initial", "final"):
            pages = (
                (address, np.frombuffer(page, np.uint8)) for address, page in iter_image(recording, name)
            )
            writer.write_image(name, pages)  # type: ignore[arg-type]
        writer.finish(manifest.end, manifest.instructions, manifest.totals)
    return Recording.open(target)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return record_plan(tmp_path / "rec", Plan("primitives", 2, 3, longest_slice=200))


def of_kind(recording: Recording, kind: int) -> int:
    """How many records of a kind core 1's log has."""
    return sum(int((rows["kind"] == kind).sum()) for rows, _ in iter_core_records(recording, 1))


def edited(kind: int, which: int, change: Callable[[Any, NDArray[np.uint8]], None] | None) -> Edit:
    """Drop the record (change None) or change it: the `which`-th of its kind."""
    seen = [0]

    def edit(rows: NDArray[np.void], blob: NDArray[np.uint8]) -> NDArray[np.void]:
        rows = rows.copy()
        found = np.flatnonzero(rows["kind"] == kind)
        index = which - seen[0]
        seen[0] += len(found)
        if not 0 <= index < len(found):
            return rows
        if change is None:
            return np.delete(rows, found[index])
        change(rows[found[index] : found[index] + 1], blob)
        return rows

    return edit


def test_a_log_written_again_unchanged_is_the_same(recording: Recording, tmp_path: Path) -> None:
    again = rewrite(recording, tmp_path / "again", 1, lambda rows, blob: rows)
    for file in recording.path.iterdir():
        if file.suffix != ".elf":
            assert (again.path / file.name).read_bytes() == file.read_bytes(), file.name


@pytest.mark.parametrize("part", range(6))
def test_dropped_miss_record(recording: Recording, part: int, tmp_path: Path) -> None:
    which = of_kind(recording, MISS) * part // 6
    bad = rewrite(recording, tmp_path / "bad", 1, edited(MISS, which, None))
    with pytest.raises((Divergence, Broken, OrderError)):
        examine(bad.path)


@pytest.mark.parametrize("which", range(4))
def test_changed_input(which: int, tmp_path: Path) -> None:
    """Every value that core 1 is given is kept in memory, so any change of one must show."""
    code = Code().raw("0f 31").store(DATA, "rax", 4).raw("0f 01 f9").store(DATA + 8, "rax", 4)
    code.raw("0f c7 f0").store(DATA + 16, "rax", 4).ask(RANDOM, "rax").store(DATA + 24, "rax").halt()
    recording = run_guest(elf(tmp_path / "guest.elf", code), tmp_path / "rec", 2).recording
    assert of_kind(recording, INPUT) == 4

    def change(row: Any, blob: NDArray[np.uint8]) -> None:
        row["value"] ^= 1

    bad = rewrite(recording, tmp_path / "bad", 1, edited(INPUT, which, change))
    with pytest.raises(Divergence):
        replay_core(bad, 1)


@pytest.mark.parametrize(
    "received", ["0f 0b", "8b 04 25 ff ff ff 7f", "90 90 8b 04 25 ff ff ff 7f", "31 c9 f7 f1", "cc", "90 f4"]
)
def test_received_code_faults_before_a_barrier(received: str, tmp_path: Path) -> None:
    """Code as no core ran it, all checksums right: it fails in a block in which the log has more to come."""
    code = Code().jump("next").align(64).label("next")
    for _ in range(30):
        code.store(DATA, "rdi")
    program, schedule = elf(tmp_path / "guest.elf", code.power_off(0)), tmp_path / "schedule"
    write_schedule(schedule, 2, 1, 5)
    run = run_guest(program, tmp_path / "rec", 2, strata="downgrades:1", schedule=str(schedule))
    recording = run.recording
    text = np.frombuffer(bytes.fromhex(received), np.uint8)

    def edit(rows: NDArray[np.void], blob: NDArray[np.uint8]) -> NDArray[np.void]:
        for row in rows[(rows["kind"] == MISS) & (rows["addr"] == TEXT + 64)]:
            at = int(row["offset"])
            blob[at : at + len(text)] = text
        return rows

    bad = rewrite(recording, tmp_path / "bad", 0, edit)
    for traced in (False, True):
        with pytest.raises(Divergence, match="the core stopped by itself"):
            list(CoreReplay(bad, 0, traced=traced).run())


def test_input_moved_or_dropped(recording: Recording, tmp_path: Path) -> None:
    for name, change in (("moved", None), ("count", "count")):

        def earlier(row: Any, blob: NDArray[np.uint8]) -> None:
            row["count"] -= 1

        bad = rewrite(recording, tmp_path / name, 1, edited(INPUT, 0, earlier if change else None))
        with pytest.raises(Divergence):
            replay_core(bad, 1)


@pytest.mark.parametrize("place", ["register", "fingerprint"])
def test_changed_digest(recording: Recording, place: str, tmp_path: Path) -> None:
    offset = 0 if place == "register" else X86_64.context_bytes
    position: list[int] = []

    manifest = recording.manifest
    with RecordingWriter.create(tmp_path / "bad", manifest) as writer:
        for number in range(manifest.n_cores):
            for rows, blob in iter_core_records(recording, number):
                blob = blob.copy()
                if number == 1 and not position:
                    digest = rows[rows["kind"] == DIGEST][0]
                    position.append(int(digest["offset"]) + offset)
                    blob[position[0]] ^= 1
                writer.append_core(number, rows, blob)
    bad = Recording.open(tmp_path / "bad")
    with pytest.raises(Divergence) as error:
        replay_core(bad, 1)
    assert ("memory" if place == "fingerprint" else X86_64.registers[0].name) in error.value.line()


# -- the order -------------------------------------------------------------------------------------------


def test_swapped_slices_are_judged_as_a_naive_walk_judges_them(tmp_path: Path) -> None:
    """Two neighbouring slices of the truth change places: legal just where the walk says so."""
    recording = record_plan(tmp_path / "rec", Plan("bug_lost_update", 2, 4, longest_slice=60, strata="none"))
    traces = held_traces(recording)
    truth = np.concatenate(list(iter_sealed_truth(recording)))
    illegal = legal = 0
    for at in range(0, len(truth) - 1, max(1, len(truth) // 60)):
        if truth["stream"][at] == truth["stream"][at + 1]:
            continue
        swapped = truth.copy()
        swapped[[at, at + 1]] = truth[[at + 1, at]]
        try:
            memory = NaiveMemory(bytearray(traces.initial()))
            memory.apply(in_true_order(traces, swapped))
            expected = memory.content == bytearray(traces.final())
        except Broken:
            expected = False
        try:
            check_slices(traces, [(swapped["stream"].astype(np.int64), swapped["end"].astype(np.uint64))])
            found = True
        except OrderError:
            found = False
        assert found == expected, f"slices {at} and {at + 1}"
        illegal, legal = illegal + (not expected), legal + expected
    assert illegal > 3
    assert legal > 3
