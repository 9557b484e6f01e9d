"""The Python interface does what the commands do: the same options, the same facts, and it prints nothing."""

from __future__ import annotations

import inspect
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from cli_factory import FIRMWARE, run

import corebraid
from corebraid.base.errors import FormatError, UsageError
from corebraid.base.wording import said
from corebraid.cli.group import cli
from corebraid.cli.wording import TYPED
from corebraid.study.causes import passing
from corebraid.study.freedom.pair_lists import Pair
from recorder.replay.core import CoreReplay
from solver.evidence.lightplay.engine import SlicesEngine
from solver.regions.problem import Solution, Verdict

FIG1 = FIRMWARE / "fig1.elf"
ECHO = Path("/bin/echo")
#: Parameters of commands that are not of the function, and the other way round: (command's, function's).
SHOWN = {"as_json", "recording", "file"}
OTHERS: dict[str, tuple[set[str], set[str]]] = {
    "record": ({"source", "sink", "pass_exit_code"}, {"input", "output", "error", "progress"}),
    "hunt": ({"source", "sink"}, {"input", "progress", "branches", "note"}),
    "replay": ({"every", "jobs"}, {"sink", "progress"}),
    "checkpoint": (set(), {"progress"}),
    "order": (set(), {"progress", "note"}),
    "pairs": ({"witness"}, {"progress"}),
    "races": (set(), {"progress"}),
    "slices": ({"number"}, {"progress"}),
    "check": ({"witness"}, {"progress"}),
    "trace": ({"format_name", "target"}, set()),
    "verify": (set(), {"show", "note"}),
    "crosscheck": (set(), {"progress"}),
    "who-wrote": (set(), {"progress"}),
    "history": (set(), {"progress"}),
    "linkage": (set(), {"progress"}),
    "opr": ({"listing", "scoring"}, {"score"}),
    "rpc": ({"sink"}, {"show"}),
}


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A firmware image with all evidence."""
    path = tmp_path_factory.mktemp("api") / "rec"
    options = {"cores": 2, "evidence": "all", "strata": "cycles:3000"}
    corebraid.record(FIG1, path, **options)  # type: ignore[arg-type]
    return path


@pytest.fixture(scope="module")
def linux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Linux program."""
    path = tmp_path_factory.mktemp("api") / "linux"
    corebraid.record(ECHO, path, arguments=["hello"], cores=2, strata="cycles:100000")
    return path


