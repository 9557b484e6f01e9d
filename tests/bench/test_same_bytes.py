"""The proof that two versions make the same bytes: one version agrees with itself, planted differences are
named, and what is recorded covers what it promises.

Most run a stand-in for a version of corebraid, which writes what it is told; some run this one.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.same_bytes.__main__ import main
from bench.same_bytes.cases import all_cases, chosen_cases
from recorder.files.evidence_names import STREAMS

ROOT = Path(__file__).resolve().parents[2]
FIRMWARE = ROOT / "firmware"

#: A version of corebraid: FILES of a recording, CERTIFICATE of an order; times and paths differ always.
_STAND_IN = """
import json, sys, time
from pathlib import Path
FILES, CERTIFICATE, VERDICT, CODE = {files!r}, {certificate!r}, {verdict!r}, {code!r}
command, arguments = sys.argv[1], sys.argv[2:]
if command == "record":
    recording = Path(arguments[arguments.index("-o") + 1])
    Path(arguments[arguments.index("--output") + 1]).write_text("hello")
    recording.mkdir()
    for name, raw in FILES.items():
        (recording / name).write_bytes(raw)
elif command == "order":
    recording = Path(arguments[0])
    (recording / "order.cert").write_bytes(CERTIFICATE)
else:
    recording = Path(arguments[0])
facts = {{"recording": str(recording), "certificate": str(recording / "order.cert"), "verdict": VERDICT}}
print(json.dumps(facts | {{"by_region": [{{"region": 0, "seconds": time.time()}}], "seconds": time.time()}}))
print("what went wrong", file=sys.stderr)
sys.exit(CODE)
"""
_MANIFEST = {"cores": 4, "totals": {"misses": 7}, "files": {"core-0.log": {"bytes": 5000}}, "digest": "a"}
_LOG = bytes(range(250)) * 20


def manifest(**changed: object) -> bytes:
    return json.dumps({**_MANIFEST, **changed}).encode()


def files(**changed: bytes | None) -> dict[str, bytes]:
    """What the stand-in's recording holds; None takes a file away. A _ stands for a dot."""
    held: dict[str, bytes | None] = {"manifest_json": manifest(), "core-0_log": _LOG, "truth_log": b"truth"}
    return {name.replace("_", "."): raw for name, raw in {**held, **changed}.items() if raw is not None}


def version(
    place: Path,
    recorded: dict[str, bytes],
    certificate: bytes = b"cert",
    verdict: str = "legal",
    code: int = 0,
) -> Path:
    """A checkout of a stand-in."""
    package = place / "corebraid"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    text = _STAND_IN.format(files=recorded, certificate=certificate, verdict=verdict, code=code)
    (package / "__main__.py").write_text(text)
    return place


def make(source: Path, out: Path, *options: str) -> int:
    """`make` with fig2 only, guests beside the note."""
    place = out.parent / "place"
    how = ("--source", str(source), "--python", sys.executable, "--place", str(place))
    return main(["make", str(out), *how, "--programs", "fig2", "--quick", *options])


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The note of the stand-in as it is."""
    assert make(version(tmp_path / "before", files()), tmp_path / "before.json") == 0
    return tmp_path / "before.json"


def compared(before: Path, after: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Exit code and lines of `compare`."""
    capsys.readouterr()
    code = main(["compare", str(before), str(after)])
    return code, capsys.readouterr().out.splitlines()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The note of this version."""
    path = tmp_path_factory.mktemp("ours") / "one.json"
    assert make(ROOT, path) == 0
    return path


@pytest.mark.soak
def test_one_program_with_itself_is_equal(
    ours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(ROOT, tmp_path / "two.json") == 0, capsys.readouterr().err
    code, lines = compared(ours, tmp_path / "two.json", capsys)
    print(*lines, sep="\n")
    assert code == 0
    assert lines[0].startswith("equal      fig2 sc: ")
    assert lines[-1].startswith("2 of 2 recordings are equal; ")
    held = json.loads(ours.read_text())["recordings"]["fig2 sc"]["files"]
    streams = {f"evidence-{name}.log" for name in STREAMS}
    orders = {f"order.cert --engine {name}" for name in ("auto", "linkage", "slices", "opr")}
    assert held.keys() >= {"manifest.json", "core-0.log", "truth.log", "printed"} | streams | orders


@pytest.mark.soak
def test_another_recording_is_not_equal(
    ours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One case's recording is taken for another's."""
    cases = chosen_cases(all_cases(FIRMWARE), ["fig2"], quick=True)
    note = json.loads(ours.read_text())
    first, second = (note["recordings"][case.name] for case in cases)
    note["recordings"][cases[0].name] = {**second, "command": first["command"]}
    (tmp_path / "two.json").write_text(json.dumps(note))
    code, lines = compared(ours, tmp_path / "two.json", capsys)
    assert code == 1
    assert lines[0].startswith(f"DIFFERENT  {cases[0].name}, first manifest.json: ")
    assert lines[-1].startswith("1 of 2 recordings are equal; ")


