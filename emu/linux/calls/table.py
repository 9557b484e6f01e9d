"""All system calls that are served, by name; which number a name has is the instruction set's to say."""

from __future__ import annotations

from emu.linux.calls import (
    descriptors,
    epoll,
    file_times,
    files,
    futex,
    kill,
    memory,
    messages,
    paths,
    pipes,
    poll,
    prctl,
    priority,
    signals,
    sockets,
    splice,
    stat,
    system,
    threads,
    time,
    timerfd,
    timers,
    transfer,
)
from emu.linux.ground.call import Call

_TABLES = tuple(
    module.CALLS
    for module in (
        descriptors,
        epoll,
        file_times,
        files,
        futex,
        kill,
        memory,
        messages,
        paths,
        pipes,
        poll,
        prctl,
        priority,
        signals,
        sockets,
        splice,
        stat,
        system,
        threads,
        time,
        timerfd,
        timers,
        transfer,
    )
)
#: A name is in one of the tables only.
CALLS: dict[str, Call] = {name: call for calls in _TABLES for name, call in calls.items()}
assert len(CALLS) == sum(map(len, _TABLES))
