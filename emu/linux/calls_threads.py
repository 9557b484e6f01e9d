"""Calls of threads: clone, exit, identifiers, scheduling. Sources: clone(2), sched(7), set_tid_address(2)."""

from __future__ import annotations

import errno

from emu.linux.failure import Errno, Exit, Unsupported
from emu.linux.task import Task
from emu.linux.words import as_int

_VM, _FS, _FILES, _SIGHAND, _VFORK, _THREAD = 0x100, 0x200, 0x400, 0x800, 0x4000, 0x10000
_SETTLS, _PARENT_SETTID, _CHILD_CLEARTID, _CHILD_SETTID = 0x80000, 0x100000, 0x200000, 0x1000000
_NEEDED = _VM | _SIGHAND | _THREAD
_ARCH_SET_GS, _ARCH_SET_FS, _ARCH_GET_FS, _ARCH_GET_GS = 0x1001, 0x1002, 0x1003, 0x1004
_PROCESSES = "processes are not supported: the guest starts another one"


def _clone(task: Task, flags: int, stack: int, parent_tid: int, child_tid: int, tls: int) -> int:
    process = task.process
    if flags & _NEEDED != _NEEDED:
        call = "vfork or posix_spawn" if flags & _VFORK else "fork"
        raise Unsupported(f"{_PROCESSES} ({call})")
    if not flags & _FS or not flags & _FILES:
        raise Unsupported("a thread with file descriptors or a current directory of its own (clone)")
    context, isa = task.registers, process.isa
    context = isa.with_register(context, process.abi.result, 0)
    if stack:
        context = isa.with_register(context, isa.stack_pointer, stack)
    if flags & _SETTLS:
        context = isa.with_register(context, process.abi.thread_pointer, tls)
    if flags & _PARENT_SETTID:
        process.memory.read_number(parent_tid, 4)
    child = process.spawn(task, context)
    if flags & _PARENT_SETTID:
        process.memory.write_number(parent_tid, 4, child.tid)
    if flags & _CHILD_SETTID:
        process.memory.write_number(child_tid, 4, child.tid)
    if flags & _CHILD_CLEARTID:
        child.clear_child_tid = child_tid
    return child.tid


def sys_clone(task: Task, *arguments: int) -> int:
    """clone(2): threads only."""
    given = dict(zip(task.process.abi.clone_arguments, arguments, strict=False))
    return _clone(task, given["flags"], given["stack"], given["parent_tid"], given["child_tid"], given["tls"])


def sys_clone3(task: Task, address: int, size: int) -> int:
    """clone3(2): threads only."""
    if size < 64:
        raise Errno(errno.EINVAL)
    raw = task.process.memory.read(address, min(size, 88))
    word = [int.from_bytes(raw[k : k + 8], "little") for k in range(0, 64, 8)]
    flags, _, child_tid, parent_tid, _, stack, stack_size, tls = word
    if size > 64 and any(raw[64:]):
        raise Errno(errno.EINVAL)
    return _clone(task, flags, stack + stack_size if stack else 0, parent_tid, child_tid, tls)


def sys_fork(task: Task) -> int:
    """fork(2) and vfork(2): refused."""
    raise Unsupported(_PROCESSES)


def sys_execve(task: Task) -> int:
    """execve(2): refused."""
    raise Unsupported("the guest replaces itself by another program (execve): that is not supported")


def sys_wait4(task: Task) -> int:
    """wait4(2): there never is a child."""
    raise Errno(errno.ECHILD)


def sys_exit(task: Task, code: int) -> int:
    """exit(2)."""
    raise Exit(code & 0xFF, False)


def sys_exit_group(task: Task, code: int) -> int:
    """exit_group(2)."""
    raise Exit(code & 0xFF, True)


def sys_set_tid_address(task: Task, address: int) -> int:
    """set_tid_address(2)."""
    task.clear_child_tid = address
    return task.tid


def sys_set_robust_list(task: Task, head: int, size: int) -> int:
    """set_robust_list(2)."""
    if size != 24:
        raise Errno(errno.EINVAL)
    task.robust_list = head
    return 0


def _task(task: Task, tid: int) -> Task:
    found = task if not tid else task.process.tasks.get(tid)
    if found is None:
        raise Errno(errno.ESRCH)
    return found


def sys_get_robust_list(task: Task, tid: int, head: int, size: int) -> int:
    """get_robust_list(2)."""
    task.process.memory.write_number(head, 8, _task(task, as_int(tid)).robust_list)
    task.process.memory.write_number(size, 8, 24)
    return 0


def sys_rseq(task: Task) -> int:
    """rseq(2): not there; C libraries do without."""
    raise Errno(errno.ENOSYS)


def sys_gettid(task: Task) -> int:
    """gettid(2)."""
    return task.tid


