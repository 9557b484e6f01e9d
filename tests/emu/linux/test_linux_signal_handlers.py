"""Signals: handlers, how broken-off calls go on, and masks for the time of a call."""

from __future__ import annotations

import errno

import pytest
from signal_factory import (
    CODE,
    HANDLER,
    block,
    catch,
    make_task,
    post,
    register,
    set_register,
)

from emu.linux.calls import signals as calls_signals
from emu.linux.faults import exception
from emu.linux.signals.delivery import Death, Interruption, deliver
from emu.linux.signals.numbers import (
    SA_NODEFER,
    SA_RESETHAND,
    SA_RESTART,
    SIG_DFL,
    SIGKILL,
    SIGSEGV,
    SIGURG,
    SIGUSR1,
    SIGUSR2,
    signal_set,
)

_CALL = 0x1C8


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
    block(task)
    post(task, SIGUSR1)
    assert deliver(task) == Death(SIGUSR1, False)


def test_resethand_leaves_what_is_pending():
    """Sent to the task and to the process; when it was handled it is ignored by default, but blocked."""
    task = make_task()
    catch(task, SIGURG, SA_RESETHAND)
    post(task, SIGURG)
    task.process.signals.post(None, SIGURG)
    assert deliver(task) is None
    assert task.process.signals.action(SIGURG).handler == SIG_DFL
    assert task.process.signals.pending(task) == signal_set(SIGURG)


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
    block(task, SIGUSR1)
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
    block(task, 40)
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


def test_only_a_bad_access_has_an_address():
    for number in (13, 17, 6, 0):
        task = make_task()
        exception(task, number)
        expected = register(task, "rip") if number == 17 else None
        found = deliver(task)
        assert found is not None
        assert found.address == expected
    task = make_task()
    post(task, SIGSEGV)
    assert deliver(task) == Death(SIGSEGV, True)
    assert str(Death(SIGSEGV, True, 0x1234)) == "killed by SIGSEGV at address 0x1234"
