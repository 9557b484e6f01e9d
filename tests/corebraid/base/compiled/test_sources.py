"""The digest of our sources is that of what they say, whatever was kept of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corebraid.base.compiled.sources import sources_digest

TEXTS = {"a/x.py": "x = 1\n", "a/deep/y.py": "y = 2\n", "b/z.py": "", "b/other.txt": "z"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in TEXTS.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "root"


def digest(root: Path, kept: Path | None) -> str:
    return sources_digest(root, ("a", "b"), kept)


def test_what_was_kept_is_used(root: Path, tmp_path: Path) -> None:
    first = digest(root, tmp_path / "kept")
    assert first == digest(root, None)
    seen, _ = (tmp_path / "kept" / "sources").read_text().split()
    (tmp_path / "kept" / "sources").write_text(f"{seen} planted")
    assert digest(root, tmp_path / "kept") == "planted"


def test_a_change_that_leaves_size_and_time_as_they_were_is_seen(root: Path, tmp_path: Path) -> None:
    kept, path = tmp_path / "kept", root / "a" / "deep" / "y.py"
    first, before = digest(root, kept), path.stat()
    path.write_text("y = 3\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert digest(root, kept) == digest(root, None) != first
    path.write_text(TEXTS["a/deep/y.py"])
    assert digest(root, kept) == first


def test_files_that_come_go_or_change_places_are_seen(root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    found = {digest(root, kept)}
    (root / "b" / "new.py").write_text("")
    found.add(digest(root, kept))
    (root / "a" / "x.py").rename(root / "a" / "w.py")
    found.add(digest(root, kept))
    (root / "b" / "z.py").unlink()
    found.add(digest(root, kept))
    assert len(found) == 4
    assert digest(root, kept) == digest(root, None)
    (root / "b" / "other.txt").write_text("changed")
    assert digest(root, kept) in found


def test_what_cannot_be_kept_or_read_is_made_again(root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    for damage in (b"", b"\xff\xfe", b"one", b"a b c", b"x" * 10_000):
        (kept / "sources").write_bytes(damage)
        assert digest(root, kept) == digest(root, None)
    (kept / "sources").unlink()
    (kept / "sources").mkdir()
    assert digest(root, kept) == digest(root, None)
    (tmp_path / "file").touch()
    assert digest(root, tmp_path / "file") == digest(root, None)
    assert sorted(path.name for path in kept.iterdir()) == ["sources"]