def sys_getpid(task: Task) -> int:
    """getpid(2)."""
    return task.process.pid


def sys_getppid(task: Task) -> int:
    """getppid(2): started by the first process."""
    return 1


def sys_sched_yield(task: Task) -> int:
    """sched_yield(2): the core goes to another task that waits for one."""
    task.yields = True
    return 0


def sys_sched_getaffinity(task: Task, tid: int, size: int, address: int) -> int:
    """sched_getaffinity(2)."""
    n = (task.process.n_cores + 63) // 64 * 8
    if size < n or size % 8:
        raise Errno(errno.EINVAL)
    task.process.memory.write(address, _task(task, as_int(tid)).affinity.to_bytes(n, "little"))
    return n


def sys_sched_setaffinity(task: Task, tid: int, size: int, address: int) -> int:
    """sched_setaffinity(2)."""
    target = _task(task, as_int(tid))
    mask = int.from_bytes(task.process.memory.read(address, min(size, 128)), "little")
    mask &= (1 << task.process.n_cores) - 1
    if not mask:
        raise Errno(errno.EINVAL)
    target.affinity = mask
    if target is task:
        task.yields = True
    return 0


def sys_getcpu(task: Task, cpu: int, node: int) -> int:
    """getcpu(2)."""
    if cpu:
        task.process.memory.write_number(cpu, 4, task.core or 0)
    if node:
        task.process.memory.write_number(node, 4, 0)
    return 0


def sys_sched_getscheduler(task: Task, tid: int) -> int:
    """sched_getscheduler(2): SCHED_OTHER."""
    _task(task, as_int(tid))
    return 0


def sys_sched_setscheduler(task: Task, tid: int, policy: int) -> int:
    """sched_setscheduler(2): only SCHED_OTHER, SCHED_BATCH and SCHED_IDLE, which change nothing."""
    _task(task, as_int(tid))
    if policy & 0xFF not in (0, 3, 5):
        raise Errno(errno.EPERM)
    return 0


def sys_sched_getparam(task: Task, tid: int, address: int) -> int:
    """sched_getparam(2)."""
    _task(task, as_int(tid))
    task.process.memory.write_number(address, 4, 0)
    return 0


def sys_sched_get_priority(task: Task, policy: int) -> int:
    """sched_get_priority_min(2)."""
    if policy in (1, 2):
        return 1
    if policy in (0, 3, 5, 6):
        return 0
    raise Errno(errno.EINVAL)


def sys_sched_get_priority_max(task: Task, policy: int) -> int:
    """sched_get_priority_max(2)."""
    return 99 if policy in (1, 2) else sys_sched_get_priority(task, policy)


def sys_membarrier(task: Task, command: int) -> int:
    """membarrier(2): cores here are in step whenever the kernel runs."""
    return 0x1F if command == 0 else 0


def sys_arch_prctl(task: Task, code: int, address: int) -> int:
    """arch_prctl(2), on x86-64."""
    isa = task.process.isa
    if code in (_ARCH_SET_FS, _ARCH_SET_GS):
        if address >> 47:
            raise Errno(errno.EPERM)
        name = "fs_base" if code == _ARCH_SET_FS else "gs_base"
        context = isa.with_register(task.registers, name, address)
        task.set_registers(isa.with_register(context, task.process.abi.result, 0))
        return 0
    if code in (_ARCH_GET_FS, _ARCH_GET_GS):
        name = "fs_base" if code == _ARCH_GET_FS else "gs_base"
        task.process.memory.write_number(address, 8, isa.read(task.registers, name))
        return 0
    raise Errno(errno.EINVAL)


CALLS = {
    "clone": sys_clone, "clone3": sys_clone3, "fork": sys_fork, "vfork": sys_fork, "execve": sys_execve,
    "execveat": sys_execve, "wait4": sys_wait4, "waitid": sys_wait4, "exit": sys_exit,
    "exit_group": sys_exit_group, "set_tid_address": sys_set_tid_address,
    "set_robust_list": sys_set_robust_list, "get_robust_list": sys_get_robust_list, "rseq": sys_rseq,
    "gettid": sys_gettid, "getpid": sys_getpid, "getppid": sys_getppid, "sched_yield": sys_sched_yield,
    "sched_getaffinity": sys_sched_getaffinity, "sched_setaffinity": sys_sched_setaffinity,
    "getcpu": sys_getcpu, "sched_getscheduler": sys_sched_getscheduler,
    "sched_setscheduler": sys_sched_setscheduler, "sched_getparam": sys_sched_getparam,
    "sched_setparam": sys_sched_getscheduler, "sched_get_priority_max": sys_sched_get_priority_max,
    "sched_get_priority_min": sys_sched_get_priority, "membarrier": sys_membarrier,
    "arch_prctl": sys_arch_prctl,
}  # fmt: skip
