"""The process that searches slices while they are recorded: the recorder never waits for it, and loses
nothing whatever becomes of it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_factory import FIRMWARE, ROOT, record, refused, run, start

import corebraid
from corebraid.base.errors import UsageError
from corebraid.study.evidence import slice_search
from corebraid.study.evidence.slice_search import SliceSearch
from recorder.evidence.slices.handover import BATCH
from recorder.files.manifest import SLICES_FOUND
from recorder.files.reader import Recording
from solver.evidence.lightplay.decide import Settings
from solver.evidence.lightplay.report import survey

OPTIONS = ("--cores", 3, "--slice", 200, "--evidence", "slices")
LITMUS = FIRMWARE / "litmus.elf"


def record_litmus(path: Path, **more: Any) -> corebraid.Recorded:
    return corebraid.record(
        LITMUS, path, seed=1, cores=3, slice=200, evidence="slices", search_slices=True, **more
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of the recording that nobody searches."""
    path = tmp_path_factory.mktemp("plain") / "rec"
    corebraid.record(LITMUS, path, seed=1, cores=3, slice=200, evidence="slices")
    return files_of(path)


def files_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != SLICES_FOUND}


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[SliceSearch]]:
    """The searches that begin."""
    begun = list[SliceSearch]()
    begin = SliceSearch.__init__

    def note(self: SliceSearch) -> None:
        begin(self)
        begun.append(self)

    monkeypatch.setattr(SliceSearch, "__init__", note)
    yield begun
    for one in begun:
        assert not one._process.is_alive(), "it ends with the recording"


# -- what is said -----------------------------------------------------------------------------------------


