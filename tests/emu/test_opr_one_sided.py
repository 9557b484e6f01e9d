"""The put/get engine: copies between cores' memories, asynchronous, done once nothing is outstanding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from guest import DATA, Code, Run, elf, run_guest, run_many_ways

from recorder.files.agent_codec import GET, PUT
from recorder.files.reader import iter_agent_trace, load_image
from recorder.replay.core import replay_core
from recorder.replay.traces import RecordingTraces
from solver.passes.order import order_recording
from solver.regions.problem import Verdict

RMA_LOCAL, RMA_REMOTE, RMA_LENGTH = 0x200, 0x208, 0x210
RMA_PUT, RMA_GET, RMA_OUTSTANDING = 0x218, 0x220, 0x228
HERE, THERE = DATA + 0x1000, DATA + 0x4000


def transfer(code: Code, what: int, local: int, remote: int, length: int) -> Code:
    """Start a put or get."""
    code.device(RMA_LOCAL, local).device(RMA_REMOTE, remote).device(RMA_LENGTH, length)
    return code.device(what, 1)


def fence(code: Code, name: str) -> Code:
    """Wait until nothing of this core is outstanding."""
    code.label(name).ask(RMA_OUTSTANDING, "rax")
    return code.compare("rax", 0).jump_if("nz", name)


def memory_after(run: Run) -> np.ndarray:
    """Final memory."""
    memory = np.zeros(run.recording.manifest.memory, np.uint8)
    load_image(run.recording, "final", memory)
    return memory


def word(memory: np.ndarray, address: int) -> int:
    """The 8 bytes at an address."""
    return int.from_bytes(memory[address : address + 8].tobytes(), "little")


def fill(code: Code, address: int, words: int, first: int) -> Code:
    """Write numbers from `first` on."""
    for k in range(words):
        code.mov("rax", first + k).store(address + 8 * k, "rax")
    return code


def test_put_and_get(tmp_path: Path) -> None:
    code = Code()
    fill(code, HERE, 12, 100)
    transfer(code, RMA_PUT, HERE, THERE, 96)
    fence(code, "put")
    transfer(code, RMA_GET, HERE + 0x800, THERE + 8, 80)
    fence(code, "get")
    code.load("rbx", HERE + 0x800).power_off("rbx")
    run = run_guest(elf(tmp_path / "guest.elf", code), tmp_path / "rec", 1)
    assert run.outcome.end.exit_code == 101
    memory = memory_after(run)
    assert [word(memory, THERE + 8 * k) for k in range(12)] == list(range(100, 112))
    assert [word(memory, HERE + 0x800 + 8 * k) for k in range(11)] == [*range(101, 111), 0]
    events = np.concatenate(list(iter_agent_trace(run.recording)))
    assert np.unique(events["pc"]).tolist() == [PUT, GET]
    assert len(events) == 2 * (12 + 10)
    assert replay_core(run.recording, 0).complete


@pytest.mark.parametrize(
    ("local", "remote", "length"),
    [
        (HERE + 4, THERE, 64),
        (HERE, THERE + 1, 64),
        (HERE, 1 << 40, 64),
        (HERE, THERE, 7),
        (HERE, THERE, (1 << 64) - 8),
        ((1 << 64) - 64, THERE, 64),
    ],
)
def test_a_start_that_makes_no_sense_is_ignored(local: int, remote: int, length: int, tmp_path: Path) -> None:
    code = fill(Code(), HERE, 4, 7)
    transfer(code, RMA_PUT, local, remote, length)
    code.ask(RMA_OUTSTANDING, "rbx").power_off("rbx")
    run = run_guest(elf(tmp_path / "guest.elf", code), tmp_path / "rec", 1)
    assert run.outcome.end.exit_code == 0
    assert not list(iter_agent_trace(run.recording))


def test_words_outside_the_image_are_left_out(tmp_path: Path) -> None:
    """A put that runs over the end of the data segment."""
    code = fill(Code(), HERE, 4, 7)
    transfer(code, RMA_PUT, HERE, DATA + 0x10000 - 16, 32)
    fence(code, "put").power_off(0)
    run = run_guest(elf(tmp_path / "guest.elf", code), tmp_path / "rec", 1)
    memory = memory_after(run)
    assert [word(memory, DATA + 0x10000 - 16 + 8 * k) for k in range(4)] == [7, 8, 0, 0]


def test_sixteen_at_most(tmp_path: Path) -> None:
    code = fill(Code(), HERE, 1, 5)
    for k in range(20):
        transfer(code, RMA_PUT, HERE, THERE + 8 * k, 8)
    code.ask(RMA_OUTSTANDING, "rbx")
    fence(code, "put").power_off("rbx")
    run = run_guest(elf(tmp_path / "guest.elf", code), tmp_path / "rec", 1, longest_slice=100_000)
    memory = memory_after(run)
    done = sum(word(memory, THERE + 8 * k) == 5 for k in range(20))
    assert run.outcome.end.exit_code == 16
    assert done == 16


def racing(path: Path) -> Path:
    """Core 0 puts into a page that core 1 gets from, both with loads and stores on the way."""
    code = Code().split("first", "second").label("first")
    for turn in range(4):
        fill(code, HERE, 6, 10 * turn)
        transfer(code, RMA_PUT, HERE, THERE, 48)
        transfer(code, RMA_PUT, HERE + 8, THERE + 0x100, 40)
        code.load("rbx", THERE)
        if turn % 2:
            fence(code, f"first{turn}")
    fence(code, "last").mov("rax", 1).store(DATA, "rax")
    code.label("wait").load("rax", DATA + 8).compare("rax", 1).jump_if("nz", "wait").power_off(0)
    code.label("second")
    for turn in range(4):
        transfer(code, RMA_GET, HERE + 0x800, THERE, 48)
        code.mov("rax", 99).store(THERE + 16, "rax").load("rbx", HERE + 0x808)
        fence(code, f"second{turn}").load("rbx", HERE + 0x810)
    code.mov("rax", 1).store(DATA + 8, "rax").halt()
    return elf(path, code)


def test_races_replay_and_have_a_legal_order(tmp_path: Path) -> None:
    orders = set()
    for run in run_many_ways(racing(tmp_path / "guest.elf"), tmp_path, 2):
        recording = run.recording
        assert run.outcome.end.reason == "power-off"
        for core in range(2):
            assert replay_core(recording, core).complete
        events = np.concatenate(list(iter_agent_trace(recording)))
        assert set(np.unique(events["pc"])) == {PUT, GET + 1}
        orders.add(events["addr"].tobytes())
        certificate = tmp_path / f"{run.path.name}.cert"
        result = order_recording(RecordingTraces(recording), certificate, recording.manifest.id)
        assert result.verdict is Verdict.LEGAL
    assert len(orders) > 3


def test_the_same_seed_is_the_same_run(tmp_path: Path) -> None:
    program = racing(tmp_path / "guest.elf")
    runs = [run_guest(program, tmp_path / f"rec{k}", 2, seed=3, longest_slice=9) for k in range(2)]
    files = [{path.name: path.read_bytes() for path in sorted(run.path.iterdir())} for run in runs]
    assert files[0] == files[1]
