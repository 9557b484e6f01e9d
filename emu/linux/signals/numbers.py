"""Signals by number, and the flags and codes that go with them (signal(7), sigaction(2))."""

from __future__ import annotations

SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE = range(1, 9)
SIGKILL, SIGUSR1, SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGSTKFLT = range(9, 17)
SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGXCPU = range(17, 25)
SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO, SIGPWR, SIGSYS = range(25, 32)
#: The first signal of which several can be pending: the kernel's SIGRTMIN, not the C library's.
SIGRTMIN = 32
LAST_SIGNAL = 64
#: Bytes of a signal set as system calls hand it over.
SET_BYTES = 8

SIG_DFL, SIG_IGN = 0, 1

SA_NOCLDSTOP, SA_NOCLDWAIT, SA_SIGINFO = 1, 2, 4
SA_RESTORER, SA_ONSTACK, SA_RESTART = 0x04000000, 0x08000000, 0x10000000
SA_NODEFER, SA_RESETHAND = 0x40000000, 0x80000000
#: What is left of the flags that a program gives.
SA_KNOWN = (
    SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | 0x800 | SA_RESTORER | SA_ONSTACK | SA_RESTART | SA_NODEFER
    | SA_RESETHAND
)  # fmt: skip

#: si_code: who sent it.
SI_USER, SI_KERNEL, SI_QUEUE, SI_TIMER, SI_TKILL, SI_SIGIO = 0, 0x80, -1, -2, -6, -5
#: si_code of fault signals.
SEGV_MAPERR, SEGV_ACCERR, BUS_ADRERR = 1, 2, 2
FPE_INTDIV, FPE_FLTDIV, FPE_FLTOVF, FPE_FLTUND, FPE_FLTRES, FPE_FLTINV = 1, 3, 4, 5, 6, 7

#: sigaltstack(2).
SS_ONSTACK, SS_DISABLE, SS_AUTODISARM = 1, 2, 1 << 31
MINSIGSTKSZ = 2048


def signal_set(*signals: int) -> int:
    """The set of these signals: bit n - 1 for signal n."""
    mask = 0
    for signal in signals:
        mask |= 1 << (signal - 1)
    return mask


#: Neither blocked, ignored nor caught.
UNBLOCKABLE = signal_set(SIGKILL, SIGSTOP)
STOPPING = signal_set(SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU)
#: Default actions: nothing happens; the process ends with a core dump.
HARMLESS = signal_set(SIGCHLD, SIGCONT, SIGURG, SIGWINCH)
DUMPING = signal_set(
    SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS
)  # fmt: skip
#: Caused by the task's own instructions: delivered before others.
SYNCHRONOUS = signal_set(SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGSYS)

_NAMES = {
    number: name for name, number in sorted(globals().items())
    if name.startswith("SIG") and "_" not in name and name != "SIGRTMIN"
}  # fmt: skip


def signal_name(signal: int) -> str:
    """For people: SIGSEGV, or SIGRTMIN+2 as the C library counts (from 34 on)."""
    return _NAMES.get(signal) or (f"SIGRTMIN+{signal - 34}" if signal >= 34 else f"signal {signal}")
