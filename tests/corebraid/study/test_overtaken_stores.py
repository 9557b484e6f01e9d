"""Hunts use store buffers where threads store and load crosswise, as in Dekker's lock without fences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_factory import run
from stack_factory import compiled, needs_gcc

from corebraid.study.hunting import prepare
from corebraid.study.subjects import Asked, subject_of

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
