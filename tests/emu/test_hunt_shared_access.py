"""Slices that end right before a shared access, on machines that run hand-made code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from guest import DATA, Code, elf

from emu.board.config import MachineConfig
from emu.board.elf import load_image
from emu.board.firmware import Machine
from emu.board.watcher import Watcher
from emu.bus.line_state import WATCHED
from emu.schedule.shared_words import SHARED_EVENT, SharedWords
from isa.x86_64.registers import X86_64

ELSEWHERE = DATA + 0x400


def watching(*addresses: int) -> SharedWords:
    return SharedWords(np.array([a // 8 for a in addresses], np.uint64), np.zeros(0, SHARED_EVENT))


class Emptied(Watcher):
    """Keeps nothing of the cores' logs."""

    machine: Machine

    def drain(self, number: int) -> None:
        self.machine.cores[number].take_log()


def machine_of(code: Code, tmp_path: Path, *, n_cores: int = 2, store_buffer: int = 0) -> Machine:
    image, _ = load_image(elf(tmp_path / "guest.elf", code), X86_64, 64 << 20)
    watcher = Emptied()
    machine = Machine(MachineConfig(n_cores, store_buffer=store_buffer), X86_64, image, watcher)
    watcher.machine = machine
    return machine


def word(machine: Machine, address: int) -> int:
    return int.from_bytes(machine.final_image()[address : address + 8].tobytes(), "little")


def counting(kind: str) -> Code:
    """Add one to the word at DATA for ever: in one instruction, locked, or as load, add, store. Other memory
    is used as well."""
    code = Code().label("again")
    if kind == "inc":
        code.raw("48 ff 04 25").raw(DATA.to_bytes(4, "little").hex())
    elif kind == "locked":
        code.raw("f0 48 ff 04 25").raw(DATA.to_bytes(4, "little").hex())
    else:
        code.load("rax", DATA).add("rax", 1).store(DATA, "rax")
    code.store(ELSEWHERE, "rcx").load("rcx", ELSEWHERE)
    return code.jump("again")


@pytest.mark.parametrize("kind", ["inc", "locked"])
def test_the_access_that_ends_a_slice_has_not_happened(kind: str, tmp_path: Path) -> None:
    machine = machine_of(counting(kind), tmp_path)
    machine.watch(watching(DATA))
    waiting: set[int] = set()
    for turn in range(40):
        core = turn * 7 % 3 % 2
        before = int(machine.state["shared"])
        machine.run_slice(core, 1_000_000, events=1 + turn % 3)
        waiting.add(core)
        assert int(machine.state["shared"]) == before + 1 + turn % 3
        # Each core that waits has had its next access counted, and has not made it.
        assert word(machine, DATA) == int(machine.state["shared"]) - len(waiting)


def test_loads_and_stores_are_counted_by_themselves(tmp_path: Path) -> None:
    machine = machine_of(counting("apart"), tmp_path, n_cores=1)
    machine.watch(watching(DATA))
    values = []
    for _ in range(6):
        machine.run_slice(0, 1_000_000, events=1)
        values.append(word(machine, DATA))
    # Before the load, the store, the load, ...
    assert values == [0, 0, 1, 1, 2, 2]


def test_under_tso_too(tmp_path: Path) -> None:
    machine = machine_of(counting("apart"), tmp_path, n_cores=1, store_buffer=4)
    machine.watch(watching(DATA))
    for expected in (0, 0, 1, 1, 2, 2):
        machine.run_slice(0, 1_000_000, events=1)
        machine.empty_store_buffers()
        assert word(machine, DATA) == expected


def test_words_beside_a_shared_one_are_not_counted(tmp_path: Path) -> None:
    """They are in its line, so that they go the slow way, too."""
    machine = machine_of(counting("inc"), tmp_path, n_cores=1)
    machine.watch(watching(DATA + 8))
    machine.run_slice(0, 5_000, events=1)
    assert int(machine.state["shared"]) == 0
    assert machine.cores[0].count >= 5_000


def test_the_length_of_a_slice_still_holds(tmp_path: Path) -> None:
    machine = machine_of(counting("inc"), tmp_path, n_cores=1)
    machine.watch(watching(DATA))
    machine.run_slice(0, 40, events=1_000)
    assert machine.cores[0].count == 40
    machine.run_slice(0, 40)
    assert machine.cores[0].count >= 80
    assert int(machine.state["shared"]) == 20


def test_marks_stay_when_lines_come_and_go(tmp_path: Path) -> None:
    machine = machine_of(counting("inc"), tmp_path)
    machine.watch(watching(DATA))
    for turn in range(10):
        machine.run_slice(turn % 2, 33)
    for core in machine.cores:
        assert core.line_state[DATA // 64] & WATCHED
        assert not core.line_state[ELSEWHERE // 64] & WATCHED


def test_without_watching_nothing_is_counted(tmp_path: Path) -> None:
    machine = machine_of(counting("inc"), tmp_path)
    machine.run_slice(0, 1000, events=1)
    assert int(machine.state["shared"]) == 0
    assert machine.cores[0].count >= 1000
    assert not machine.shared_event()
