"""Machines that are put back, held against others that ran the same slices from the beginning."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guest import DATA, Code, elf
from random_code import random_program

from emu.board.config import MachineConfig
from emu.board.elf import load_image
from emu.board.firmware import Machine
from emu.board.watcher import Watcher
from emu.bus.cache import CacheGeometry
from emu.bus.line_state import FORGOTTEN, SEEN
from emu.native.state import CORE_FIELDS
from emu.snapshot import cores
from emu.snapshot.arenas import Arenas
from emu.snapshot.failure import UnsavableError
from emu.snapshot.machine import Snapshot
from isa.x86_64.registers import X86_64

N, MEMORY = 3, 4 << 20
PLACES = [DATA + 0x40, DATA + 0x48, DATA + 0x7C, DATA + 0x200, DATA + 0xFFC]
WAYS = {
    "plain": MachineConfig(N, MEMORY),
    "tso": MachineConfig(N, MEMORY, store_buffer=6),
    "finite": MachineConfig(N, MEMORY, cache=CacheGeometry(4, 2, 64)),
}
#: Of a core's words those that say where something is, what was learnt of code, which pages changed since
#: when; and the clock of a finite cache: who translates a block again touches its lines again, in the same
#: order.
_APART = {
    "handle", "machine", "cores", "scratch", "memory", "device_page", "line_state", "page_flags",
    "page_rights", "dirty_pages", "dirty_n", "lost", "tlb", "plain_block", "edge", "tags", "stamps", "rows",
    "blob", "trace", "buffer", "commits", "call_words", "identity", "processor",
    "locate", "positions", "forget_page",
    "undo_address", "entered", "left", "block_address", "block_size", "before", "before_of", "kept", "clock",
    *cores._LEARNT,
}  # fmt: skip

Slices = list[tuple[int, int]]


def slices(draw: random.Random, n: int) -> Slices:
    return [(draw.randrange(N), draw.choice((1, 3, 40, 300))) for _ in range(n)]


def machine_of(path: Path, config: MachineConfig) -> Machine:
    image, _ = load_image(path, X86_64, MEMORY)
    return Machine(config, X86_64, image, Watcher())


def run(machine: Machine, these: Slices) -> None:
    for core, length in these:
        if core in machine.runnable() and machine.fault is None and not machine.ended():
            machine.run_slice(core, length)
            machine.between_slices()


def state(machine: Machine) -> list[Any]:
    """All that can be told of it."""
    found: list[Any] = [machine.fault, machine.take_console()]
    for core in machine.cores:
        words = {name: int(core.row[name]) for name in CORE_FIELDS if name not in _APART}
        states, context = core.line_state & np.uint8(~FORGOTTEN & 0xFF), core.context()
        lines = core.memory.reshape(-1, 64)[states & SEEN != 0]
        rows, blob = core.take_log()
        found += [words, core.pc, context, core.held_rows().tolist(), states.tobytes(), lines.tobytes()]
        found += [rows.tobytes(), blob.tobytes()]
    found.append(machine.bus.image().tobytes())
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.sampled(5)
def test_what_runs_again_does_what_a_new_machine_does(tmp_path: Path, way: str, seed: int) -> None:
    draw = random.Random(f"{seed}/{way}")
    path = random_program(tmp_path / "guest.elf", draw, PLACES, 40)
    before = slices(draw, draw.choice((0, 3, 40)))
    machine = machine_of(path, WAYS[way])
    run(machine, before)
    snapshot = Snapshot(machine, [], set())
    for _ in range(4):
        these = slices(draw, draw.choice((5, 60)))
        other = machine_of(path, WAYS[way])
        run(other, before)
        # What a snapshot does to a machine is not seen.
        for core in other.cores:
            core.protect_again()
        for one in (machine, other):
            run(one, these)
        ours, theirs = state(machine), state(other)
        for k, (one, another) in enumerate(zip(ours, theirs, strict=True)):
            assert one == another, f"part {k}"
        snapshot.restore()
    snapshot.close()


PLANTED = {"memory": (Arenas, "restore"), "registers": (cores.Core, "restore_engine")}


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_not_put_back_is_seen(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(5)
    path = random_program(tmp_path / "guest.elf", draw, PLACES, 40)
    machine, these = machine_of(path, WAYS["plain"]), slices(draw, 60)
    run(machine, slices(draw, 40))
    snapshot, found = Snapshot(machine, [], set()), list[Any]()
    monkeypatch.setattr(*PLANTED[what], lambda *_: None)
    for _ in range(2):
        run(machine, these)
        found.append(state(machine))
        snapshot.restore()
    assert found[0] != found[1]


def test_translations_stay_and_are_those_of_what_stands_there(tmp_path: Path) -> None:
    """The second time no block is learnt again, though every line of code is missed on again."""
    code = Code().mov("rcx", 5)
    for k in range(30):
        code.store(DATA + 8 * k, "rcx").jump(f"over{k}").raw("cc" * (7 * k % 50)).label(f"over{k}")
    path = elf(tmp_path / "guest.elf", code.halt())
    machine = machine_of(path, WAYS["plain"])
    snapshot, these, known, missed = Snapshot(machine, [], set()), [(0, 5000)], list[int](), list[int]()
    for _ in range(3):
        run(machine, these)
        known.append(int(machine.cores[0].row["known"]))
        missed.append(int(machine.cores[0].row["misses"]))
        snapshot.restore()
    assert known[0] > 20
    assert known == [known[0]] * 3
    assert missed == [missed[0]] * 3


def test_the_page_bus_has_none(tmp_path: Path) -> None:
    path = random_program(tmp_path / "guest.elf", random.Random(2), PLACES, 3)
    machine = machine_of(path, MachineConfig(N, MEMORY, bus="page"))
    with pytest.raises(UnsavableError, match="page bus"):
        Snapshot(machine, [], set())
