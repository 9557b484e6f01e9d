"""No order has a step before one that its thread made earlier: by the marks of thread_order (firmware/linux),
and by sealed truth and core logs alone (bench/true_threads.py). `python bench/order_soak.py` is the long
form."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli_factory import ROOT, run
from engine_suite import SOAK
from guest import DATA, Code
from static_guest import call, record_linux_guest

from bench import linux_soak, order_soak, soak
from bench.marks_order import misplaced_marks
from bench.order_soak import examine, make, mark_lines
from bench.true_order import held_traces
from bench.true_places import Placed, judge
from corebraid.names.program import GuestProgram
from recorder.files.reader import Recording, iter_sealed_truth
from solver.check.checker import check_slices
from solver.passes.answers import Options
from solver.passes.order import order_recording

PLANS = (
    linux_soak.Plan("thread_order", 3, 1, strata="none"),
    linux_soak.Plan("thread_order", 2, 2, "pct:3", 200, "cycles:5000", "4k:2:64", "tso"),
    linux_soak.Plan("pipes_poll", 4, 1, "chaos", 30, "none", "unbounded", "sc"),
    linux_soak.Plan("signals", 2, 3, "random", 7, "downgrades:50", "512:1:16", "tso", 1),
    linux_soak.Plan("robust", 8, 1, "round-robin", 1000, "cycles:5000"),
    soak.Plan("timer", 4, 1, longest_slice=30),
    soak.Plan("rpc_slaves", 3, 1, longest_slice=30, model="tso"),
    soak.Plan("pgas_fib", 3, 1, longest_slice=100, strata="none"),
    soak.Plan("dma_race", 4, 2, longest_slice=30, strata="none", model="tso"),
)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.program}-{plan.model}")
@pytest.mark.soak
def test_nothing_is_out_of_order(plan: linux_soak.Plan | soak.Plan) -> None:
    with linux_soak.place() as folder:
        make(plan, folder / "rec")
        found = examine(folder / "rec")
    assert not found.wrong
    assert not found.undecided
    assert found.edges > 0


@pytest.mark.soak
def test_drawn_recordings() -> None:
    """As the soak campaign draws them."""
    for seed in range(3 * SOAK):
        plan, _ = order_soak.draw(seed, ("semaphores", "static_pie_threads", "timer", "rpc_queens"))
        with linux_soak.place() as folder:
            make(plan, folder / "rec")
            assert not examine(folder / "rec").wrong, plan


def test_without_sync_points_steps_are_out_of_order() -> None:
    """That the judges can find something."""
    with linux_soak.place() as folder:
        make(PLANS[0], folder / "rec")
        recording = Recording.open(folder / "rec")
        traces = held_traces(recording)
        fewer = replace(traces, syncs=traces.syncs[:0])
        order_recording(fewer, folder / "order.cert", recording.manifest.id, Options())
        wrong, kept = judge(recording, traces, folder / "order.cert")
        assert wrong["thread"] > 100
        assert wrong["call"] > 10
        assert wrong["thread start"] > 0
        assert kept.attributed > kept.agents // 2
        placed = Placed(traces, folder / "order.cert", recording.manifest.id)
        assert len(misplaced_marks(mark_lines(recording, traces, placed))) > 100


def test_marks_in_the_printed_trace() -> None:
    """What `trace --ordered` prints, to its reader's eyes."""
    with linux_soak.place() as folder:
        make(PLANS[0], folder / "rec")
        run("order", folder / "rec")
        recording = Recording.open(folder / "rec")
        symbols = GuestProgram.of(recording.path, recording.manifest).symbols
        marks, children = symbols.named("marks"), symbols.named("child_marks")
        assert marks is not None
        assert children is not None
        low = min(marks.address, children.address)
        high = max(marks.address + marks.size, children.address + children.size)
        arguments = ("--ordered", "--format", "jsonl", "--addr", f"{low:#x}:{high:#x}")
        printed = run("trace", folder / "rec", *arguments)
        assert misplaced_marks(printed.out.splitlines()) == []


def test_a_fault_waits_for_the_stores_before_it(tmp_path: Path) -> None:
    """Under TSO a store waits in its buffer when the next instruction fails: the signal's frame lies
    over what it wrote. The sealed truth has them in this order."""
    code = Code()
    code.jump("start").label("handler")
    call(code, 60, rdi=7).label("start")
    handler, restorer = code.address("handler"), code.address("handler")
    for at, word in enumerate((handler, 0x04000004, restorer, 0)):  # SA_SIGINFO | SA_RESTORER
        code.mov("rax", word).store(DATA + 8 * at, "rax")
    call(code, 13, rdi=11, rsi=DATA, rdx=0, r10=8)
    code.mov("rax", 0x1234567)
    for below in range(136, 1000, 8):
        code.store(("rsp", -below), "rax")
    code.load("rax", 0x10)
    recording = Recording.open(record_linux_guest(code, tmp_path, "tso"))
    assert recording.manifest.end is not None
    assert recording.manifest.end.exit_code == 7
    traces = held_traces(recording)
    slices = [
        (rows["stream"].astype("i8"), rows["end"].astype("u8")) for rows in iter_sealed_truth(recording)
    ]
    assert check_slices(traces, slices).events == sum(map(len, traces.rows))


@pytest.mark.parametrize("cores", [1, 3])
def test_what_one_core_alone_uses_is_local_whichever_threads_run(cores: int, tmp_path: Path) -> None:
    """Evidence of a variable begins when a second core uses it."""
    ran = run(
        "record", "-o", tmp_path / "rec", "--cores", cores, "--evidence", "linkage", "--seed", 2,
        ROOT / "firmware/linux/x86_64/condvars",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    for engine in ("linkage", "auto"):
        ordered = json.loads(run("order", tmp_path / "rec", "--engine", engine, "--json").out)
        assert ordered["verdict"] == "legal"
        if cores == 1:
            assert ordered["events"]["unfiltered"] < ordered["events"]["total"] // 20
