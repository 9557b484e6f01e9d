"""Hostile payloads in frames whose checksums are right: agent log, sealed truth, images, core logs."""

from __future__ import annotations

from pathlib import Path

import format_twin as twin
import pytest
from format_factory import LINE, MEMORY, contents, write

from corebraid.base.errors import FormatError
from recorder.files.frame import FrameWriter
from recorder.files.image_file import read_image
from recorder.files.reader import Recording

Frame = tuple[bytes, int, int, int]
_V = twin.varint
_HEAD = b"\0\0"
#: An eight-byte DMA write of zeros at address 0.
_WRITE = b"\x3e\1\0" + bytes(16)
_PAGE = b"\1" * 4096


def _replace(recording: Recording, name: str, frames: list[Frame]) -> Path:
    path = recording.path / name
    path.unlink(missing_ok=True)
    writer = FrameWriter(path, recording.header_of(name))
    for frame in frames:
        writer.append(*frame)
    writer.close()
    return path


AGENT = [
    ([(_HEAD + b"\x1e" + _V(twin.zigzag(MEMORY - 4)) + b"\1\0" + bytes(16), 1, 0, 0)], "outside the memory"),
    ([(_HEAD + b"\x1e" + _V(twin.zigzag(-1)) + b"\1\0" + bytes(16), 1, 0, 0)], "outside the memory"),
    ([(_HEAD + b"\x1e\0\1\0" + bytes(16), 1, 0, 0)], "shortest form"),
    ([(_HEAD + _WRITE + b"\x3e\1\0" + bytes(16), 2, 0, 1)], "shortest form"),
    ([(_HEAD + b"\x7e" + bytes(16), 1, 0, 0)], "cause"),
    ([(_HEAD + b"\x3e\x08\0" + bytes(16), 1, 0, 0)], "cause"),
    ([(_HEAD + b"\x3e\1\4" + bytes(16), 1, 0, 0)], "cause"),
    ([(_HEAD + b"\x3e\1", 1, 0, 0)], "cut short"),
    ([(_HEAD + _WRITE[:-1], 1, 0, 0)], "cut short"),
    ([(_HEAD + b"\4", 1, 0, 0)], "cut short"),
    ([(_HEAD + b"\4\1", 1, 0, 0)], "cut short"),
    ([(_HEAD + b"\4\2\0", 1, 0, 0)], "no such core"),
    ([(_HEAD + b"\x14\0", 1, 0, 0)], "no such core"),
    ([(_HEAD + b"\x40", 1, 0, 0)], "kind or size"),
    ([(_HEAD + b"\x10", 1, 0, 0)], "kind or size"),
    ([(_HEAD + b"\x24\1\0\x24\1\0", 2, 0, 0)], "shortest form"),
    ([(_HEAD + b"\4\1\0\0", 1, 0, 0)], "shortest form"),
    ([(_HEAD + b"\4\1\0" + _V(2**32), 1, 0, 0)], "no such core or thread"),
    ([(_HEAD + b"\x24\1\5\x34" + _V(2**64 - 1), 2, 0, 0)], "earlier one of its core"),
    ([(_HEAD + b"\x24\1\5", 1, 0, 0), (_HEAD + b"\x24\1\4", 1, 0, 0)], "earlier one of its core"),
    ([(b"\x80", 1, 0, 0)], "cut short"),
    ([(_V(0) + _V(2**32 - 1) + b"\0", 1, 0, 0)], "out of sequence"),
    ([(_V(0) + _V(2**32) + _WRITE, 1, 0, 0)], "out of sequence"),
    ([(_V(2**64 - 1) + b"\0" + _WRITE, 1, 0, 0)], "out of sequence"),
    ([(b"\1\0" + _WRITE, 1, 1, 1)], "access 0 after 0"),
    ([(b"\0\1" + _WRITE, 1, 0, 0)], "access 0 after 0"),
    ([(_HEAD + _WRITE, 1, 0, 0), (b"\2\0" + _WRITE, 1, 2, 2)], "access 1 after 0"),
    ([(_HEAD + _WRITE, 1, 0, 1)], "range it declares"),
    ([(_HEAD + _WRITE, 2, 0, 0)], "rows in a frame"),
    ([(_HEAD + _WRITE + b"\0", 1, 0, 1)], "more rows"),
    ([(_HEAD, 0, 0, 0)], "rows in a frame"),
]
TRUTH = [
    ([(b"\3\1", 1, 0, 0)], "no such stream"),
    ([(b"\0", 1, 0, 0)], "more slices|cut short"),
    ([(b"\0\x80", 1, 0, 0)], "cut short"),
    ([(b"\0" + _V(2**64 - 1) + b"\0\1", 2, 0, 1)], "before it begins"),
    ([(b"\0\5", 1, 0, 0), (b"\0\4", 1, 1, 1)], "before it begins"),
    ([(b"\0\5", 1, 0, 0), (b"\0\6", 1, 2, 2)], "slices in a frame"),
    ([(b"\0\5", 1, 0, 1)], "slices in a frame"),
    ([(b"\0\5\1\5", 1, 0, 0)], "more slices"),
    ([(b"\0\5", 2**32 - 1, 0, 0)], "slices in a frame"),
]


