"""Room on the stack: compiling and loading kernels (LLVM) takes more of it than Python does, and ends the
process where there is none. So does loading all else, with a little: nothing of it is loaded here."""

from __future__ import annotations

import resource

_LEAST, _WANTED = 512 << 10, 8 << 20


def too_small() -> str:
    """Let the stack grow to 8 MiB, as far as that is allowed. Returns what to say where it may not have
    512 KiB, "" elsewhere."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if soft == resource.RLIM_INFINITY or soft >= _WANTED:
        return ""
    most = max(soft, _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED))
    resource.setrlimit(resource.RLIMIT_STACK, (most, hard))
    if most >= _LEAST:
        return ""
    return (
        f"the stack is too small for compiled code: expected {_LEAST >> 10} KiB or more, "
        f"found {most >> 10} KiB; allow it more: ulimit -s 8192"
    )
