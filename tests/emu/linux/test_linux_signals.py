"""Signals: what is queued, who takes it, and what it does by default."""

from __future__ import annotations

import signal as host
import threading

import pytest
from signal_factory import (
    PID,
    block,
    catch,
    make_process,
    make_task,
    post,
    taken,
    wait,
)

from emu.linux.ground.failure import Errno
from emu.linux.ground.limits import RESOURCES, RLIMIT_SIGPENDING
from emu.linux.ground.wait import Reason
from emu.linux.signals.delivery import Death, deliver
from emu.linux.signals.info import SigInfo
from emu.linux.signals.numbers import (
    SIG_IGN,
    SIGABRT,
    SIGCHLD,
    SIGCONT,
    SIGKILL,
    SIGSEGV,
    SIGSTOP,
    SIGTERM,
    SIGTSTP,
    SIGUSR1,
    SIGUSR2,
    SIGWINCH,
    signal_name,
    signal_set,
)
from emu.linux.signals.of_process import Action
from emu.linux.tasks.task import State

# Queues.


def test_lowest_number_first_and_real_time_ones_in_order_of_sending():
    task = make_task()
    for signal in (40, SIGUSR2, 36, SIGUSR1):
        catch(task, signal)
    for value, signal in enumerate((40, SIGUSR2, 36, 40, SIGUSR1, 36, SIGUSR2)):
        post(task, signal, value)
    assert taken(task) == [(10, 4), (12, 1), (36, 2), (36, 5), (40, 0), (40, 3)]


def test_the_order_is_that_of_the_host_kernel():
    sent = (40, 12, 36, 40, 11, 10, 36, 12, 64, 1)
    before = host.pthread_sigmask(host.SIG_BLOCK, set(sent))
    theirs = []
    try:
        for signal in sent:
            host.pthread_kill(threading.get_ident(), signal)
        while (info := host.sigtimedwait(set(sent), 0)) is not None:
            theirs.append(info.si_signo)
    finally:
        host.pthread_sigmask(host.SIG_SETMASK, before)
    task = make_task()
    block(task, *sent)
    for signal in sent:
        post(task, signal)
    ours = []
    while (info := task.process.signals.take_from(task, signal_set(*sent))) is not None:
        ours.append(info.signal)
    assert ours == theirs


def test_own_signals_before_those_of_the_process_and_faults_before_both():
    task = make_task()
    for signal in (SIGUSR1, SIGUSR2, SIGSEGV, 1):
        catch(task, signal)
    post(task, 1, 1, to_process=True)
    post(task, SIGUSR2, 2)
    task.process.signals.force(task, SIGSEGV, SigInfo(SIGSEGV, 1))
    assert [signal for signal, _ in taken(task)] == [SIGSEGV, SIGUSR2, 1]


def test_a_standard_signal_is_pending_once_for_each_and_once_for_all():
    task = make_task()
    catch(task, SIGUSR1)
    assert post(task, SIGUSR1, 1)
    assert not post(task, SIGUSR1, 2)
    assert post(task, SIGUSR1, 3, to_process=True)
    assert taken(task) == [(SIGUSR1, 1), (SIGUSR1, 3)]


def test_the_number_of_pending_signals_has_a_limit():
    task = make_task()
    block(task, 40)
    for _ in range(RESOURCES[RLIMIT_SIGPENDING].soft):
        post(task, 40)
    with pytest.raises(Errno, match="EAGAIN"):
        post(task, 40)


# What is dropped.


@pytest.mark.parametrize("signal", [SIGCHLD, SIGWINCH, SIGCONT, SIGTSTP, SIGSTOP])
def test_what_does_nothing_by_default_wakes_nobody(signal):
    task = make_task()
    wait(task)
    assert not post(task, signal)
    assert task.state is State.BLOCKED
    assert not task.process.signals.deliverable(task)


def test_an_ignored_signal_waits_only_while_it_is_blocked():
    task = make_task()
    signals = task.process.signals
    signals.set_action(SIGUSR1, Action(SIG_IGN))
    assert not post(task, SIGUSR1)
    block(task, SIGUSR1)
    assert post(task, SIGUSR1)
    assert signals.pending(task) == signal_set(SIGUSR1)
    block(task)
    assert not signals.deliverable(task)
    block(task, SIGUSR1)
    assert signals.pending(task) == 0


def test_ignoring_a_signal_throws_pending_ones_away_everywhere():
    process = make_process(2)
    main, other = process.tasks.values()
    for task in (main, other):
        block(task, SIGUSR1)
        post(task, SIGUSR1)
    post(main, SIGUSR1, to_process=True)
    process.signals.set_action(SIGUSR1, Action(SIG_IGN))
    catch(main, SIGUSR1)
    assert process.signals.pending(main) == process.signals.pending(other) == 0


def test_a_stop_goes_on_at_once():
    task = make_task()
    catch(task, SIGCONT)
    post(task, SIGSTOP)
    assert taken(task) == [(SIGCONT, 0)]
    block(task, SIGTSTP)
    post(task, SIGTSTP)
    assert not task.process.signals.deliverable(task)
    block(task)
    assert [signal for signal, _ in taken(task)] == [SIGCONT]


def test_a_stop_and_a_continue_take_each_other_back():
    task = make_task()
    block(task, SIGCONT, SIGTSTP)
    post(task, SIGTSTP)
    post(task, SIGCONT)
    assert task.process.signals.pending(task) == signal_set(SIGCONT)
    post(task, SIGTSTP)
    assert task.process.signals.pending(task) == signal_set(SIGTSTP)


