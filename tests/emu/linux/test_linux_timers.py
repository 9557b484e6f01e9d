"""Timers that send signals: alarm, setitimer, timer_create."""

from __future__ import annotations

import pytest
from signal_factory import BASE, PID, catch, make_process, make_task

from emu.linux.calls import timers as calls_timers
from emu.linux.ground.failure import Errno
from emu.linux.signals.numbers import SIG_IGN, SIGALRM, SIGPROF, SIGUSR1, SIGVTALRM, signal_set
from emu.linux.signals.of_process import Action

_SECOND = 1_000_000_000
_REAL, _VIRTUAL, _PROF = range(3)
_OLD = BASE + 512


def _pass(task, ns):
    """Time passes; returns the signals that came, with (timer, overrun, value)."""
    process = task.process
    process.clock.now += ns
    process.alarms.expire(process.clock.now)
    return _taken(task)


def _taken(task):
    found = []
    while (info := task.process.signals.take(task)) is not None:
        raw = info.pack()
        words = [int.from_bytes(raw[start : start + 4], "little") for start in (16, 20, 24)]
        found.append((info.signal, *words))
    return found


def _numbers(task, address, n):
    return tuple(task.process.memory.read_number(address + 8 * k, 8) for k in range(n))


def _four(task, *words):
    for n, word in enumerate(words):
        task.process.memory.write_number(BASE + 8 * n, 8, word)
    return BASE


def _setitimer(task, which, interval, value):
    """(seconds, microseconds) each; returns what it tells of before."""
    calls_timers.sys_setitimer(task, which, _four(task, *interval, *value), _OLD)
    return _numbers(task, _OLD, 4)


def test_alarm_rings_once_and_tells_the_seconds_left():
    task = make_task()
    catch(task, SIGALRM)
    start = task.process.clock.now
    assert calls_timers.sys_alarm(task, 3) == 0
    assert task.process.alarms.next_deadline() == start + 3 * _SECOND
    assert _pass(task, _SECOND) == []
    assert calls_timers.sys_alarm(task, 10) == 2
    assert _pass(task, 9 * _SECOND + 999_999_999) == []
    assert calls_timers.sys_alarm(task, 1) == 1
    assert _pass(task, 1_600_000_000) == [(SIGALRM, 0, 0, 0)]
    assert task.process.alarms.next_deadline() is None
    assert _pass(task, 100 * _SECOND) == []
    calls_timers.sys_alarm(task, 2)
    assert _pass(task, 600_000_000) == []
    assert calls_timers.sys_alarm(task, 0) == 1
    assert _pass(task, 100 * _SECOND) == []


def test_alarm_and_the_real_interval_timer_are_one():
    task = make_task()
    calls_timers.sys_alarm(task, 3)
    assert _setitimer(task, _REAL, (0, 0), (1, 500_000)) == (0, 0, 3, 0)
    assert calls_timers.sys_alarm(task, 0) == 2


def test_an_interval_timer_goes_on():
    task = make_task()
    catch(task, SIGALRM)
    _setitimer(task, _REAL, (0, 250_000), (1, 0))
    assert len(_pass(task, _SECOND)) == 1
    assert len(_pass(task, 249_999_999)) == 0
    assert len(_pass(task, 1)) == 1
    # Four have passed, one is pending.
    assert len(_pass(task, _SECOND + 100_000_000)) == 1
    calls_timers.sys_getitimer(task, _REAL, BASE)
    assert _numbers(task, BASE, 4) == (0, 250_000, 0, 150_000)
    assert _setitimer(task, _REAL, (0, 0), (0, 0)) == (0, 250_000, 0, 150_000)
    assert _pass(task, 9 * _SECOND) == []
    calls_timers.sys_getitimer(task, _REAL, BASE)
    assert _numbers(task, BASE, 4) == (0, 0, 0, 0)


@pytest.mark.parametrize(("which", "signal"), [(_VIRTUAL, SIGVTALRM), (_PROF, SIGPROF)])
def test_the_others_go_by_the_time_that_the_process_runs(which, signal):
    task = make_task()
    catch(task, signal)
    _setitimer(task, which, (0, 10), (0, 20))
    assert task.process.alarms.next_deadline() is None
    assert _pass(task, 99 * _SECOND) == []
    task.cycles = 1999
    assert _pass(task, 0) == []
    task.cycles = 2000
    assert [found[0] for found in _pass(task, 0)] == [signal]
    task.cycles = 3100
    assert [found[0] for found in _pass(task, 0)] == [signal]
    _setitimer(task, which, (0, 0), (0, 0))
    task.cycles = 99_000
    assert _pass(task, 0) == []


