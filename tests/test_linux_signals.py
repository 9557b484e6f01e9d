"""Signals: what is queued, who takes it, what it does, and how broken-off calls go on."""

from __future__ import annotations

import errno
import signal as host
import threading

import pytest

from emu.linux import calls_kill, calls_signals
from emu.linux.failure import Errno, Interrupted
from emu.linux.process_signals import MOST_PENDING, Action
from emu.linux.signal_delivery import Death, Interruption, deliver
from emu.linux.signal_info import SigInfo
from emu.linux.signal_numbers import (
    SA_NODEFER,
    SA_RESETHAND,
    SA_RESTART,
    SI_QUEUE,
    SI_TKILL,
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
from emu.linux.task import State
from emu.linux.wait import Reason, Wait
from tests.signal_factory import (
    BASE,
    CODE,
    HANDLER,
    PID,
    RESTORER,
    catch,
    make_process,
    make_task,
    post,
    register,
    set_register,
)

_CALL = 0x1C8


def _taken(task):
    """(signal, value) of all that the task takes, in order."""
    found = []
    while (info := task.process.signals.take(task)) is not None:
        found.append((info.signal, int.from_bytes(info.fields[8:16], "little")))
    return found


def _block(task, *signals):
    task.process.signals.set_blocked(task, signal_set(*signals))


def _wait(task):
    task.begin_wait(Wait((), None, "anything"))


def _word(task, address, value, size=8):
    task.process.memory.write_number(address, size, value)
    return address


# Queues.


def test_lowest_number_first_and_real_time_ones_in_order_of_sending():
    task = make_task()
    for signal in (40, SIGUSR2, 36, SIGUSR1):
        catch(task, signal)
    for value, signal in enumerate((40, SIGUSR2, 36, 40, SIGUSR1, 36, SIGUSR2)):
        post(task, signal, value)
    assert _taken(task) == [(10, 4), (12, 1), (36, 2), (36, 5), (40, 0), (40, 3)]


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
    _block(task, *sent)
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
    assert [signal for signal, _ in _taken(task)] == [SIGSEGV, SIGUSR2, 1]


def test_a_standard_signal_is_pending_once_for_each_and_once_for_all():
    task = make_task()
    catch(task, SIGUSR1)
    assert post(task, SIGUSR1, 1)
    assert not post(task, SIGUSR1, 2)
    assert post(task, SIGUSR1, 3, to_process=True)
    assert _taken(task) == [(SIGUSR1, 1), (SIGUSR1, 3)]


def test_the_number_of_pending_signals_has_a_limit():
    task = make_task()
    _block(task, 40)
    for _ in range(MOST_PENDING):
        post(task, 40)
    with pytest.raises(Errno, match="EAGAIN"):
        post(task, 40)


# What is dropped.


@pytest.mark.parametrize("signal", [SIGCHLD, SIGWINCH, SIGCONT, SIGTSTP, SIGSTOP])
def test_what_does_nothing_by_default_wakes_nobody(signal):
    task = make_task()
    _wait(task)
    assert not post(task, signal)
    assert task.state is State.BLOCKED
    assert not task.process.signals.deliverable(task)


def test_an_ignored_signal_waits_only_while_it_is_blocked():
    task = make_task()
    signals = task.process.signals
    signals.set_action(SIGUSR1, Action(SIG_IGN))
    assert not post(task, SIGUSR1)
    _block(task, SIGUSR1)
    assert post(task, SIGUSR1)
    assert signals.pending(task) == signal_set(SIGUSR1)
    _block(task)
    assert not signals.deliverable(task)
    _block(task, SIGUSR1)
    assert signals.pending(task) == 0


def test_ignoring_a_signal_throws_pending_ones_away_everywhere():
    process = make_process(2)
    main, other = process.tasks.values()
    for task in (main, other):
        _block(task, SIGUSR1)
        post(task, SIGUSR1)
    post(main, SIGUSR1, to_process=True)
    process.signals.set_action(SIGUSR1, Action(SIG_IGN))
    catch(main, SIGUSR1)
    assert process.signals.pending(main) == process.signals.pending(other) == 0


def test_a_stop_goes_on_at_once():
    task = make_task()
    catch(task, SIGCONT)
    post(task, SIGSTOP)
    assert _taken(task) == [(SIGCONT, 0)]
    _block(task, SIGTSTP)
    post(task, SIGTSTP)
    assert not task.process.signals.deliverable(task)
    _block(task)
    assert [signal for signal, _ in _taken(task)] == [SIGCONT]


def test_a_stop_and_a_continue_take_each_other_back():
    task = make_task()
    _block(task, SIGCONT, SIGTSTP)
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
        _wait(task)
    post(tasks[0], SIGUSR1, to_process=True)
    assert [task.state for task in tasks] == [State.RUNNABLE, State.BLOCKED, State.BLOCKED]
    assert [process.signals.deliverable(task) for task in tasks] == [True, False, False]
    assert tasks[0].reason is Reason.SIGNAL


def test_else_to_the_lowest_that_does_not_block_it():
    process = make_process(3)
    tasks = list(process.tasks.values())
    catch(tasks[0], SIGUSR1)
    _block(tasks[0], SIGUSR1)
    for task in tasks:
        _wait(task)
    post(tasks[0], SIGUSR1, to_process=True)
    assert [task.state for task in tasks] == [State.BLOCKED, State.RUNNABLE, State.BLOCKED]
    post(tasks[0], SIGUSR1)
    assert tasks[0].state is State.BLOCKED


def test_who_blocks_a_signal_hands_it_on():
    process = make_process(2)
    main, other = process.tasks.values()
    catch(main, SIGUSR1)
    _wait(other)
    post(main, SIGUSR1, 7, to_process=True)
    _block(main, SIGUSR1)
    assert other.state is State.RUNNABLE
    assert _taken(main) == []
    assert _taken(other) == [(SIGUSR1, 7)]


def test_who_ends_hands_it_on():
    process = make_process(2)
    main, other = process.tasks.values()
    catch(main, SIGUSR1)
    post(main, SIGUSR1, 7, to_process=True)
    process.signals.leave(main)
    del process.tasks[PID]
    assert _taken(other) == [(SIGUSR1, 7)]
    assert post(other, SIGUSR1, 8, to_process=True)
    assert not process.signals.post(main, SIGUSR1)


def test_blocked_by_all_it_goes_to_the_first_who_unblocks_it():
    process = make_process(2)
    main, other = process.tasks.values()
    catch(main, SIGUSR1)
    _block(main, SIGUSR1)
    _block(other, SIGUSR1)
    post(main, SIGUSR1, 3, to_process=True)
    assert not process.signals.deliverable(other)
    _block(other)
    assert process.signals.deliverable(other)
    assert _taken(other) == [(SIGUSR1, 3)]


def test_two_queued_signals_wake_two_tasks():
    process = make_process(2)
    main, other = process.tasks.values()
    catch(main, 40)
    for task in (main, other):
        _wait(task)
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


# Handlers.


def test_masks_while_a_handler_runs():
    for flags, expected in ((0, (SIGUSR1, 40)), (SA_NODEFER, (40,))):
        task = make_task()
        catch(task, SIGUSR1, flags, signal_set(40, SIGKILL))
        post(task, SIGUSR1)
        deliver(task)
        assert task.signals.blocked == signal_set(*expected)


def test_resethand_handles_once():
    task = make_task()
    catch(task, SIGUSR1, SA_RESETHAND)
    post(task, SIGUSR1)
    assert deliver(task) is None
    _block(task)
    post(task, SIGUSR1)
    assert deliver(task) == Death(SIGUSR1, False)


def test_several_signals_stack_their_frames_and_the_last_runs_first():
    task = make_task()
    catch(task, SIGUSR1)
    catch(task, SIGUSR2, handler=HANDLER + 0x100)
    post(task, SIGUSR2)
    post(task, SIGUSR1)
    assert deliver(task) is None
    assert (register(task, "rip"), register(task, "rdi")) == (HANDLER + 0x100, SIGUSR2)
    frame = register(task, "rsp")
    assert task.process.memory.read_number(frame + 48 + 16 * 8, 8) == HANDLER
    assert task.signals.blocked == signal_set(SIGUSR1, SIGUSR2)
    set_register(task, "rsp", frame + 8)
    calls_signals.sys_rt_sigreturn(task)
    assert (register(task, "rip"), register(task, "rdi")) == (HANDLER, SIGUSR1)
    assert task.signals.blocked == signal_set(SIGUSR1)


def test_nothing_pending_changes_nothing():
    task = make_task()
    before = task.registers
    assert deliver(task) is None
    assert task.registers == before
    assert not task.changed


# Broken-off calls.


def _end(restart, flags):
    """(pc, rax) to which a broken-off call returns; flags None: no handler runs."""
    task = make_task()
    if flags is not None:
        catch(task, SIGUSR1, flags)
        post(task, SIGUSR1)
    deliver(task, Interruption(_CALL, restart))
    if flags is None:
        return register(task, "rip"), register(task, "rax")
    read, frame = task.process.memory.read_number, register(task, "rsp")
    return read(frame + 48 + 16 * 8, 8), read(frame + 48 + 13 * 8, 8)


_AGAIN, _FAILED = (CODE - 2, _CALL), (CODE, (1 << 64) - errno.EINTR)


@pytest.mark.parametrize(
    ("restart", "flags", "expected"),
    [
        (True, SA_RESTART, _AGAIN), (True, 0, _FAILED), (True, None, _AGAIN),
        (False, SA_RESTART, _FAILED), (False, 0, _FAILED), (False, None, _FAILED),
    ],
)  # fmt: skip
def test_broken_off_calls(restart, flags, expected):
    assert _end(restart, flags) == expected


def test_only_the_first_of_two_handlers_decides_about_the_call():
    task = make_task()
    catch(task, SIGUSR1)
    catch(task, SIGUSR2, SA_RESTART)
    post(task, SIGUSR1)
    post(task, SIGUSR2)
    deliver(task, Interruption(_CALL, True))
    inner = register(task, "rsp")
    outer = task.process.memory.read_number(inner + 48 + 15 * 8, 8)
    assert task.process.memory.read_number(outer + 48 + 13 * 8, 8) == (1 << 64) - errno.EINTR


# Temporary masks.


def test_a_temporary_mask_ends_with_the_call_or_with_the_handler():
    task = make_task()
    signals = task.process.signals
    _block(task, SIGUSR1)
    signals.begin_mask(task, signal_set(SIGUSR2))
    assert task.signals.blocked == signal_set(SIGUSR2)
    signals.end_mask(task)
    assert task.signals.blocked == signal_set(SIGUSR1)
    signals.end_mask(task)
    assert task.signals.blocked == signal_set(SIGUSR1)

    catch(task, SIGUSR1, SA_NODEFER)
    signals.begin_mask(task, signal_set(SIGUSR2))
    post(task, SIGUSR1)
    deliver(task, Interruption(_CALL, False))
    assert task.signals.blocked == signal_set(SIGUSR2)
    set_register(task, "rsp", register(task, "rsp") + 8)
    calls_signals.sys_rt_sigreturn(task)
    assert task.signals.blocked == signal_set(SIGUSR1)


def test_a_signal_in_the_handler_restores_the_handlers_mask():
    task = make_task()
    for signal in (SIGUSR1, SIGUSR2):
        catch(task, signal)
    _block(task, 40)
    task.process.signals.begin_mask(task, 0)
    post(task, SIGUSR1)
    deliver(task, Interruption(_CALL, False))
    post(task, SIGUSR2)
    deliver(task)
    assert task.process.memory.read_number(register(task, "rsp") + 304, 8) == signal_set(SIGUSR1)


def test_without_a_handler_delivery_ends_the_temporary_mask():
    task = make_task()
    task.process.signals.begin_mask(task, signal_set(SIGUSR2))
    deliver(task, Interruption(_CALL, False))
    assert task.signals.blocked == 0


# Calls.


def _sigaction(task, signal, new=None, size=8):
    """Calls rt_sigaction; returns what it tells of before."""
    address = 0
    if new is not None:
        address = BASE
        for n, word in enumerate(new):
            _word(task, BASE + 8 * n, word)
    calls_signals.sys_rt_sigaction(task, signal, address, BASE + 64, size)
    return tuple(task.process.memory.read_number(BASE + 64 + 8 * n, 8) for n in range(4))


def test_sigaction_tells_what_was_set():
    task = make_task()
    assert _sigaction(task, SIGUSR1, (HANDLER, 0x1_0400_0004, RESTORER, (1 << 64) - 1)) == (0, 0, 0, 0)
    mask = (1 << 64) - 1 - signal_set(SIGKILL, SIGSTOP)
    assert _sigaction(task, SIGUSR1) == (HANDLER, 0x0400_0004, RESTORER, mask)


@pytest.mark.parametrize(
    ("signal", "new", "size"),
    [(0, None, 8), (65, None, 8), (SIGKILL, (0,) * 4, 8), (SIGSTOP, (0,) * 4, 8), (SIGUSR1, None, 4)],
)
def test_sigaction_refuses(signal, new, size):
    with pytest.raises(Errno, match="EINVAL"):
        _sigaction(make_task(), signal, new, size)


def test_sigaction_may_ask_about_kill():
    assert _sigaction(make_task(), SIGKILL) == (0, 0, 0, 0)


def test_sigprocmask():
    task = make_task()
    call = calls_signals.sys_rt_sigprocmask
    for how, mask, before, after in (
        (0, (1, 2), (), (1, 2)), (0, (3, 9), (1, 2), (1, 2, 3)), (1, (2,), (1, 2, 3), (1, 3)),
        (2, (40, 19), (1, 3), (40,)),
    ):  # fmt: skip
        assert call(task, how, _word(task, BASE, signal_set(*mask)), BASE + 8, 8) == 0
        assert task.process.memory.read_number(BASE + 8, 8) == signal_set(*before)
        assert task.signals.blocked == signal_set(*after)
    assert call(task, 77, 0, BASE + 8, 8) == 0
    for arguments in ((3, BASE, 0, 8), (0, BASE, 0, 16)):
        with pytest.raises(Errno, match="EINVAL"):
            call(task, *arguments)
    with pytest.raises(Errno, match="EFAULT"):
        call(task, 0, 8, 0, 8)


def test_sigpending():
    task = make_task()
    _block(task, SIGUSR1, 40)
    post(task, 40)
    post(task, SIGUSR1, to_process=True)
    calls_signals.sys_rt_sigpending(task, BASE, 8)
    assert task.process.memory.read_number(BASE, 8) == signal_set(SIGUSR1, 40)
    with pytest.raises(Errno, match="EINVAL"):
        calls_signals.sys_rt_sigpending(task, BASE, 9)


def test_sigsuspend_waits_under_its_mask_and_the_handlers_return_restores_the_old_one():
    task = make_task()
    catch(task, SIGUSR1)
    _block(task, SIGUSR1)
    call = calls_signals.sys_rt_sigsuspend(task, _word(task, BASE, 0), 8)
    assert isinstance(next(call), Wait)
    assert isinstance(call.send(Reason.WOKEN), Wait)
    post(task, SIGUSR1)
    assert task.process.signals.deliverable(task)
    with pytest.raises(Interrupted) as end:
        call.send(Reason.SIGNAL)
    assert not end.value.restart
    deliver(task, Interruption(_CALL, False))
    frame = register(task, "rsp")
    assert task.process.memory.read_number(frame + 304, 8) == signal_set(SIGUSR1)


def test_pause_ends_with_a_signal_only():
    call = calls_signals.sys_pause(make_task())
    next(call)
    assert call.send(Reason.WOKEN).deadline is None
    with pytest.raises(Interrupted):
        call.send(Reason.SIGNAL)


def _sigtimedwait(task, mask, timeout=None, info=BASE + 256):
    address = 0
    if timeout is not None:
        address = _word(task, BASE + 16, timeout[0]) and BASE + 16
        _word(task, BASE + 24, timeout[1])
    return calls_signals.sys_rt_sigtimedwait(task, _word(task, BASE, mask), info, address, 8)


def _result(call, reason=None):
    with pytest.raises(StopIteration) as end:
        next(call) if reason is None else call.send(reason)
    return end.value.value


def test_sigtimedwait_takes_what_is_pending():
    task = make_task()
    _block(task, SIGUSR1, 40)
    post(task, 40, 9)
    post(task, SIGUSR1, 8, to_process=True)
    assert _result(_sigtimedwait(task, signal_set(40))) == 40
    assert task.process.memory.read_number(BASE + 256, 4) == 40
    assert task.process.memory.read_number(BASE + 256 + 24, 8) == 9
    assert _result(_sigtimedwait(task, signal_set(40, SIGUSR1), info=0)) == SIGUSR1


def test_sigtimedwait_is_woken_by_a_signal_that_is_otherwise_blocked():
    task = make_task()
    _block(task, SIGUSR1)
    call = _sigtimedwait(task, signal_set(SIGUSR1))
    task.begin_wait(next(call))
    post(task, SIGUSR1, 5, to_process=True)
    assert task.reason is Reason.SIGNAL
    assert task.process.signals.deliverable(task)
    assert _result(call, Reason.SIGNAL) == SIGUSR1
    assert task.signals.blocked == signal_set(SIGUSR1)
    assert not task.process.signals.deliverable(task)


def test_sigtimedwait_gets_even_what_does_nothing_by_default():
    task = make_task()
    _block(task, SIGCHLD)
    call = _sigtimedwait(task, signal_set(SIGCHLD))
    task.begin_wait(next(call))
    post(task, SIGCHLD, to_process=True)
    assert _result(call, Reason.SIGNAL) == SIGCHLD


def test_sigtimedwait_ends_with_its_time_or_with_another_signal():
    task = make_task()
    with pytest.raises(Errno, match="EAGAIN"):
        next(_sigtimedwait(task, signal_set(SIGUSR1), (0, 0)))
    call = _sigtimedwait(task, signal_set(SIGUSR1), (1, 5))
    assert next(call).deadline == task.process.clock.now + 1_000_000_005
    with pytest.raises(Errno, match="EAGAIN"):
        call.send(Reason.TIMEOUT)
    catch(task, SIGUSR2)
    call = _sigtimedwait(task, signal_set(SIGUSR1))
    next(call)
    post(task, SIGUSR2)
    with pytest.raises(Interrupted) as end:
        call.send(Reason.SIGNAL)
    assert not end.value.restart
    assert task.signals.real_blocked == 0
    with pytest.raises(Errno, match="EINVAL"):
        next(_sigtimedwait(task, 1, (0, 10**9)))


def test_two_tasks_in_sigwait_get_one_signal_each():
    process = make_process(2)
    main, other = process.tasks.values()
    calls = []
    for task in (main, other):
        _block(task, SIGUSR1, SIGUSR2)
        calls.append(_sigtimedwait(task, signal_set(SIGUSR1, SIGUSR2)))
        task.begin_wait(next(calls[-1]))
    post(main, SIGUSR1, to_process=True)
    post(main, SIGUSR2, to_process=True)
    assert other.state is State.RUNNABLE
    assert {_result(call, Reason.SIGNAL) for call in calls} == {SIGUSR1, SIGUSR2}


@pytest.mark.parametrize("pid", [PID, 0, -PID, PID + 1])
def test_kill_reaches_the_process(pid):
    process = make_process(2)
    main = process.tasks[PID]
    catch(main, SIGUSR1)
    assert calls_kill.sys_kill(process.tasks[PID + 1], pid & (1 << 64) - 1, SIGUSR1) == 0
    info = process.signals.take(main)
    assert info.pack()[:24] == b"".join(n.to_bytes(4, "little") for n in (SIGUSR1, 0, 0, 0, PID, 1000))


@pytest.mark.parametrize("pid", [1, -1, PID + 9, -PID - 1, 4_000_000])
def test_kill_reaches_nobody_else(pid):
    with pytest.raises(Errno, match="ESRCH"):
        calls_kill.sys_kill(make_task(), pid & 0xFFFFFFFF, 0)


def test_kill_with_0_only_asks_and_with_65_fails():
    task = make_task()
    assert calls_kill.sys_kill(task, PID, 0) == 0
    assert not task.process.signals.deliverable(task)
    for signal in (65, 0xFFFF_FFFF):
        with pytest.raises(Errno, match="EINVAL"):
            calls_kill.sys_kill(task, PID, signal)


def test_tgkill_and_tkill_reach_one_task():
    process = make_process(2)
    main, other = process.tasks.values()
    catch(main, SIGUSR1)
    calls_kill.sys_tgkill(main, PID, PID + 1, SIGUSR1)
    assert not process.signals.deliverable(main)
    assert process.signals.take(other).code == SI_TKILL
    calls_kill.sys_tkill(main, PID + 1, SIGUSR1)
    assert process.signals.deliverable(other)
    for arguments, error in (
        ((PID, PID + 2, 1), "ESRCH"), ((PID + 1, PID + 1, 1), "ESRCH"), ((0, PID, 1), "EINVAL"),
        ((PID, 0, 1), "EINVAL"), ((PID, PID, 65), "EINVAL"),
    ):  # fmt: skip
        with pytest.raises(Errno, match=error):
            calls_kill.sys_tgkill(main, *arguments)


def test_sigqueue_hands_the_value_on():
    process = make_process(2)
    main, other = process.tasks.values()
    catch(main, 40)
    raw = SigInfo(12, SI_QUEUE, (77).to_bytes(8, "little") + (0x1234).to_bytes(8, "little")).pack()
    process.memory.write(BASE, raw)
    calls_kill.sys_rt_sigqueueinfo(main, PID, 40, BASE)
    info = process.signals.take(main)
    assert info.pack() == bytes([40]) + raw[1:]
    calls_kill.sys_rt_tgsigqueueinfo(main, PID, PID + 1, 40, BASE)
    assert process.signals.take(other).code == SI_QUEUE
    with pytest.raises(Errno, match="ESRCH"):
        calls_kill.sys_rt_sigqueueinfo(main, 1, 40, BASE)


def test_status_lines():
    task = make_task()
    catch(task, SIGUSR1)
    task.process.signals.set_action(SIGUSR2, Action(SIG_IGN))
    _block(task, SIGUSR1, 40)
    post(task, SIGUSR1)
    post(task, 40, to_process=True)
    assert task.process.signals.status(task) == (
        f"SigQ:\t2/{MOST_PENDING}\nSigPnd:\t0000000000000200\nShdPnd:\t0000008000000000\n"
        "SigBlk:\t0000008000000200\nSigIgn:\t0000000000000800\nSigCgt:\t0000000000000200\n"
    )


def test_a_new_thread_inherits_the_mask_alone():
    main, other = make_process(2).tasks.values()
    _block(main, SIGUSR1)
    post(main, SIGUSR1)
    other.signals.inherit(main.signals)
    assert other.signals.blocked == signal_set(SIGUSR1)
    assert other.signals.pending.mask == 0
