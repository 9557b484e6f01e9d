"""The manifest of a recording: damage at every byte and bit, hostile fields, what is not a recording."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from format_factory import contents, flips, manifest, page, write

from corebraid.base.errors import FormatError
from emu.linux.tasks.waiting import Awaited, Waiting
from recorder.files import manifest as manifest_file
from recorder.files.end import End
from recorder.files.manifest import Manifest, Program
from recorder.files.reader import Recording, load_image
from recorder.files.sealed_json import seal
from recorder.files.writer import RecordingWriter

END = End("deadlock").facts()
WAITING = {"tid": 1, "name": "x", "what": "mutex", "address": 8, "owner": 2, "value": None, "call": ""}


def _resealed(path: Path, **changes: object) -> None:
    """Change fields of a manifest and give it the right digest, as a hostile author would."""
    fields = json.loads((path / "manifest.json").read_text())
    del fields["digest"]
    (path / "manifest.json").write_bytes(seal({**fields, **changes}))


def test_every_changed_byte_of_the_manifest_is_found(tmp_path: Path) -> None:
    write(tmp_path / "rec")
    path = tmp_path / "rec" / "manifest.json"
    data = path.read_bytes()
    cuts = [data[:size] for size in range(len(data))]
    for changed in [*flips(data), *cuts, data + b" ", data + b"\n"]:
        with pytest.raises(FormatError):
            manifest_file.parse(changed, path)
    path.write_bytes(data[:-1])
    with pytest.raises(FormatError, match="digest"):
        Recording.open(tmp_path / "rec")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"version": 5}, "version"),
        ({"format": "tar"}, "format"),
        ({"cores": 0}, "cores"),
        ({"cores": 65}, "cores"),
        ({"cores": True}, "cores"),
        ({"cores": 2.0}, "cores"),
        ({"line": 48}, "line"),
        ({"line": 512}, "line"),
        ({"memory": 1 << 60}, "memory"),
        ({"memory": 4097}, "memory"),
        ({"memory": 1 << 36}, "memory"),
        ({"seed": -1}, "seed"),
        ({"seed": 1 << 64}, "seed"),
        ({"seed": "1"}, "seed"),
        ({"cache": "big"}, "cache"),
        ({"strata": "cycles"}, "strata"),
        ({"model": "weak"}, "model"),
        ({"program": {"name": "../x", "sha256": "ab" * 32}}, "program.name"),
        ({"program": {"name": "x"}}, "program.sha256"),
        ({"agents": ["\x1b[31m"]}, "agents"),
        ({"options": {"x": []}}, "options.x"),
        ({"end": None}, "end"),
        ({"instructions": [1]}, "instructions"),
        ({"files": {}}, "files.initial.img"),
        ({"files": {"../x": {}}}, "files"),
        ({"id": "00" * 16}, "id"),
        ({"surprise": 1}, "surprise"),
        ({"complete": 1}, "complete"),
        ({"end": {**END, "address": -1}}, "end.address"),
        ({"end": {**END, "address": None}}, "end.address"),
        ({"end": {**END, "names": []}}, "end.names"),
        ({"end": {**END, "names": [{"tid": 1}]}}, "end.names"),
        ({"end": {**END, "names": [{"tid": 1, "name": "\x1b"}]}}, "end.names.name"),
        ({"end": {**END, "names": [{"tid": 1, "name": "x"}] * 4097}}, "end.names"),
        ({"end": {**END, "waits": []}}, "end.waits"),
        ({"end": {**END, "waits": [1]}}, "end.waits"),
        ({"end": {**END, "waits": [WAITING] * 4097}}, "end.waits"),
        ({"end": {**END, "waits": [{**WAITING, "what": "MUTEX"}]}}, "end.waits.what"),
        ({"end": {**END, "waits": [{**WAITING, "name": "\x1b"}]}}, "end.waits.name"),
        ({"end": {**END, "waits": [{**WAITING, "ended": 1}]}}, "end.waits.ended"),
        ({"end": {**END, "waits": [{**WAITING, "registers": [1]}]}}, "end.waits.registers"),
        ({"end": {**END, "waits": [{**WAITING, "registers": {"rsp": -1}}]}}, "end.waits.registers.rsp"),
        ({"end": {**END, "waits": [{**WAITING, "owner": -1}]}}, "end.waits.owner"),
        ({"end": {**END, "waits": [{**WAITING, "more": 1}]}}, "end.waits.more"),
    ],
)
def test_a_hostile_manifest(tmp_path: Path, changes: dict[str, object], field: str) -> None:
    write(tmp_path / "rec")
    _resealed(tmp_path / "rec", **changes)
    with pytest.raises(FormatError, match=field) as caught:
        Recording.open(tmp_path / "rec")
    assert caught.value.remedy


def test_what_is_not_a_manifest(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    nested = b'{"a":' * 900 + b"1" + b"}" * 900
    for data in (
        b"",
        b"[]",
        b"{",
        b"\xff",
        nested,
        b"[" * 100000,
        b'{"seed": NaN}',
        b'{"a": ' + b"9" * 5000 + b"}",
    ):
        path.write_bytes(data)
        with pytest.raises(FormatError):
            Recording.open(tmp_path)
    path.write_bytes(b"{}" + b" " * (16 << 20))
    with pytest.raises(FormatError, match="too long"):
        Recording.open(tmp_path)


def test_what_is_not_a_recording(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="no such recording"):
        Recording.open(tmp_path / "none")
    with pytest.raises(FormatError, match="is a directory"):
        Recording.open(tmp_path / "file")
    with pytest.raises(FormatError, match=r"no manifest\.json"):
        Recording.open(tmp_path / "empty")
    with pytest.raises(FormatError):
        Recording.open("a\0b")
    recording = write(tmp_path / "rec")
    for make in (os.mkfifo, os.mkdir):
        shutil.rmtree(tmp_path / "rec")
        recording = write(tmp_path / "rec", finish=False)
        recording.core_log_path(0).unlink()
        make(recording.core_log_path(0))
        with pytest.raises(FormatError, match="not a regular file"):
            contents(recording, "core-0.log")


def test_a_page_outside_the_memory_is_refused(tmp_path: Path) -> None:
    recording = write(tmp_path / "rec")
    _resealed(tmp_path / "rec", memory=8192, id=_id_with(recording.manifest, 8192))
    with pytest.raises(FormatError):
        contents(Recording.open(tmp_path / "rec"), "initial.img")
    with pytest.raises(FormatError, match="page address"):
        load_image(recording, "initial", np.zeros(8192, dtype=np.uint8))
    with (
        RecordingWriter.create(tmp_path / "new", manifest()) as writer,
        pytest.raises(FormatError, match="ascending"),
    ):
        writer.write_image("initial", [(0x2000, page(1)), (0x1000, page(1))])


def _id_with(old: Manifest, memory: int) -> str:
    return replace(old, memory=memory).id.hex()


def test_finish_needs_both_images_and_every_core(tmp_path: Path) -> None:
    with (
        RecordingWriter.create(tmp_path / "a", manifest()) as writer,
        pytest.raises(FormatError, match="not written"),
    ):
        writer.finish(End("fault"), (1, 2))
    with RecordingWriter.create(tmp_path / "b", manifest()) as writer:
        writer.write_image("initial", [])
        writer.write_image("final", [])
        with pytest.raises(FormatError, match="instructions"):
            writer.finish(End("fault"), (1,))
    assert not Recording.open(tmp_path / "b").manifest.complete
    with pytest.raises(FormatError, match="cores"):
        RecordingWriter.create(tmp_path / "c", Manifest("x86_64", Program("a", "0" * 64), 65, 4096))
    assert not (tmp_path / "c").exists()


def test_opening_imports_nothing_heavy(tmp_path: Path) -> None:
    write(tmp_path / "rec")
    code = (
        "import sys; from recorder.files.reader import Recording; Recording.open(sys.argv[1]);"
        "print({'numba', 'unicorn', 'z3', 'capstone'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "rec"], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"


def test_who_waits_for_whom_survives(tmp_path: Path) -> None:
    waits = tuple(Waiting(n, f"t{n}", what, n or None, 7, 2, "x") for n, what in enumerate(Awaited))
    waits += (Waiting(99, "last", Awaited.MUTEX, 8, 7, ended=True, registers=(("rip", 1 << 63), ("rsp", 0))),)
    end = End("deadlock", text="see waits", waits=waits)
    known = manifest()
    assert manifest_file.parse(replace(known, end=end).render(), tmp_path).end == end
    assert "waits" not in json.loads(replace(known, end=End("exit")).render())["end"]


@pytest.mark.parametrize("address", [None, 0, 0x8, (1 << 64) - 1])
def test_the_address_of_a_bad_access_survives(tmp_path: Path, address: int | None) -> None:
    names = () if address is None else ((1001, "worker"), (1002, ""))
    end = End("signal", 139, 0, 1, "killed by SIGSEGV", address=address, names=names)
    raw = replace(manifest(), end=end).render()
    assert manifest_file.parse(raw, tmp_path).end == end
    assert ("address" in json.loads(raw)["end"]) is (address is not None)
    assert ("names" in json.loads(raw)["end"]) is (address is not None)
