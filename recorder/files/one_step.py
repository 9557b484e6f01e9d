"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def in_one_step(path: Path) -> Iterator[Path]:
    """A file to write beside `path`, whose place it takes in one step; it is removed if that does not come to
    pass. Only of a process that is killed outright it stays. Raises OSError."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
