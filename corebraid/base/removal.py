"""Directories that are taken away again."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def remove_tree(directory: Path) -> None:
    """Remove a directory of ours and what is in it, as far as that goes: also where only one more file may be
    opened, with which `shutil.rmtree` does nothing."""
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        _remove_by_names(directory)


def _remove_by_names(directory: Path) -> None:
    # An empty one goes without any.
    with suppress(OSError):
        directory.rmdir()
        return
    with suppress(OSError):
        for name in os.listdir(directory):
            below = directory / name
            if below.is_dir() and not below.is_symlink():
                _remove_by_names(below)
            else:
                below.unlink(missing_ok=True)
        directory.rmdir()
