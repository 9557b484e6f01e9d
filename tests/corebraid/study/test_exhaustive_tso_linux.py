"""`hunt --exhaustive --model tso` of Linux programs: all outcomes that x86-TSO allows, and no other; calls
are fences, first uses of pages are not."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import searching
from cli_factory import run
from guest import DATA, Code
from searching import RACES
from static_guest import call, static_program

import corebraid
from corebraid.study.exhaustive.search import Searched


def searched(name: str, until: str = "deadlock", cores: int = 2) -> tuple[Searched, set[int | None]]:
    """A search under TSO, and the exit codes that it saw."""
    return searching.searched(name, until, cores, model="tso")


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("sb", {0, 1, 2, 3}),
        ("sb+fence", {1, 2, 3}),
        ("sb+swap", {1, 2, 3}),
        ("sb+call", {1, 2, 3}),
        ("sb+page", {0, 1, 2, 3}),
        ("mp", {0, 1, 3}),
        ("lb", {0, 1, 2}),
        ("corr", {0, 1, 3}),
        ("2+2w", {1, 2, 3}),
        ("n6", {1, 2, 3, 6, 7}),
        ("leave", {0, 1, 2, 3}),
        ("doze+fence", {0}),
        pytest.param("sb+rfi", {0, 1, 2, 3}, marks=pytest.mark.soak),
    ],
)
@pytest.mark.sampled(5)
def test_litmus_tests_have_the_outcomes_of_x86_tso(name: str, allowed: set[int]) -> None:
    found, codes = searched(name)
    assert found.all_right, found.unfinished
    assert codes == allowed


def test_who_waits_is_not_woken_by_a_store_that_is_buffered() -> None:
    found, _ = searched("doze")
    assert found.failing is not None


@pytest.mark.parametrize("name", ["peterson", pytest.param("dekker", marks=pytest.mark.soak)])
def test_locks_of_loads_and_stores_need_a_fence(name: str) -> None:
    assert searched(name, "exit!=0")[0].failing is not None
    assert searched(f"{name}+fence", "exit!=0")[0].all_right


@pytest.mark.soak
def test_four_threads_agree_on_the_order_of_two_writes() -> None:
    found, codes = searched("iriw", cores=4)
    assert found.all_right, found.unfinished
    assert codes == set(range(16)) - {0b1010}


def test_a_page_that_is_taken_while_stores_to_it_are_buffered_is_a_doubt() -> None:
    found, _ = searched("store_unmap")
    assert "a page was taken or protected" in found.unfinished


# -- what is kept ------------------------------------------------------------------------------------------


def kept(path: Path, name: str, *options: object) -> None:
    """What fails is recorded; its command makes the same recording, which has an order and is verified."""
    ran = run(
        "hunt", "--exhaustive", "--model", "tso", "-o", path, "--cores", 2, "--no-explain", "--json",
        *options, "--", RACES, name,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    command = str(json.loads(ran.out)["again"])
    assert "--model tso" in command
    assert any(line.startswith("commit ") for line in path.with_name("rec.steps").read_text().splitlines())
    again = run(*shlex.split(command)[1:])
    assert again.code == 0, again.err
    other = path.with_name("rec.again")
    names = {entry.name for entry in other.iterdir()}
    assert names == {entry.name for entry in path.iterdir()}
    assert all((path / one).read_bytes() == (other / one).read_bytes() for one in names)
    assert corebraid.verify(path).sound
    assert run("order", path).code == 0
    assert run("check-order", path).code == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "until"),
    [
        ("peterson", "exit!=0"),
        # Each sees neither store of the other: a page is made present meanwhile, or a call was made.
        ("sb+page", "exit==0"),
        ("doze", "deadlock"),
        ("n6", "exit==6"),
    ],
)
def test_what_is_found_is_recorded_and_made_again(name: str, until: str, tmp_path: Path) -> None:
    kept(tmp_path / "rec", name, "--until", until)


def test_a_wait_for_room_is_made_again(tmp_path: Path) -> None:
    kept(tmp_path / "rec", "peterson", "--store-buffer", 1)


def test_the_claim_says_that_stores_waited_for_room(tmp_path: Path) -> None:
    """Of two stores the second waits until the first has committed: no more than one is buffered."""
    options = ("hunt", "--exhaustive", "--model", "tso", "--cores", 2)
    roomy = run(*options, "--store-buffer", 64, "--until", "deadlock", "--", RACES, "mp")
    assert "store buffers of 64 stores, never full)" in roomy.out
    full = run(*options, "--store-buffer", 1, "--until", "deadlock", "--", RACES, "mp")
    assert "store buffers of 1 store, whose stores wait when they are full)" in full.out
    assert "not tried: larger store buffers, though one was full" in full.out


@pytest.mark.parametrize(
    ("first", "flags"), [(0xF, 0x12), (0x10, 0x06), ((1 << 64) - 1, 0x57), ((1 << 63) - 1, 0x96)]
)
def test_a_call_that_waits_leaves_the_flags_as_they_were(first: int, flags: int, tmp_path: Path) -> None:
    """In r11 (SDM volume 2, SYSCALL) and where they are; also before there is a second thread, where it does
    not stop before calls. OF is no part of an exit code."""
    code = Code().mov("rsp", DATA + 0x6000)
    for again in (False, True):
        if again:
            call(code, 56, rdi=0x50F00, rsi=DATA + 0x4000, rdx=0, r10=0)
            code.compare("rax", 0).jump_if("z", "other").mov("rcx", 1).store(DATA, "rcx")
        # Other flags first; the last ones are worked out from what a sum was made of.
        code.mov("rdx", 3).add("rdx", 5).mov("rbx", first).add("rbx", 1)
        call(code, 39)
        # pushf; pop rsi; mov rdi, r11; cmp rsi, rdi; if they are not the same, exit with 0
        code.raw("9c 5e 4c 89 df 48 39 fe").jump_if("nz", "wrong")
        code.raw("81 e7 ff 00 00 00").compare("rdi", flags).jump_if("nz", "wrong")
    code.mov("rdi", flags).jump("exit").label("wrong").mov("rdi", 0)
    code.label("exit").mov("rax", 231).raw("0f 05")
    code.label("other").load("rcx", DATA)
    call(code, 60, rdi=0)
    guest = static_program(tmp_path / "guest", code)
    ran = run(
        "hunt", "--exhaustive", "--model", "tso", "-o", tmp_path / "rec", "--cores", 2, "--no-explain",
        "--guest", "linux", "--until", f"exit=={flags}", "--", guest,
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    assert corebraid.verify(tmp_path / "rec").sound
