"""The trace of one core against an independent oracle: the same program on the emulator alone, with Python
hooks, no bus, no log and no replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from guest import run_guest
from guest_bodies import (
    READ_LAST,
    build,
    own_code,
    own_code_at_odd_addresses,
    own_code_that_it_reads,
    repeated_over_itself,
    sizes,
    stored_before_its_block,
    vectors,
)
from unicorn import Uc
from unicorn import unicorn_const as uc
from unicorn import x86_const as x86

from bench.soak import IMAGES, Plan
from corebraid.base.rows.event import FENCE, FETCH, READ, RMW, UNCACHED, WRITE
from emu.bus.names import BUSES
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import record
from recorder.files.reader import Recording, load_image
from recorder.replay.core import CoreReplay, replay_core

DEVICES, POWER_OFF = 0xF0000000, 0xF0000010
MEMORY_BYTES = 8 << 20
Access = tuple[int, int, int, int, int, int]


def oracle(program: Path) -> list[Access]:
    """(pc, address, size, kind, old, new) of every access up to the power-off, on one core."""
    engine = Uc(uc.UC_ARCH_X86, uc.UC_MODE_64)
    engine.ctl_set_cpu_model(x86.UC_CPU_X86_SANDYBRIDGE)
    engine.mem_map(0, MEMORY_BYTES)
    engine.mem_map(DEVICES, 0x1000)
    with program.open("rb") as file:
        elf = ELFFile(file)
        for segment in elf.iter_segments("PT_LOAD"):
            engine.mem_write(segment["p_vaddr"], segment.data())
        entry = elf["e_entry"]
    for name, value in (("RSI", 1), ("MXCSR", 0x1F80), ("FPCW", 0x37F), ("FPTAG", 0xFFFF)):
        engine.reg_write(getattr(x86, f"UC_X86_REG_{name}"), value)
    seen: list[Access] = []

    def access(engine: Uc, kind: int, address: int, size: int, value: int, user: Any) -> None:
        pc = engine.reg_read(x86.UC_X86_REG_RIP)
        old = int.from_bytes(engine.mem_read(address, size), "little")
        write = kind == uc.UC_MEM_WRITE
        new = value & ((1 << 8 * size) - 1) if write else old
        seen.append((pc, address, size, WRITE if write else READ, old, new))
        if write and address == POWER_OFF:
            engine.emu_stop()

    engine.hook_add(uc.UC_HOOK_MEM_READ | uc.UC_HOOK_MEM_WRITE, access)
    engine.emu_start(entry, 0)
    return seen


def split(row: Any) -> list[Access]:
    """A row of the trace as the hooks would have seen it."""
    pc, address, size, old, new = (int(row[name]) for name in ("pc", "addr", "size", "old", "new"))
    if int(row["kind"]) == RMW:
        return [(pc, address, size, READ, old, old), (pc, address, size, WRITE, old, new)]
    return [(pc, address, size, int(row["kind"]), old, new)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("program", ["laplace", "matmul", "radix", "nqueens"])
def test_trace_is_what_the_emulator_alone_does(program: str, tmp_path: Path) -> None:
    plan = Plan(program, 1, 0, longest_slice=40, strata="cycles:3000", cache="1k:2:32")
    record(IMAGES / f"{program}.elf", tmp_path / "rec", X86_64, plan.options(b""), lambda text: None)
    rows = [
        row
        for piece in CoreReplay(Recording.open(tmp_path / "rec"), 0, traced=True).run()
        for row in piece
        if not row["flags"] & FETCH
    ]
    found = [access for row in rows if not row["flags"] & UNCACHED for access in split(row)]
    expected = [access for access in oracle(IMAGES / f"{program}.elf") if access[1] < DEVICES]
    assert len(expected) > 5000
    for number, (a, b) in enumerate(zip(expected, found, strict=False)):
        assert a == b, f"access {number}"
    assert len(found) == len(expected)
    assert [int(row["seq"]) for row in rows] == sorted({int(row["seq"]) for row in rows})


@pytest.mark.parametrize("bus", BUSES)
@pytest.mark.parametrize(
    "body", [own_code, own_code_at_odd_addresses, own_code_that_it_reads, sizes, vectors]
)
def test_what_an_access_found_is_what_the_ones_before_left(body: Any, bus: str, tmp_path: Path) -> None:
    """Also of a store that the emulator broke off and ran again, when some of its bytes were there."""
    run = run_guest(build(tmp_path, body), tmp_path / "rec", 1, bus=bus)
    memory, written = np.zeros(run.recording.manifest.memory, np.uint8), 0
    load_image(run.recording, "initial", memory)
    for row in (row for piece in CoreReplay(run.recording, 0, traced=True).run() for row in piece):
        if row["flags"] & UNCACHED or row["kind"] == FENCE:
            continue
        here = slice(int(row["addr"]), int(row["addr"] + row["size"]))
        assert int.from_bytes(memory[here].tobytes(), "little") == row["old"], row
        memory[here] = list(int(row["new"]).to_bytes(8, "little")[: row["size"]])
        written += int(row["kind"] != READ)
    assert written > 8


@pytest.mark.parametrize("longest", [1, 2, 3, 7, 50, 1000])
@pytest.mark.parametrize("bus", BUSES)
def test_what_is_broken_off_is_done_once(bus: str, longest: int, tmp_path: Path) -> None:
    """Wherever slices end, in a run and in its replay."""
    run = run_guest(
        build(tmp_path, own_code_that_it_reads), tmp_path / "rec", 3, bus=bus, longest_slice=longest
    )
    memory = np.zeros(run.recording.manifest.memory, np.uint8)
    load_image(run.recording, "final", memory)
    read, counted, returned, kept = memory[READ_LAST : READ_LAST + 32].view(np.uint64).tolist()
    assert (read & 0xFF, counted, kept) == (21, 0x90909098, 1)
    code = bytes(memory[returned - 5 : returned])
    assert code == bytes.fromhex("e8 00 00 00 00")
    assert "omitted" not in run.recording.manifest.totals
    for core in range(3):
        replay_core(run.recording, core)


@pytest.mark.parametrize("bus", BUSES)
@pytest.mark.parametrize(
    ("body", "told"),
    [
        (repeated_over_itself, "old bytes of a repeated string instruction that stores over itself"),
        (
            stored_before_its_block,
            "two stores of a block to the bytes before it where the second runs into the block",
        ),
    ],
)
def test_what_a_processor_does_otherwise_is_told(body: Any, told: str, bus: str, tmp_path: Path) -> None:
    """Of code that changes itself."""
    run = run_guest(build(tmp_path, body), tmp_path / "rec", 2, bus=bus)
    assert run.recording.manifest.totals["omitted"] == told
    for core in range(2):
        replay_core(run.recording, core)
