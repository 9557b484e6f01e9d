"""`hunt --exhaustive` on real programs: every outcome that sequential consistency allows, and no other; what
is right is proved, what is broken is refuted, and recorded."""

from __future__ import annotations

import errno
import json
import shlex
from pathlib import Path

import pytest
from cli_factory import ROOT, run
from guest import DATA, Code
from searching import RACES, searched
from static_guest import call, static_program

import corebraid
from corebraid.base.errors import CorebraidError, UsageError
from corebraid.study.conditions import Condition
from corebraid.study.exhaustive.search import Budget, Search, Searched
from corebraid.study.subjects import Asked, subject_of

GUESTS = ROOT / "firmware" / "linux" / "x86_64"


def test_store_buffering_has_every_outcome_but_one() -> None:
    found, codes = searched("sb")
    assert found.all_right
    assert codes == {1, 2, 3}
    # Three orders of the two pairs, times whether the first thread had to wait for the other's end.
    assert found.executions == 6
    other, same = searched("sb", preemptions=50)
    assert other.executions == 6
    assert same == codes


@pytest.fixture(scope="module")
def aba(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A lock-free stack without tags, refuted."""
    path = tmp_path_factory.mktemp("exhaustive") / "rec"
    ran = run(
        "hunt", "--exhaustive", "-o", path, "--cores", 2, "--no-explain", "--json", "--", RACES, "bad_aba"
    )
    assert ran.code == 0, ran.err
    return path, json.loads(ran.out)


def test_what_fails_is_kept_with_its_steps(aba: tuple[Path, dict[str, object]]) -> None:
    path, facts = aba
    assert facts["found"] is True
    assert facts["exhaustive"] is True
    assert facts["proven"] is False
    assert facts["condition"] == "exit!=0"
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["rec", "rec.steps"]


def test_its_command_makes_the_same_recording(aba: tuple[Path, dict[str, object]]) -> None:
    path, facts = aba
    command = shlex.split(str(facts["again"]))
    assert command[:2] == ["corebraid", "record"]
    again = run(*command[1:])
    assert again.code == 0
    other = path.with_name("rec.again")
    names = {entry.name for entry in other.iterdir()}
    assert names == {entry.name for entry in path.iterdir()}
    assert all((path / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_its_recording_is_one_like_any_other(aba: tuple[Path, dict[str, object]]) -> None:
    path, _ = aba
    assert corebraid.verify(path).sound
    assert run("order", path).code == 0
    assert run("trace", path, "--ordered").code == 0


def test_a_lock_is_proved() -> None:
    ran = run("hunt", "--exhaustive", "--cores", 2, "--", RACES, "ticket")
    assert ran.code == 1
    assert "all right: 8 different executions, each made, none fails (2 threads, up to" in ran.out
    assert "tried: every order of accesses to shared words and system calls" in ran.out


def test_a_search_that_is_cut_short_proves_nothing(tmp_path: Path) -> None:
    ran = run(
        "hunt", "--exhaustive", "--runs", 5, "--cores", 2, "-o", tmp_path / "rec", "--", RACES, "dekker"
    )
    assert ran.code == 4
    assert "not proven: the search was to make 5 runs" in ran.out
    assert "all right: " not in ran.out
    assert not list(tmp_path.iterdir())


def of_calls(name: str, condition: str = "exit!=0") -> Searched:
    subject = subject_of(Asked(str(RACES), (name,), cores=2, schedule="chaos", evidence="none"))
    return Search(subject, (Condition.parse(condition),), None, Budget(), lambda made, left: None).run()


def bounded_search(name: str, preemptions: int) -> Searched:
    """With so many preemptions at most."""
    subject = subject_of(Asked(str(RACES), (name,), cores=2, schedule="chaos", evidence="none"))
    condition = Condition.parse("exit!=0")
    return Search(subject, (condition,), preemptions, Budget(), lambda made, left: None).run()


@pytest.mark.parametrize("name", ["bad_unmap", "bad_close", "bad_grow", "bad_grow_late"])
def test_memory_that_is_taken_or_not_yet_given_while_another_uses_it_is_found(name: str) -> None:
    """Of a mapping that changes the bytes count as changed, though nobody has written them. Where it changes
    twice, there is one moment between."""
    found = of_calls(name, "fault")
    assert found.failing is not None
    assert found.failing.held == "fault"


@pytest.mark.parametrize(
    "name",
    [
        "bad_protect", "bad_protect_late", "bad_lock", "bad_lock_late", "bad_affinity", "bad_sleep",
        "bad_sleep_late", "bad_timer", "bad_timer_late", "bad_patience",
    ],
)  # fmt: skip
@pytest.mark.sampled(5)
def test_what_a_call_or_a_clock_answers_depends_on_others(name: str) -> None:
    """A call that is refused since memory is gone; a thread that has ended; whoever sleeps, or waits until
    the time stamp counter has gone on."""
    found = of_calls(name)
    assert found.failing is not None


def test_no_stratum_is_cut_where_a_thread_stands_before_a_call(tmp_path: Path) -> None:
    """It has counted the call, and its log has nothing of it: the other sleeps past the next stratum."""
    for name in ("bad_timer", "bad_timer_late"):
        path = tmp_path / name
        corebraid.hunt(RACES, path, arguments=[name], exhaustive=True, cores=2, explain=False)
        assert corebraid.verify(path).sound


@pytest.mark.parametrize(("name", "executions"), [("sleep", 2), ("yield", 4)])
def test_a_sleep_lasts_and_who_yields_waits(name: str, executions: int) -> None:
    found = of_calls(name)
    assert found.all_right
    assert found.executions == executions


@pytest.mark.parametrize(
    ("name", "doubt"),
    [
        ("bad_mapped", "a file was changed that is mapped"),
        ("bad_cut", "a file was changed that is mapped"),
        ("bad_count", "waits in a loop and is told how much it has run behind it"),
        ("bad_counter", "which stands while another sleeps"),
    ],
)
def test_what_depends_on_what_was_not_tried_is_a_doubt(name: str, doubt: str) -> None:
    """Which bytes of a file a page has that is used for the first time; how long a loop has waited, or a
    sleep has taken."""
    found = of_calls(name, "exit==1")
    assert found.failing is None
    assert doubt in found.unfinished


def test_a_wait_with_a_limit_comes_again_as_it_was() -> None:
    """The one whose time is over is the only one that can run: it waits, and goes on, in one step."""
    found, bounded = of_calls("moment"), bounded_search("moment", 4)
    assert found.all_right
    assert bounded.all_right
    assert found.executions == bounded.executions > 2


def test_a_wait_for_what_nobody_writes_is_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    found = corebraid.hunt(RACES, path, arguments=["bad_forgotten"], exhaustive=True, cores=2, explain=False)
    assert found.finding is not None
    assert found.finding.run.held == "waits for ever"
    assert "leave 1000 " in path.with_name("rec.steps").read_text()
    assert corebraid.verify(path).sound


def test_code_that_is_taken_away_is_a_doubt() -> None:
    assert "another thread has run code" in of_calls("bad_code").unfinished


def test_an_access_to_two_lines_is_told() -> None:
    ran = run("hunt", "--exhaustive", "--cores", 2, "--", RACES, "torn")
    assert "all right: " in ran.out
    assert "or one that lies in two lines" in ran.out


def with_a_thread(code: Code) -> Code:
    """A thread begins at the label `other`; the first goes on."""
    call(code, 56, rdi=0x50F00, rsi=DATA + 0x8000, rdx=0, r10=0)
    return code.compare("rax", 0).jump_if("z", "other")


def all_of(code: Code, until: str, tmp_path: Path) -> Searched:
    """All executions of a program, unless the condition holds."""
    program = static_program(tmp_path / "guest", code)
    subject = subject_of(Asked(str(program), cores=2, schedule="chaos", evidence="none", guest="linux"))
    return Search(subject, (Condition.parse(until),), None, Budget(), lambda made, left: None).run()


def test_a_loop_that_looks_at_the_time_is_no_circle(tmp_path: Path) -> None:
    """It comes back to where it was with the same registers, and ends all the same."""
    flag = DATA + 0x100
    code = with_a_thread(Code()).mov("rax", 0).store(flag, "rax")
    call(code, 60, rdi=0).label("other").raw("0f 31").mov("rbx", 0)
    code.compare("rax", 200_000).jump_if("ge", "late").mov("rax", 0).mov("rdx", 0).compare("rbx", 0)
    code.load("rbx", flag).compare("rbx", 0).jump_if("z", "other")
    call(code, 60, rdi=0)
    call(code.label("late"), 231, rdi=7)
    found = all_of(code, "exit==7", tmp_path)
    assert found.failing is not None


def test_time_tells_nothing_of_others(tmp_path: Path) -> None:
    """Whose miss comes first makes no difference to anybody's clock."""
    code = with_a_thread(Code()).label("other").raw("0f 31 49 89 c0").load("rbx", DATA).raw("0f 31 4c 29 c0")
    code.compare("rax", 1000).jump_if("ge", "late")
    call(code, 60, rdi=0)
    call(code.label("late"), 231, rdi=5)
    assert all_of(code, "exit==5", tmp_path).all_right


def test_what_others_do_before_a_signal_ends_it_is_a_doubt(tmp_path: Path) -> None:
    """The first thread stores, and fails behind it; the other might end the process between the two."""
    code = with_a_thread(Code()).mov("rax", 1).store(DATA, "rax").mov("rcx", 0).load("rax", ("rcx", 0))
    code.label("other").load("rax", DATA).compare("rax", 1).jump_if("z", "sees")
    call(code, 60, rdi=0)
    call(code.label("sees"), 231, rdi=77)
    assert all_of(code, "fault", tmp_path).failing is not None
    found = all_of(code, "exit==77", tmp_path)
    assert "a signal ended the process" in found.unfinished


def test_what_cannot_be_kept_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("corebraid.study.recording.record_subject", full)
    with pytest.raises(UsageError, match="what fails cannot be kept") as refused:
        corebraid.hunt(
            RACES, tmp_path / "rec", arguments=["bad_aba"], exhaustive=True, cores=2, explain=False
        )
    assert str(tmp_path) in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_limit_before_there_is_a_choice_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the limit comes before the second thread"):
        corebraid.hunt(GUESTS / "mutexes", tmp_path / "rec", exhaustive=True, limit=5)


def test_waiting_in_circles_is_found(tmp_path: Path) -> None:
    found = corebraid.hunt(
        RACES, tmp_path / "rec", arguments=["bad_mcs"], exhaustive=True, cores=2, explain=False
    )
    assert found.finding is not None
    assert found.finding.run.held == "waits for ever"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"model": "tso", "preemptions": 1}, "not bounded by"),
        ({"clock": "host"}, "does not go with"),
        ({"schedule": "random"}, "does not go with"),
        ({"cores": 1}, "more threads than cores"),
    ],
)
def test_what_cannot_be_searched_is_refused(options: dict[str, object], text: str, tmp_path: Path) -> None:
    with pytest.raises(CorebraidError, match=text):
        corebraid.hunt(RACES, tmp_path / "rec", exhaustive=True, **options)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_other_programs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="never has two threads"):
        corebraid.hunt("/bin/true", tmp_path / "rec", exhaustive=True)
    with pytest.raises(UsageError, match="preemptions= goes with exhaustive=True"):
        corebraid.hunt(RACES, tmp_path / "rec", preemptions=1)
