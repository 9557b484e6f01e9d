"""Recordings on the page bus: hostile guests, every program, and what only pages have."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from guest import DATA, READ, TEXT, Code, Run, elf, run_guest, write_schedule
from guest_bodies import GUESTS, build

from bench.soak import IMAGES, Plan, examine, run_plan
from corebraid.base.errors import CorebraidError
from corebraid.base.rows.record import MISS, PAGE_LINE, PAGE_LINES, STORED
from emu.board.board import Board
from emu.bus.names import BUSES, MESI, PAGE
from emu.schedule.lone import Lone
from emu.schedule.scheduler import RandomSlices
from recorder.evidence.losses.log import iter_losses
from recorder.files.codec import Encoder
from recorder.files.frame import CORE, FrameWriter
from recorder.files.reader import Recording, iter_core_records, iter_sealed_truth, load_image
from recorder.files.writer import FRAME_BYTES
from recorder.replay.core import replay_core

#: The last page of memory, and a way to record: (longest slice, strata).
TOP = (4 << 20) - 4096
WAYS = ((1, "cycles:400"), (5, "cycles:2000"), (50, "none"))
PROGRAMS = sorted(path.stem for path in IMAGES.glob("*.elf"))


@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
@pytest.mark.sampled(5)
def test_guest_is_recorded_replayed_and_ordered(body: Callable[[Code], None], tmp_path: Path) -> None:
    program = build(tmp_path, body)
    for number, (longest, strata) in enumerate(WAYS):
        schedule = write_schedule(tmp_path / f"schedule-{number}", GUESTS[body], 0, longest)
        run = run_guest(
            program, tmp_path / f"rec-{number}", GUESTS[body], strata=strata, schedule=str(schedule),
            input=b"input", limit=200_000, bus=PAGE,
        )  # fmt: skip
        print(run.path.name, run.outcome.end)
        assert run.outcome.end.reason == "power-off", run.outcome
        assert examine(run.path, timeout_s=5.0).regions_illegal == 0


@pytest.mark.parametrize("cores", [2, 5])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.sampled(8)
def test_program_does_what_it_must(program: str, cores: int, tmp_path: Path) -> None:
    plan = Plan.pages(program, cores, 1)
    print(plan)
    assert run_plan(plan, tmp_path / "rec").regions_illegal == 0


# -- both buses ------------------------------------------------------------------------------------------


def _slices(path: Path, cores: int) -> list[tuple[int, int]]:
    """(core, instructions) of every slice that ran, as the sealed truth has them."""
    stood, slices = [0] * cores, []
    for rows in iter_sealed_truth(Recording.open(path)):
        for stream, end in rows.tolist():
            if stream < cores and end > stood[stream]:
                slices.append((stream, end - stood[stream]))
                stood[stream] = end
    return slices


#: What depends on cycles only by latencies, which are 0 here.
SAME = [name for name in PROGRAMS if not name.startswith(("fault", "rpc"))]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("program", SAME)
def test_both_buses_give_the_same_run(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under one explicit schedule of block ends, with all latencies zero."""
    for name in ("LATENCY_CORE", "LATENCY_SHARED", "LATENCY_MEMORY"):
        monkeypatch.setattr(f"emu.core.directory.{name}", 0)
    image, cores, seed = IMAGES / f"{program}.elf", 3, len(program)
    first = run_guest(image, tmp_path / "page", cores, seed=seed, longest_slice=300, input=b"abc", bus=PAGE)
    schedule = tmp_path / "schedule"
    schedule.write_text("".join(f"{core} {n}\n" for core, n in _slices(first.path, cores)))
    second = run_guest(
        image, tmp_path / "mesi", cores, seed=seed, schedule=str(schedule), input=b"abc", bus=MESI
    )
    assert second.outcome.end == first.outcome.end
    assert second.printed == first.printed
    assert second.outcome.manifest.instructions == first.outcome.manifest.instructions
    images = [np.zeros(4 << 20, np.uint8) for _ in range(2)]
    for run, memory in zip((first, second), images, strict=True):
        load_image(Recording.open(run.path), "final", memory)
    assert np.array_equal(*images)
    # As it would be if nothing were compared.
    assert images[0].any()


