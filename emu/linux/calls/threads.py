"""Calls of threads: clone, exit, identifiers, scheduling. Sources: clone(2), sched(7), set_tid_address(2)."""

from __future__ import annotations

import errno

from emu.linux.ground.call import Subject, in_part, refused, table
from emu.linux.ground.failure import Errno, Exit, Unsupported
from emu.linux.ground.words import as_int
from emu.linux.tasks.task import Task

_VM, _FS, _FILES, _SIGHAND, _VFORK, _THREAD = 0x100, 0x200, 0x400, 0x800, 0x4000, 0x10000
_SETTLS, _PARENT_SETTID, _CHILD_CLEARTID, _CHILD_SETTID = 0x80000, 0x100000, 0x200000, 0x1000000
_NEEDED = _VM | _SIGHAND | _THREAD
#: Commands of membarrier, and what must have been registered before each: GLOBAL, GLOBAL_EXPEDITED,
#: PRIVATE_EXPEDITED, PRIVATE_EXPEDITED_SYNC_CORE.
_BARRIERS = {1: 0, 2: 0, 8: 16, 32: 64}
_REGISTRATIONS = {4, 16, 64}
#: WEXITED, WSTOPPED and WCONTINUED, one of which waitid needs; and with them all that it knows.
_WAIT_FOR, _WAIT_OPTIONS = 0x0000000E, 0xE100000F
_WAIT4_OPTIONS = 0xE000000B
_P_ALL, _P_PID, _P_PGID, _P_PIDFD = range(4)
_PROCESSES = "processes are not supported: the guest starts another one"


def _clone(task: Task, flags: int, stack: int, parent_tid: int, child_tid: int, tls: int) -> int:
    process = task.process
    if (flags & _THREAD and not flags & _SIGHAND) or (flags & _SIGHAND and not flags & _VM):
        raise Errno(errno.EINVAL)
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


def sys_wait4(task: Task, which: int, status: int, options: int) -> int:
    """wait4(2): there never is a child. Errno: EINVAL, ESRCH (a number without a negative one), ECHILD."""
    if options & 0xFFFFFFFF & ~_WAIT4_OPTIONS:
        raise Errno(errno.EINVAL)
    if as_int(which) == -(1 << 31):
        raise Errno(errno.ESRCH)
    raise Errno(errno.ECHILD)


def sys_waitid(task: Task, kind: int, which: int, info: int, options: int) -> int:
    """waitid(2): there never is a child."""
    if not as_int(options) & _WAIT_FOR or as_int(options) & ~_WAIT_OPTIONS:
        raise Errno(errno.EINVAL)
    kind, which = as_int(kind), as_int(which)
    if kind not in (_P_ALL, _P_PID, _P_PGID, _P_PIDFD) or (kind and which < (kind == _P_PID)):
        raise Errno(errno.EINVAL)
    if kind == _P_PIDFD:
        raise Errno(errno.EBADF)
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


def sys_membarrier(task: Task, command: int, flags: int) -> int:
    """membarrier(2): every core gives up its store buffer. Errno(EPERM): not registered for."""
    command, process = as_int(command), task.process
    if as_int(flags) or (command and command not in {*_BARRIERS, *_REGISTRATIONS}):
        raise Errno(errno.EINVAL)
    if not command:
        return sum({*_BARRIERS, *_REGISTRATIONS})
    needed = _BARRIERS.get(command)
    if needed is None:
        process.settings[command] = 1
    elif needed and needed not in process.settings:
        raise Errno(errno.EPERM)
    else:
        process.space.flush()
    return 0


def sys_arch_prctl(task: Task, code: int, address: int) -> int:
    """arch_prctl(2), where there are registers that hold bases."""
    isa, abi, code = task.process.isa, task.process.abi, as_int(code)
    for setter, getter, name in abi.bases:
        if code == setter:
            if address >= abi.signals.program_end:
                raise Errno(errno.EPERM)
            context = isa.with_register(task.registers, name, address)
            task.set_registers(isa.with_register(context, abi.result, 0))
            return 0
        if code == getter:
            task.process.memory.write_number(address, 8, isa.read(task.registers, name))
            return 0
    return abi.answers.get(code, -errno.EINVAL)


CALLS = table(Subject.THREADS, {
    "clone": in_part(sys_clone, "threads only; a process ends the recording"),
    "clone3": in_part(sys_clone3, "threads only; a process ends the recording"),
    "fork": refused(sys_fork, "ends the recording"),
    "vfork": refused(sys_fork, "ends the recording"),
    "execve": refused(sys_execve, "ends the recording"),
    "execveat": refused(sys_execve, "ends the recording"),
    "wait4": refused(sys_wait4, "ECHILD: there never is a child"),
    "waitid": refused(sys_waitid, "ECHILD: there never is a child"),
    "exit": sys_exit,
    "exit_group": sys_exit_group,
    "set_tid_address": sys_set_tid_address,
    "set_robust_list": sys_set_robust_list,
    "get_robust_list": sys_get_robust_list,
    "rseq": refused(sys_rseq, "ENOSYS"),
    "gettid": sys_gettid,
    "getpid": sys_getpid,
    "getppid": sys_getppid,
    "sched_yield": sys_sched_yield,
    "sched_getaffinity": sys_sched_getaffinity,
    "sched_setaffinity": sys_sched_setaffinity,
    "getcpu": sys_getcpu,
    "membarrier": sys_membarrier,
    "arch_prctl": in_part(sys_arch_prctl, "the bases of FS and GS"),
})  # fmt: skip
