"""Room on the stack: compiling and loading kernels (LLVM) takes more of it than Python does, and ends the
process where there is none."""

from __future__ import annotations

import resource

from corebraid.base.errors import UsageError

_LEAST, _WANTED = 512 << 10, 8 << 20


def make_room() -> None:
    """Let the stack grow to 8 MiB, as far as that is allowed. Raises UsageError where it may not have
    512 KiB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if soft == resource.RLIM_INFINITY or soft >= _WANTED:
        return
    most = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    resource.setrlimit(resource.RLIMIT_STACK, (max(soft, most), hard))
    if max(soft, most) < _LEAST:
        raise UsageError(
            "the stack is too small for compiled code",
            expected=f"{_LEAST >> 10} KiB or more",
            found=f"{max(soft, most) >> 10} KiB",
            remedy="allow it more: ulimit -s 8192",
        )
