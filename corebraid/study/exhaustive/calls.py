"""What of the kernel a system call uses: which calls commute, by conservative classes.

A call that is not known here conflicts with every other call. Whatever a call reads or writes of the guest's
memory comes besides: the kernel's accesses are seen as they happen.
"""

from __future__ import annotations

from corebraid.study.exhaustive.tasks import Uses
from emu.linux.calls.table import CALLS
from emu.linux.ground.call import Subject
from emu.linux.stepping import Served
from emu.linux.tasks.futex import MATCH_ANY

#: Calls that tell or change something of the caller's own alone, or what no call changes.
_OWN = frozenset({
    "gettid", "getpid", "getppid", "sched_yield", "set_robust_list", "rseq", "arch_prctl", "sigaltstack",
    "rt_sigprocmask", "getcpu", "clock_getres", "getuid", "geteuid", "getgid", "getegid", "set_tid_address",
    "uname",
})  # fmt: skip
#: Of those that name a thread, which may be the caller: 0, or its number.
_OWN_IF_NAMED = frozenset({"sched_getaffinity"})
#: Calls that tell what time it is, and those that wait until it is another.
_TELL_TIME = frozenset({"clock_gettime", "gettimeofday", "time"})
_SLEEPS = frozenset({"nanosleep", "clock_nanosleep"})
#: Calls that look at files and change nothing.
_LOOKS = frozenset({"fstat", "stat", "lstat", "newfstatat", "statx", "access", "readlink", "getcwd"})
_FILES = (Subject.FILES, Subject.WAITING, Subject.SOCKETS)
#: Of memory, by how they name it: those that also decide where memory is free. What they answer depends on
#: what is there, also where they change nothing, or are refused.
_RANGES = frozenset({
    "mprotect", "pkey_mprotect", "madvise", "munmap", "mmap", "mremap", "brk", "msync", "mlock", "mlock2",
    "munlock", "mincore", "mbind",
})  # fmt: skip
_PLACES = frozenset({"munmap", "mmap", "mremap", "brk"})

_WAIT, _WAKE, _REQUEUE, _CMP_REQUEUE, _WAKE_OP, _WAIT_BITSET, _WAKE_BITSET = 0, 1, 3, 4, 5, 9, 10
_PAGE = 4096
_COMMAND, _EAGAIN, _EFAULT = 0x7F, 11, 14
#: Clocks that stand, and that of the caller's own running time.
_OWN_CLOCKS = (3,)
_CLOCKS = (0, 1, *_OWN_CLOCKS, 4, 5, 6, 7, 11)


def uses_of(served: Served, *, blocked: bool, last_but_main: bool) -> Uses:
    """What a call has used. blocked: its task waits in it. last_but_main: it is an exit, and the first task
    has ended before: the process ends with its last task."""
    name, uses = served.name, Uses({("kernel",): False})
    if blocked and name != "futex":
        uses.doubt = f"a thread waited in {name}: who goes on first was not tried"
    if name == "futex":
        _futex(served, uses)
    elif name in _RANGES:
        if name in _PLACES:
            uses.keys[("places",)] = True
        uses.ranges = _ranges(served)
    elif name in ("clone", "clone3"):
        uses.keys[("threads",)] = True
    elif name in ("exit", "exit_group"):
        uses.keys[("end",)] = last_but_main
    elif name == "getrandom":
        # Files give random bytes too.
        uses.keys |= {("random",): True, ("files",): True}
    elif name in ("times", "getrusage") or (name == "clock_gettime" and served.arguments[0] not in _CLOCKS):
        uses.doubt = f"{name} tells what other threads have run"
    elif name in _TELL_TIME or name in _SLEEPS:
        uses.keys[("time",)] = name in _SLEEPS
        uses.slept = name in _SLEEPS
        uses.timed = name == "clock_gettime" and served.arguments[0] in _OWN_CLOCKS
    elif name in _LOOKS or (name in CALLS and CALLS[name].subject in _FILES):
        # Files have times, and some are timers.
        uses.keys |= {("files",): name not in _LOOKS, ("time",): False}
    elif name in _OWN_IF_NAMED and served.arguments[0] & 0xFFFFFFFF in (0, served.tid):
        pass
    elif name not in _OWN:
        uses.keys[("kernel",)] = True
    if _failed(served, _EFAULT):
        uses.doubt = f"{name} was refused memory: when that was given or taken was not looked at"
    return uses


def _failed(served: Served, error: int) -> bool:
    return served.result is not None and served.result & 0xFFFFFFFF == -error & 0xFFFFFFFF


def _futex(served: Served, uses: Uses) -> None:
    address, op, _, timeout, second, _ = served.arguments
    command, word = op & _COMMAND, ("futex", address)
    if command in (_WAIT, _WAIT_BITSET):
        refused = _failed(served, _EAGAIN)
        uses.keys[word] = not refused
        if timeout:
            # How long it is until then.
            uses.keys[("time",)] = False
        if timeout and not refused:
            uses.fixed = "waits with a time limit went on to it only when nobody else could run"
    elif command in (_WAKE, _WAKE_BITSET):
        uses.keys[word] = served.result != 0
    elif command in (_REQUEUE, _CMP_REQUEUE, _WAKE_OP):
        uses.keys |= {word: True, ("futex", second): True}
    else:
        uses.keys[("kernel",)] = True
    if not uses.keys.get(word, True):
        uses.may.add(word)


def _ranges(served: Served) -> tuple[tuple[int, int], ...]:
    """The memory that a call gives, takes or protects, or was to, in whole pages."""
    a, b, c, _, target, _ = served.arguments
    result = served.result or 0
    done = served.result is not None and result <= MATCH_ANY << 32
    if served.name == "brk":
        ends = (*served.heap, a) if a else served.heap
        return _pages((min(ends), max(ends)))
    if served.name == "mmap":
        return _pages((result, result + b) if done else (a, a + b))
    if served.name == "mremap":
        return _pages((a, a + max(b, 1)), (result, result + c) if done else (target, target + c))
    return _pages((a, a + b))


def _pages(*ranges: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    whole = ((low & -_PAGE, high + _PAGE - 1 & -_PAGE) for low, high in ranges)
    return tuple((low, high) for low, high in whole if low < high)
