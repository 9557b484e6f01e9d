"""Calls that tell of the system and the process. Sources: uname(2), getrlimit(2), getrandom(2), prctl(2)."""

from __future__ import annotations

import errno

from emu.linux.failure import Errno
from emu.linux.task import Task
from emu.linux.words import as_int
from isa.memory import PAGE_BYTES

#: What uname tells besides the machine (utsname(2)).
RELEASE, VERSION, HOST = "6.1.0-corebraid", "#1 SMP corebraid", "guest"
_UNAME_FIELD = 65
_UNLIMITED = (1 << 64) - 1
_N_LIMITS, _LIMIT_STACK, _LIMIT_FILES, _LIMIT_MEMLOCK, _LIMIT_TASKS, _LIMIT_CORE = 16, 3, 7, 8, 6, 4
_MOST_RANDOM = 1 << 25
_CAPABILITY_VERSIONS = (0x19980330, 0x20071026, 0x20080522)


def limits_of(stack: int = 8 << 20) -> list[list[int]]:
    """The first limits of a process: [soft, hard] by RLIMIT_* number."""
    limits = [[_UNLIMITED, _UNLIMITED] for _ in range(_N_LIMITS)]
    limits[_LIMIT_STACK] = [stack, _UNLIMITED]
    limits[_LIMIT_FILES] = [1024, 4096]
    limits[_LIMIT_MEMLOCK] = [8 << 20, 8 << 20]
    limits[_LIMIT_TASKS] = [4096, 4096]
    limits[_LIMIT_CORE] = [0, _UNLIMITED]
    return limits


def sys_uname(task: Task, address: int) -> int:
    """uname(2)."""
    fields = ("Linux", HOST, RELEASE, VERSION, task.process.abi.machine, "(none)")
    task.process.memory.write(address, b"".join(f.encode().ljust(_UNAME_FIELD, b"\0") for f in fields))
    return 0