# Who takes it.


def test_a_signal_of_the_process_goes_to_the_main_task_if_it_may():
    process = make_process(3)
    tasks = list(process.tasks.values())
    catch(tasks[0], SIGUSR1)
    for task in tasks:
        wait(task)
    post(tasks[0], SIGUSR1, to_process=True)
    assert [task.state for task in tasks] == [State.RUNNABLE, State.BLOCKED, State.BLOCKED]
    assert [process.signals.deliverable(task) for task in tasks] == [True, False, False]
    assert tasks[0].reason is Reason.SIGNAL


def test_else_to_the_lowest_that_does_not_block_it():
    process = make_process(3)
    tasks = list(process.tasks.values())
    catch(tasks[0], SIGUSR1)
    block(tasks[0], SIGUSR1)
    for task in tasks:
        wait(task)
    post(tasks[0], SIGUSR1, to_process=True)
    assert [task.state for task in tasks] == [State.BLOCKED, State.RUNNABLE, State.BLOCKED]
    post(tasks[0], SIGUSR1)
    assert tasks[0].state is State.BLOCKED


def test_who_blocks_a_signal_hands_it_on():
    process = make_process(2)
    main, other = process.tasks.values()
    catch(main, SIGUSR1)
    wait(other)
    post(main, SIGUSR1, 7, to_process=True)
    block(main, SIGUSR1)
    assert other.state is State.RUNNABLE
    assert taken(main) == []
    assert taken(other) == [(SIGUSR1, 7)]


def test_who_ends_hands_it_on():
    process = make_process(2)
    main, other = process.tasks.values()
    catch(main, SIGUSR1)
    post(main, SIGUSR1, 7, to_process=True)
    process.signals.leave(main)
    del process.tasks[PID]
    assert taken(other) == [(SIGUSR1, 7)]
    assert post(other, SIGUSR1, 8, to_process=True)
    assert not process.signals.post(main, SIGUSR1)


def test_blocked_by_all_it_goes_to_the_first_who_unblocks_it():
    process = make_process(2)
    main, other = process.tasks.values()
    catch(main, SIGUSR1)
    block(main, SIGUSR1)
    block(other, SIGUSR1)
    post(main, SIGUSR1, 3, to_process=True)
    assert not process.signals.deliverable(other)
    block(other)
    assert process.signals.deliverable(other)
    assert taken(other) == [(SIGUSR1, 3)]


def test_two_queued_signals_wake_two_tasks():
    process = make_process(2)
    main, other = process.tasks.values()
    catch(main, 40)
    for task in (main, other):
        wait(task)
    post(main, 40, 1, to_process=True)
    post(main, 40, 2, to_process=True)
    assert other.state is State.RUNNABLE
    assert deliver(other) is None
    assert process.signals.deliverable(main)


# Default actions.


def test_fatal_signals_kill_with_or_without_a_core():
    for signal, core in ((SIGTERM, False), (SIGABRT, True), (SIGUSR1, False), (40, False), (SIGKILL, False)):
        task = make_task()
        post(task, signal)
        assert task.process.signals.deliverable(task)
        assert deliver(task) == Death(signal, core)


@pytest.mark.parametrize("to_process", [False, True], ids=["to one task", "to the process"])
@pytest.mark.parametrize("signal", [SIGTERM, SIGUSR1, SIGKILL])
def test_what_kills_without_a_core_ends_every_task_at_once(signal, to_process):
    # complete_signal: SIGKILL for all as soon as one would take it, so that nobody can ignore it any more.
    process = make_process(3)
    main, waiting, third = process.tasks.values()
    block(third, SIGTERM, SIGUSR1)
    wait(waiting)
    post(main, signal, to_process=to_process)
    assert waiting.state is State.RUNNABLE
    process.signals.set_action(signal, Action(SIG_IGN))
    assert [deliver(task) for task in (third, waiting, main)] == [Death(signal, False)] * 3


@pytest.mark.parametrize("case", ["caught", "ignored", "blocked", "dumps core", "waited for"])
def test_else_it_waits_for_who_takes_it(case):
    process = make_process(2)
    main, other = process.tasks.values()
    if case == "caught":
        catch(main, SIGTERM)
    elif case == "ignored":
        process.signals.set_action(SIGTERM, Action(SIG_IGN))
    elif case in ("blocked", "waited for"):
        block(main, SIGTERM)
        block(other, SIGTERM)
    if case == "waited for":
        main.signals.real_blocked, main.signals.blocked = main.signals.blocked, 0
    post(main, SIGABRT if case == "dumps core" else SIGTERM, to_process=True)
    assert not process.signals.deliverable(other)
    assert deliver(other) is None


def test_kill_cannot_be_blocked():
    task = make_task()
    task.process.signals.set_blocked(task, (1 << 64) - 1)
    assert task.signals.blocked == (1 << 64) - 1 - signal_set(SIGKILL, SIGSTOP)
    post(task, SIGKILL, to_process=True)
    assert deliver(task) == Death(SIGKILL, False)


def test_names():
    assert [signal_name(n) for n in (1, 9, 11, 31, 32, 34, 64)] == [
        "SIGHUP", "SIGKILL", "SIGSEGV", "SIGSYS", "signal 32", "SIGRTMIN+0", "SIGRTMIN+30",
    ]  # fmt: skip
