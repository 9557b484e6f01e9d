"""Files that commands write: never over another one, and not half when the command fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from corebraid.base.errors import UsageError, reason_of, unless_short


@contextmanager
def new_file(path: Path, option: str) -> Iterator[BinaryIO]:
    """Open a file that must not exist (a device or a pipe may); removed again when the body fails.

    option: what to call it in errors, such as '-o'. Raises UsageError.
    """
    there = special = False
    try:
        there = path.exists() or path.is_symlink()
        special = there and not path.is_file() and not path.is_dir()
        file = path.open("wb" if special else "xb")
    except FileExistsError:
        raise UsageError(
            "there is already a file here",
            where=str(path),
            remedy=f"choose another {option}; nothing was written over",
        ) from None
    except (OSError, ValueError) as error:
        unless_short(error)
        raise UsageError(
            f"the file cannot be written ({reason_of(error)})",
            where=str(path),
            remedy=f"choose another {option}",
        ) from None
    except BaseException:
        # An interrupt that came when it was just made.
        _remove_new(path, there)
        raise
    try:
        with file:
            yield file
    except BaseException as error:
        _remove_new(path, there)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise UsageError(
                f"the file cannot be written ({error.strerror})",
                where=str(path),
                remedy=f"choose another {option}",
            ) from None
        raise


def _remove_new(path: Path, there: bool) -> None:
    if not there:
        path.unlink(missing_ok=True)


def check_new_file(path: Path, option: str) -> None:
    """Raises UsageError if `new_file` would; for commands that write only after long work."""
    with suppress(_NotNeeded), new_file(path, option):
        raise _NotNeeded


class _NotNeeded(Exception):
    """The file is to go again."""
