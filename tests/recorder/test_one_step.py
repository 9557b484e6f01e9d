"""What is written in one step is there whole or not at all, and nothing else is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from format_factory import manifest

from recorder.files.frame import INITIAL_IMAGE, FileHeader
from recorder.files.image_file import write_image
from recorder.files.one_step import in_one_step
from recorder.files.writer import RecordingWriter


def test_a_file_takes_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with in_one_step(tmp_path / "file") as partial:
        partial.write_text("new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "new")]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, MemoryError])
def test_what_is_interrupted_leaves_nothing(error: type[BaseException], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")

    def half() -> None:
        with in_one_step(tmp_path / "file") as partial:
            partial.write_text("half")
            raise error

    with pytest.raises(error):
        half()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "old")]


def test_an_image_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    def pages():  # type: ignore[no-untyped-def]
        yield 0x1000, np.ones(4096, np.uint8)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_image(tmp_path / "initial.img", FileHeader(INITIAL_IMAGE, 0, bytes(16), 64), pages())
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_cannot_take_its_place_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RecordingWriter.create(tmp_path / "rec", manifest()) as writer:
        monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            writer.write_image("initial", [(0x1000, np.ones(4096, np.uint8))])
    assert [path.name for path in (tmp_path / "rec").glob("*.partial")] == []
