"""Instructions that read shared memory and write it: hunts let others come in between by store buffers."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_factory import run
from stack_factory import compiled, needs_gcc

import corebraid
from corebraid.study import stages
from corebraid.study.forked_runs import ForkedRuns
from corebraid.study.hunting import prepare
from corebraid.study.stages import stages_of
from corebraid.study.subjects import Asked, Subject, subject_of
from recorder.files.reader import Recording

PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#ifndef TIMES
#define TIMES 20
#endif
static volatile int counter, other;
static void *work(void *arg) {
    for (int i = 0; i < TIMES; i++) {
        __asm__ volatile(ADD " $1, %0" : "+m"(counter));
        OTHER;
    }
    return arg;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%d %d\\n", counter, other);
    return RESULT;
}
"""
COUNTED = ("-DOTHER=", "-DRESULT=(counter!=40)")
ONCE = "-DRESULT=(counter!=2)"
PLAIN, LOCKED = '-DADD="addl"', '-DADD="lock addl"'
#: What is wrong with it is wrong without store buffers, too.
ELSEWHERE = ("-DOTHER={int was=other;other=was+1;}", "-DRESULT=(other!=40)")


@needs_gcc
def test_an_increment_that_is_lost_is_found(tmp_path: Path) -> None:
    """Within an instruction others come between only where cores have store buffers."""
    program = compiled(tmp_path, "plain.c", PROGRAM, "-O1", PLAIN, *COUNTED)
    ran = run(
        "hunt",
        "--jobs",
        1,
        "--no-explain",
        "--no-reduce",
        "--json",
        "-o",
        tmp_path / "rec",
        "--output",
        tmp_path / "said",
        program,
    )
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out)
    assert 8 < facts["run"] <= 32
    assert facts["model"] == "tso"
    words = shlex.split(facts["again"])
    assert words[words.index("--model") + 1] == "tso"
    words[words.index("-o") + 1] = str(tmp_path / "again")
    assert run(*words[1:]).code == 0
    for log in (tmp_path / "rec").glob("core-*.log"):
        assert log.read_bytes() == (tmp_path / "again" / log.name).read_bytes()


@needs_gcc
def test_one_increment_each_that_is_lost(tmp_path: Path) -> None:
    """The slice ends before the thread's next event, and until then what it has written waits: others come in
    between, though nothing else that is shared follows for long."""
    program = compiled(tmp_path, "once.c", PROGRAM, "-O1", PLAIN, "-DTIMES=1", "-DOTHER=", ONCE)
    ends = dict[int, list[int | None]]()
    for number in range(1, 12):
        ends[number] = [_exit_code(program, tmp_path / f"{number}-{seed}", number, seed) for seed in range(3)]
    assert any(1 in codes for codes in ends.values()), ends
    assert all(set(codes) <= {0, 1} for codes in ends.values())


def _exit_code(program: Path, place: Path, number: int, seed: int) -> int | None:
    schedule = f"switches:1001@{number}=1002"
    corebraid.record(program, place, model="tso", schedule=schedule, schedule_seed=seed)
    recording = Recording.open(place)
    assert run("replay", place, "--all").code == 0
    end = recording.manifest.end
    return None if end is None else end.exit_code


@needs_gcc
def test_where_each_was_taken_as_one_it_is_said(tmp_path: Path) -> None:
    program = compiled(tmp_path, "plain.c", PROGRAM, "-O1", PLAIN, *COUNTED)
    hunt = ("hunt", "--jobs", 1, "--runs", 12, "-o", tmp_path / "rec", "--json")
    for options in (("--model", "sc"), ("--schedule", "chaos"), ("--bisect", "none", "--model", "sc")):
        ran = run(*hunt, *options, program)
        assert ran.code == 1
        assert json.loads(ran.out)["taken_whole"] is True
        assert "each was taken as one; --model tso" in ran.err
    found = corebraid.hunt(program, tmp_path / "rec", model="tso", jobs=1, explain=False, reduce=False)
    assert found.finding is not None
    assert not found.finding.buffered
    assert "tso" in str(found.finding.again)
    told = "its cores have store buffers"
    assert not any(told in line for line in found.finding.lines())
    assert any(told in line for line in replace(found.finding, buffered=True).lines())


@needs_gcc
def test_what_is_indivisible_is_left_so(tmp_path: Path) -> None:
    program = compiled(tmp_path, "locked.c", PROGRAM, "-O1", LOCKED, *COUNTED)
    ran = run("hunt", "--jobs", 1, "--runs", 40, "-o", tmp_path / "rec", "--json", program)
    assert ran.code == 1, ran.out
    assert "taken_whole" not in json.loads(ran.out)
    assert "taken as one" not in ran.err
    for name, wanted in (("locked.c", LOCKED), ("plain.c", PLAIN)):
        program = compiled(tmp_path, name, PROGRAM, "-O1", wanted, *COUNTED)
        subject = prepare(subject_of(Asked(str(program), schedule="chaos")))
        assert subject.split == (wanted == PLAIN)


@needs_gcc
def test_what_fails_without_store_buffers_too_is_told_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "_BUFFERED", ((0, 32),))
    program = compiled(tmp_path, "else.c", PROGRAM, "-O1", PLAIN, *ELSEWHERE)
    found = corebraid.hunt(program, tmp_path / "rec", jobs=1, explain=False, reduce=False)
    assert found.finding is not None
    assert not found.finding.buffered
    assert "model" not in str(found.finding.again)
    assert not Recording.open(tmp_path / "rec").manifest.store_buffer
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".rec")] == []


@needs_gcc
def test_a_machine_is_prepared_once_for_each_memory_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often parts with store buffers and parts without take turns."""
    for name, changed in (("_BUFFERED", ((2, 4),)), ("_FIRST", 6), ("_EVERY", 2)):
        monkeypatch.setattr(stages, name, changed)
    program, made = (
        compiled(tmp_path, "right.c", PROGRAM, "-O1", PLAIN, "-DOTHER=", "-DRESULT=0"),
        list[str](),
    )
    begin = ForkedRuns.__init__

    def counted(self: ForkedRuns, subject: Subject, *more: Any) -> None:
        made.append(subject.options.model)
        begin(self, subject, *more)

    monkeypatch.setattr(ForkedRuns, "__init__", counted)
    found = corebraid.hunt(program, tmp_path / "rec", jobs=1, runs=14)
    assert (found.finding, found.speed.runs, found.buffered) == (None, 14, 6)
    assert sorted(made) == ["sc", "tso"]


def test_parts_with_store_buffers() -> None:
    """Each run once, those of some parts with; and what a hunt learns does not change by that."""
    every = stages_of(2000, "mixed", None, buffers=True)
    runs = [(number, one) for one in every for number in range(one.first, one.end)]
    assert [number for number, _ in runs] == list(range(2000))
    buffered = {number for number, one in runs if one.buffered}
    assert buffered == {
        *range(8, 32),
        *range(80, 112),
        *range(160, 200),
        *range(700, 1200),
        *range(1700, 2000),
    }
    plain = [one.learning for one in stages_of(2000, "mixed", None) for _ in range(one.first, one.end)]
    assert [one.learning for _, one in runs] == plain
    assert not any(one.buffered for one in stages_of(2000, "mixed", None))
    assert all(one.learning == 2 for one in stages_of(2000, "mixed", 2, buffers=True))
    assert [one.end for one in stages_of(20, "mixed", None, buffers=True)] == [8, 20]