def sys_sysinfo(task: Task, address: int) -> int:
    """sysinfo(2)."""
    process = task.process
    total, used = process.space.limit, process.space.present_pages * PAGE_BYTES
    words = [process.clock.monotonic() // 1_000_000_000, 0, 0, 0, total, max(0, total - used), 0, 0, 0, 0]
    raw = b"".join(word.to_bytes(8, "little") for word in words)
    raw += len(process.tasks).to_bytes(2, "little") + bytes(6 + 16) + (1).to_bytes(4, "little")
    process.memory.write(address, raw.ljust(112, b"\0"))
    return 0


def _limit(task: Task, resource: int) -> list[int]:
    return task.process.limits[_resource(resource)]


def _resource(number: int) -> int:
    if not 0 <= as_int(number) < _N_LIMITS:
        raise Errno(errno.EINVAL)
    return as_int(number)


def _write_limit(task: Task, address: int, limit: list[int]) -> None:
    task.process.memory.write(address, b"".join(number.to_bytes(8, "little") for number in limit))


def _change_limit(task: Task, resource: int, address: int) -> None:
    raw = task.process.memory.read(address, 16)
    soft, hard = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")
    if soft > hard:
        raise Errno(errno.EINVAL)
    if hard > _limit(task, resource)[1]:
        raise Errno(errno.EPERM)
    task.process.limits[_resource(resource)] = [soft, hard]
    if _resource(resource) == _LIMIT_FILES:
        task.process.descriptors.limit = soft


def sys_prlimit64(task: Task, pid: int, resource: int, new: int, old: int) -> int:
    """prlimit(2), of this process."""
    if as_int(pid) not in (0, task.process.pid):
        raise Errno(errno.ESRCH)
    before = list(_limit(task, resource))
    if new:
        _change_limit(task, resource, new)
    if old:
        _write_limit(task, old, before)
    return 0


def sys_getrlimit(task: Task, resource: int, address: int) -> int:
    """getrlimit(2)."""
    _write_limit(task, address, _limit(task, resource))
    return 0


def sys_setrlimit(task: Task, resource: int, address: int) -> int:
    """setrlimit(2)."""
    _limit(task, resource)
    _change_limit(task, resource, address)
    return 0


def sys_getrandom(task: Task, address: int, size: int, flags: int) -> int:
    """getrandom(2): from the seed."""
    flags = as_int(flags)
    if flags & ~7 or flags & 6 == 6:
        raise Errno(errno.EINVAL)
    size = min(size, _MOST_RANDOM)
    task.process.memory.write(address, task.process.random.randbytes(size))
    return size


def _id(group: bool) -> object:
    def sys_id(task: Task) -> int:
        """getuid(2) and its kin."""
        return task.process.ids[group]

    return sys_id


def _three_ids(group: bool) -> object:
    def sys_ids(task: Task, real: int, effective: int, saved: int) -> int:
        """getresuid(2) and getresgid(2)."""
        for address in (real, effective, saved):
            task.process.memory.write_number(address, 4, task.process.ids[group])
        return 0

    return sys_ids


def _set_ids(group: bool, n: int) -> object:
    def sys_set_ids(task: Task, *numbers: int) -> int:
        """setuid(2) and its kin: only to what it is."""
        if any(as_int(number) not in (-1, task.process.ids[group]) for number in numbers[:n]):
            raise Errno(errno.EPERM)
        return 0

    return sys_set_ids


def sys_getgroups(task: Task, size: int, address: int) -> int:
    """getgroups(2): the one group."""
    size = as_int(size)
    if size < 0:
        raise Errno(errno.EINVAL)
    if not size:
        return 1
    task.process.memory.write_number(address, 4, task.process.ids[1])
    return 1


def sys_setgroups(task: Task) -> int:
    """setgroups(2): refused."""
    raise Errno(errno.EPERM)


def sys_getpgrp(task: Task) -> int:
    """getpgrp(2): the process leads its own group."""
    return task.process.pid


def sys_getpgid(task: Task, pid: int) -> int:
    """getpgid(2), getsid(2)."""
    if as_int(pid) and as_int(pid) not in task.process.tasks:
        raise Errno(errno.ESRCH)
    return task.process.pid


def sys_personality(task: Task, persona: int) -> int:
    """personality(2): PER_LINUX; what is asked for changes nothing."""
    return 0


def sys_setpgid(task: Task) -> int:
    """setpgid(2) of a session's leader."""
    raise Errno(errno.EPERM)


def sys_capget(task: Task, header: int, data: int) -> int:
    """capget(2): none."""
    memory = task.process.memory
    version, pid = memory.read_number(header, 4), as_int(memory.read_number(header + 4, 4))
    if version not in _CAPABILITY_VERSIONS:
        memory.write_number(header, 4, max(_CAPABILITY_VERSIONS))
        if data:
            raise Errno(errno.EINVAL)
        return 0
    if pid < 0:
        raise Errno(errno.EINVAL)
    if pid and pid not in task.process.tasks:
        raise Errno(errno.ESRCH)
    if data:
        memory.write(data, bytes(12 if version == min(_CAPABILITY_VERSIONS) else 24))
    return 0


def sys_forbidden(task: Task) -> int:
    """What only a privileged process may do."""
    raise Errno(errno.EPERM)


def sys_syslog(task: Task) -> int:
    """syslog(2): refused."""
    raise Errno(errno.EPERM)


CALLS = {
    "uname": sys_uname, "sysinfo": sys_sysinfo, "prlimit64": sys_prlimit64, "getrlimit": sys_getrlimit,
    "setrlimit": sys_setrlimit, "getrandom": sys_getrandom, "getuid": _id(False), "geteuid": _id(False),
    "getgid": _id(True), "getegid": _id(True), "getresuid": _three_ids(False),
    "getresgid": _three_ids(True), "setuid": _set_ids(False, 1), "setgid": _set_ids(True, 1),
    "setreuid": _set_ids(False, 2), "setregid": _set_ids(True, 2), "setresuid": _set_ids(False, 3),
    "setresgid": _set_ids(True, 3), "setfsuid": _id(False), "setfsgid": _id(True),
    "getgroups": sys_getgroups, "setgroups": sys_setgroups, "getpgrp": sys_getpgrp, "getpgid": sys_getpgid,
    "getsid": sys_getpgid, "setpgid": sys_setpgid, "setsid": sys_setpgid,
    "capget": sys_capget, "capset": sys_forbidden, "syslog": sys_syslog,
    "ptrace": sys_forbidden, "process_vm_readv": sys_forbidden, "process_vm_writev": sys_forbidden,
    "perf_event_open": sys_forbidden, "bpf": sys_forbidden, "unshare": sys_forbidden, "setns": sys_forbidden,
    "reboot": sys_forbidden, "sethostname": sys_forbidden, "setdomainname": sys_forbidden,
    "init_module": sys_forbidden, "finit_module": sys_forbidden, "delete_module": sys_forbidden,
    "swapon": sys_forbidden, "swapoff": sys_forbidden, "acct": sys_forbidden, "iopl": sys_forbidden,
    "ioperm": sys_forbidden, "kexec_load": sys_forbidden, "quotactl": sys_forbidden,
    "pidfd_getfd": sys_forbidden, "kcmp": sys_forbidden, "personality": sys_personality,
}  # fmt: skip
