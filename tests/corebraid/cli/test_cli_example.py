"""`corebraid example`: what is listed is what is there, and copies are made of it."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from cli_factory import FIRMWARE, ROOT, record, run

from corebraid.cli.examples import Example, examples

LINUX = ROOT / "firmware" / "linux"


def plain(cell: str) -> str:
    """A cell of a table without its marks."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell).replace("`", "").strip()


def rows(page: Path) -> dict[str, list[str]]:
    """The tables of programs of a page: name to the other cells, as text."""
    found = {}
    for line in page.read_text().splitlines():
        if re.match(r"\| `\w+` \|", line):
            name, *cells = (plain(cell) for cell in line.strip("|").split("|"))
            found[name] = cells
    return found


def listed(prefix: str) -> dict[str, Example]:
    return {
        one.name.removeprefix("linux/"): one for one in examples() if one.is_linux == (prefix == "linux/")
    }


def test_every_image_is_listed_and_every_example_is_there() -> None:
    assert sorted(listed("")) == sorted(path.stem for path in FIRMWARE.glob("*.elf"))
    programs = {path.name for path in (LINUX / "x86_64").iterdir() if path.suffix != ".so"}
    assert set(listed("linux/")) == programs
    assert [
        file for one in examples() for file in one.files if not (ROOT / "firmware" / file).is_file()
    ] == []


def test_examples_are_described_as_the_pages_describe_them() -> None:
    firmware = rows(ROOT / "firmware" / "README.md")
    for name, one in listed("").items():
        does, *more = firmware[name]
        assert does == one.does
        if not name.startswith("fault_"):
            assert one.prints == more[0]
            assert more[1].removesuffix(" (docs/rpc.md)") in one.shows
    linux = rows(LINUX / "README.md")
    for name, one in listed("linux/").items():
        assert linux[name][0] == one.does if name in linux else one.does.endswith("without its bug")


def test_linux_examples_print_what_is_expected_of_them() -> None:
    expected = json.loads((LINUX / "expected.json").read_text())
    for name, one in listed("linux/").items():
        outcomes = expected[name], expected[name].get("recorder", {})
        printed = "".join(str(it.get(key, "")) for it in outcomes for key in ("stdout", "stdout_ends"))
        assert one.prints in printed, name


def test_the_list_has_a_line_for_each() -> None:
    out = run("example").out.splitlines()
    assert len(out) == 1 + len(examples())
    assert out[1].startswith("uts ")
    assert "1-64" in out[1]
    assert "prints 'uts: nodes 613'" in out[1]
    facts = json.loads(run("example", "--json").out)["examples"]
    assert [one["name"] for one in facts] == [one.name for one in examples()]
    assert facts[0]["files"] == ["uts.elf", "uts.c"]


def test_an_example_is_copied_and_can_be_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("example", "fig1")
    assert (ran.code, ran.out, ran.err) == (0, "fig1.elf\nfig1.c\n", "")
    assert Path("fig1.elf").read_bytes() == (FIRMWARE / "fig1.elf").read_bytes()
    assert Path("fig1.c").read_bytes() == (ROOT / "firmware/src/fig1.c").read_bytes()
    assert record(tmp_path / "rec", Path("fig1.elf"), "--cores", 2).code == 0


def test_a_linux_example_comes_with_what_it_loads(tmp_path: Path) -> None:
    ran = run("example", "linux/runpath", "linux/good_counter", "-o", tmp_path / "a" / "b", "--json")
    names = ["runpath", "runpath.c", "tls_module.so", "good_counter", "bug_lost_update.c"]
    assert json.loads(ran.out) == {
        "examples": ["linux/runpath", "linux/good_counter"],
        "files": [str(tmp_path / "a" / "b" / name) for name in names],
    }
    assert os.access(tmp_path / "a" / "b" / "runpath", os.X_OK)


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["utz"], "there is no such example: found 'utz'; did you mean uts"),
        (["firmware/x86_64/uts.elf"], "found 'firmware/x86_64/uts.elf'; did you mean uts"),
        (["bug_publication"], "did you mean linux/bug_publication"),
        (["xyzzy"], "'corebraid example' lists them"),
        (["bug_aba", "linux/bug_aba"], "bug_aba.c: two examples have this file; choose another directory"),
        (
            ["uts"],
            "uts.c: there is already a file here; choose another directory with -o; nothing was copied",
        ),
    ],
)
def test_refused(names: list[str], error: str, tmp_path: Path) -> None:
    (tmp_path / "uts.c").write_text("mine")
    ran = run("example", *names, "-o", tmp_path)
    assert ran.code == 2
    assert len(ran.lines) == 1
    assert error in ran.lines[0]
    assert [path.name for path in tmp_path.iterdir()] == ["uts.c"]
    assert (tmp_path / "uts.c").read_text() == "mine"


def test_a_directory_without_a_name_or_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    assert run("example", "-o", tmp_path).code == 2
    (tmp_path / "file").touch()
    ran = run("example", "uts", "-o", tmp_path / "file" / "x")
    assert ran.code == 2
    assert "the directory cannot be made (Not a directory)" in ran.err


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert record(tmp_path / "rec", "fig1", "--cores", 2).code == 0
    monkeypatch.delitem(sys.modules, "corebraid.study.export.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ran = run("trace", tmp_path / "rec", "--format", "parquet", "-o", tmp_path / "t")
    assert ran.code == 2
    assert "pip install 'corebraid[parquet]'" in ran.err
    assert not (tmp_path / "t").exists()
