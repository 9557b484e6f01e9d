"""The engine `linkage` on recordings: its orders pass the checker, its linkages are the paper's, and evidence
that does not go with the events is refused."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli_factory import FIRMWARE, run
from evidence_factory import record_with, spy_on
from guest import DATA, WAYS, run_guest, write_schedule
from random_code import random_program

from corebraid.base.errors import Contradiction
from corebraid.base.rows.event import EVENT, READ
from corebraid.names.symbols import Symbols
from emu.bus.cache import CacheGeometry
from recorder.capture.strata_policy import StrataPolicy
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.evidence.linkage.engine import LinkageEngine
from solver.evidence.linkage.log import LinkageLog, read_linkage
from solver.evidence.linkage.match import link
from solver.evidence.linkage.place import Misfit, place
from solver.passes.answers import Options
from solver.passes.order import order_recording
from solver.passes.results import OrderResult
from solver.passes.unfiltered import iter_problems
from solver.regions.problem import Verdict

PROGRAMS = [
    "uts", "radix", "ring", "peterson", "spin_mcs", "spin_ticket", "bug_aba", "bug_dcl", "bug_lost_update",
    "laplace", "nqueens", "smc", "timer", "dma_race", "primitives", "fig1", "fig2", "lightplay_fig1",
]  # fmt: skip


def ordered(recording: Recording, log: LinkageLog | None = None) -> tuple[OrderResult, LinkageEngine]:
    """The recording ordered by its linkages."""
    engine = LinkageEngine(log or read_linkage(recording), recording.killed)
    certificate = recording.path / "order.cert"
    result = order_recording(
        RecordingTraces(recording), certificate, recording.manifest.id, Options("linkage", evidence=engine)
    )
    return result, engine


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("cores", "seed", "group"), [(2, 1, "word"), (4, 2, "line"), (8, 3, "word")])
@pytest.mark.sampled(5)
def test_every_region_is_ordered_and_passes_the_checker(
    tmp_path: Path, program: str, cores: int, seed: int, group: str
) -> None:
    recording = record_with(
        FIRMWARE / f"{program}.elf",
        tmp_path / "rec",
        cores=cores,
        seed=seed,
        evidence=("linkage",),
        evidence_options={"group": group},
        longest_slice=500 if seed == 1 else 5000,
        strata=StrataPolicy(cycles=20_000),
        cache=CacheGeometry.parse("unbounded" if seed < 3 else "1k:2:32"),
        limit=400_000,
    )
    log = read_linkage(recording, with_values=True)
    result, engine = ordered(recording, log)
    assert log.values.tally.sum() > 0
    assert result.verdict is Verdict.LEGAL, [r for r in result.regions if r.verdict is not Verdict.LEGAL]
    assert result.check.events == result.counts.total
    assert engine.reads > 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(1)
def test_random_guests_are_ordered(seed: int, tmp_path: Path) -> None:
    """Accesses of all sizes over two words, atomic pairs, stores into running code, under exact schedules."""
    draw = random.Random(seed)
    places = [DATA + 8 + draw.randrange(64) for _ in range(3)]
    program = random_program(tmp_path / "random.elf", draw, places, 3)
    for number, (longest, strata, cache) in enumerate(WAYS):
        schedule = write_schedule(tmp_path / f"schedule-{number}", 3, seed, longest)
        ran = run_guest(
            program,
            tmp_path / f"rec-{number}",
            3,
            cache=cache,
            strata=strata,
            schedule=str(schedule),
            evidence=("linkage",),
            evidence_options={"group": ("word", "line")[number % 2]},
        )
        result, _ = ordered(ran.recording, read_linkage(ran.recording, with_values=True))
        assert result.verdict is Verdict.LEGAL, [r for r in result.regions if r.verdict is not Verdict.LEGAL]


def schedule_of_figure_2(folder: Path) -> Path:
    """A schedule that brings the paper's order about: w1 w2 r8 w4 r9 w5 w3 r6 r7, with w5 between r9 and the
    look at its version."""
    program = FIRMWARE / "stride_fig2.elf"
    symbols = Symbols.of_elf(program.read_bytes())
    first = record_with(program, folder / "probe", cores=4)
    counts = {}
    for core in range(4):
        rows = np.concatenate([np.zeros(0, EVENT), *RecordingTraces(first).chunks(core)])
        for row in rows:
            name = symbols.name(int(row["pc"]))
            if name.startswith("stride_") and name not in counts:
                counts[name] = core, int(row["count"])
    steps = [f"stride_{event}" for event in ["w1", "w2", "r8", "w4", "r9", "w5", "w3", "r6", "r7"]]
    assert sorted(counts) == sorted(steps)
    stood = [0] * 4
    lines = []
    for name in steps:
        core, count = counts[name]
        lines.append(f"{core} {count + 1 - stood[core]}")
        stood[core] = count + 1
    lines += [f"{core} 200" for _ in range(400) for core in range(4)]
    path = folder / "schedule"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_figure_2_of_the_paper_gives_the_linkages_of_figure_3(tmp_path: Path) -> None:
    recording = record_with(
        FIRMWARE / "stride_fig2.elf",
        tmp_path / "rec",
        cores=4,
        schedule=str(schedule_of_figure_2(tmp_path)),
        evidence=("linkage",),
        evidence_options={"group": "word"},
    )
    symbols = Symbols.of_elf((FIRMWARE / "stride_fig2.elf").read_bytes())
    place_of = {int(symbols.named(name).address): name for name in ("x", "y")}  # type: ignore[union-attr]
    log = read_linkage(recording)
    found, bounds = {}, {}
    for region, problem in iter_problems(RecordingTraces(recording)):
        placed = place(log, region, problem)
        assert not isinstance(placed, Misfit)
        linked = link(problem, placed)
        names = [
            [symbols.name(int(row["pc"])) for piece in rows.pieces() for row in piece]
            for rows in region.streams
        ]
        for part in range(len(problem.granule)):
            op, source = int(problem.part_op[part]), int(linked.source[part])
            name = names[problem.op_stream[op]][problem.end_row[op] - 1]
            if int(problem.address[problem.granule[part]]) in place_of and name.startswith("stride_r"):
                writer = int(problem.part_op[source])
                found[name] = names[problem.op_stream[writer]][problem.end_row[writer] - 1]
                bounds[name] = int(placed.version[part])
    expected = {"r6": "w5", "r7": "w3", "r8": "w2", "r9": "w4"}
    assert found == {f"stride_{read}": f"stride_{write}" for read, write in expected.items()}
    # r9 read version 2, and looked at 3; the others looked at what they read, r8 at w2's.
    assert bounds == {"stride_r6": 3, "stride_r7": 2, "stride_r8": 1, "stride_r9": 3}


def test_late_looks_are_late_and_cost_more_comparisons(tmp_path: Path) -> None:
    """Slices of few instructions: many end with a read, and others have their turns before the look."""
    recording = record_with(
        FIRMWARE / "bug_lost_update.elf",
        tmp_path / "rec",
        cores=4,
        schedule=str(write_schedule(tmp_path / "schedule", 4, 4, 5, 20_000)),
        evidence=("linkage",),
        evidence_options={"group": "word"},
        limit=60_000,
    )
    result, engine = ordered(recording)
    assert result.verdict is Verdict.LEGAL
    assert engine.compared[1:].sum() > 10


@pytest.fixture(scope="module")
def racy(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A recording whose shared variables are written again and again."""
    return record_with(
        FIRMWARE / "bug_lost_update.elf",
        tmp_path_factory.mktemp("racy") / "rec",
        cores=3,
        seed=6,
        longest_slice=40,
        evidence=("linkage",),
        evidence_options={"group": "word"},
    )


