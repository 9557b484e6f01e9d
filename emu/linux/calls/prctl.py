"""prctl(2): names, and settings that a program may read back. None of them changes what happens here."""

from __future__ import annotations

import errno

from emu.linux.ground.call import Subject, in_part, table
from emu.linux.ground.failure import Errno
from emu.linux.ground.words import as_int
from emu.linux.signals.numbers import LAST_SIGNAL
from emu.linux.tasks.task import Task

_SET_PDEATHSIG, _GET_PDEATHSIG, _GET_DUMPABLE, _SET_DUMPABLE, _GET_KEEPCAPS, _SET_KEEPCAPS = 1, 2, 3, 4, 7, 8
_GET_TIMING, _SET_TIMING, _SET_NAME, _GET_NAME, _GET_SECCOMP, _CAPBSET_READ = 13, 14, 15, 16, 21, 23
_GET_TSC, _SET_TSC, _GET_SECUREBITS, _SET_TIMERSLACK, _GET_TIMERSLACK = 25, 26, 27, 29, 30
_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVS, _GET_NO_NEW_PRIVS = 36, 37, 38, 39
_GET_TID_ADDRESS, _SET_THP_DISABLE, _GET_THP_DISABLE = 40, 41, 42
_SET_PTRACER, _SET_VMA = 0x59616D61, 0x53564D41
_TSC_ENABLE = 1
_TIMER_SLACK = 50_000
_MOST_CAPABILITY, _MOST_NAME = 40, 15

#: Settings of one task, which a new one takes over, and those of the process; 0 at first unless told here.
_OF_TASK = (_SET_KEEPCAPS, _SET_NO_NEW_PRIVS, _SET_TIMERSLACK)
_OF_PROCESS = (_SET_DUMPABLE, _SET_CHILD_SUBREAPER, _SET_THP_DISABLE)
_AT_FIRST = {_SET_DUMPABLE: 1, _SET_TIMERSLACK: _TIMER_SLACK}
#: Which setting a call tells, as its result or at an address.
_RESULTS = {
    _GET_DUMPABLE: _SET_DUMPABLE, _GET_KEEPCAPS: _SET_KEEPCAPS, _GET_TIMERSLACK: _SET_TIMERSLACK,
    _GET_NO_NEW_PRIVS: _SET_NO_NEW_PRIVS, _GET_THP_DISABLE: _SET_THP_DISABLE,
}  # fmt: skip
_WRITTEN = {_GET_PDEATHSIG: _SET_PDEATHSIG, _GET_CHILD_SUBREAPER: _SET_CHILD_SUBREAPER}
_FIXED = {_GET_TIMING: 0, _GET_SECCOMP: 0, _GET_SECUREBITS: 0, _SET_PTRACER: 0, _SET_VMA: 0}


def _settings(task: Task, which: int) -> dict[int, int]:
    return task.process.settings if which in _OF_PROCESS else task.settings


def _set(task: Task, which: int, value: int) -> int:
    """Raises Errno(EINVAL): not a value that it may have."""
    allowed = {
        _SET_PDEATHSIG: value <= LAST_SIGNAL, _SET_DUMPABLE: value <= 1, _SET_KEEPCAPS: value <= 1,
        _SET_NO_NEW_PRIVS: value == 1,
    }  # fmt: skip
    if not allowed.get(which, True):
        raise Errno(errno.EINVAL)
    if which in (_SET_CHILD_SUBREAPER, _SET_THP_DISABLE):
        value = int(value != 0)
    if which == _SET_TIMERSLACK and as_int(value) <= 0:
        value = _TIMER_SLACK
    _settings(task, which)[which] = value
    return 0


def _name(task: Task, address: int) -> bytes:
    """At most 15 bytes; what is longer is cut off."""
    memory = task.process.memory
    try:
        return memory.read_string(address, _MOST_NAME)
    except Errno as failure:
        if failure.number != errno.ENAMETOOLONG:
            raise
        return memory.read(address, _MOST_NAME)


def sys_prctl(task: Task, option: int, argument: int, second: int, third: int, fourth: int) -> int:
    """prctl(2)."""
    option, memory = as_int(option), task.process.memory
    if option == _SET_NAME:
        task.name = _name(task, argument).decode("utf-8", "surrogateescape")
        return 0
    if option == _GET_NAME:
        memory.write(argument, task.name.encode("utf-8", "surrogateescape")[:15].ljust(16, b"\0"))
        return 0
    if option in (_GET_NO_NEW_PRIVS, _GET_THP_DISABLE) and argument:
        raise Errno(errno.EINVAL)
    if option in (_SET_NO_NEW_PRIVS, _GET_NO_NEW_PRIVS, _SET_THP_DISABLE) and (second or third or fourth):
        raise Errno(errno.EINVAL)
    if option in (*_OF_TASK, *_OF_PROCESS, _SET_PDEATHSIG):
        return _set(task, option, argument)
    if option in _RESULTS:
        which = _RESULTS[option]
        return _settings(task, which).get(which, _AT_FIRST.get(which, 0))
    if option in _WRITTEN:
        which = _WRITTEN[option]
        memory.write_number(argument, 4, _settings(task, which).get(which, 0))
        return 0
    return _other(task, option, argument)


def _other(task: Task, option: int, argument: int) -> int:
    memory = task.process.memory
    if option == _GET_TSC:
        memory.write_number(argument, 4, _TSC_ENABLE)
        return 0
    if option == _GET_TID_ADDRESS:
        memory.write_number(argument, 8, task.clear_child_tid)
        return 0
    if option == _CAPBSET_READ and argument <= _MOST_CAPABILITY:
        return 0
    if (option == _SET_TSC and argument == _TSC_ENABLE) or (option == _SET_TIMING and not argument):
        return 0
    if option in _FIXED:
        return _FIXED[option]
    raise Errno(errno.EINVAL)


CALLS = table(Subject.ITSELF, {
    "prctl": in_part(sys_prctl, "settings are kept and told, and change nothing"),
})  # fmt: skip