def _page(*addresses: int) -> bytes:
    return b"".join(a.to_bytes(8, "little") for a in addresses) + _PAGE * len(addresses)


IMAGE = [
    ([(_page(MEMORY), 1, MEMORY, MEMORY)], "page address"),
    ([(_page(2**64 - 4096), 1, 0, 2**64 - 4096)], "page address"),
    ([(_page(5), 1, 5, 5)], "page address"),
    ([(_page(4096, 4096), 2, 4096, 4096)], "page address"),
    ([(_page(8192, 4096), 2, 4096, 8192)], "page address"),
    ([(_page(4096), 1, 4096, 4096), (_page(4096), 1, 4096, 4096)], "page address"),
    ([(_page(4096), 1, 0, 4096)], "range it declares"),
    ([(_page(4096), 2, 4096, 4096)], "bytes in a frame of pages"),
    ([(_page(4096)[:-1], 1, 4096, 4096)], "bytes in a frame of pages"),
    ([(b"x", 0, 0, 0)], "bytes in a frame of pages"),
]
CORE = [
    ([(b"\6\5\1", 1, 4, 5)], "range it declares"),
    ([(b"\6\5\1", 1, 5, 6)], "range it declares"),
    ([(b"\6\5\1", 2, 5, 5)], "records in the frame"),
    ([(b"\6\5\1", 0, 5, 5)], "more records"),
    ([(b"\1\0" + _V(MEMORY // LINE * 2) + bytes(LINE), 1, 0, 0)], "outside the memory"),
]


@pytest.mark.parametrize(
    ("name", "frames", "reason"),
    [
        *[("agent.log", frames, reason) for frames, reason in AGENT],
        *[("truth.log", frames, reason) for frames, reason in TRUTH],
        *[("core-0.log", frames, reason) for frames, reason in CORE],
    ],
)
def test_hostile_log(tmp_path: Path, name: str, frames: list[Frame], reason: str) -> None:
    recording = write(tmp_path / "rec", finish=False)
    path = _replace(recording, name, frames)
    with pytest.raises(FormatError, match=reason) as caught:
        contents(recording, name)
    assert str(path) in str(caught.value.where)
    assert "offset" in str(caught.value.where)


@pytest.mark.parametrize(("frames", "reason"), IMAGE)
def test_hostile_image(tmp_path: Path, frames: list[Frame], reason: str) -> None:
    recording = write(tmp_path / "rec", finish=False)
    path = _replace(recording, "initial.img", frames)
    with pytest.raises(FormatError, match=reason):
        list(read_image(path, recording.header_of("initial.img"), MEMORY))


def test_the_payloads_that_the_hostile_ones_vary_are_good(tmp_path: Path) -> None:
    recording = write(tmp_path / "rec", finish=False)
    _replace(recording, "agent.log", [(_HEAD + _WRITE, 1, 0, 0), (b"\1\0" + _WRITE + b"\0", 2, 1, 2)])
    assert [len(rows) for rows in contents(recording, "agent.log")] == [1, 2]  # type: ignore[arg-type]
    _replace(recording, "truth.log", [(b"\0\5", 1, 0, 0), (b"\0\5\1\0", 2, 1, 2)])
    assert contents(recording, "truth.log") == [[(0, 5)], [(0, 5), (1, 0)]]
    path = _replace(recording, "initial.img", [(_page(0, MEMORY - 4096), 2, 0, MEMORY - 4096)])
    pages = read_image(path, recording.header_of("initial.img"), MEMORY)
    assert list(pages) == [(0, _PAGE), (MEMORY - 4096, _PAGE)]
    _replace(recording, "core-0.log", [(b"\6\5\1", 1, 5, 5)])
    assert len(contents(recording, "core-0.log")) == 1