def test_a_bound_that_is_one_too_low_is_found(racy: Recording) -> None:
    log = read_linkage(racy)
    log.bounds.version[:] = np.maximum(log.bounds.version - 2, 0)
    with pytest.raises(Contradiction, match=r"stream \d, event \d+, address 0x.*up to its bound"):
        ordered(racy, log)


def test_a_value_that_was_not_read_is_found(racy: Recording) -> None:
    log = read_linkage(racy, with_values=True)
    log.values.value[len(log.values.value) // 2] ^= np.uint64(1)
    with pytest.raises(Contradiction, match=r"stream \d, event \d+: the evidence has another value"):
        ordered(racy, log)


def test_writers_in_another_order_are_found(racy: Recording) -> None:
    log = read_linkage(racy)
    key = int(np.argmax(np.diff(log.runs.first)))
    first = int(log.runs.first[key])
    log.runs.version[[first, first + 1]] = log.runs.version[[first + 1, first]]
    with pytest.raises(Contradiction):
        ordered(racy, log)


def test_evidence_that_ends_early_is_found(racy: Recording) -> None:
    log = read_linkage(racy)
    engine = LinkageEngine(log._replace(runs=log.runs._replace(n=log.runs.n // 2)))
    certificate = racy.path / "order.cert"
    with pytest.raises(Contradiction):
        order_recording(
            RecordingTraces(racy), certificate, racy.manifest.id, Options("linkage", evidence=engine)
        )


def test_linkages_come_out_as_the_naive_scan_has_them(tmp_path: Path) -> None:
    """Algorithm 1 by hand: from the true order of all writes, back from the bound to the value."""
    program = FIRMWARE / "spin_ticket.elf"
    spied, recording = spy_on(program, tmp_path / "spied", cores=3, seed=8, longest_slice=60)
    assert recording.manifest.evidence == ()
    events = np.concatenate([rows for _, rows in spied.turns])
    writes: dict[int, list[tuple[int, int, int]]] = {}
    for number, row in enumerate(events):
        if row["kind"] != READ and row["size"] == 8:
            made = number, int(row["core"]), int(row["new"])
            writes.setdefault(int(row["addr"]), []).append(made)
    real = record_with(
        program,
        tmp_path / "rec",
        cores=3,
        seed=8,
        longest_slice=60,
        evidence=("linkage",),
        evidence_options={"group": "word"},
    )
    log = read_linkage(real)
    checked = 0
    for region, problem in iter_problems(RecordingTraces(real)):
        placed = place(log, region, problem)
        assert not isinstance(placed, Misfit)
        linked = link(problem, placed)
        for part in np.flatnonzero(placed.kind == 1).tolist():
            g = int(problem.granule[part])
            every = writes.get(int(problem.address[g]), [])
            if int(problem.size[g]) != 8 or not every:
                continue
            bound, value = int(placed.version[part]), int(problem.old[part])
            match = next((k for k in range(bound, 0, -1) if every[k - 1][2] == value), 0)
            source = int(linked.source[part])
            assert (int(placed.version[source]) if source >= 0 else 0) == match
            checked += 1
    assert checked > 50


# -- the command line --------------------------------------------------------------------------------------


def test_the_command_line_orders_from_linkages(racy: Recording) -> None:
    ran = run("order", racy.path, "--engine", "linkage")
    assert ran.code == 0
    assert "linkage" in ran.out
    assert run("check-order", racy.path).code == 0
    assert run("verify", racy.path).code == 0


def test_what_cannot_be_is_one_clear_error(tmp_path: Path, racy: Recording) -> None:
    plain = record_with(FIRMWARE / "fig1.elf", tmp_path / "plain", cores=2)
    other = record_with(FIRMWARE / "fig1.elf", tmp_path / "other", cores=2, seed=3, evidence=("linkage",))
    cases = [
        (("order", plain.path, "--engine", "linkage"), "record again with --evidence linkage"),
        (("order", racy.path, "--engine", "linkage", "--jobs", 2), "one after the other"),
        (("order", racy.path, "--engine", "opr"), "record again with --evidence opr"),
        (("record", "-o", tmp_path / "a", "--evidence", "lint", FIRMWARE / "fig1.elf"), "no such evidence"),
        (("record", "-o", tmp_path / "a", "--evidence", "", FIRMWARE / "fig1.elf"), "no such evidence"),
        (
            ("record", "-o", tmp_path / "a", "--group", "line", FIRMWARE / "fig1.elf"),
            "add --evidence linkage",
        ),
        (
            (
                "record",
                "-o",
                tmp_path / "a",
                "--evidence",
                "linkage",
                "--model",
                "tso",
                FIRMWARE / "fig1.elf",
            ),
            "store buffers are unknown",
        ),
    ]
    for arguments, said in cases:
        ran = run(*arguments)
        assert ran.code == 2, arguments
        assert said in ran.err, ran.err
        assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "a").exists()
    swapped = tmp_path / "swapped"
    shutil.copytree(racy.path, swapped)
    shutil.copy(other.path / "evidence-linkage.log", swapped)
    ran = run("order", swapped, "--engine", "linkage")
    assert ran.code == 2
    assert "evidence-linkage.log" in ran.err
    assert run("verify", swapped).code == 1


def test_a_damaged_byte_is_found(tmp_path: Path, racy: Recording) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(racy.path, copy)
    path = copy / "evidence-linkage.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)
    ran = run("order", copy, "--engine", "linkage")
    assert ran.code == 2
    assert "checksum" in ran.err
    ran = run("verify", copy)
    assert ran.code == 1
    assert "evidence-linkage.log" in ran.err
