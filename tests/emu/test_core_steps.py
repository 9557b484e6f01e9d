"""Steps of cores that run firmware: where each ends, and what fails in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from guest import CONSOLE_TX, DATA, Code, elf

from emu.board.config import MachineConfig
from emu.board.elf import load_image
from emu.board.firmware import Machine
from emu.board.watcher import Watcher
from emu.native.state import MACHINE_AT
from emu.schedule.shared_words import SHARED_EVENT, SharedWords
from emu.schedule.stepped import Stepped
from isa.x86_64.registers import X86_64


def machine_of(code: Code, folder: Path, n_cores: int = 2) -> Machine:
    image, _ = load_image(elf(folder / "guest.elf", code), X86_64, 4 << 20)
    return Machine(MachineConfig(n_cores, 4 << 20), X86_64, image, Watcher())


def step(machine: Machine, policy: Stepped, core: int) -> bytes:
    """Let a core make a step, which is not cut short. Returns what is printed by then."""
    counts = [one.count for one in machine.cores]
    piece = policy.next([core], counts)
    machine.turn(piece, piece.length, policy)
    machine.between_slices()
    return machine.take_console()


def test_a_step_ends_before_a_register_and_a_watched_word(tmp_path: Path) -> None:
    code = Code().mov("rax", 1).store(DATA + 64, "rax").device(CONSOLE_TX, 65).store(DATA, "rax")
    code.load("rbx", DATA + 64).device(CONSOLE_TX, 66).halt()
    machine = machine_of(code, tmp_path)
    policy = Stepped(lambda enabled: enabled[0])
    machine.step_by_step(policy)
    machine.watch(SharedWords(np.array([DATA // 8], np.uint64), np.zeros(0, SHARED_EVENT)))
    # mov, store, mov, mov | store | store, load, mov, mov | store, cli, hlt
    stood = []
    for printed in (b"", b"A", b"", b"B"):
        assert step(machine, policy, 0) == printed
        stood.append(machine.cores[0].count)
    assert stood == [4, 5, 9, 12]
    assert machine.runnable() == [1]
    # Another one's steps are its own.
    assert step(machine, policy, 1) == b""
    assert machine.cores[1].count == 4


def test_other_slices_do_not_end_there(tmp_path: Path) -> None:
    code = Code().device(CONSOLE_TX, 65).device(CONSOLE_TX, 66).halt()
    machine = machine_of(code, tmp_path)
    machine.run_slice(0, 100, exact=True, events=1)
    assert machine.take_console() == b"AB"
    assert machine.words[MACHINE_AT.shared] == 0


def test_what_fails_does_so_in_a_step_of_its_own(tmp_path: Path) -> None:
    code = Code().device(CONSOLE_TX, 65).mov("rcx", 0).load("rax", ("rcx", 0)).halt()
    machine = machine_of(code, tmp_path)
    policy = Stepped(lambda enabled: enabled[0])
    machine.step_by_step(policy)
    assert [step(machine, policy, 0) for _ in range(2)] == [b"", b"A"]
    assert machine.ended() == ""
    assert machine.runnable() == [0, 1]
    step(machine, policy, 0)
    assert machine.ended() == "fault"
    assert machine.fault is not None
    assert machine.fault.count == machine.cores[0].count == 4


def test_misses_take_no_time(tmp_path: Path) -> None:
    code = Code().load("rax", DATA).halt()
    machine = machine_of(code, tmp_path)
    policy = Stepped(lambda enabled: enabled[0])
    machine.step_by_step(policy)
    step(machine, policy, 0)
    assert machine.cores[0].row["misses"] > 0
    assert machine.cores[0].cycles == machine.cores[0].count
