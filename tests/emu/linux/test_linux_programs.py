"""Every Linux program of firmware/linux/expected.json under the recorder: it does what it must, every core
replays bit-exactly. Of some the sealed truth is held to be legal, and they are ordered. The long form is
`python bench/linux_soak.py`, which says what each recording is held to."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.linux_soak import EXPECTED, PROGRAMS, Plan, examine, judge, record_plan
from bench.true_order import Broken

#: The parallel kernels (firmware/linux/kernels.h).
KERNELS = frozenset({"barnes", "fft", "lu", "ocean", "radix_sort", "steal", "water"})
#: Programs that are ordered too: threads, signals, files, code that changes, all ways to end.
ORDERED = KERNELS | {
    "crash", "double_map", "exit_seven", "jit", "loop_forever", "robust", "segv_handler", "static_hello"
}  # fmt: skip
#: (program, cores, model): another number of cores, and store buffers.
OTHERS = (
    ("mutexes", 1, "sc"),
    ("signals", 1, "sc"),
    ("threads64", 8, "sc"),
    ("sockets", 2, "sc"),
    ("cancellation", 2, "tso"),
    ("spinlocks", 8, "tso"),
    ("signal_waits", 3, "tso"),
)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_program_has_an_expectation() -> None:
    names = {path.name for path in PROGRAMS.iterdir() if path.suffix != ".so"}
    assert names == set(EXPECTED)


@pytest.mark.parametrize("program", EXPECTED)
@pytest.mark.sampled(10)
def test_program(program: str, tmp_path: Path) -> None:
    ran = record_plan(Plan(program, 4, 1), tmp_path / "rec")
    judge(program, ran)
    found = examine(tmp_path / "rec", truth=program in ORDERED, order=program in ORDERED)
    assert found.cores == 4
    assert found.instructions > 10_000
    assert found.undecided == 0


@pytest.mark.parametrize(("program", "cores", "model"), OTHERS)
@pytest.mark.sampled(3)
def test_program_on_other_machines(program: str, cores: int, model: str, tmp_path: Path) -> None:
    ran = record_plan(Plan(program, cores, 2, longest_slice=2000, model=model), tmp_path / "rec")
    judge(program, ran)
    assert examine(tmp_path / "rec", order=False).events > 10_000


@pytest.mark.parametrize("seed", [20, 21, 22])
@pytest.mark.sampled(1)
def test_a_slice_that_ends_before_a_blocks_first_access(seed: int, tmp_path: Path) -> None:
    """Schedules that stop at shared accesses, dense strata, lines of 16 bytes: what was fetched for an
    instruction that then waits does not count as fetched before the stratum."""
    plan = Plan("bug_atomicity", 2, seed, "chaos", 200, "cycles:2000", "512:1:16")
    judge(plan.program, record_plan(plan, tmp_path / "rec"))
    found = examine(tmp_path / "rec")
    assert found.legal > 20
    assert found.undecided == 0


def test_the_judge_can_say_no(tmp_path: Path) -> None:
    ran = record_plan(Plan("exit_seven", 1, 1), tmp_path / "rec")
    with pytest.raises(Broken, match="exit code 7"):
        judge("mutexes", ran)
    ran.printed = b"exit_seven: something else\n"
    with pytest.raises(Broken, match="something else"):
        judge("exit_seven", ran)
