"""Events of contested pages alone: the same rows, the same orders, and every access in a braided trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guest import DATA, Code, elf, run_guest, write_schedule
from guest_bodies import GUESTS, build
from numpy.typing import NDArray

import corebraid
from bench.soak import IMAGES, examine
from corebraid.base.errors import OrderError
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import ALONE, EVENT, READ, UNCACHED, UNCOUNTED
from corebraid.base.rows.record import MISS
from corebraid.study.certificates import all_traces_of, traces_of
from emu.bus.names import PAGE
from emu.bus.sync_points import ENTER, LEAVE
from emu.core.watched_pages import WatchedPages
from recorder.evidence.losses.log import iter_all_losses, iter_losses
from recorder.files.constraints import LOSSES
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording, iter_core_records, iter_sealed_truth
from recorder.replay import contested
from recorder.replay.contested import ALL, CONTESTED, MARKED, RECEIVED, Contested
from recorder.replay.traces import RecordingTraces
from solver.check.braid import braid
from solver.check.certificate import Certificate
from solver.check.checker import check_certificate, check_slices
from solver.passes.answers import Options
from solver.passes.order import order_recording
from solver.regions.problem import Verdict

Rows = NDArray[Any]
LINUX = Path(__file__).parents[3] / "firmware" / "linux" / "x86_64"


def rows_of(pieces: Iterator[Rows]) -> Rows:
    return np.concatenate([np.zeros(0, EVENT), *(piece.copy() for piece in pieces)])


def contested_by_region(traces: RecordingTraces, recording: Recording) -> list[set[int]]:
    """Naively: what was lost in a region, and what agents accessed."""
    found: list[set[int]] = [set() for _ in range(len(traces.strata) + 1)]
    for core in range(recording.manifest.n_cores):
        for losses in iter_losses(recording, core):
            for loss in losses:
                found[int(loss["stratum"])].add(int(loss["line"]) // PAGE_BYTES)
    for row in rows_of(traces.chunks(recording.manifest.n_cores)):
        for byte in range(int(row["size"])):
            found[int(row["stratum"])].add((int(row["addr"]) + byte) // PAGE_BYTES)
    return found


def watched_naively(traces: RecordingTraces, recording: Recording, core: int) -> list[set[int]]:
    """And in regions in which a core stands still what comes next, at last all that ever is."""
    found = [set(pages) for pages in contested_by_region(traces, recording)]
    after = set().union(*found)
    counts = [0, *traces.strata[:, core].tolist(), recording.manifest.instructions[core]]
    for region in range(len(found))[::-1]:
        if counts[region] == counts[region + 1]:
            found[region] |= after
        after = found[region]
    return found


def cut(row: np.void, pages: set[int]) -> tuple[Any, ...] | None:
    """The part of a row that lies in watched pages, without its number."""
    size, address = int(row["size"]), int(row["addr"])
    inside = [k for k in range(size) if (address + k) // PAGE_BYTES in pages]
    if row["flags"] & UNCACHED:
        inside = list(range(size))
    if not inside:
        return None
    first, n = inside[0], len(inside)
    old, new = ((int(row[name]) >> 8 * first) & (1 << 8 * n) - 1 for name in ("old", "new"))
    fields = tuple(int(row[name]) for name in ("stratum", "core", "kind", "flags"))
    return (int(row["count"]), int(row["pc"]), address + first, old, new, *fields, n)


def hold_against_full(path: Path) -> int:
    """Every core's rows against those of a trace of all accesses; how many are left out."""
    recording = Recording.open(path)
    whole, few = RecordingTraces(recording), RecordingTraces(recording, rows=CONTESTED)
    left_out = 0
    for core in range(recording.manifest.n_cores):
        pages = watched_naively(whole, recording, core)
        all_rows, rows = rows_of(whole.chunks(core)), rows_of(few.chunks(core))
        told = [part for row in all_rows if (part := cut(row, pages[int(row["stratum"])])) is not None]
        accesses = rows[rows["flags"] & ALONE == 0]
        found = [
            (
                *(int(row[name]) for name in ("count", "pc", "addr", "old", "new")),
                *(int(row[name]) for name in ("stratum", "core", "kind", "flags", "size")),
            )
            for row in accesses
        ]
        assert found == told
        assert rows["seq"].tolist() == list(range(len(rows)))
        left_out += len(all_rows) - len(told)
    return left_out


