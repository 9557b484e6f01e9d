"""Where machine code is kept: for all installations of the same sources, and for none of others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from cli_factory import ROOT

from corebraid.base.compiled import store
from corebraid.base.compiled.image import Image
from corebraid.base.compiled.store import Store, Stored
from corebraid.base.kernel_cache import code_folder

IMAGE = Image(bytes(4096), 8, {"entry": 0}, [], [])


def stored(entry: str) -> Stored:
    return Stored(entry, [("environment", b"constants")], IMAGE)


def entry_of(found: Stored | None) -> str | None:
    return None if found is None else found.entry


def test_all_installations_share_what_one_has_made() -> None:
    """But for who has chosen a cache of his own."""
    ours = [Path(f"/home/somebody/.cache/corebraid/kernels-{n}") for n in ("0c4b52d11d87", "2fa0020ecb74")]
    assert {code_folder(cache) for cache in ours} == {Path("/home/somebody/.cache/corebraid/kernels")}
    assert code_folder(Path("/tmp/kernels-mine")) == Path("/tmp/kernels-mine/loaded")
    assert code_folder(Path("/tmp/chosen")) == Path("/tmp/chosen/loaded")


def test_what_a_wheel_brings_is_used_where_the_user_has_none(tmp_path: Path) -> None:
    mine, built = tmp_path / "mine" / "a-b", tmp_path / "built"
    Store(built, tmp_path / "none").save("kernel", "key", stored("brought"))
    both = Store(mine, built)
    assert entry_of(both.load("kernel", "key")) == "brought"
    assert both.load("kernel", "other key") is None
    assert not mine.exists()
    both.save("kernel", "key", stored("compiled"))
    assert entry_of(both.load("kernel", "key")) == "compiled"
    assert entry_of(Store(built, built).load("kernel", "key")) == "brought"
    # One that cannot be read is as none.
    (file,) = mine.iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    assert entry_of(both.load("kernel", "key")) == "brought"


def test_where_nothing_can_be_kept_a_wheel_still_helps(tmp_path: Path) -> None:
    Store(tmp_path / "built", tmp_path / "none").save("kernel", "key", stored("brought"))
    nowhere = Store(None, tmp_path / "built")
    nowhere.save("kernel", "other", stored("compiled"))
    assert entry_of(nowhere.load("kernel", "key")) == "brought"
    assert nowhere.load("kernel", "other") is None


def test_code_of_other_sources_is_kept_for_a_while(tmp_path: Path) -> None:
    """Of the same processor: installations of several versions take turns."""
    for n in range(12):
        Store(tmp_path / f"here-{n:02}", tmp_path / "none").save("kernel", "key", stored("compiled"))
        os.utime(tmp_path / f"here-{n:02}", (n, n))
    Store(tmp_path / "there-00", tmp_path / "none").save("kernel", "key", stored("compiled"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"here-{n:02}" for n in range(4, 12)), "there-00"
    ]  # fmt: skip


def copy_of_sources(folder: Path) -> Path:
    for package in ("isa", "emu", "recorder", "solver", "corebraid"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_names_are_of_sources_and_surroundings_not_of_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = store.built_name()
    monkeypatch.setattr(store, "_ROOT", copy_of_sources(tmp_path))
    assert store.built_name() == name
    path = tmp_path / "isa" / "table.py"
    path.write_text(path.read_text() + "\n")
    assert store.built_name() != name


def test_names_depend_on_how_code_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the builder of a wheel asks for is what a user's would be without: that of any processor."""
    mine, built = store._surroundings(store._processor()), store.built_name()
    assert mine != store._surroundings(b"another processor")
    for option, value in store.ANY_PROCESSOR.items():
        monkeypatch.setenv(option, value)
    assert store.built_name() == built
    assert store._surroundings(store._processor()) != mine
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    assert store.built_name() != built
