"""All system calls that are served, by name; which number a name has is the instruction set's to say."""

from __future__ import annotations

from emu.linux import (
    calls_descriptors,
    calls_epoll,
    calls_file_times,
    calls_files,
    calls_futex,
    calls_kill,
    calls_memory,
    calls_messages,
    calls_paths,
    calls_pipes,
    calls_poll,
    calls_prctl,
    calls_priority,
    calls_signals,
    calls_sockets,
    calls_splice,
    calls_stat,
    calls_system,
    calls_threads,
    calls_time,
    calls_timerfd,
    calls_timers,
    calls_transfer,
)
from emu.linux.call import Call

_TABLES = tuple(
    module.CALLS
    for module in (
        calls_descriptors,
        calls_epoll,
        calls_file_times,
        calls_files,
        calls_futex,
        calls_kill,
        calls_memory,
        calls_messages,
        calls_paths,
        calls_pipes,
        calls_poll,
        calls_prctl,
        calls_priority,
        calls_signals,
        calls_sockets,
        calls_splice,
        calls_stat,
        calls_system,
        calls_threads,
        calls_time,
        calls_timerfd,
        calls_timers,
        calls_transfer,
    )
)
#: A name is in one of the tables only.
CALLS: dict[str, Call] = {name: call for calls in _TABLES for name, call in calls.items()}
assert len(CALLS) == sum(map(len, _TABLES))