def hold_braid(path: Path) -> int:
    """Every access once, each stream's in its order, memory as each finds it, agents where they met cores."""
    recording = Recording.open(path)
    certificate = Certificate(path / ORDER_CERT, recording.manifest.id)
    assert certificate.head.contested
    whole = RecordingTraces(recording)
    pieces = braid(all_traces_of(recording, certificate), certificate)
    rows = rows_of(rows for rows, ordered in pieces if ordered)
    assert not (rows["flags"] & (ALONE | UNCOUNTED)).any()
    agents = recording.manifest.n_cores
    for stream in range(agents + 1):
        mine, alone = rows[rows["core"] == stream], rows_of(whole.chunks(stream))
        assert mine.tobytes() == alone.tobytes()
    follow_values(rows, whole)
    follow_syncs(rows, whole, agents)
    return len(rows)


def follow_values(rows: Rows, traces: RecordingTraces) -> None:
    memory = traces.initial()
    for row in rows:
        if row["flags"] & UNCACHED:
            continue
        at, size = int(row["addr"]), int(row["size"])
        held = int.from_bytes(memory[at : at + size].tobytes(), "little")
        assert held == int(row["old"]), row
        if row["kind"] != READ:
            memory[at : at + size] = np.frombuffer(int(row["new"]).to_bytes(8, "little")[:size], np.uint8)
    if traces.has_final:
        final = traces.final()
        for row in rows:
            at, size = int(row["addr"]), int(row["size"])
            if not row["flags"] & UNCACHED:
                assert np.array_equal(memory[at : at + size], final[at : at + size])


def follow_syncs(rows: Rows, traces: RecordingTraces, agents: int) -> None:
    place = np.arange(len(rows))
    by_agent = place[rows["core"] == agents]
    for sync in traces.syncs:
        number, mine = int(sync["number"]), rows["core"] == sync["core"]
        before = mine & (rows["count"] < sync["count"])
        if sync["way"] & ENTER and number < len(by_agent) and before.any():
            assert place[before].max() < by_agent[number], sync
        if sync["way"] & LEAVE and number and (mine & ~before).any():
            assert place[mine & ~before].min() > by_agent[:number].max(), sync


def slices_of(recording: Recording) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
    for rows in iter_sealed_truth(recording):
        yield rows["stream"].astype(np.int64), rows["end"].astype(np.uint64)


def hold_truth(path: Path) -> int:
    """What ran, with all that cores received: how many events that are more than those of contested pages."""
    recording = Recording.open(path)
    few, more = (
        check_slices(RecordingTraces(recording, rows=rows), slices_of(recording)).events
        for rows in (CONTESTED, RECEIVED)
    )
    return more - few


def hold(path: Path) -> tuple[int, int]:
    """Accesses that are left out, and how many a braided trace has. Of an order of holds, and of one of
    accesses to contested pages."""
    left_out = hold_against_full(path)
    assert hold_truth(path) > 0
    ordered = corebraid.order(path, region_timeout=5.0, jobs=1)
    assert not ordered.with_verdict("illegal")
    assert corebraid.check_order(path).events
    braided = 0 if ordered.with_verdict("undecided") else hold_braid(path)
    recording = Recording.open(path)
    traces = RecordingTraces(recording, rows=CONTESTED)
    options = Options(timeout_s=5.0)
    (path / ORDER_CERT).unlink()
    accesses = order_recording(traces, path / ORDER_CERT, recording.manifest.id, options)
    assert accesses.verdict is not Verdict.ILLEGAL
    if accesses.verdict is Verdict.LEGAL:
        assert hold_braid(path) == braided or not braided
    return left_out, braided


@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
@pytest.mark.sampled(2)
def test_hostile_guests(body: Callable[[Code], None], tmp_path: Path) -> None:
    program = build(tmp_path, body)
    for number, (longest, strata) in enumerate(((1, "cycles:400"), (50, "cycles:2000"), (5, "none"))):
        schedule = write_schedule(tmp_path / f"schedule-{number}", GUESTS[body], 0, longest)
        run = run_guest(
            program, tmp_path / f"rec-{number}", GUESTS[body], strata=strata, schedule=str(schedule),
            input=b"input", limit=200_000, bus=PAGE, evidence=("losses",),
        )  # fmt: skip
        hold(run.path)


FIRMWARE = ("radix", "uts", "ring", "dma_race", "smc", "timer", "laplace")


@pytest.mark.parametrize("program", FIRMWARE)
@pytest.mark.sampled(1)
def test_firmware(program: str, tmp_path: Path) -> None:
    corebraid.record(IMAGES / f"{program}.elf", tmp_path / "rec", cores=3, strata="cycles:3000", limit=60_000)
    left_out, braided = hold(tmp_path / "rec")
    print(left_out, braided)
    assert left_out


def record_linux(program: str, path: Path) -> Recording:
    corebraid.record(LINUX / program, path, cores=3, strata="cycles:20000", limit=150_000)
    return Recording.open(path)


_LONG = [pytest.param(name, marks=pytest.mark.soak) for name in ("signals", "semaphores")]


