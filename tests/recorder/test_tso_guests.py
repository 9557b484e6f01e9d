"""Hostile guests recorded under TSO: those of `test_record_guests`, some that aim at store buffers, and
random ones. Each recording is held to all it promises."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guest import (
    DATA,
    DMA_DST,
    DMA_LEN,
    DMA_SRC,
    DMA_START,
    DMA_STATUS,
    TEXT,
    WAYS,
    Code,
    elf,
    run_guest,
    write_schedule,
)
from guest_bodies import GUESTS, build, start
from random_code import random_program
from static_guest import record_linux_guest

from corebraid.base.rows.event import EVENT
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.replay.core import replay_core
from recorder.replay.store_streams import SideBySide
from recorder.replay.traces import RecordingTraces
from solver.check.checker import check_slices
from solver.passes.answers import Options
from solver.passes.order import order_recording
from solver.regions.problem import Verdict

BUFFERS = (1, 4, 64)


def examine(path: Path) -> None:
    """Every core replays to its end, the sealed truth is legal, and there is an order, which is checked."""
    recording = Recording.open(path)
    for core, count in enumerate(recording.manifest.instructions):
        result = replay_core(recording, core)
        assert result.complete
        assert result.count == count
    traces = RecordingTraces(recording)
    truth = [
        (batch["stream"].astype(np.int64), batch["end"].astype(np.uint64))
        for batch in iter_sealed_truth(recording)
    ]
    check_slices(traces, truth)
    result = order_recording(traces, path / "order.cert", recording.manifest.id, Options(timeout_s=5.0))
    assert not [region for region in result.regions if region.verdict is Verdict.ILLEGAL]


def hold(
    program: Path, cores: int, way: tuple[int, str, str], buffer: int, seed: int = 0, **options: Any
) -> str:
    """Record `program` one of WAYS and examine it. Returns why it ended."""
    longest, strata, cache = way
    name = f"{program.stem}-{longest}-{strata}-{cache}-{buffer}-{seed}".replace(":", "_")
    print(f"{program} on {cores} cores: {way}, buffer {buffer}, seed {seed}")
    schedule = write_schedule(program.parent / f"{name}.schedule", cores, seed, longest)
    run = run_guest(
        program, program.parent / name, cores, cache=cache, strata=strata, schedule=str(schedule), seed=seed,
        **{"model": "tso", "store_buffer": buffer, "limit": 50_000, **options},
    )  # fmt: skip
    examine(run.path)
    return run.outcome.end.reason


@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
@pytest.mark.sampled(2)
def test_guests_of_sc_hold_under_tso(body: Callable[[Code], None], tmp_path: Path) -> None:
    program = build(tmp_path, body)
    for number, way in enumerate(WAYS[1:4]):
        assert hold(program, GUESTS[body], way, BUFFERS[number], input=b"input") == "power-off"


def forwarded(code: Code) -> None:
    """Loads that a buffered store answers, of lines that come only after the next store to them: replay must
    not have the line, which holds both stores, before the load."""
    code.mov("r8", 0)
    for k in range(20):
        place = DATA + 0x1000 + 64 * k
        code.mov("rax", 1).store(place, "rax").jump(f"next{k}").label(f"next{k}")
        code.mov("rax", 2).load("rcx", place).emit("01", "rcx", "r8").store(place, "rax")
        for other in range(6):
            code.load("rdx", DATA + 8 * other)
        code.load("rcx", place).emit("01", "rcx", "r8").store(DATA + 0x800, "r8")


def covered(code: Code) -> None:
    """Stores across a line that others write to meanwhile: what arrives of the line, all of it covered by the
    store, is in no load's result and yet in the store's old bytes."""
    code.mov("rcx", 12).label("again").store(DATA + 0x3E, "rcx", 4).store(DATA + 0x1000, "rcx", 1)
    code.emit("0f 11", 0, DATA + 0x38, wide=False).load("rax", DATA + 0x3F, 2)
    code.store(DATA + 0xFFC, "rcx").load("rax", DATA + 0x80).loop("rcx", "again")


def first_of_its_block(code: Code) -> None:
    """The first instruction of a block changes a later one of it, so that the emulator runs it twice: no cut
    may come between the fetch of the block and its second run."""
    for k in range(12):
        code.mov("r8", k).emit("ff", 0, DATA).emit("ff", 0, DATA + 0x40 * (k % 3)).jump(f"patch{k}")
        code.align(64).label(f"patch{k}")
        code.raw("44 88 05 03 00 00 00  90  80 c2 11  90")  # mov [rip + 3], r8b; nop; add dl, 0x11 (patched)


def half_own_code(code: Code) -> None:
    """movups whose second half alone lies in the block that runs: the first half is stored twice."""
    code.mov("rcx", 6).label("again").align(64)
    here = code.here
    code.mov("rax", here + 0x38).raw(
        "0f 10 00  66 48 0f 3a 22 c1 00  0f 11 00"
    )  # ...; pinsrq xmm0, rcx, 0; ...
    code.emit("ff", 0, DATA + 0x48).raw(f"eb {here + 0x40 - code.here - 2:02x}").at(here + 0x48)
    code.loop("rcx", "again")


def own_line(code: Code) -> None:
    """Code is written right before it runs, piece by piece, over what ran before."""
    code.mov("rcx", 5).label("again")
    for k in range(4):
        code.mov("rax", 0x90909090C3C08341).mov("rdx", 0x101000 + 0x40 * k).raw("48 89 02  c6 42 03 c3")
        code.raw("c7 02 41 ff c0 c3  ff d2").emit(
            "01", "r8", DATA
        )  # mov dword [rdx], (inc r8d; ret); call rdx
    code.loop("rcx", "again").jump("over").at(0x101200).label("over")


def dma_of_buffered(code: Code) -> None:
    """A copy onto itself of what its core has just stored, partly across lines, while all write there."""
    code.compare("rbx", 0).jump_if("nz", "others").mov("rcx", 5).label("copies")
    code.store(DATA + 0x1C0, "rcx").store(DATA + 0x1C8, "rcx").emit("0f 11", 0, DATA + 0x1CC, wide=False)
    code.device(DMA_SRC, DATA + 0x1C0).device(DMA_DST, DATA + 0x1C8).device(DMA_LEN, 0x40)
    code.store(DATA + 0x1C4, "rcx").device(DMA_START, 1).store(DATA + 0x1FC, "rcx").load("rax", DATA + 0x1D0)
    code.label("poll").emit("ff", 0, DATA + 0x1E1).load("rax", DATA + 0x1DF).ask(DMA_STATUS, "rax")
    code.compare("rax", 0).jump_if("nz", "poll").loop("rcx", "copies").jump("after")
    code.label("others").mov("rcx", 15).label("other").emit("ff", 0, DATA + 0x1E1)
    code.store(DATA + 0x1C1, "rcx").load("rax", DATA + 0x1BF).loop("rcx", "other").label("after")


@pytest.mark.parametrize(
    "body",
    [forwarded, covered, first_of_its_block, half_own_code, own_line, dma_of_buffered],
    ids=lambda body: body.__name__,
)
@pytest.mark.sampled(3)
def test_guests_that_aim_at_store_buffers(body: Callable[[Code], None], tmp_path: Path) -> None:
    program = build(tmp_path, body)
    for number, way in enumerate(WAYS):
        assert hold(program, 2, way, BUFFERS[number % 3]) == "power-off"


def test_no_cut_comes_before_the_second_run_of_an_instruction_under_sc(tmp_path: Path) -> None:
    program = build(tmp_path, first_of_its_block)
    for longest, cache in product((1, 3), ("unbounded", "512:1:16")):
        assert hold(program, 2, (longest, "downgrades:1", cache), 16, model="sc") == "power-off"


#: Instructions that fail after core 1 has stored: in hexadecimal, where rax points.
FAULTS = {
    "div": (0, "31 d2  31 c9  48 f7 f1"),
    "movups": (0xFFF8, "0f 11 00"),
    "fxsave": (0xFF00, "0f ae 00"),
    "lock inc": (0xFFFC, "f0 48 ff 00"),
    "rep movsq": (0xFFE8, "48 89 c7  48 c7 c1 09 00 00 00  f3 48 a5"),
    "push": (4, "48 89 c4  50"),
    "enter": (16, "48 89 c4  48 8d 68 40  c8 10 00 05"),
    "ud2": (0, "0f 0b"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FAULTS)
def test_faults_after_buffered_stores(name: str, tmp_path: Path) -> None:
    offset, text = FAULTS[name]
    code = start(Code()).mov("rsi", DATA).compare("rbx", 1).jump_if("nz", "spin")
    code.mov("rax", DATA + offset).emit("ff", 0, DATA + 8).store(DATA + 0xFFF0, "rbp").raw(text)
    code.label("spin").emit("ff", 0, DATA + 0xFFF0).emit("ff", 0, DATA + 5).jump("spin")
    program = elf(tmp_path / "fault.elf", code)
    for way, buffer in zip(WAYS[:3], BUFFERS, strict=True):
        assert hold(program, 2, way, buffer) == "fault"


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.sampled(2)
def test_random_guests(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    cores = draw.choice((1, 2, 2, 3))
    places = [draw.choice((DATA + 8, DATA + 0x40, DATA + 0xFE0)) + draw.randrange(64) for _ in range(4)]
    program = random_program(tmp_path / f"random-{seed}.elf", draw, places, 2)
    for way in draw.sample(WAYS, 2):
        assert hold(program, cores, way, draw.choice(BUFFERS), seed) == "power-off"


def test_a_piece_of_a_trace_without_rows_has_no_streams() -> None:
    rows = np.zeros(3, EVENT)
    rows["kind"] = 1, 2, 1
    both = SideBySide(iter([rows, rows[:0], rows, rows[:0]]))
    assert sum(map(len, both.loads())) == 4
    assert sum(map(len, both.stores())) == 2


@pytest.mark.parametrize("model", ["sc", "tso"])
@pytest.mark.parametrize("sets", ["83 e9 01", "83 d9 00 83 d9 01", "66 29 d9", "c1 e1 1f c1 e9 1f f5"])
def test_flags_outlive_cpuid(sets: str, model: str, tmp_path: Path) -> None:
    """Flags that are not worked out yet when it waits for the store buffer."""
    code = Code(TEXT).mov("rcx", 0).mov("rbx", 0x4068).mov("rax", 0).mov("rdx", DATA).raw("89 0a")
    code.raw(sets).raw("0f a2 eb 00  9f  0f b7 f8")  # cpuid; a block ends; lahf; movzx edi, ax
    code.raw("c1 ef 08 83 e7 01").mov("rax", 231).raw("0f 05")  # shr edi, 8; and edi, 1: CF; exit_group
    recording = Recording.open(record_linux_guest(code, tmp_path, model))
    assert recording.manifest.end is not None
    assert recording.manifest.end.exit_code == 1
    for core in range(2):
        replay_core(recording, core)
        # With hooks at each access and fence.
        assert core or sum(map(len, RecordingTraces(recording).chunks(core)))
