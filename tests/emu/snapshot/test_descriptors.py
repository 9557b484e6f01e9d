"""Files that are open again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from emu.snapshot.descriptors import SavedDescriptors


def names(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def test_what_was_open_is_and_nothing_else(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        path.write_text(path.name)
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        return
    code = 1
    try:
        one, apart = os.open(first, os.O_RDONLY), os.open(second, os.O_RDONLY)
        saved = SavedDescriptors({0, 1, 2, apart})
        for _ in range(3):
            os.close(one)
            taken = os.open(second, os.O_RDONLY)
            more = os.open(second, os.O_RDONLY)
            assert taken == one
            saved.restore()
            assert names(one) == str(first)
            assert os.pread(one, 9, 0) == b"first"
            assert names(apart) == str(second)
            with pytest.raises(OSError, match="Bad file"):
                os.fstat(more)
        code = 0
    finally:
        os._exit(code)
