"""All tables of system calls."""

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
    calls_timers,
    calls_transfer,
)

TABLES = tuple(
    module.CALLS
    for module in (
        calls_descriptors,
        calls_file_times,
        calls_paths,
        calls_transfer,
        calls_messages,
        calls_epoll,
        calls_files,
        calls_futex,
        calls_kill,
        calls_memory,
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
        calls_timers,
    )
)
