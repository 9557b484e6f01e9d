"""System calls about signals."""

from __future__ import annotations

import pytest
from signal_factory import (
    BASE,
    HANDLER,
    PID,
    RESTORER,
    block,
    catch,
    make_process,
    make_task,
    post,
    put_word,
    register,
)

from emu.linux.calls import kill as calls_kill
from emu.linux.calls import signals as calls_signals
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.limits import RESOURCES, RLIMIT_SIGPENDING
from emu.linux.ground.wait import Reason, Wait
from emu.linux.signals.delivery import Interruption, deliver
from emu.linux.signals.info import SigInfo
from emu.linux.signals.numbers import (
    SI_QUEUE,
    SI_TKILL,
    SIG_IGN,
    SIGCHLD,
    SIGKILL,
    SIGSTOP,
    SIGUSR1,
    SIGUSR2,
    signal_set,
)
from emu.linux.signals.of_process import Action
from emu.linux.tasks.task import State

_CALL = 0x1C8


def _sigaction(task, signal, new=None, size=8):
    """Calls rt_sigaction; returns what it tells of before."""
    address = 0
    if new is not None:
        address = BASE
        for n, word in enumerate(new):
            put_word(task, BASE + 8 * n, word)
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
        assert call(task, how, put_word(task, BASE, signal_set(*mask)), BASE + 8, 8) == 0
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
    block(task, SIGUSR1, 40)
    post(task, 40)
    post(task, SIGUSR1, to_process=True)
    calls_signals.sys_rt_sigpending(task, BASE, 8)
    assert task.process.memory.read_number(BASE, 8) == signal_set(SIGUSR1, 40)
    with pytest.raises(Errno, match="EINVAL"):
        calls_signals.sys_rt_sigpending(task, BASE, 9)


def test_sigsuspend_waits_under_its_mask_and_the_handlers_return_restores_the_old_one():
    task = make_task()
    catch(task, SIGUSR1)
    block(task, SIGUSR1)
    call = calls_signals.sys_rt_sigsuspend(task, put_word(task, BASE, 0), 8)
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
        address = put_word(task, BASE + 16, timeout[0]) and BASE + 16
        put_word(task, BASE + 24, timeout[1])
    return calls_signals.sys_rt_sigtimedwait(task, put_word(task, BASE, mask), info, address, 8)


def _result(call, reason=None):
    with pytest.raises(StopIteration) as end:
        next(call) if reason is None else call.send(reason)
    return end.value.value


def test_sigtimedwait_takes_what_is_pending():
    task = make_task()
    block(task, SIGUSR1, 40)
    post(task, 40, 9)
    post(task, SIGUSR1, 8, to_process=True)
    assert _result(_sigtimedwait(task, signal_set(40))) == 40
    assert task.process.memory.read_number(BASE + 256, 4) == 40
    assert task.process.memory.read_number(BASE + 256 + 24, 8) == 9
    assert _result(_sigtimedwait(task, signal_set(40, SIGUSR1), info=0)) == SIGUSR1


def test_sigtimedwait_is_woken_by_a_signal_that_is_otherwise_blocked():
    task = make_task()
    block(task, SIGUSR1)
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
    block(task, SIGCHLD)
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
        block(task, SIGUSR1, SIGUSR2)
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
    block(task, SIGUSR1, 40)
    post(task, SIGUSR1)
    post(task, 40, to_process=True)
    assert task.process.signals.status(task) == (
        f"SigQ:\t2/{RESOURCES[RLIMIT_SIGPENDING].soft}\nSigPnd:\t0000000000000200\nShdPnd:\t0000008000000000\n"
        "SigBlk:\t0000008000000200\nSigIgn:\t0000000000000800\nSigCgt:\t0000000000000200\n"
    )


def test_a_new_thread_inherits_the_mask_alone():
    main, other = make_process(2).tasks.values()
    block(main, SIGUSR1)
    post(main, SIGUSR1)
    other.signals.inherit(main.signals)
    assert other.signals.blocked == signal_set(SIGUSR1)
    assert other.signals.pending.mask == 0