def test_record_says_what_was_searched_and_slices_and_order_use_it(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    ran = record(path, "litmus", "--search-slices", "--json", *OPTIONS)
    assert ran.code == 0, ran.err
    told = json.loads(ran.out[ran.out.index("{") :])["search"]
    n = told["slices"]
    assert n == told["while_running"] + told["afterwards"] > 100
    assert (told["left"], told["without_order"], told["why_left"]) == (0, 0, None)
    assert told["lag_seconds"] > 0 < told["processor_seconds"]
    line = f"corebraid: {n} slices with a race: {told['while_running']} searched while the program ran, "
    assert line + f"{told['afterwards']} after its end, in " in ran.err
    facts = json.loads(run("slices", path, "--json").out)
    used = f"slices that were searched while they were recorded: {facts['searched']} of {facts['searched']}"
    assert facts["searched_ahead"] == facts["searched"] == n
    assert SLICES_FOUND in json.loads(run("info", path, "--json").out)["files"]
    for command in (("slices", path), ("order", path, "--engine", "slices")):
        ran = run(*command)
        assert (ran.code, ran.lines) == (0, [f"corebraid: {used}"])
    assert run("check-order", path).code == 0
    assert run("verify", path).code == 0
    fresh = run("order", path, "--engine", "slices", "--fresh")
    assert (fresh.code, fresh.err) == (0, "")


def test_one_slice_is_shown_as_it_was_found(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    assert record(path, "litmus", "--search-slices", *OPTIONS).code == 0
    entries = json.loads(run("slices", path, "--json").out)["entries"]
    number = next(k for k in range(entries) if run("slices", path, "--slice", k).code == 0)
    ahead = json.loads(run("slices", path, "--slice", number, "--json").out)
    (path / SLICES_FOUND).unlink()
    anew = json.loads(run("slices", path, "--slice", number, "--json").out)
    assert (ahead.pop("searched_ahead"), anew.pop("searched_ahead")) == (True, False)
    assert ahead == anew


def test_without_the_option_nothing_is_searched(tmp_path: Path) -> None:
    ran = record(tmp_path / "rec", "fig1", "--json", *OPTIONS)
    assert "search" not in json.loads(ran.out[ran.out.index("{") :])
    assert not (tmp_path / "rec" / SLICES_FOUND).exists()


# -- wrong use --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evidence", [(), ("--evidence", "linkage,opr")])
def test_there_must_be_slices(tmp_path: Path, evidence: tuple[str, ...]) -> None:
    ran = record(tmp_path / "rec", "fig1", "--search-slices", *evidence)
    refused(ran, "--search-slices is for evidence slices", "add --evidence slices")
    assert not (tmp_path / "rec").exists()


def test_there_must_be_slices_in_python(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"search_slices=True is for evidence slices"):
        corebraid.record(LITMUS, tmp_path / "rec", search_slices=True)


def test_a_recording_that_cannot_be_made_leaves_no_process(tmp_path: Path, search: list[SliceSearch]) -> None:
    (tmp_path / "rec").mkdir()
    refused(record(tmp_path / "rec", "fig1", "--search-slices", *OPTIONS), "already a directory")
    assert len(search) == 1


# -- what becomes of it -----------------------------------------------------------------------------------


def at_instruction(n: int, do: Callable[[], None]) -> Callable[[int], None]:
    """A progress that does something once so many instructions have run."""
    done = False

    def progress(instructions: int) -> None:
        nonlocal done
        if instructions >= n and not done:
            done = True
            do()

    return progress


def test_a_search_that_is_killed_loses_nothing(
    tmp_path: Path, search: list[SliceSearch], plain: dict[str, bytes]
) -> None:
    path = tmp_path / "rec"
    made = record_litmus(
        path, progress=at_instruction(100_000, lambda: os.kill(search[0].process, signal.SIGKILL))
    )
    assert made.end.reason == "power-off"
    assert made.search is not None
    assert made.search.left > 0
    assert made.search.why == "the searching process was killed"
    assert made.search.line().endswith(f"; {made.search.left} are left: the searching process was killed")
    assert files_of(path) == plain
    report = survey(Recording.open(path), Settings())
    assert report.undecided == []
    assert report.kept == made.search.slices


def test_what_was_found_before_it_was_killed_is_used(tmp_path: Path, search: list[SliceSearch]) -> None:
    """Once something is written, which it is at the latest when the search has had a pause."""
    path = tmp_path / "rec"

    def kill() -> None:
        found, until = path / SLICES_FOUND, time.monotonic() + 60
        # The first frame has no slice in it.
        while not larger(found, 1000):
            assert time.monotonic() < until
            time.sleep(0.02)
        os.kill(search[0].process, signal.SIGKILL)

    made = record_litmus(path, progress=at_instruction(1_000_000, kill))
    assert made.search is not None
    report = survey(Recording.open(path), Settings())
    assert 0 < report.ahead <= made.search.running < report.searched
    assert report.undecided == []


def stopped(path: Path, search: list[SliceSearch]) -> Callable[[int], None]:
    """A progress that stops the search before it has anything, until the recording is all but complete."""
    stop = at_instruction(1, lambda: os.kill(search[0].process, signal.SIGSTOP))

    def progress(instructions: int) -> None:
        stop(instructions)
        if (path / "final.img").exists():
            os.kill(search[0].process, signal.SIGCONT)

    return progress


def test_the_recorder_does_not_wait_for_a_search_that_stands_still(
    tmp_path: Path, search: list[SliceSearch], plain: dict[str, bytes]
) -> None:
    """Slices are more than the pipe holds; they wait, and come in their order."""
    path = tmp_path / "rec"
    made = record_litmus(path, progress=stopped(path, search))
    assert made.search is not None
    assert (made.search.running, made.search.left) == (0, 0)
    assert files_of(path) == plain
    report = survey(Recording.open(path), Settings())
    assert report.ahead == report.searched == made.search.slices


def test_slices_for_which_there_is_no_room_are_left(
    tmp_path: Path, search: list[SliceSearch], plain: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_search, "_MOST_WAITING", 1 << 11)
    path = tmp_path / "rec"
    made = record_litmus(path, progress=stopped(path, search))
    assert made.search is not None
    assert 0 < made.search.left < made.search.slices
    assert made.search.why == "the search fell too far behind"
    assert files_of(path) == plain
    report = survey(Recording.open(path), Settings())
    assert report.ahead == made.search.after
    assert report.undecided == []


def test_more_than_a_pipe_holds_is_taken_at_once() -> None:
    search = SliceSearch()
    try:
        os.kill(search.process, signal.SIGSTOP)
        for _ in range(40):
            search.take(BATCH.pack(0, 0, 1000) + bytes(8000))
        assert 0 < search._n_waiting < 40 * (BATCH.size + 8000), "some is in the pipe, some waits"
        assert sum(map(len, search._waiting)) == search._n_waiting
    finally:
        assert search.call_off().slices == 0


def test_a_search_that_fails_says_why(tmp_path: Path, plain: dict[str, bytes]) -> None:
    """There is a file of that name: it is not written over."""
    path = tmp_path / "rec"

    def put(_: int) -> None:
        if path.exists() and not (path / SLICES_FOUND).exists():
            (path / SLICES_FOUND).mkdir()

    # The process may be faster than this one: then there is nothing to see.
    made = record_litmus(path, progress=put)
    assert made.search is not None
    if (path / SLICES_FOUND).is_dir():
        assert SLICES_FOUND in made.search.why
        assert "File exists" in made.search.why
        assert made.search.left == made.search.slices
    assert files_of(path) == plain


# -- ended from outside -----------------------------------------------------------------------------------


def children(pid: int) -> list[int]:
    """Processes that it has begun."""
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in told.split()]


def gone(pid: int) -> bool:
    """Whether there is no such process, within a while."""
    until = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def larger(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size > size


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("program", [LITMUS, ROOT / "firmware" / "linux" / "x86_64" / "mutexes"])
@pytest.mark.sampled(2)
def test_a_recorder_that_is_ended(sent: signal.Signals, program: Path, tmp_path: Path) -> None:
    """What is there opens, is ordered, and what was found of it is used; no process is left."""
    path = tmp_path / "rec"
    more = ("--cores", 3, "--slice", 20, "--strata", "cycles:5000", "--evidence", "slices")
    process = start("record", "-o", path, "--search-slices", *more, program)
    until = time.monotonic() + 300
    # The evidence is written every million of instructions.
    while not (larger(path / SLICES_FOUND, 1000) and larger(path / "evidence-slices.log", 1000)):
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    (searcher,) = children(process.pid)
    process.send_signal(sent)
    _, told = process.communicate(timeout=300)
    assert process.returncode == (130 if sent == signal.SIGINT else -signal.SIGKILL), told
    assert b"Traceback" not in told
    assert gone(searcher)
    ran = run("slices", path, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["searched_ahead"] > 0
    assert run("order", path, "--engine", "slices").code == 0


def test_ctrl_c_while_only_the_search_is_left(tmp_path: Path, search: list[SliceSearch]) -> None:
    """The recording is complete, which is said."""
    path = tmp_path / "rec"
    stop = at_instruction(1, lambda: os.kill(search[0].process, signal.SIGSTOP))

    def progress(n: int) -> None:
        stop(n)
        if (path / "final.img").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"is complete, and some of its slices are left"):
        record_litmus(path, progress=progress)
    assert Recording.open(path).manifest.complete
    assert survey(Recording.open(path), Settings()).undecided == []
