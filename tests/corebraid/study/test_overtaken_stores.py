"""Hunts use store buffers where threads store and load crosswise, as in Dekker's lock without fences."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from cli_factory import run
from stack_factory import compiled, needs_gcc

from corebraid.study.hunting import prepare
from corebraid.study.stages import Schedules, Stage
from corebraid.study.subjects import Asked, Subject, subject_of

PROGRAM = """
#include <pthread.h>
#include <stdio.h>
static volatile int wants[2], in, both, other;
static void *work(void *arg) {
    int me = arg != 0;
    for (int i = 0; i < 10; i++) {
        wants[me] = 1;
        FENCE;
        if (!wants[!me]) {
            int others = __atomic_fetch_add(&in, 1, __ATOMIC_SEQ_CST);
            if (others) both = 1;
            for (volatile int k = 0; k < 20; k++);
            __atomic_fetch_sub(&in, 1, __ATOMIC_SEQ_CST);
        }
        wants[me] = 0;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    return 0;
}
int main(void) {
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    if (both) puts("both are in");
    return both;
}
"""
#: Neither is an instruction that reads and writes.
FENCES = {"none": "-DFENCE=", "swap": "-DFENCE=__atomic_exchange_n(&other,1,__ATOMIC_SEQ_CST)"}


@needs_gcc
@pytest.mark.parametrize("fence", FENCES)
def test_where_it_may_matter(fence: str, tmp_path: Path) -> None:
    program = compiled(tmp_path, f"{fence}.c", PROGRAM, "-O1", FENCES[fence])
    subject = prepare(subject_of(Asked(str(program), schedule="chaos")))
    assert not subject.split
    assert subject.overtaken is (fence == "none")
    quiet = ("--json", "--no-explain", "--output", tmp_path / "said")
    ran = run("hunt", "--jobs", 1, "--runs", 120, "-o", tmp_path / "rec", *quiet, program)
    facts = json.loads(ran.out)
    assert ran.code == (0 if fence == "none" else 1), ran.err
    if fence == "none":
        assert facts["model"] == "tso"
        assert "--model tso" in facts["again"]
        assert run("replay", tmp_path / "rec", "--all").code == 0
    else:
        assert "runs_with_store_buffers" not in facts


@needs_gcc
def test_a_library_of_the_programs_own(tmp_path: Path) -> None:
    (tmp_path / "lib.c").write_text(PROGRAM.replace("int main", "int both_in"))
    (tmp_path / "main.c").write_text("int both_in(void); int main(void) { return both_in(); }")
    library, program = tmp_path / "libown.so", tmp_path / "program"
    build = ("gcc", "-O1", "-g", "-pthread")
    subprocess.run(
        [*build, "-shared", "-fPIC", FENCES["none"], tmp_path / "lib.c", "-o", library], check=True
    )
    link = (f"-L{tmp_path}", "-lown", f"-Wl,-rpath,{tmp_path}")
    subprocess.run([*build, tmp_path / "main.c", "-o", program, *link], check=True)
    assert prepare(subject_of(Asked(str(program), schedule="chaos"))).overtaken


@needs_gcc
def test_how_many_runs_had_store_buffers_is_said(tmp_path: Path) -> None:
    source = PROGRAM.replace("return both;", "return 0;")
    program = compiled(tmp_path, "none.c", source, "-O1", FENCES["none"])
    ran = run("hunt", "--jobs", 1, "--runs", 20, "-o", tmp_path / "rec", "--json", program)
    assert ran.code == 1
    assert json.loads(ran.out)["runs_with_store_buffers"] == 12
    assert "not found in 20 runs, 12 of them with store buffers (" in ran.err


class Seen(NamedTuple):
    """What is known of a subject."""

    split: bool = False
    overtaken: bool = False


def test_what_is_learnt_later_counts_from_then_on() -> None:
    schedules = Schedules(200, 0, "mixed", None, buffers=True)
    known, plain = cast(Subject, Seen(overtaken=True)), cast(Subject, Seen())
    assert schedules.stage(64, plain) == Stage(64, 200, 16)
    assert schedules.stage(64, known) == Stage(64, 80, 16)
    assert schedules.stage(80, known) == Stage(80, 112, 16, True)
    assert schedules.stage(200, known) is None
    assert Schedules(200, 0, "mixed", None).stage(8, known) is None


@needs_gcc
def test_where_somebody_has_chosen_a_model_it_is_said(tmp_path: Path) -> None:
    for fence, flag in FENCES.items():
        program = compiled(tmp_path, f"{fence}.c", PROGRAM, "-O1", flag)
        for options in (("--model", "sc"), ("--schedule", "chaos")):
            ran = run("hunt", "--runs", 12, "-o", tmp_path / "rec", "--json", *options, program)
            assert ran.code == 1
            said = fence == "none"
            assert json.loads(ran.out).get("stores_in_order", False) is said
            assert ("no load came before an earlier store; --model tso" in ran.err) is said
