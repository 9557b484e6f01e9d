"""A machine that has no more files or memory: one line that says so, exit code 2, nothing left behind."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_factory import FIRMWARE, record, run

import corebraid
from corebraid.base import descriptors
from corebraid.base.compiled.store import Store
from corebraid.base.errors import ShortageError, shortage_of
from corebraid.base.host_memory import check_room
from corebraid.base.kernel_locator import _make_folder
from recorder.files.frame import open_regular

MANY_FILES = "corebraid: too many open files; allow more (ulimit -n), or use fewer --jobs"
#: More than Python and NumPy take, less than an emulator does.
SOME_MEMORY = 500_000 << 10


def _without_files(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "somewhere")


def _limited(limit: int, most: int, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "corebraid", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300,
        preexec_fn=lambda: resource.setrlimit(limit, (most, most)),
    )  # fmt: skip


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of fig1 on 2 cores, with checkpoints, ordered."""
    path = tmp_path_factory.mktemp("short") / "rec"
    assert record(path, "fig1", "--cores", 2, "--bus", "mesi", "--checkpoint", 100).code == 0
    assert run("order", path).code == 0
    return path


@pytest.mark.parametrize("most", [6, 9])
@pytest.mark.parametrize("words", [("order",), ("verify",), ("replay", "--core", 0), ("trace", "--limit", 1)])
def test_few_files_are_told_in_a_line(words: tuple[object, ...], most: int, rec: Path) -> None:
    ran = _limited(resource.RLIMIT_NOFILE, most, words[0], rec, *words[1:])
    assert (ran.returncode, ran.stdout, ran.stderr.splitlines()) == (2, "", [MANY_FILES])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("most", "cores"), [(6, 2), (9, 2), (24, 64)])
def test_a_recording_for_which_there_are_too_few_files_is_gone(most: int, cores: int, tmp_path: Path) -> None:
    place = tmp_path / "rec"
    words = ("record", "-o", place, "--bus", "mesi", "--cores", cores, FIRMWARE / "fig1.elf")
    ran = _limited(resource.RLIMIT_NOFILE, most, *words)
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (2, MANY_FILES)
    assert not place.exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words", [("verify",), ("replay", "--core", 0), ("trace",), ("checkpoint", "--every", 50)]
)
def test_too_little_memory_for_an_emulator_is_told_in_a_line(words: tuple[object, ...], rec: Path) -> None:
    before = sorted(path.name for path in rec.iterdir())
    ran = _limited(resource.RLIMIT_AS, SOME_MEMORY, words[0], rec, *words[1:])
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1), ran.stderr
    assert ran.stderr.startswith("corebraid: out of memory")
    assert sorted(path.name for path in rec.iterdir()) == before


def test_too_little_memory_leaves_no_recording(tmp_path: Path) -> None:
    place = tmp_path / "rec"
    ran = _limited(resource.RLIMIT_AS, SOME_MEMORY, "record", "-o", place, FIRMWARE / "fig1.elf")
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1), ran.stderr
    assert ran.stderr.startswith("corebraid: out of memory")
    assert not place.exists()


@pytest.mark.parametrize("file", ["core-1.log", "agent.log", "manifest.json", "order.cert"])
def test_that_no_more_files_may_be_open_is_no_finding(
    file: str, rec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither damage nor an illegal order: nobody has seen the file."""
    opened = Path.open

    def refuse(self: Path, *args: Any, **named: Any) -> Any:
        return _without_files() if self.name == file else opened(self, *args, **named)

    monkeypatch.setattr(Path, "open", refuse)
    ran = run("verify", rec, "--jobs", 1)
    assert (ran.code, ran.out, ran.lines) == (2, "", [MANY_FILES])
    with pytest.raises(ShortageError):
        corebraid.verify(rec, jobs=1)


@pytest.mark.parametrize(
    "use",
    [
        lambda place: Store(place, place).load("kernel", "key"),
        lambda place: open_regular(place / "file"),
        lambda place: _make_folder(place / "new"),
        lambda _: descriptors.check_room(),
    ],
)
def test_files_that_cannot_be_opened_for_that_are_not_called_missing(
    use: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"here")
    for name in ("os.open", "pathlib.Path.open", "pathlib.Path.read_bytes"):
        monkeypatch.setattr(name, _without_files)
    monkeypatch.setattr("tempfile.TemporaryFile", _without_files)
    with pytest.raises(ShortageError, match="too many open files; allow more"):
        use(tmp_path)


def test_what_an_error_says_of_the_machine() -> None:
    assert "memory" in str(shortage_of(MemoryError()))
    assert "memory" in str(shortage_of(ImportError("numpy.so: failed to map segment from shared object")))
    assert "files" in str(shortage_of(ImportError("z3.so: cannot open: Too many open files")))
    assert "files" in str(shortage_of(OSError(errno.ENFILE, "Too many open files in system")))
    for other in (OSError(errno.ENOSPC, "No space left on device"), ImportError("z3"), OSError("Cannot")):
        assert shortage_of(other) is None


def test_what_cannot_be_mapped_is_asked_for_before() -> None:
    check_room(1 << 20)
    with pytest.raises(ShortageError, match=f"{1 << 60} bytes more"):
        check_room(1 << 60)