@pytest.mark.parametrize("value", [(0, 1_000_000), ((1 << 64) - 1, 0), (0, (1 << 64) - 1)])
def test_setitimer_refuses(value):
    with pytest.raises(Errno, match="EINVAL"):
        _setitimer(make_task(), _REAL, (0, 0), value)
    with pytest.raises(Errno, match="EINVAL"):
        _setitimer(make_task(), 3, (0, 0), (0, 0))


def _create(task, clock=1, notify=0, signal=SIGUSR1, value=0xABC, thread=0):
    memory = task.process.memory
    memory.write(BASE, bytes(64))
    memory.write_number(BASE, 8, value)
    for offset, word in ((8, signal), (12, notify), (16, thread)):
        memory.write_number(BASE + offset, 4, word)
    calls_timers.sys_timer_create(task, clock, BASE, BASE + 128)
    return memory.read_number(BASE + 128, 4)


def _set(task, timer, interval, value, flags=0):
    """Nanoseconds; returns what it tells of before."""
    calls_timers.sys_timer_settime(
        task, timer, flags, _four(task, *divmod(interval, _SECOND), *divmod(value, _SECOND)), _OLD
    )
    first, second, third, fourth = _numbers(task, _OLD, 4)
    return first * _SECOND + second, third * _SECOND + fourth


def _left(task, timer):
    calls_timers.sys_timer_gettime(task, timer, _OLD)
    first, second, third, fourth = _numbers(task, _OLD, 4)
    return first * _SECOND + second, third * _SECOND + fourth


def test_a_timer_sends_its_value_and_counts_overruns():
    task = make_task()
    catch(task, SIGUSR1)
    assert _create(task) == 0
    timer = _create(task, value=0xDEF)
    assert _set(task, timer, 100, 1000) == (0, 0)
    assert _left(task, timer) == (100, 1000)
    assert _pass(task, 1000) == [(SIGUSR1, timer, 0, 0xDEF)]
    # Seen late: the time came at 100, 200, 300.
    assert _pass(task, 350) == [(SIGUSR1, timer, 2, 0xDEF)]
    assert calls_timers.sys_timer_getoverrun(task, timer) == 2
    assert _left(task, timer) == (100, 50)
    # Blocked while it comes again: one signal, overruns counted until it is taken.
    task.process.signals.set_blocked(task, signal_set(SIGUSR1))
    assert _pass(task, 50) == _pass(task, 100) == _pass(task, 200) == []
    task.process.signals.set_blocked(task, 0)
    assert _taken(task) == [(SIGUSR1, timer, 3, 0xDEF)]
    assert _set(task, timer, 0, 0) == (100, 100)
    assert _left(task, timer) == (0, 0)
    assert _pass(task, _SECOND) == []
    assert calls_timers.sys_timer_getoverrun(task, timer) == 0


def test_each_of_two_timers_has_its_signal():
    task = make_task()
    catch(task, SIGUSR1)
    for timer in (_create(task), _create(task)):
        _set(task, timer, 0, 10)
    assert [found[1] for found in _pass(task, 10)] == [0, 1]


def test_absolute_times_by_the_clock_that_was_named():
    for clock, base in ((1, 0), (7, 0), (0, 1000 * _SECOND)):
        task = make_task()
        catch(task, SIGUSR1)
        timer = _create(task, clock)
        now = task.process.clock.now
        _set(task, timer, 0, now + base + 500, flags=1)
        assert task.process.alarms.next_deadline() == now + 500
        _set(task, timer, 0, 1, flags=1)
        assert len(_pass(task, 0)) == 1


def test_timers_of_running_time():
    for clock in (2, 3, ~PID << 3 | 2, ~(PID + 1) << 3 | 6):
        process = make_process(2)
        main, other = process.tasks.values()
        catch(main, SIGUSR1)
        timer = _create(main, clock & 0xFFFFFFFF)
        _set(main, timer, 0, 1000)
        (other if clock == ~(PID + 1) << 3 | 6 else main).cycles = 99
        assert _pass(main, _SECOND) == []
        (other if clock == ~(PID + 1) << 3 | 6 else main).cycles = 100
        assert len(_pass(main, 0)) == 1


