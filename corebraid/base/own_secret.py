"""A secret of this user on this machine: by it a program knows again what it has written itself, wherever it
stands, from what others have put there."""

from __future__ import annotations

import functools
import os
from contextlib import suppress

from corebraid.base.kernel_cache import cache_home

_NAME, _BYTES = "secret", 32


@functools.cache
def own_secret() -> bytes:
    """32 bytes, made at random and kept beside compiled kernels; where they cannot be kept, others in each
    process."""
    path = cache_home() / _NAME
    for _ in range(2):
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            found = path.read_bytes()
            if len(found) == _BYTES:
                return found
        new = os.urandom(_BYTES)
        partial = path.with_name(f"{_NAME}.{os.getpid()}")
        with suppress(OSError):
            file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(file, "wb") as out:
                out.write(new)
            # Whoever was first stays.
            with suppress(FileExistsError):
                os.link(partial, path)
            partial.unlink()
    return os.urandom(_BYTES)
