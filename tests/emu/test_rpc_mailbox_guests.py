"""Mailboxes: guests that use them without the library."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guest import (
    DATA,
    DEVICES,
    INT_HANDLER,
    IPI_SEND,
    TIMER_PERIOD,
    Code,
    Run,
    elf,
    run_guest,
    write_schedule,
)
from mailbox_code import ping, put, receive, send

from bench.soak import examine
from emu.devices.mail_state import (
    ANSWERED,
    MAIL_EVENT,
    MAIL_SLOTS,
    POSTED,
    RECEIVED,
    REPLY,
    REQUEST,
    TESTED,
)
from emu.devices.mailbox import (
    MAIL_ACCEPT,
    MAIL_AWAIT,
    MAIL_FROM,
    MAIL_ID,
    MAIL_IN,
    MAIL_OUT,
    MAIL_POST,
    MAIL_TAKE,
    MAIL_TEST,
)
from emu.devices.post import EVERYTHING, Post
from recorder.evidence.rpc.receipts import read_receipts
from recorder.replay.core import replay_core
from recorder.replay.mail_trace import follow_registers, mail_of, recorded_mail


def held_to_its_promises(run: Run) -> None:
    for core in range(run.recording.manifest.n_cores):
        assert replay_core(run.recording, core).complete
    examine(run.path, order=False)


@pytest.mark.parametrize("model", ["sc", "tso"])
def test_ping(tmp_path: Path, model: str) -> None:
    program = elf(tmp_path / "ping.elf", ping(20))
    for seed in range(3):
        schedule = write_schedule(tmp_path / f"s{seed}", 2, seed, 7)
        run = run_guest(
            program,
            tmp_path / f"{model}{seed}",
            2,
            seed=seed,
            schedule=str(schedule),
            strata="cycles:2000",
            model=model,
        )
        assert run.outcome.end.exit_code == 103
        held_to_its_promises(run)


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> list[Post]:
    """The post offices of all machines made in the test, which log everything."""
    made: list[Post] = []
    make = Post.__init__

    def keep(self: Post, *arguments: Any) -> None:
        make(self, *arguments)
        self.keep(EVERYTHING)
        made.append(self)

    monkeypatch.setattr(Post, "__init__", keep)
    return made


def scribble(draw: random.Random, steps: int) -> Code:
    """Any accesses to mailbox registers in any order; whoever comes to the end first ends the run."""
    code = Code().mov("r15", DEVICES).mov("rcx", 6).label("again")
    for _ in range(steps):
        register = int(MAIL_ID) + 8 * draw.randrange(16)
        if register in (int(MAIL_TAKE), int(MAIL_AWAIT)):
            code.load("rax", ("r15", int(MAIL_TAKE))).load("rbx", ("r15", int(MAIL_FROM)))
        elif draw.random() < 0.4:
            code.load("rax", ("r15", register)).emit("01", "rax", DATA + 8 * draw.randrange(9))
        else:
            value = draw.choice([draw.randrange(16), draw.getrandbits(64)])
            if register == int(MAIL_POST):
                value = draw.randrange(2) | draw.randrange(70) << 8 | draw.choice([1, 1, 2, 3]) << 16
                value |= draw.randrange(16) << 20
            code.mov("rax", value).store(("r15", register), "rax")
    return code.loop("rcx", "again").power_off(3)


@pytest.mark.parametrize("seed", range(6))
def test_scribbling_guests_replay(tmp_path: Path, posts: list[Post], seed: int) -> None:
    """pytest tests/emu/test_rpc_mailbox.py -k 'scribbling and SEED'."""
    program = elf(tmp_path / "g.elf", scribble(random.Random(seed), 400))
    schedule = write_schedule(tmp_path / "schedule", 2, seed, 9)
    model = "tso" if seed % 2 else "sc"
    run = run_guest(program, tmp_path / "rec", 2, seed=seed, schedule=str(schedule), model=model)
    assert run.outcome.end.exit_code == 3
    native, found = posts[0].take(), recorded_mail(run.recording).events
    assert len(native) > 50
    for core in (0, 1):
        for what, names in (
            (POSTED, MAIL_EVENT.names),
            (TESTED, MAIL_EVENT.names),
            (RECEIVED, ("id", "head")),
        ):
            a, b = (e[(e["core"] == core) & (e["what"] == what)] for e in (native, found))
            for name in names or ():
                assert a[name].tolist() == b[name].tolist(), (core, what, name)
    held_to_its_promises(run)


def test_the_trace_tells_what_the_mailboxes_did(tmp_path: Path, posts: list[Post]) -> None:
    """The same happenings, natively and from isolated replays."""
    run = run_guest(elf(tmp_path / "ping.elf", ping(9)), tmp_path / "rec", 2, seed=3)
    native = posts[0].take()
    found = recorded_mail(run.recording).events
    for core in (0, 1):
        took = ("core", "head", "id")
        for what, names in ((POSTED, MAIL_EVENT.names), (RECEIVED, took), (ANSWERED, took)):
            a, b = (e[(e["core"] == core) & (e["what"] == what)] for e in (native, found))
            assert len(a) == 9 * (what == POSTED or core == (what == RECEIVED))
            for name in names or ():
                assert a[name].tolist() == b[name].tolist()


def test_the_trace_may_be_read_in_any_pieces() -> None:
    from corebraid.base.rows.event import EVENT, READ, UNCACHED, WRITE

    draw = random.Random(4)
    registers = [
        MAIL_ID,
        MAIL_OUT,
        MAIL_POST,
        MAIL_TAKE,
        MAIL_AWAIT,
        MAIL_FROM,
        MAIL_TEST,
        np.uint64(0x108 + 24),
    ]
    rows = np.zeros(400, EVENT)
    rows["flags"] = UNCACHED
    for row in rows:
        row["addr"] = DEVICES + int(draw.choice(registers))
        row["kind"] = draw.choice([READ, WRITE])
        row["new"] = draw.choice([0, 1 << 16 | 3 << 8, 2 << 16, 1 << 16 | 4 << 20, draw.getrandbits(64)])
    whole = mail_of(rows, 1, np.zeros(7, np.uint64))
    assert set(whole["what"].tolist()) == {POSTED, RECEIVED, TESTED, ANSWERED}
    state, pieces, at = np.zeros(7, np.uint64), [], 0
    while at < len(rows):
        size = draw.randint(1, 30)
        pieces.append(mail_of(rows[at : at + size], 1, state))
        at += size
    assert np.concatenate(pieces).tolist() == whole.tolist()
    out = np.zeros(len(rows), MAIL_EVENT)
    n = follow_registers.py_func(rows.view(np.recarray), 1, np.zeros(7, np.uint64), out.view(np.recarray))
    assert out[:n].tolist() == whole.tolist()


def test_registers_may_be_written_and_read_by_halves(tmp_path: Path) -> None:
    """A 4-byte access is to the low half; the trace agrees with what the mailboxes did."""
    code = Code().mov("r15", DEVICES).mov("rax", 0xFFFFFFFF80000001)
    for register in (MAIL_ID, MAIL_OUT):
        code.store(("r15", int(register)), "rax", 4)
    code.mov("rax", 4 << 8 | REQUEST << 16 | 1 << 20).store(("r15", int(MAIL_POST)), "rax", 4)
    code.mov("rax", 1 << 4).store(("r15", int(MAIL_ACCEPT)), "rax", 4)
    code.label("wait").load("rax", ("r15", int(MAIL_AWAIT)), 4).compare("rax", 0).jump_if("z", "wait")
    code.load("rcx", ("r15", int(MAIL_FROM)), 4).load("rbx", ("r15", int(MAIL_IN)), 4)
    code.raw("48 c1 eb 1f").power_off("rbx")  # shr rbx, 31
    run = run_guest(elf(tmp_path / "g.elf", code), tmp_path / "rec", 1, evidence=("rpc",))
    assert run.outcome.end.exit_code == 1
    (posted, received) = recorded_mail(run.recording).events
    assert (posted["id"], posted["w0"]) == (0x80000001, 0x80000001)
    assert received["id"] == 0x80000001
    assert read_receipts(run.recording).histories[0, 4].tolist() == [0x80000001]
    held_to_its_promises(run)


def test_mail_to_nowhere_is_the_guests_fault(tmp_path: Path) -> None:
    run = run_guest(elf(tmp_path / "g.elf", send(Code(), 2, 1, REQUEST, 1, 1).halt()), tmp_path / "rec", 2)
    assert run.outcome.fault is not None
    assert run.outcome.fault.what == "a message posted to a core that does not exist"


def test_too_much_mail_is_the_guests_fault(tmp_path: Path) -> None:
    code = Code().label("again")
    put(code, MAIL_POST, REQUEST << 16).jump("again")
    run = run_guest(elf(tmp_path / "g.elf", code), tmp_path / "rec", 1, seed=1)
    assert run.outcome.fault is not None
    assert f"{MAIL_SLOTS} others" in run.outcome.fault.what


def test_cores_that_all_wait_for_mail_have_halted(tmp_path: Path) -> None:
    code = receive(Code(), "wait").power_off(1)
    run = run_guest(elf(tmp_path / "g.elf", code), tmp_path / "rec", 3)
    assert run.outcome.end.reason == "halted"
    held_to_its_promises(run)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("cause", ["timer", "other core"])
def test_an_interrupt_wakes_a_resting_core(tmp_path: Path, cause: str, enabled: bool) -> None:
    """Core 1 rests for good; its handler ends the run, unless it takes no interrupts."""
    code = Code().split("other", "sleeper")
    code.label("other")
    if cause == "timer":
        receive(code, "wait")
    else:
        code.mov("rcx", 3000).label("spin").loop("rcx", "spin").device(IPI_SEND, 1).halt()
    code.label("sleeper").mov("rsp", DATA + 0x1000).mov("rbx", code.base + 0x400)
    code.device(INT_HANDLER, "rbx").device(TIMER_PERIOD, 5000 if cause == "timer" else 0)
    code.raw("fb" if enabled else "fa")
    receive(code, "sleep").power_off(1)
    code.at(code.base + 0x400).power_off(9)
    run = run_guest(elf(tmp_path / "g.elf", code), tmp_path / "rec", 2, seed=2)
    assert run.outcome.end.reason == ("power-off" if enabled else "halted")
    assert run.outcome.end.exit_code == (9 if enabled else None)
    held_to_its_promises(run)


def test_a_resting_core_costs_nothing(tmp_path: Path) -> None:
    """Core 1 waits for one message while core 0 computes: it reads its mailbox twice, not all the time."""
    code = Code().split("worker", "sleeper")
    code.label("worker").mov("rcx", 40_000).label("spin").loop("rcx", "spin")
    send(code, 1, 1, REPLY, 1, 1).label("stay").jump("stay")
    code.label("sleeper")
    receive(code, "wait").power_off(0)
    run = run_guest(elf(tmp_path / "g.elf", code), tmp_path / "rec", 2, longest_slice=100)
    assert run.outcome.end.exit_code == 0
    assert run.outcome.manifest.instructions[0] > 80_000
    assert run.outcome.manifest.instructions[1] < 60