def test_a_timer_for_one_thread():
    process = make_process(2)
    main, other = process.tasks.values()
    catch(main, SIGUSR1)
    timer = _create(main, notify=4, thread=PID + 1)
    _set(main, timer, 0, 10)
    assert _pass(main, 10) == []
    assert _taken(other) == [(SIGUSR1, timer, 0, 0xABC)]
    del process.tasks[PID + 1]
    _set(main, timer, 0, 10)
    assert _pass(main, 10) == []


def test_a_timer_that_only_tells_the_time():
    task = make_task()
    timer = _create(task, notify=1, signal=0)
    _set(task, timer, 100, 250)
    assert task.process.alarms.next_deadline() is None
    assert _pass(task, 200) == []
    assert _left(task, timer) == (100, 50)
    _pass(task, 120)
    assert _left(task, timer) == (100, 30)


def test_without_an_event_it_is_sigalrm_with_the_timers_number():
    task = make_task()
    catch(task, SIGALRM)
    _create(task)
    calls_timers.sys_timer_create(task, 1, 0, BASE + 128)
    _set(task, 1, 0, 5)
    assert _pass(task, 5) == [(SIGALRM, 1, 0, 1)]


def test_an_ignored_timer_goes_on():
    task = make_task()
    task.process.signals.set_action(SIGUSR1, Action(SIG_IGN))
    timer = _create(task)
    _set(task, timer, 100, 100)
    assert _pass(task, 150) == []
    catch(task, SIGUSR1)
    assert _pass(task, 50) == [(SIGUSR1, timer, 0, 0xABC)]
    task.process.signals.set_blocked(task, signal_set(SIGUSR1))
    _pass(task, 100)
    task.process.signals.set_action(SIGUSR1, Action(SIG_IGN))
    task.process.signals.set_blocked(task, 0)
    catch(task, SIGUSR1)
    assert _pass(task, 100) == [(SIGUSR1, timer, 0, 0xABC)]


def test_a_deleted_timer_is_gone():
    task = make_task()
    catch(task, SIGUSR1)
    timer = _create(task)
    _set(task, timer, 10, 10)
    assert calls_timers.sys_timer_delete(task, timer) == 0
    assert _pass(task, 100) == []
    for call in (calls_timers.sys_timer_delete, calls_timers.sys_timer_getoverrun):
        with pytest.raises(Errno, match="EINVAL"):
            call(task, timer)
    assert _create(task) == timer + 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"clock": 10}, "EINVAL"), ({"clock": 12}, "EINVAL"), ({"clock": 4}, "ENOTSUP"),
        ({"clock": 9}, "EPERM"), ({"signal": 0}, "EINVAL"), ({"signal": 65}, "EINVAL"),
        ({"notify": 3}, "EINVAL"), ({"notify": 4, "thread": 7}, "EINVAL"), ({"notify": 5}, "EINVAL"),
        ({"clock": (~77 << 3 | 6) & 0xFFFFFFFF}, "EINVAL"),
    ],
)  # fmt: skip
def test_timer_create_refuses(arguments, error):
    with pytest.raises(Errno, match=error):
        _create(make_task(), **arguments)


def test_timer_settime_refuses():
    task = make_task()
    timer = _create(task)
    for new in (0, _four(task, 0, 0, 0, _SECOND)):
        with pytest.raises(Errno, match="EINVAL"):
            calls_timers.sys_timer_settime(task, timer, 0, new, 0)
    with pytest.raises(Errno, match="EINVAL"):
        calls_timers.sys_timer_settime(task, timer + 1, 0, _four(task, 0, 0, 0, 1), 0)


def test_timers_go_off_in_the_order_of_their_times():
    task = make_task()
    for signal in (40, 41, 42):
        catch(task, signal)
    for signal, value in ((40, 30), (41, 10), (42, 20)):
        _set(task, _create(task, signal=signal), 0, value)
    start, alarms = task.process.clock.now, task.process.alarms
    seen = []
    while (deadline := alarms.next_deadline()) is not None:
        seen.append((deadline - start, _pass(task, deadline - task.process.clock.now)[0][0]))
    assert seen == [(10, 41), (20, 42), (30, 40)]