def test_times_and_paths_do_not_count(
    before: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(version(tmp_path / "a-longer-path" / "after", files()), tmp_path / "after.json") == 0
    code, lines = compared(before, tmp_path / "after.json", capsys)
    assert (code, lines[-1].split(";")[0]) == (0, "2 of 2 recordings are equal")


_FLIPPED = _LOG[:3000] + bytes([_LOG[3000] ^ 1]) + _LOG[3001:]
_FOLLOWS = manifest(files={"core-0.log": {"bytes": 4999}}, digest="b")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"core-0_log": _FLIPPED}, ["core-0.log: first in the bytes 2,048 to 3,071 of 5,000"]),
        (
            {"core-0_log": _LOG[:-1]},
            ["core-0.log: first in the bytes 4,096 to 4,999 of 5,000, then of 4,999"],
        ),
        ({"manifest_json": manifest(totals={"misses": 8})}, ["manifest.json: totals.misses 7, then 8"]),
        ({"manifest_json": manifest(cores=True)}, ["manifest.json: cores 4, then True"]),
        ({"manifest_json": manifest(more=None)}, ["manifest.json: more missing, then None"]),
        ({"manifest_json": manifest() + b"\n"}, ["manifest.json: first in the bytes 0 to "]),
        ({"truth_log": None}, ["truth.log: only before"]),
        ({"extra_log": b"new"}, ["extra.log: only after"]),
        (
            {"core-0_log": _LOG[:-1], "manifest_json": _FOLLOWS},
            ["core-0.log: first in", "manifest.json: files.core-0.log.bytes 5000, then 4999; digest 'a'"],
        ),
    ],
)
def test_a_planted_difference_is_named(
    changed: dict[str, bytes | None],
    expected: list[str],
    before: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert make(version(tmp_path / "after", files(**changed)), tmp_path / "after.json") == 0
    code, lines = compared(before, tmp_path / "after.json", capsys)
    print(*lines, sep="\n")
    assert code == 1
    assert lines[0].startswith(f"DIFFERENT  fig2 sc, first {expected[0]}")
    for line, start in zip(lines[1:], expected[1:], strict=False):
        assert line.strip().startswith(start)
    assert lines[len(expected)].startswith("DIFFERENT  fig2 tso, first ")
    assert lines[-1].startswith("0 of 2 recordings are equal")


def test_certificates_and_answers_count(
    before: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(version(tmp_path / "after", files(), b"dert", "illegal", 1), tmp_path / "after.json") == 0
    code, lines = compared(before, tmp_path / "after.json", capsys)
    text = "\n".join(lines)
    print(text)
    assert code == 1
    assert "fig2 sc, first order.cert --engine auto: first in the bytes 0 to 3 of 4\n" in text
    assert "order --engine slices --json: exit 0, then 1; said.verdict 'legal', then 'illegal'\n" in text


def test_a_recording_of_one_note_only(
    before: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = json.loads(before.read_text())
    del note["recordings"]["fig2 tso"]
    note["recordings"]["fig2 sc"]["command"] = "record --seed 8"
    (tmp_path / "after.json").write_text(json.dumps(note))
    code, lines = compared(before, tmp_path / "after.json", capsys)
    assert code == 1
    assert lines[0].startswith("DIFFERENT  fig2 sc, first the command: 'record ")
    assert lines[1] == "DIFFERENT  fig2 tso: only before"


def test_a_command_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make(version(tmp_path / "bad", files(), code=2), tmp_path / "note.json") == 1
    assert "same_bytes: fig2 sc: record ends with 2: what went wrong\n" in capsys.readouterr().err


def test_bad_input(tmp_path: Path, before: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, note = str(before), str(tmp_path / "note.json")
    (tmp_path / "text").write_text("no note")
    (tmp_path / "other.json").write_text(
        '{"format": "corebraid same bytes", "version": 1, "recordings": {"a": 1}}'
    )
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "guests").mkdir()
    bad = [
        (["compare", good, str(tmp_path / "none")], "none cannot be read (No such file or directory)"),
        (["compare", str(tmp_path / "text"), good], "text is not JSON"),
        (["compare", good, str(tmp_path / "other.json")], "other.json is not what `make`"),
        (["make", note, "--programs", "nine"], "no such program: nine"),
        (["make", note, "--jobs", "0"], "--jobs is at least 1"),
        (["make", str(tmp_path)], "cannot be written"),
        (["make", note, "--firmware", str(tmp_path)], "check --firmware"),
        (["make", note, "--place", str(tmp_path / "full")], "full is not empty: choose another --place"),
        (["make", note, "--place", str(tmp_path / "p"), "--source", str(tmp_path)], "check --source"),
        (["make", note, "--place", str(tmp_path / "p"), "--python", "/none"], "check --python"),
    ]  # fmt: skip
    for arguments, expected in bad:
        capsys.readouterr()
        assert main(arguments) == 2, arguments
        said = capsys.readouterr().err
        assert expected in said, arguments
        assert said.count("\n") == 1
    assert (tmp_path / "full" / "guests").is_dir()


def test_what_is_recorded() -> None:
    cases = all_cases(FIRMWARE)
    assert len({case.name for case in cases}) == len(cases)
    models = Counter((case.short, case.options[1]) for case in cases if not case.linux)
    for image in (FIRMWARE / "x86_64").glob("*.elf"):
        assert models[image.stem, "sc"], image
        assert models[image.stem, "tso"], image
    assert len({case.short for case in cases if case.linux}) >= 12
    for option, start, least in (
        ("--evidence", "all", 40), ("--evidence", "linkage,slices,opr,losses", 12),
        ("--cache", "1k:2:32", 10), ("--cache", "4k:4:64", 10), ("--strata", "downgrades:", 20),
        ("--schedule", "pct:", 20), ("--schedule", "chaos", 10),
        ("--group", "symbol", 5), ("--store-buffer", "1", 5), ("--rset", "0", 5),
    ):  # fmt: skip
        found = [case for case in cases if option in case.options]
        found = [case for case in found if case.options[case.options.index(option) + 1].startswith(start)]
        assert len(found) >= least, (option, start)
    assert all((FIRMWARE / case.program).exists() for case in cases)
