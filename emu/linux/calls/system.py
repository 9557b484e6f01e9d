"""Calls that tell of the system and the process. Sources: uname(2), getrlimit(2), getrandom(2), prctl(2)."""

from __future__ import annotations

import errno

from corebraid.base.memory import PAGE_BYTES
from emu.linux.ground.call import Handler, Subject, idle, in_part, refused, table
from emu.linux.ground.failure import Errno
from emu.linux.ground.limits import RESOURCES, RLIMIT_STACK
from emu.linux.ground.utsname import HOST, RELEASE, VERSION
from emu.linux.ground.words import as_int
from emu.linux.tasks.task import Task

_UNAME_FIELD = 65
_MOST_RANDOM = 1 << 25
_CAPABILITY_VERSIONS = (0x19980330, 0x20071026, 0x20080522)


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


def _resource(number: int) -> int:
    if not 0 <= as_int(number) < len(RESOURCES):
        raise Errno(errno.EINVAL)
    return as_int(number)


def _packed(task: Task, resource: int) -> bytes:
    limits = task.process.limits
    return limits.soft[resource].to_bytes(8, "little") + limits.hard[resource].to_bytes(8, "little")


def _change_limit(task: Task, resource: int, address: int) -> None:
    limits, raw = task.process.limits, task.process.memory.read(address, 16)
    soft, hard = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")
    if soft > hard:
        raise Errno(errno.EINVAL)
    if hard > limits.hard[resource]:
        raise Errno(errno.EPERM)
    limits.soft[resource], limits.hard[resource] = soft, hard
    if resource == RLIMIT_STACK:
        task.process.space.mappings.most_grown = soft


def sys_prlimit64(task: Task, pid: int, resource: int, new: int, old: int) -> int:
    """prlimit(2), of this process."""
    if as_int(pid) not in (0, task.process.pid):
        raise Errno(errno.ESRCH)
    resource = _resource(resource)
    before = _packed(task, resource)
    if new:
        _change_limit(task, resource, new)
    if old:
        task.process.memory.write(old, before)
    return 0


def sys_getrlimit(task: Task, resource: int, address: int) -> int:
    """getrlimit(2)."""
    task.process.memory.write(address, _packed(task, _resource(resource)))
    return 0


def sys_setrlimit(task: Task, resource: int, address: int) -> int:
    """setrlimit(2)."""
    _change_limit(task, _resource(resource), address)
    return 0


def sys_getrandom(task: Task, address: int, size: int, flags: int) -> int:
    """getrandom(2): from the seed."""
    flags = as_int(flags)
    if flags & ~7 or flags & 6 == 6:
        raise Errno(errno.EINVAL)
    size = min(size, _MOST_RANDOM)
    size = task.process.memory.reachable(address, size, True) or size
    task.process.memory.write(address, task.process.random.randbytes(size))
    return size


def _id(group: bool) -> Handler:
    def sys_id(task: Task) -> int:
        """getuid(2) and its kin."""
        return task.process.ids[group]

    return sys_id


def _three_ids(group: bool) -> Handler:
    def sys_ids(task: Task, real: int, effective: int, saved: int) -> int:
        """getresuid(2) and getresgid(2)."""
        for address in (real, effective, saved):
            task.process.memory.write_number(address, 4, task.process.ids[group])
        return 0

    return sys_ids


def _set_ids(group: bool, n: int) -> Handler:
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


CALLS = table(Subject.ITSELF, {
    "uname": sys_uname,
    "sysinfo": sys_sysinfo,
    "prlimit64": in_part(
        sys_prlimit64, "of this process; files, tasks, stacks and pending signals are enforced"
    ),
    "getrlimit": sys_getrlimit,
    "setrlimit": in_part(sys_setrlimit, "as prlimit64"),
    "getrandom": sys_getrandom,
    "getuid": _id(False),
    "geteuid": _id(False),
    "getgid": _id(True),
    "getegid": _id(True),
    "getresuid": _three_ids(False),
    "getresgid": _three_ids(True),
    "setuid": in_part(_set_ids(False, 1), "only to what it is"),
    "setgid": in_part(_set_ids(True, 1), "only to what it is"),
    "setreuid": in_part(_set_ids(False, 2), "only to what it is"),
    "setregid": in_part(_set_ids(True, 2), "only to what it is"),
    "setresuid": in_part(_set_ids(False, 3), "only to what it is"),
    "setresgid": in_part(_set_ids(True, 3), "only to what it is"),
    "setfsuid": idle(_id(False), "it stays what it is"),
    "setfsgid": idle(_id(True), "it stays what it is"),
    "getgroups": sys_getgroups,
    "setgroups": refused(sys_setgroups, "EPERM"),
    "getpgrp": sys_getpgrp,
    "getpgid": sys_getpgid,
    "getsid": sys_getpgid,
    "setpgid": refused(sys_setpgid, "EPERM: it leads its session"),
    "setsid": refused(sys_setpgid, "EPERM: it leads its session"),
    "capget": in_part(sys_capget, "there are none"),
    "personality": idle(sys_personality, "it is PER_LINUX"),
}) | table(Subject.SYSTEM, {
    "syslog": refused(sys_syslog, "EPERM"),
    **{
        name: refused(sys_forbidden, "EPERM")
        for name in (
            "capset", "ptrace", "process_vm_readv", "process_vm_writev", "perf_event_open", "bpf",
            "unshare", "setns", "reboot", "sethostname", "setdomainname", "init_module",
            "finit_module", "delete_module", "swapon", "swapoff", "acct", "iopl", "ioperm",
            "kexec_load", "quotactl", "pidfd_getfd", "kcmp",
        )
    },
})  # fmt: skip