@pytest.mark.parametrize("program", ["mutexes", "pipes_poll", *_LONG])
@pytest.mark.soak
def test_linux_programs(program: str, tmp_path: Path) -> None:
    record_linux(program, tmp_path / "rec")
    left_out, braided = hold(tmp_path / "rec")
    assert left_out
    assert braided


#: Two pages: others use the end of the first, and the beginning of the third.
ROOM = DATA + 0x2000


@pytest.mark.parametrize("seed", range(3))
def test_accesses_over_a_border_are_cut(seed: int, tmp_path: Path) -> None:
    """Core 1 leaves the second page alone; of what the others store over its borders a part is followed."""
    code = Code().split("zero", "one")
    for name, places in (("zero", (0, 1, 2, 3)), ("one", (0, 2))):
        code.label(name).mov("rcx", 60).label(f"{name} again")
        for page in places:
            place = ROOM + (page + 1) * PAGE_BYTES - 3 if name == "zero" else ROOM + page * PAGE_BYTES + 0x100
            code.mov("rbx", place).load("rax", ("rbx", 0)).add("rax", 7).store(("rbx", 0), "rax")
            code.raw("f0 48 0f c1 03").raw("0f 10 03  0f 11 43 f9")
        code.loop("rcx", f"{name} again").mov("rbx", ROOM).raw("f0 48 ff 43 40").label(f"{name} waits")
        code.load("rax", ("rbx", 0x40)).compare("rax", 2).jump_if("nz", f"{name} waits").power_off(0)
    run = run_guest(
        elf(tmp_path / "guest.elf", code), tmp_path / "rec", 2, seed=seed, longest_slice=40,
        strata="cycles:1500", bus=PAGE, evidence=("losses",),
    )  # fmt: skip
    assert run.outcome.end.reason == "power-off"
    recording = Recording.open(run.path)
    whole = RecordingTraces(recording)
    pages = watched_naively(whole, recording, 0)
    parts = [(row, cut(row, pages[int(row["stratum"])])) for row in rows_of(whole.chunks(0))]
    assert any(part is not None and part[-1] < int(row["size"]) for row, part in parts)
    hold(run.path)
    examine(run.path)


def record_radix(path: Path) -> Recording:
    corebraid.record(IMAGES / "radix.elf", path, cores=3, strata="cycles:10000", limit=60_000)
    return Recording.open(path)


def test_an_order_that_was_chosen_is_of_all_accesses(tmp_path: Path) -> None:
    """As those of before are, and is read like them."""
    recording = record_radix(tmp_path / "rec")
    few = corebraid.order(recording).check.events
    certificate = Certificate(recording.path / ORDER_CERT, recording.manifest.id)
    assert certificate.head.contested
    corebraid.order(recording, choose="fewest-switches")
    chosen = Certificate(recording.path / ORDER_CERT, recording.manifest.id)
    assert not chosen.head.contested
    assert corebraid.check_order(recording).events > few
    assert not traces_of(recording, chosen).contested
    assert not all_traces_of(recording, chosen).marked
    rows = [rows for rows, _ in braid(all_traces_of(recording, chosen), chosen)]
    assert sum(map(len, rows)) == corebraid.check_order(recording).events


