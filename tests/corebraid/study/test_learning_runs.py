"""Words that threads share only where they meet in another order than in one learning run."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cli_factory import refused, run
from stack_factory import needs_gcc

import corebraid
from corebraid.base.errors import UsageError
from corebraid.base.rows.event import EVENT, READ, WRITE
from corebraid.study.hunting import prepare
from corebraid.study.stages import stages_of, with_learnt
from corebraid.study.subjects import Asked, subject_of
from recorder.capture.learning import Learner, Life
from recorder.capture.paces import Paces
from recorder.files.reader import Recording

pytestmark = needs_gcc
LINUX = Path(__file__).parents[3] / "firmware" / "linux" / "x86_64"
_SOURCE = r"""
#include <pthread.h>
#include <stdatomic.h>
static atomic_int first, done;
static volatile int hidden;
static void *one(void *me) {
    int expected = 0;
    long who = (long)me;
    for (volatile int k = 0; k < (who == 2 ? 60 : 1); k++);
    if (atomic_compare_exchange_strong(&first, &expected, (int)who) && who == 1) return 0;
    if (atomic_load(&first) != 2) return 0;
    hidden = hidden + 1;
    atomic_fetch_add(&done, 1);
    return 0;
}
int main(void) {
    pthread_t threads[2];
    for (long k = 0; k < 2; k++) pthread_create(&threads[k], 0, one, (void *)(k + 1));
    for (int k = 0; k < 2; k++) pthread_join(threads[k], 0);
    return hidden != atomic_load(&done);
}
"""
"""Both use `hidden` only where the second thread, which has more to do before, comes first."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("learning") / "late.c"
    source.write_text(_SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "-pthread", source, "-o", source.with_suffix("")], check=True)
    return source.with_suffix("")


def words(program: Path, runs: int) -> set[int]:
    """The shared words that are learnt from so many runs."""
    learnt = prepare(subject_of(Asked(str(program), schedule="chaos", learn=runs))).options.shared
    assert learnt is not None
    assert np.all(np.diff(learnt.words.astype(np.int64)) > 0)
    return set(learnt.words.tolist())


def test_more_runs_show_more(program: Path) -> None:
    """What they show together; each has the words of those before it."""
    one, four, many = (words(program, runs) for runs in (1, 4, 16))
    symbols = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    (hidden,) = (int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" hidden"))
    # Programs are loaded at the beginning of a page.
    in_page = hidden % 4096 // 8
    assert one <= four <= many
    assert in_page not in {word % 512 for word in one}
    assert in_page in {word % 512 for word in many - one}


@pytest.mark.soak
def test_a_hunt_finds_what_needs_them(program: Path, tmp_path: Path) -> None:
    """And `record` makes it again, by the command that is printed."""
    place = tmp_path / "REC"
    found = corebraid.hunt(program, place, runs=100, learn=16, explain=False, reduce=False)
    assert found.finding is not None
    none = corebraid.hunt(program, tmp_path / "none", runs=100, learn=1, explain=False, reduce=False)
    assert none.finding is None
    said = run("hunt", "-o", tmp_path / "B", "--learn", 16, "--no-explain", "--no-reduce", program)
    assert said.code == 0
    (again,) = (line for line in said.out.splitlines() if line.startswith("once more: "))
    command = shlex.split(again)[3:]
    assert command[command.index("--learn") + 1] == "16"
    assert run(*command).code == 0
    first, second = (Recording.open(tmp_path / name) for name in ("B", "B.again"))
    assert first.manifest.options["learn"] == second.manifest.options["learn"] == 16
    assert first.manifest.id == second.manifest.id
    for log in tmp_path.glob("B/core*"):
        assert log.read_bytes() == (tmp_path / "B.again" / log.name).read_bytes()


@pytest.mark.soak
def test_a_hunt_that_finds_nothing_learns_more(program: Path, tmp_path: Path) -> None:
    """It finds then what it had no word of, and says how it was found."""
    hunt = ("hunt", "-o", tmp_path / "C", "--runs", 400, "--no-explain", "--no-reduce", "--json", program)
    facts = json.loads(run(*hunt).out)
    stage = next(one for one in stages_of(400, "mixed", None) if facts["run"] <= one.end)
    assert facts["learn"] == stage.learning > 1
    command = shlex.split(facts["again"])[1:]
    assert command[command.index("--learn") + 1] == str(stage.learning)
    assert run(*command).code == 0
    first, second = ((tmp_path / name / "core-1.log").read_bytes() for name in ("C", "C.again"))
    assert first == second


