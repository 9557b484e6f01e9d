"""What steps touch, which words race, which loops wait: each against its definition."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from corebraid.base.memory import DEVICE_BASE
from corebraid.base.rows.event import EVENT, READ, RMW, WRITE
from corebraid.base.wording import said
from corebraid.cli.wording import TYPED
from corebraid.study.exhaustive.calls import uses_of
from corebraid.study.exhaustive.claims import nothing_proven
from corebraid.study.exhaustive.devices import uses_of_devices
from corebraid.study.exhaustive.observing import is_split, touched_by, uses_in, watched_rows
from corebraid.study.exhaustive.racing import racing_words
from corebraid.study.exhaustive.search import Searched
from corebraid.study.exhaustive.spinning import Spins
from corebraid.study.exhaustive.steps import Footprint, Step, conflict, may_conflict
from corebraid.study.exhaustive.trace import Trace
from emu.linux.stepping import Served
from emu.schedule.step_file import read_steps, step_text


def rows(*accesses: tuple[int, int, int, int, int]) -> np.ndarray:
    """(kind, address, size, old, new) of each."""
    made = np.zeros(len(accesses), EVENT)
    for k, (kind, address, size, old, new) in enumerate(accesses):
        made[k]["kind"], made[k]["addr"], made[k]["size"] = kind, address, size
        made[k]["old"], made[k]["new"] = old, new
    return made


def test_racing_words_against_the_definition() -> None:
    draw = random.Random("racing")
    found = 0
    for _ in range(200):
        n = draw.randint(2, 9)
        steps = [
            Step(draw.randint(1, 3), Footprint({"lock": True} if draw.random() < 0.5 else {}))
            for _ in range(n)
        ]
        made = [
            [(draw.choice((READ, WRITE)), 8 * draw.randint(0, 2), 8, 0, 1) for _ in range(draw.randint(0, 2))]
            for _ in range(n)
        ]
        trace, late = Trace(steps), draw.randint(0, 1)
        none = touched_by(rows())
        touched = [(none, one) if late else (one, none) for one in (touched_by(rows(*some)) for some in made)]
        expected = {
            one[1] // 8
            for j in range(n)
            for k in range(j)
            for one in made[j]
            for other in made[k]
            if one[1] == other[1] != 16
            and WRITE in (one[0], other[0])
            and steps[j].task != steps[k].task
            and trace.clocks[j].get(steps[k].task, 0) < trace.numbers[k] + late
        }
        assert set(racing_words(trace, touched, np.array([2], np.uint64))[0]) == expected
        found += len(expected)
    assert found > 50


def test_memory_that_one_takes_away_while_another_uses_it() -> None:
    steps = [Step(1, Footprint({})), Step(2, Footprint({}, ranges=((64, 128),)))]
    used, none = touched_by(rows((READ, 72, 8, 0, 0), (READ, 128, 8, 0, 0))), touched_by(rows())
    for both in ((used, none), (none, used)):
        touched = [both, (none, none)]
        assert racing_words(Trace(steps), touched, np.zeros(0, np.uint64)) == ([9], [])


def test_what_comes_behind_an_event_is_not_ordered_by_it() -> None:
    lock = Footprint({"lock": True})
    wrote, none = touched_by(rows((WRITE, 64, 8, 0, 1))), touched_by(rows())
    steps, watched = [Step(1, lock), Step(2, lock)], np.zeros(0, np.uint64)
    assert racing_words(Trace(steps), [(wrote, none), (none, wrote)], watched) == ([], [])
    assert racing_words(Trace(steps), [(none, wrote), (none, wrote)], watched) == ([8], [])
    steps.insert(1, Step(1, lock))
    touched = [(none, wrote), (none, none), (none, wrote)]
    assert racing_words(Trace(steps), touched, watched) == ([], [])


def test_a_failed_exchange_is_a_read_that_might_have_been_a_write() -> None:
    failed = rows((RMW, 64, 4, 7, 7))
    keys, may = uses_in(watched_rows(failed, np.array([8], np.uint64)))
    assert keys == dict.fromkeys(range(64, 68), False)
    assert may == set(range(64, 68))
    one, read = Footprint(keys, frozenset(may)), Footprint({64: False})
    assert not conflict(one, read)
    assert may_conflict(one, read)
    assert uses_in(rows((WRITE, 64, 1, 7, 7))) == ({64: True}, set())
    assert not len(watched_rows(failed, np.array([7], np.uint64)))


def test_what_a_processor_may_do_in_parts_is_told() -> None:
    """An increment without lock, a move from shared memory to shared memory, 16 bytes, two lines."""
    assert is_split(rows((READ, 64, 4, 7, 7), (WRITE, 64, 4, 7, 8)))
    assert is_split(rows((READ, 64, 4, 7, 7), (WRITE, 72, 4, 7, 8)))
    assert is_split(rows((READ, 64, 8, 7, 7), (READ, 72, 8, 7, 7)))
    assert is_split(rows((WRITE, 124, 8, 7, 7)))
    assert not is_split(rows((WRITE, 120, 8, 7, 7)))
    assert not is_split(rows((RMW, 64, 4, 7, 8)))
    # A cmpxchg16b, and an exchange that lies in two lines, with lock.
    assert not is_split(rows((RMW, 64, 8, 7, 8), (RMW, 72, 8, 7, 8)))
    assert not is_split(rows((RMW, 124, 8, 7, 8)))
    assert not is_split(rows())


def test_a_loop_that_leaves_something_behind_does_not_wait() -> None:
    read = Footprint({64: False})
    quiet, counting = rows((READ, 64, 8, 0, 0)), rows((READ, 64, 8, 0, 0), (WRITE, 8, 8, 3, 4))
    there_and_back = rows((WRITE, 8, 8, 3, 4), (WRITE, 8, 8, 4, 3))
    for made, waits in ((quiet, True), (counting, False), (there_and_back, True)):
        spins = Spins()
        stands = [
            spins.step(1, k, read, made, quiet=True) and spins.stands(1, 100, b"same") for k in range(2)
        ]
        assert stands == [False, waits]
        assert bool(spins.stuck) is waits
    spins = Spins()
    spins.step(1, 0, read, quiet, quiet=True)
    assert not spins.stands(1, 100, b"one")
    spins.step(1, 1, read, quiet, quiet=True)
    assert not spins.stands(1, 100, b"another")
    spins.step(1, 2, Footprint({64: True}), quiet, quiet=True)
    assert not spins.stuck
    # Twice at one pc, with other registers, on every turn.
    spins = Spins()
    found = []
    for k, registers in enumerate([b"call", b"behind", b"call"]):
        spins.step(1, k, read, quiet, quiet=True)
        found.append(spins.stands(1, 100, registers))
    assert found == [False, False, True]


def test_who_waits_for_what_was_changed_does_not_wait_for_ever() -> None:
    spins = Spins()
    read = Footprint({64: False})
    for k in range(2):
        spins.step(1, k, read, rows((READ, 64, 8, 0, 0)), quiet=True)
        spins.stands(1, 100, b"same")
    assert spins.waits_in_vain([read, read, Footprint({72: True})])
    assert not spins.waits_in_vain([read, read, Footprint({64: True})])
    assert spins.waits_in_vain([Footprint({64: True}), read, read]) is True


def call(name: str, *arguments: int, result: int | None = 0) -> Footprint:
    given = (*arguments, *[0] * (6 - len(arguments)))
    uses = uses_of(Served(1, name, given, result), blocked=result is None, last_but_main=False)
    return Footprint(uses.keys, frozenset(uses.may), uses.ranges)


def test_which_calls_commute() -> None:
    wait, wake = call("futex", 64, 128, result=None), call("futex", 64, 129, 1, result=1)
    assert conflict(wait, wake)
    assert not conflict(call("futex", 64, 129, 1), call("futex", 64, 129, 1))
    assert not conflict(call("futex", 64, 129, 1), call("futex", 72, 128, result=None))
    assert conflict(call("write", 1), call("read", 0))
    assert not conflict(call("write", 1), call("gettid"))
    assert conflict(call("mmap", 0, 64, result=4096), call("munmap", 8192, 64))
    assert not conflict(call("madvise", 4096, 64), call("madvise", 8192, 64))
    assert conflict(call("madvise", 4096, 64), call("mprotect", 4096, 64))
    assert conflict(call("prctl"), call("write", 1))
    assert not conflict(call("exit"), call("exit"))
    assert uses_of(Served(1, "read", (0,) * 6, None), blocked=True, last_but_main=False).doubt
    assert uses_of(Served(1, "futex", (64, 128, 0, 1, 0, 0), None), blocked=True, last_but_main=False).fixed


@pytest.mark.parametrize("name", ["munmap", "mprotect", "madvise", "msync", "mlock", "munlock", "mincore"])
def test_memory_that_a_call_was_to_change_counts_whether_it_did(name: str) -> None:
    """What it answers depends on whether the memory is there. In whole pages."""
    done, refused = call(name, 0x5010, 16), call(name, 0x5010, 16, result=-12 & (1 << 64) - 1)
    assert done.ranges == refused.ranges == ((0x5000, 0x6000),)
    assert conflict(refused, call("munmap", 0x5000, 4096))
    assert conflict(refused, Footprint({0x5008: False}))
    assert not conflict(refused, Footprint({0x6000: True}))


def test_a_heap_is_what_lies_between_its_ends() -> None:
    def heap(asked: int, *ends: int) -> Footprint:
        served = Served(1, "brk", (asked, 0, 0, 0, 0, 0), ends[1], (ends[0], ends[1]))
        uses = uses_of(served, blocked=False, last_but_main=False)
        return Footprint(uses.keys, frozenset(uses.may), uses.ranges)

    assert heap(0, 0x8000, 0x8000).ranges == ()
    assert heap(0xA000, 0x8000, 0xA000).ranges == ((0x8000, 0xA000),)
    assert heap(0x8000, 0xA000, 0x8000).ranges == ((0x8000, 0xA000),)
    # Refused.
    assert heap(0xA000, 0x8000, 0x8000).ranges == ((0x8000, 0xA000),)


def test_time_is_what_sleeps_change_and_clocks_tell() -> None:
    sleep, clock = call("nanosleep", 64), call("clock_gettime", 1, 64)
    assert conflict(sleep, clock)
    assert conflict(sleep, sleep)
    assert not conflict(clock, clock)
    assert conflict(sleep, call("futex", 64, 128, 0, 4096, result=None))
    # A timer that is a file; the time at which a file was changed.
    assert conflict(sleep, call("read", 3, 64, 8))
    assert conflict(sleep, call("fstat", 3, 64))
    assert not conflict(sleep, call("futex", 64, 128, 0, 0, result=None))


def test_what_a_call_tells_of_another_thread_is_no_business_of_the_caller_s_alone() -> None:
    ends = Footprint(uses_of(Served(2, "exit", (0,) * 6, None), blocked=False, last_but_main=False).keys)
    assert not conflict(call("sched_getaffinity", 0), ends)
    assert not conflict(call("sched_getaffinity", 1), ends)
    assert conflict(call("sched_getaffinity", 2), ends)


def test_a_file_of_steps_says_what_was_written(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "steps"
    path.write_text(step_text([9, 8], [1, 1, 2, 1]))
    read = read_steps(path)
    assert read is not None
    assert read.shared.words.tolist() == [8, 9]
    assert read.tasks == (1, 1, 2, 1)
    path.write_text("0 100\n")
    assert read_steps(path) is None


def test_memory_that_is_taken_conflicts_with_who_uses_it() -> None:
    """A mapping that changes is a change of each of its bytes."""
    draw = random.Random("ranges")
    ordered = 0
    for _ in range(300):
        steps, touched = list[Step](), list[dict[int, bool]]()
        for _ in range(draw.randint(2, 8)):
            uses = {draw.randint(0, 7): draw.random() < 0.5 for _ in range(draw.randint(0, 2))}
            low = draw.randint(0, 7)
            ranges = ((low, draw.randint(low + 1, 8)),) if draw.random() < 0.4 else ()
            steps.append(Step(draw.randint(1, 3), Footprint(uses, ranges=ranges)))
            taken = {byte: True for first, end in ranges for byte in range(first, end)}
            touched.append({**uses, **taken})
        trace, n = Trace(steps), len(steps)
        before = [[False] * n for _ in range(n)]
        for j in range(n):
            for k in range(j):
                clash = any(touched[k][b] or touched[j][b] for b in touched[k].keys() & touched[j].keys())
                before[k][j] = clash or steps[k].task == steps[j].task
                if steps[k].task != steps[j].task:
                    assert conflict(steps[k].footprint, steps[j].footprint) is clash
            for k in reversed(range(j)):
                before[k][j] |= any(before[k][m] and before[m][j] for m in range(k + 1, j))
                assert trace.before(k, j) is before[k][j]
                ordered += before[k][j]
    assert ordered > 500


def test_a_call_that_is_refused_memory_is_a_doubt() -> None:
    arguments, refused = (1, 0x5000, 8, 0, 0, 0), -14 & (1 << 64) - 1
    assert (
        "was refused memory"
        in uses_of(Served(1, "write", arguments, refused), blocked=False, last_but_main=False).doubt
    )
    assert not uses_of(Served(1, "write", arguments, 8), blocked=False, last_but_main=False).doubt


def at_registers(*accesses: tuple[int, int]) -> np.ndarray:
    """(kind, offset) of each."""
    return rows(*((kind, DEVICE_BASE + offset, 8, 0, 1) for kind, offset in accesses))


def test_what_registers_share() -> None:
    assert uses_of_devices(at_registers()).quiet
    constant = uses_of_devices(at_registers((READ, 0x18), (READ, 0x20)))
    assert (constant.quiet, constant.keys, constant.doubt) == (True, {}, "")
    own = uses_of_devices(at_registers((READ, 0x28), (WRITE, 0x48), (READ, 0x50)))
    assert (own.quiet, own.keys, own.doubt) == (False, {}, "")
    assert uses_of_devices(at_registers((WRITE, 0), (WRITE, 0))).keys == {("console",): True}
    assert uses_of_devices(at_registers((READ, 8), (READ, 0x30))).keys == {
        ("input",): True,
        ("random",): True,
    }
    assert uses_of_devices(at_registers((READ, 0xA0))).keys == {("dma",): False}
    assert uses_of_devices(at_registers((READ, 0xA0), (WRITE, 0x80))).keys == {("dma",): True}


def test_every_register_is_known_or_a_doubt() -> None:
    """Of all offsets only these are proven anything of: whoever adds a register is not proven wrong."""
    silent = {k for k in range(0x1000) if not uses_of_devices(at_registers((WRITE, k))).doubt}
    assert silent == {
        *(0x00, 0x08, 0x10, 0x18, 0x20, 0x28, 0x30, 0x48, 0x50, 0x80, 0x88, 0x90, 0xA0),
        *(0x200, 0x208, 0x210, 0x228, 0x230, 0x238),
    }


def test_what_to_do_where_a_search_ends_early() -> None:
    """Fewer preemptions help where there was no more time, and nothing where no search proves anything."""
    spent = Searched(executions=3, unfinished="the search was to make 3 runs", open=5)
    assert spent.ran_out
    assert "--preemptions 2" in said(nothing_proven(spent), TYPED)
    assert "--preemptions 1" in said(nothing_proven(replace(spent, preemptions=2)), TYPED)
    assert "smaller input" in said(nothing_proven(replace(spent, preemptions=0)), TYPED)
    doubted = replace(spent, unfinished="a thread was interrupted by a signal")
    assert not doubted.ran_out
    told = said(nothing_proven(doubted), TYPED)
    assert "without --exhaustive" in told
    assert "preemptions" not in told