def test_what_became_of_a_page_is_missed_where_it_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its rows values do not follow from one another, and all accesses are ordered."""
    recording = record_linux("mutexes", tmp_path / "rec")
    told = [rows_of(RecordingTraces(recording, rows=CONTESTED).chunks(core)) for core in range(3)]
    assert any((rows["flags"] & ALONE).any() for rows in told)
    said: list[str] = []
    corebraid.order(recording, jobs=1, note=lambda text: said.append(str(text)))
    assert not said
    monkeypatch.setattr(WatchedPages, "tell", lambda _: True)
    with pytest.raises(OrderError):
        corebraid.check_order(recording)
    corebraid.order(recording, jobs=1, fresh=True, note=lambda text: said.append(str(text)))
    assert len(said) == 1
    assert not Certificate(recording.path / ORDER_CERT, recording.manifest.id).head.contested
    assert corebraid.check_order(recording).events


def test_a_page_that_is_not_known_to_be_contested_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = record_radix(tmp_path / "rec")
    fits = RecordingTraces(recording, rows=CONTESTED)
    order_recording(fits, recording.path / ORDER_CERT, recording.manifest.id)
    certificate = Certificate(recording.path / ORDER_CERT, recording.manifest.id)
    assert check_certificate(fits, certificate).events
    known = Contested(recording, fits.strata)
    monkeypatch.setattr(known, "_keys", np.delete(known._keys, slice(None, None, 3)))
    fits = RecordingTraces(recording, rows=CONTESTED)
    monkeypatch.setattr(RecordingTraces, "pages", known)
    with pytest.raises(OrderError):
        check_certificate(fits, certificate)


def test_marked_rows_are_those_that_others_leave_out(tmp_path: Path) -> None:
    recording = record_radix(tmp_path / "rec")
    for core in range(3):
        marked = rows_of(RecordingTraces(recording, rows=MARKED).chunks(core))
        few = rows_of(RecordingTraces(recording, rows=CONTESTED).chunks(core))
        counted = marked[marked["flags"] & UNCOUNTED == 0]
        assert len(counted) == len(few) < len(marked)
        for field in ("count", "pc", "addr", "old", "new", "kind"):
            assert np.array_equal(counted[field], few[field])


def test_what_is_known_without_an_order_is_the_same(tmp_path: Path) -> None:
    """What is left to be ordered of a region, and how: filters leave out nothing else."""
    recording = record_radix(tmp_path / "rec")
    traces = RecordingTraces(recording, constraints=LOSSES, rows=CONTESTED)
    few = order_recording(traces, recording.path / ORDER_CERT, recording.manifest.id)
    whole = corebraid.order(recording, jobs=1, choose="fewest-switches")
    for one, other in zip(few.regions, whole.regions, strict=True):
        assert one.counts.unfiltered == other.counts.unfiltered
    assert few.counts.total < whole.counts.total


def test_a_byte_that_nobody_looks_at_is_held_against_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cores receive whole pages, of which they use a part."""
    recording = record_linux("mutexes", tmp_path / "rec")
    used, came = set[int](), set[int]()
    for stream in range(4):
        for row in rows_of(RecordingTraces(recording).chunks(stream)):
            used.update(range(int(row["addr"]), int(row["addr"]) + int(row["size"])))
    for rows, _ in iter_core_records(recording, 0):
        for page in rows["addr"][rows["kind"] == MISS].tolist():
            came.update(range(page, page + PAGE_BYTES))
    pages = {address // PAGE_BYTES for address in used if address in came}
    unused = min(address for address in came - used if address // PAGE_BYTES in pages)
    plain = RecordingTraces.initial

    def initial(self: RecordingTraces) -> NDArray[np.uint8]:
        memory = plain(self)
        memory[unused] ^= 1
        return memory

    monkeypatch.setattr(RecordingTraces, "initial", initial)
    for rows in (ALL, CONTESTED):
        assert check_slices(RecordingTraces(recording, rows=rows), slices_of(recording)).events
    with pytest.raises(OrderError):
        check_slices(RecordingTraces(recording, rows=RECEIVED), slices_of(recording))


def test_losses_that_are_not_all_there_are_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With right checksums: the manifest has their number."""
    recording = record_radix(tmp_path / "rec")
    every = list(iter_all_losses(recording))
    said: list[str] = []
    for left in (every[:-1], [*every[:-1], every[-1][:-1]], [*every, every[-1][:1]]):
        monkeypatch.setattr(contested, "iter_all_losses", lambda _, left=left: iter(left))
        corebraid.order(recording, jobs=1, fresh=True, note=lambda text: said.append(str(text)))
        assert not Certificate(recording.path / ORDER_CERT, recording.manifest.id).head.contested
        assert corebraid.check_order(recording).events
    assert len(said) == 3
    assert all("losses are missing, or too many" in line for line in said)


def test_regions_in_which_a_core_stands_still_cost_nothing(tmp_path: Path) -> None:
    """Tens of thousands of them, as where a program waits for one of its threads."""
    recording = record_radix(tmp_path / "rec")
    known = RecordingTraces(recording, rows=CONTESTED)
    regions, pages = 40_000, 500
    strata = np.zeros((regions, known.strata.shape[1]), np.uint64)
    many = Contested(recording, known.strata)
    many._strata, many._end = strata, np.uint64(regions + 1) << np.uint64(40)
    keys = [np.uint64(k) << np.uint64(40) | np.uint64(k % pages) for k in range(regions)]
    many._keys = np.array([*keys, *(many._end | np.uint64(page) for page in range(pages))], np.uint64)
    watched = many.of(0)
    assert len(watched.keys) < len(many._keys) + pages
    assert watched.pages(0).tolist() == watched.pages(regions - 1).tolist() == list(range(pages))


def test_logs_of_a_killed_recorder_end_at_different_strata(tmp_path: Path) -> None:
    """The agents' may go on behind the last stratum that all cores have."""
    recording = record_linux("mutexes", tmp_path / "rec")
    strata = RecordingTraces(recording).strata
    whole = contested_by_region(RecordingTraces(recording), recording)
    assert any(whole[3:])
    for n in range(len(strata)):
        watched = Contested(recording, strata[:n]).of(0)
        for region in range(n):
            assert set(watched.pages(region).tolist()) >= whole[region]
        assert len(watched.pages(len(strata))) == len(watched.ever)