@pytest.mark.soak
def test_which_run_is_found_does_not_depend_on_processes(program: Path, tmp_path: Path) -> None:
    found = [
        corebraid.hunt(program, tmp_path / str(jobs), jobs=jobs, runs=400, explain=False, reduce=False)
        for jobs in (1, 2)
    ]
    first, second = (hunted.finding for hunted in found)
    assert first is not None
    assert second is not None
    assert first.run.attempt == second.run.attempt
    assert "learn=" in str(first.again)
    assert str(first.again).replace("/1.again", "") == str(second.again).replace("/2.again", "")


@pytest.mark.parametrize("runs", [1, 32, 33, 64, 65, 1000])
def test_stages_are_all_runs_each_once(runs: int) -> None:
    stages = stages_of(runs, "mixed", None)
    assert [number for one in stages for number in range(one.first, one.end)] == list(range(runs))
    assert [one.learning for one in stages] == [1, 4, 16][: len(stages)]
    assert stages_of(runs, "mixed", 2) == [(0, runs, 2, False)]
    assert stages_of(runs, "random", None) == stages_of(runs, "cover", None) == [(0, runs, 1, False)]


def test_what_shows_no_other_word_changes_nothing() -> None:
    """Of a program whose words one run shows a hunt goes on as it was."""
    subject = prepare(subject_of(Asked(str(LINUX / "good_counter"), schedule="chaos")))
    assert with_learnt(subject, 4) is subject


@pytest.mark.parametrize("command", ["record", "hunt"])
def test_a_schedule_that_does_not_ask(command: str, program: Path, tmp_path: Path) -> None:
    said = run(command, "-o", tmp_path / "R", "--schedule", "random", "--learn", 2, program)
    refused(said, "this schedule does not ask which words are shared", "--learn 2")
    assert not (tmp_path / "R").exists()


def test_a_search_learns_as_it_goes(program: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="begin it anew"):
        corebraid.hunt(program, tmp_path / "R", exhaustive=True, learn=2)


def test_calls_are_events_where_no_word_is_shared() -> None:
    learner = Learner()
    learner.tasks = lambda stream: (stream, [Life(0, stack=1 << 40), Life(1, stack=1 << 41)])
    for stream in (0, 1):
        rows = np.zeros(2, EVENT)
        rows["addr"], rows["size"], rows["count"] = 0x1000 + stream * 64, 8, (3, 4)
        learner.take(stream, rows)
        learner.call(stream, 1)
    words = learner.words()
    assert len(words) == 0
    assert learner.events(words)["who"].tolist() == [0, 1]


#: What the kernel clears when a thread ends, and something that it and its maker use.
ENDS, WORD = 0x9000, 0x1000


def words_of(*turns: tuple[int, list[int], str]) -> list[int]:
    """What is learnt from turns of thread 1 and of 2, which 1 has made: who, who lives, accesses: w, r: the
    word is written, read; e: somebody looks whether thread 2 has ended."""
    lives = {1: Life(1, stack=1 << 40), 2: Life(2, parent=1, stack=1 << 41, ends=ENDS)}
    learner, living = Learner(), list[int]()
    learner.tasks = lambda stream: (stream, [replace(lives[who]) for who in living])
    for number, (who, here, does) in enumerate(turns):
        living[:] = here
        rows = np.zeros(len(does), EVENT)
        rows["size"], rows["count"] = 8, number * 10 + np.arange(len(does))
        rows["addr"] = [ENDS if one == "e" else WORD for one in does]
        rows["kind"] = [WRITE if one == "w" else READ for one in does]
        learner.take(who, rows)
    return [int(word) * 8 for word in learner.words()]


@pytest.mark.parametrize(
    ("last", "shared"),
    [
        # Its maker has not awaited its end before it writes.
        ("we", True),
        ("w", True),
        # It has.
        ("ew", False),
        ("erw", False),
    ],
)
def test_what_a_maker_does_after_a_thread_has_ended(last: str, shared: bool) -> None:
    both = [1, 2]
    turns = ((1, [1], "w"), (2, both, "r"), (1, both, "r"), (2, both, "r"))
    assert words_of(*turns, (1, [1], last)) == ([WORD] if shared else [])
    # Where it is said in a turn before.
    assert words_of(*turns, (1, [1], "e"), (1, [1], "w")) == []
    assert words_of(*turns, (1, [1], "r"), (1, [1], "w"), (1, [1], "e")) == [WORD]


