"""The log of accesses to watched words, on machines that run hand-made code."""

from __future__ import annotations

from pathlib import Path

import pytest
from guest import DATA, Code, elf

from emu.board.config import MachineConfig
from emu.board.elf import load_image
from emu.board.firmware import Machine
from emu.board.watcher import Watcher
from emu.core.shared_log import SharedLog
from emu.hooks.shared_access import NOTED_AGAIN, NOTED_CORE, NOTED_WRITE
from emu.schedule.step_file import words_to_watch
from isa.x86_64.registers import X86_64

AGAIN = NOTED_AGAIN | NOTED_WRITE


def machine_of(tmp_path: Path, kind: str) -> tuple[Machine, SharedLog]:
    """Two cores that use the word at DATA, another one beside it, and that at DATA + 64, for ever."""
    code = Code().label("again")
    if kind == "inc":
        code.raw("48 ff 04 25").raw(DATA.to_bytes(4, "little").hex())
    else:
        code.load("rax", DATA).store(DATA, "rax")
    code.store(DATA + 8, "rcx").load("rcx", DATA + 64).jump("again")
    image, _ = load_image(elf(tmp_path / "guest.elf", code), X86_64, 64 << 20)
    machine = Machine(MachineConfig(2), X86_64, image, Watcher())
    machine.watch(words_to_watch([DATA // 8, (DATA + 64) // 8]))
    return machine, SharedLog(machine.machine_rows, 1000)


def taken(log: SharedLog) -> list[tuple[int, int, int, int]]:
    """(address from DATA on, event, flags, core)"""
    return [
        (address - DATA, event, what & ((1 << NOTED_CORE) - 1), what >> NOTED_CORE)
        for address, _, event, what in log.rows().tolist()
    ]


def test_each_access_to_a_watched_word_is_taken_down(tmp_path: Path) -> None:
    machine, log = machine_of(tmp_path, "apart")
    machine.run_slice(1, 1_000_000, events=6)
    # The one that has not happened is counted, and taken down.
    assert taken(log) == [
        (0, 1, 0, 1), (0, 2, NOTED_WRITE, 1), (64, 3, 0, 1),
        (0, 4, 0, 1), (0, 5, NOTED_WRITE, 1), (64, 6, 0, 1),
    ]  # fmt: skip
    places = log.rows()[:, 1].tolist()
    assert places[:3] == places[3:]
    assert len(set(places)) == 3


def test_an_instruction_that_reads_and_writes_is_seen_to_write(tmp_path: Path) -> None:
    machine, log = machine_of(tmp_path, "inc")
    machine.run_slice(0, 1_000_000, events=3)
    assert taken(log) == [(0, 1, 0, 0), (0, 1, AGAIN, 0), (64, 2, 0, 0), (0, 3, 0, 0)]


@pytest.mark.parametrize("kind", ["inc", "apart"])
def test_what_a_slice_ends_before_is_counted_once(kind: str, tmp_path: Path) -> None:
    machine, log = machine_of(tmp_path, kind)
    for turn in range(12):
        machine.run_slice(turn % 2, 1_000_000, events=1)
    counted = [event for _, event, flags, _ in taken(log) if not flags & NOTED_AGAIN]
    assert counted == list(range(1, 13))
    assert int(machine.state["shared"]) == 12


def test_a_log_that_is_full_stays_as_it_is(tmp_path: Path) -> None:
    machine, _ = machine_of(tmp_path, "apart")
    log = SharedLog(machine.machine_rows, 5)
    machine.run_slice(0, 1_000_000, events=20)
    assert [event for _, event, _, _ in taken(log)] == [1, 2, 3, 4, 5]
    assert int(machine.state["shared"]) == 20