# -- the log ---------------------------------------------------------------------------------------------


def _logs(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


@pytest.mark.parametrize("program", ["uts", "smc", "primitives"])
def test_what_the_emulator_asks_again_leaves_no_trace(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its TLB is resized by the host's clock, and asks for pages that are held."""
    image = IMAGES / f"{program}.elf"
    run_guest(image, tmp_path / "one", 3, seed=4, longest_slice=500, bus=PAGE, evidence=("losses",))
    draw, run_slice, flushed = random.Random(5), Board.run_slice, []

    def flushing(self: Board, number: int, length: int, **how: object) -> object:
        if draw.random() < 0.3:
            self.cores[number].protect_again()
            flushed.append(number)
        return run_slice(self, number, length, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Board, "run_slice", flushing)
    monkeypatch.setattr(Board, "take_stretch", lambda *arguments: None)
    run_guest(image, tmp_path / "two", 3, seed=4, longest_slice=500, bus=PAGE, evidence=("losses",))
    assert len(flushed) > 3
    assert _logs(tmp_path / "one") == _logs(tmp_path / "two")


def _rows(path: Path, core: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(iter_core_records(Recording.open(path), core))


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two cores that count in one page."""
    path = tmp_path_factory.mktemp("pages")
    options = {"seed": 2, "longest_slice": 100, "bus": PAGE, "evidence": ("losses",)}
    return run_guest(IMAGES / "bug_lost_update.elf", path / "rec", 2, **options)


def test_gains_and_losses_of_a_page_take_turns(counter: Run) -> None:
    recording = Recording.open(counter.path)
    assert recording.manifest.paged
    contested = 0
    for core in range(2):
        misses = [row for rows, _ in _rows(counter.path, core) for row in rows[rows["kind"] == MISS]]
        gained = [(int(row["count"]), int(row["addr"])) for row in misses]
        lost = [
            (int(row["count"]), int(row["line"]))
            for rows in iter_losses(recording, core)
            for row in rows[rows["way"] == 1]
        ]
        assert all(address % (PAGE_LINE * PAGE_LINES) == 0 for _, address in [*gained, *lost])
        for page in {address for _, address in lost}:
            mine = sorted([(n, 1) for n, a in gained if a == page] + [(n, 0) for n, a in lost if a == page])
            assert mine[0][1] == 1
            contested += len(mine) > 4
            # Whoever lost a page has got it before, and gets it again only then.
            assert all(one != two for (_, one), (_, two) in pairwise(mine)), (core, mine)
    assert contested


@pytest.mark.parametrize("core", [0, 1])
def test_a_line_that_a_page_record_lacks_is_a_divergence(counter: Run, core: int, tmp_path: Path) -> None:
    """Drop the last line of the last record that has one, with all checksums right."""
    recording = Recording.open(counter.path)
    ((rows, blob),) = _rows(counter.path, core)
    rows, blob = rows.copy(), blob.copy()
    told = [k for k in range(len(rows)) if rows["kind"][k] == MISS and rows["size"][k] > 1]
    row = rows[told[-1]]
    at, n = int(row["offset"]), int(row["size"]) // (1 + PAGE_LINE)
    lines = blob[at + 1 + n : at + 1 + n + (n - 1) * PAGE_LINE].copy()
    blob[at] = n - 1
    blob[at + n : at + n + len(lines)] = lines
    row["size"] -= 1 + PAGE_LINE
    path = tmp_path / "rec"
    path.mkdir()
    for file in counter.path.iterdir():
        if file.name != f"core-{core}.log":
            (path / file.name).write_bytes(file.read_bytes())
    manifest = recording.manifest
    writer = FrameWriter(path / f"core-{core}.log", recording.header(CORE, core))
    end, payload = Encoder(manifest.line, FRAME_BYTES, manifest.memory).encode_some(rows, blob, 0)
    assert end == len(rows)
    writer.append(bytes(payload), len(rows), 0, int(rows["count"][-1]))
    writer.close()
    files = {**manifest.files, f"core-{core}.log": writer.facts()}
    (path / "manifest.json").write_bytes(replace(manifest, files=files).render())
    with pytest.raises(CorebraidError, match="diverged"):
        replay_core(Recording.open(path), core)


def test_slices_are_longer_while_one_core_can_run() -> None:
    quiet = [True]
    policy, lone = RandomSlices(3, 100), Lone(RandomSlices(3, 100), 10, lambda: quiet[0])
    for k in range(200):
        runnable, quiet[0] = [2] if k % 3 else [0, 2], k % 5 > 0
        one, other = (of.next(runnable, [0, 0, 0]) for of in (policy, lone))
        assert other == one._replace(length=one.length * (10 if k % 3 and k % 5 else 1))


# -- what fails ------------------------------------------------------------------------------------------


#: Bytes before the end of the last page that may be written, and what stores over that end from there.
FAILING = {
    "movups": (11, "0f 11 00"),
    "movupd": (8, "66 0f 11 00"),
    "movdqu": (1, "f3 0f 7f 00"),
    "maskmovdqu": (5, "66 0f 76 c9 48 89 c7 66 0f f7 c1"),  # pcmpeqd xmm1, xmm1; mov rdi, rax
    "maskmovq": (5, "0f 76 c9 48 89 c7 0f f7 c1"),  # pcmpeqd mm1, mm1
    "fstp": (9, "d9 eb db 38"),  # fldpi
    "fbstp": (3, "d9 eb df 30"),
    "fnstenv": (20, "d9 30"),
    "fnsave": (100, "d9 eb dd 30"),
    "fxsave": (256, "0f ae 00"),
    "fxsave64": (16, "48 0f ae 00"),
}


def _final(path: Path) -> np.ndarray:
    memory = np.zeros(4 << 20, np.uint8)
    load_image(Recording.open(path), "final", memory)
    return memory


@pytest.mark.parametrize("bus", BUSES)
@pytest.mark.parametrize("name", FAILING)
def test_a_store_that_fails_has_stored_nothing(name: str, bus: str, tmp_path: Path) -> None:
    """As on a processor, also where the emulator makes it in parts and the first would not fail."""
    before, instruction = FAILING[name]
    code = Code(TEXT).mov("rsp", DATA + 0x8000).mov("rax", -1).mov("rdx", TOP + 0xF00)
    for k in range(0, 256, 8):
        code.store(("rdx", k), "rax")
    code.mov("rax", TOP + 0x1000 - before).raw(instruction)
    program = elf(tmp_path / "guest.elf", code.power_off(0), [(TOP, b"", 0x1000, READ | 2)])
    run = run_guest(program, tmp_path / "rec", 1, bus=bus)
    assert run.outcome.end.reason == "fault"
    assert (_final(run.path)[TOP + 0xF00 : TOP + 0x1000] == 0xFF).all()
    assert examine(run.path).truths == 1


@pytest.mark.parametrize("bus", BUSES)
@pytest.mark.parametrize(
    ("stack", "frame"), [(DATA + 0x10, DATA + 0x100), (DATA + 0x80, 8), (DATA + 0x1008, DATA + 0x100)]
)
def test_a_frame_that_fails_is_in_the_log(stack: int, frame: int, bus: str, tmp_path: Path) -> None:
    """`enter` reads and stores by turns: below the stack is no page, or at the frames that it copies; or all
    is well, over two pages."""
    code = Code(TEXT).mov("rsp", stack).mov("rbp", frame).raw("c8 00 00 04").mov("rsp", DATA).power_off(0)
    run = run_guest(elf(tmp_path / "guest.elf", code), tmp_path / "rec", 1, bus=bus)
    good = stack == DATA + 0x1008
    assert run.outcome.end.reason == ("power-off" if good else "fault")
    if bus == PAGE:
        rows = np.concatenate([rows for rows, _ in _rows(run.path, 0)])
        stored = rows[rows["kind"] == STORED]
        assert (int(stored["size"].sum()) > 0) == (not good)
        assert set(stored["count"].tolist()) <= {run.outcome.manifest.instructions[0]}
    if not good:
        kept = int.from_bytes(_final(run.path)[stack - 8 : stack].tobytes(), "little")
        assert kept == (frame if bus == PAGE else 0)
    assert examine(run.path).truths == 1