def test_of_a_thread_whose_end_nobody_is_told_its_last_turn_is_its_end() -> None:
    learner = Learner()
    lives = [Life(1, stack=1 << 40), Life(2, parent=1, stack=1 << 41)]
    learner.tasks = lambda stream: (stream, [replace(life) for life in lives])
    rows = np.zeros(1, EVENT)
    rows["addr"], rows["size"] = WORD, 8
    learner.take(2, rows)
    del lives[1]
    rows["kind"] = WRITE
    learner.take(1, rows)
    assert len(learner.words()) == 0


def of_siblings(*turns: tuple[int, list[int], str], number: int = 1, taken: bool = False) -> list[int]:
    """What is learnt, in a learning run of this number, from turns of threads 2 and 3, which 1 has made: as
    `words_of`. taken: who made the last turn has then taken the memory away."""
    learner, living = Learner(number), list[int]()
    lives = {1: Life(1, stack=1 << 40)} | {who: Life(who, parent=1, stack=who << 41) for who in (2, 3)}
    learner.tasks = lambda stream: (stream, [replace(lives[who]) for who in living])
    for at, (who, here, does) in enumerate(turns):
        living[:] = here
        rows = np.zeros(len(does), EVENT)
        rows["size"], rows["count"], rows["addr"] = 8, at * 10 + np.arange(len(does)), WORD
        rows["kind"] = [WRITE if one == "w" else READ for one in does]
        learner.take(who, rows)
    if taken:
        learner.take_away(turns[-1][0], WORD & -4096, (WORD & -4096) + 8192)
    return [int(word) * 8 for word in learner.words()]


def test_memory_that_another_one_used_before_that_has_ended() -> None:
    one, both, other = [1, 2], [1, 2, 3], [1, 3]
    # Given back, and taken again: who has it now begins with a store.
    assert of_siblings((2, both, "wr"), (3, other, "wr"), (3, other, "r")) == []
    # What is there still, or what both have while both are there.
    assert of_siblings((2, both, "wr"), (3, other, "rw")) == [WORD]
    assert of_siblings((2, both, "w"), (3, both, "w"), (2, both, "r")) == [WORD]
    assert of_siblings((2, one, "w"), (3, both, "w"), (2, both, "r")) == [WORD]
    # The first run is what recordings know that learn from one.
    assert of_siblings((2, both, "wr"), (3, other, "wr"), number=0) == [WORD]


def test_memory_that_a_thread_takes_away_is_written_by_it() -> None:
    both = [1, 2, 3]
    reads = ((2, both, "rr"), (3, both, ""))
    assert of_siblings(*reads) == []
    assert of_siblings(*reads, taken=True) == [WORD]
    # Its own.
    assert of_siblings((3, both, "rr"), taken=True) == []


def test_in_every_second_run_the_younger_or_some_come_first() -> None:
    who, counts = [1, 2, 3], [0, 0, 0]

    def first(number: int, slices: int = 20) -> list[int]:
        paces = Paces(number)
        return [who[paces.next([0, 1, 2], counts, 0, who).core] for _ in range(slices)]

    # The first one falls behind at last: it may be waiting for another.
    younger = first(1, 400)
    assert younger[0] == 3
    assert {who.index(name) for name in younger} == {0, 1, 2}
    switches = sum(one != other for one, other in pairwise(younger))
    assert 3 <= switches < 40
    assert len(set(first(0))) == len(set(first(2))) == 3
    # By chance, in later ones.
    assert len({first(number)[0] for number in (3, 5, 7, 9, 11, 13)}) > 1


def test_events_of_the_ranked_runs_are_told_too() -> None:
    spec = LINUX / "bug_lost_update"
    one, four = (prepare(subject_of(Asked(str(spec), schedule="chaos", learn=n))) for n in (1, 4))
    assert one.options.shared is not None
    assert four.options.shared is not None
    alone, more = one.options.shared.events, four.options.shared.events
    begun = more[: len(alone)]
    assert (begun["who"] == alone["who"]).all() or len(four.options.shared.words) > len(
        one.options.shared.words
    )
    assert len(more) > 2 * len(alone)
    # Sites are the same where events are.
    assert len(set(more["site"].tolist())) < 2 * len(set(alone["site"].tolist()))