@pytest.fixture(params=["rec", "linux"])
def each(request: pytest.FixtureRequest) -> Path:
    """Firmware and Linux."""
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.fixture
def damaged(rec: Path, tmp_path: Path) -> Path:
    """A copy with a byte of core 1's log changed."""
    path = tmp_path / "damaged"
    shutil.copytree(rec, path)
    log = bytearray((path / "core-1.log").read_bytes())
    log[len(log) // 2] ^= 0xFF
    (path / "core-1.log").write_bytes(log)
    return path


def timeless(value: Any) -> Any:
    """Without what differs from run to run."""
    if isinstance(value, dict):
        return {key: timeless(one) for key, one in value.items() if "seconds" not in key}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def told(*arguments: object, code: int = 0) -> Any:
    """What a command prints with --json, after what a guest may have printed."""
    ran = run(arguments[0], "--json", *arguments[1:])
    assert ran.code == code, ran.err
    return timeless(json.loads(ran.out[ran.out.index("{") :]))


def facts(result: Any) -> Any:
    """What a function says, as it comes out of JSON."""
    return timeless(json.loads(json.dumps(result.facts())))


# -- the same options ----------------------------------------------------------------------------------------


def defaults_of_command(name: str) -> dict[str, object]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    found = {}
    for option in command.params:
        value = option.get_default(click.Context(command)) if isinstance(option, click.Option) else None
        if isinstance(option, click.Option) and isinstance(value, str):
            value = option.type_cast_value(click.Context(command), value)
        found[str(option.name)] = value
    return found


def defaults_of_function(function: Callable[..., object]) -> dict[str, object]:
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


def plain(value: object) -> object:
    """A default; none, nothing and what has to be given are one."""
    unset = value is inspect.Parameter.empty or type(value).__name__ == "Sentinel"
    return None if unset or value in (None, (), "", False) else value


@pytest.mark.parametrize("name", sorted({*cli.list_commands(click.Context(cli))} - {"example"}))
def test_a_function_has_the_options_of_its_command(name: str) -> None:
    function = getattr(corebraid, name.replace("-", "_"))
    of_command, of_function = defaults_of_command(name), defaults_of_function(function)
    not_there, not_here = OTHERS.get(name, (set(), set()))
    assert set(of_command) - SHOWN - not_there == set(of_function) - SHOWN - not_here
    for option in set(of_command) & set(of_function) - SHOWN:
        assert plain(of_command[option]) == plain(of_function[option]), option


def test_the_interface_is_whole() -> None:
    for name in corebraid.__all__:
        assert getattr(corebraid, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'recorder'"):
        _ = corebraid.recorder  # type: ignore[attr-defined]


# -- the same facts ------------------------------------------------------------------------------------------


def test_record_firmware(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    by_command = told("record", "-o", tmp_path / "a", "--cores", 2, "--seed", 5, "--evidence", "slices", FIG1)
    capfd.readouterr()
    printed: list[bytes] = []
    done = corebraid.record(FIG1, tmp_path / "b", cores=2, seed=5, evidence="slices", output=printed.append)
    assert facts(done) | {"recording": ""} == by_command | {"recording": ""}
    assert done.failure() is None
    assert capfd.readouterr() == ("", "")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_record_a_linux_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = "read x; echo $x $A; exit 3"
    options = ("--json", "--cores", 1, "--env", "A=b", "--output", "out")
    ran = run("record", "-o", "a", *options, "/bin/sh", "-c", script, stdin=b"line\n")
    printed: list[bytes] = []
    done = corebraid.record(
        "/bin/sh", "b", arguments=["-c", script], cores=1, env=["A=b"], input=b"line\n",
        output=printed.append,
    )  # fmt: skip
    assert b"".join(printed) == Path("out").read_bytes() == b"line b\n"
    assert facts(done) | {"recording": ""} == timeless(json.loads(ran.out)) | {"recording": ""}
    assert done.end.exit_code == 3
    assert corebraid.record("/bin/true", cores=1).directory == Path("true.rec")


def test_a_guest_that_fails_is_no_error(tmp_path: Path) -> None:
    image = FIRMWARE / "fault_div.elf"
    by_command = run("record", "-o", tmp_path / "a", "--cores", 1, "--json", image)
    done = corebraid.record(image, tmp_path / "b", cores=1)
    failure = done.failure()
    assert failure is not None
    assert by_command.code == failure.exit_code == 3
    assert (
        facts(done)["fault"] == json.loads(by_command.out[by_command.out.index("{") :])["fault"] is not None
    )
    assert by_command.lines[-1].replace("/a ", "/b ") == f"corebraid: {failure}"


def test_info(each: Path) -> None:
    assert facts(corebraid.info(each)) == told("info", each)
    assert facts(corebraid.info(corebraid.open_recording(each))) == told("info", each)


def test_replay(each: Path) -> None:
    cores = told("replay", each, "--all")["cores"]
    assert facts(corebraid.replay_all(each, jobs=1))["cores"] == cores
    assert facts(corebraid.replay(each, 0)) == cores[0]
    paused = corebraid.replay(each, 0, first=20, until=40)
    assert facts(paused) == told("replay", each, "--core", 0, "--from", 20, "--until", 40)
    assert paused.accesses


def test_checkpoints(each: Path) -> None:
    made = facts(corebraid.checkpoint(each, every=1))
    assert made == told("checkpoint", each, "--every", 1)
    assert (
        sum(core["checkpoints"] for core in made["cores"])
        == corebraid.verify(each).facts()["checkpoints"]
        > 0
    )
    with pytest.raises(UsageError, match="or auto, found 'none'; write every='10000000'"):
        corebraid.checkpoint(each, every="none")


@pytest.mark.sampled(1)
def test_order_and_what_is_said_of_orders(each: Path) -> None:
    by_python = facts(corebraid.order(each, count=True, fresh=True))
    certificate = (each / "order.cert").read_bytes()
    assert by_python == told("order", each, "--count", "--fresh")
    assert (each / "order.cert").read_bytes() == certificate
    assert facts(corebraid.check_order(each)) == told("check-order", each)
    assert facts(corebraid.verify(each)) == told("verify", each)
    assert facts(corebraid.crosscheck(each)) == told("crosscheck", each)
    listed = [one.facts() for one in corebraid.pairs(each, only=["may"], limit=20)]
    lines = run("pairs", each, "--only", "may", "--limit", 20, "--json").out.splitlines()
    assert listed == [json.loads(line) for line in lines]
    summary = [one.facts() for one in corebraid.pairs(each, summary=True)]
    lines = run("pairs", each, "--summary", "--json").out.splitlines()
    assert summary == [json.loads(line) for line in lines]


def test_a_chosen_order_and_a_witness(rec: Path) -> None:
    pair = next(one for one in corebraid.pairs(rec, only=["must"]) if isinstance(one, Pair))
    named = f"{pair.events.name(pair.first)},{pair.events.name(pair.second)}"
    witness = corebraid.witness(rec, named)
    assert facts(witness) == told("pairs", rec, "--witness", named)
    assert [one.order is not None for one in witness.directions] == [True, False]
    by_python = facts(corebraid.order(rec, choose=f"before:{named}"))
    chosen = (rec / "order.cert").read_bytes()
    assert by_python == told("order", rec, "--choose", f"before:{named}")
    assert (rec / "order.cert").read_bytes() == chosen


@pytest.mark.parametrize(
    "options", [{}, {"ordered": True}, {"core": "0", "kind": "W", "first": 5, "until": 900}]
)
@pytest.mark.sampled(1)
def test_trace(options: dict[str, Any], each: Path) -> None:
    corebraid.order(each)
    flags = {"ordered": ["--ordered"]}.get(next(iter(options), ""), [])
    for name, value in options.items():
        flags += [] if value is True else ["--from" if name == "first" else f"--{name}", str(value)]
    for format_name in ("text", "jsonl"):
        sink = io.BytesIO()
        written = corebraid.trace(each, **options).write(sink, format_name)
        assert sink.getvalue().decode() == run("trace", each, "--format", format_name, *flags).out
    assert written.rows == sum(len(rows) for rows, _ in corebraid.trace(each, **options)) > 0


def test_axe_traces(rec: Path, tmp_path: Path) -> None:
    with (tmp_path / "trace.axe").open("wb") as sink:
        corebraid.trace(rec).write(sink, "axe")
    assert (tmp_path / "trace.axe").read_text() == run("trace", rec, "--format", "axe").out
    wrong = tmp_path / "wrong.axe"
    wrong.write_text("0: M[1] := 1\n1: M[1] == 2\ncheck\n0: M[1] := 1\n1: M[1] == 1\ncheck\n")
    # Whatever is compiled now takes no time of the answers that are compared.
    assert [one.word for one in corebraid.check(wrong, model="sc", explain=True)] == ["NO", "OK"]
    for file, code in ((tmp_path / "trace.axe", 0), (wrong, 1)):
        listed = told("check", file, "--model", "sc", "--explain", code=code)["traces"]
        assert [facts(one) for one in corebraid.check(file, model="sc", explain=True)] == listed
    assert [one.word for one in corebraid.check(io.BytesIO(wrong.read_bytes()), model="sc")] == ["NO", "OK"]
    with pytest.raises(UsageError, match=r"leave out core=, ordered=True, .*; keep addr="):
        corebraid.trace(rec, 0).write(io.BytesIO(), "axe")


@pytest.mark.parametrize("stream", ["linkage", "slices", "opr"])
def test_evidence(stream: str, rec: Path) -> None:
    assert facts(getattr(corebraid, stream)(rec)) == told(stream, rec)


def test_remote_procedure_calls(tmp_path: Path, rec: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing to execute again; corebraid\.replay\(\) repeats"):
        corebraid.rpc(rec)
    path = tmp_path / "rpc"
    corebraid.record(FIRMWARE / "rpc_divide.elf", path, evidence="rpc")
    again = corebraid.rpc(path, seed=7)
    assert again.equivalent
    assert facts(again) == told("rpc", path, "--seed", 7)


@pytest.mark.soak
def test_hunt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "COMPARED", 2)
    image = FIRMWARE / "bug_aba.elf"
    hunted = corebraid.hunt(image, tmp_path / "a", cores=2, runs=50, jobs=1, reduce=False)
    found = facts(hunted)
    by_command = told(
        "hunt", "-o", tmp_path / "b", "--cores", 2, "--runs", 50, "--jobs", 1, "--no-reduce", image
    )
    # These say what to run next: in Python, or on the command line.
    for name in ("again", "next", "recording"):
        assert str(tmp_path / "b") in str(by_command.pop(name))
        found.pop(name)
    assert found == by_command
    assert hunted.finding is not None
    again = eval(str(hunted.finding.again), {"corebraid": corebraid})
    assert again.end == hunted.finding.run.manifest.end
    nothing = corebraid.hunt(FIG1, tmp_path / "c", cores=2, runs=2, jobs=1)
    assert nothing.finding is None
    assert facts(nothing) == {"found": False, "runs": 2}


# -- what is wrong shows -------------------------------------------------------------------------------------


def test_damage_is_told_in_both(damaged: Path, rec: Path) -> None:
    verdict = facts(corebraid.verify(damaged))
    assert verdict == told("verify", damaged, code=1)
    assert verdict["findings"]
    assert not verdict["sound"]
    assert verdict | {"recording": ""} != facts(corebraid.verify(rec)) | {"recording": ""}
    assert facts(corebraid.replay_all(damaged)) == told("replay", damaged, "--all", code=2)
    with pytest.raises(FormatError):
        corebraid.replay(damaged, 1)


def test_a_divergence_says_where_to_look_in_the_words_of_its_reader(rec: Path) -> None:
    remedy = CoreReplay(corebraid.open_recording(rec), 1)._remedy(30)
    assert said(remedy) == f"look closer with: corebraid.trace('{rec}', core=1, first=10, until=31)"
    assert said(remedy, TYPED) == f"look closer with: corebraid trace {rec} --core 1 --from 10 --until 31"


def test_a_manifest_that_cannot_be_read(damaged: Path, tmp_path: Path) -> None:
    (damaged / "manifest.json").write_text("{")
    assert facts(corebraid.verify(damaged)) == told("verify", damaged, code=1)
    with pytest.raises(FormatError, match="there is no such recording"):
        corebraid.verify(tmp_path / "nowhere")


def test_a_trace_of_a_damaged_log_prints_no_head(damaged: Path) -> None:
    ran = run("trace", damaged, "--core", 1)
    assert ran.code == 2
    assert ran.out == ""
    assert "core-1.log" in ran.err
    assert run("trace", damaged, "--core", 0, "--until", 1, "--kind", "RMW").out.startswith("stratum core")


# -- nothing is printed, nothing is lost ---------------------------------------------------------------------


def test_the_interface_prints_nothing(rec: Path, capfd: pytest.CaptureFixture[str]) -> None:
    corebraid.order(rec)
    corebraid.verify(rec)
    list(corebraid.pairs(rec))
    corebraid.crosscheck(rec)
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def partly(tmp_path: Path) -> Path:
    """A recording of a program whose evidence of slices leaves a region undecided."""
    path = tmp_path / "partly"
    corebraid.record(FIRMWARE / "fig2.elf", path, cores=4, evidence="slices", strata="cycles:3000")
    return path


def test_a_complete_order_is_not_replaced_by_a_partial_one(
    partly: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert corebraid.order(partly).verdict is Verdict.LEGAL
    complete = (partly / "order.cert").read_bytes()
    solve = SlicesEngine.solve

    def gives_up(self: SlicesEngine, region: Any, problem: Any) -> Solution:
        found = solve(self, region, problem)
        return (
            found
            if region.index
            else Solution(Verdict.UNDECIDED, "slices", 0.0, np.zeros(0, np.int64), "no evidence")
        )

    monkeypatch.setattr(SlicesEngine, "solve", gives_up)
    ran = run("order", partly, "--engine", "slices")
    assert ran.code == 0
    assert (partly / "order.cert").read_bytes() == complete
    assert f"corebraid: {partly}/order.cert orders every region, and is left as it was" in ran.lines
    assert "order.cert" not in ran.out
    assert corebraid.order(partly, engine="slices").kept
    # One that is not complete is replaced, and so is one of another recording.
    (partly / "order.cert").write_bytes(complete[:-9])
    assert not corebraid.order(partly, engine="slices").kept
    assert corebraid.check_order(partly).undecided == [0]


def test_help_says_why_regions_stay_undecided() -> None:
    told_of = " ".join(run("order", "--help").out.split())
    assert "not decided in time, or, with an engine with evidence, where that ends" in told_of
