"""The tables of evidence streams and of engines: a row more shows up wherever all of them do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
from cli_factory import ROOT, run
from click.testing import CliRunner

import corebraid
from corebraid.base.errors import UsageError
from corebraid.base.wording import said
from corebraid.cli.guest_options import evidence_choices
from corebraid.cli.wording import TYPED
from corebraid.study.crosschecks import names_of
from corebraid.study.engines import (
    ENGINES,
    Engine,
    engines_said,
    evidence_engine,
    ordering_engines,
    whole_runs,
)
from corebraid.study.whole_runs import WholeRun
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import RecordOptions, record
from recorder.evidence.integrity import integrity
from recorder.evidence.slices.codec import DEFAULT_ACCESSES, MOST_ACCESSES
from recorder.files.collectors import EvidenceWriter, Guest, Rows
from recorder.files.evidence_names import (
    STREAMS,
    Stream,
    StreamOption,
    check_evidence,
    loaded,
    parse_names,
    settled,
    stream_of,
)
from recorder.files.reader import Recording, iter_evidence
from solver.evidence.linkage.engine import LinkageEngine
from solver.passes.answers import SOLVERS

FIG1 = ROOT / "firmware" / "x86_64" / "fig1.elf"


class Counter:
    """A collector that writes how many events there were, stratum by stratum."""

    def __init__(self, writer: EvidenceWriter, pace: int) -> None:
        self._writer, self._pace, self._events, self._frames = writer, pace, 0, 0

    def take(self, stream: int, rows: Rows) -> None:
        self._events += len(rows)

    def stratum(self) -> None:
        self._writer.append(f"{self._events} {self._pace}".encode(), 1, self._frames, self._frames)
        self._frames += 1

    def flush(self) -> None:
        pass

    def finish(self) -> None:
        self.stratum()


def make_counter(guest: Guest, writer: EvidenceWriter, options: Mapping[str, object]) -> Counter:
    return Counter(writer, int(str(options["pace"])))


def iter_counts(recording: Recording) -> Iterator[list[int]]:
    for _, raw in iter_evidence(recording, "counts"):
        yield [int(word) for word in raw.split()]


def count_faults(recording: Recording) -> Iterator[tuple[str, str]]:
    if not recording.manifest.totals["strata"]:
        yield "evidence-counts.log", "it counts no strata"


def no_faults(recording: Recording) -> Iterator[tuple[str, str]]:
    yield from ()


COUNTS = Stream(
    "counts", 13, "how many events there were",
    collector="test_tables:make_counter", frames="test_tables:iter_counts", faults="test_tables:no_faults",
    options=(StreamOption("pace", "How fast.", lambda given, cores: given or cores, bounds=(1, 9)),),
    of_events=True, models=("sc",), only_for="firmware that counts",
)  # fmt: skip


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """A stream more."""
    monkeypatch.setitem(STREAMS, "counts", COUNTS)
    return COUNTS


def recorded(path: Path, *evidence: str, **given: object) -> Recording:
    options = RecordOptions(
        cores=2, evidence=evidence, evidence_options=settled(evidence, given, 2), memory_bytes=16 << 20
    )
    record(FIG1, path, X86_64, options, lambda _: None)
    return Recording.open(path)


@pytest.mark.parametrize("row", STREAMS.values(), ids=list(STREAMS))
def test_what_a_row_names_is_there(row: Stream) -> None:
    for place in filter(None, (row.collector, row.frames, row.faults)):
        assert callable(loaded(place)), place
    assert stream_of(row.file) is row
    assert STREAMS[row.name] is row


def test_rows_differ() -> None:
    assert len({row.kind for row in STREAMS.values()}) == len(STREAMS)
    keys = [option.key for row in STREAMS.values() for option in row.options]
    assert len(set(keys)) == len(keys)


def test_the_option_of_slices_says_what_the_codec_can() -> None:
    (option,) = STREAMS["slices"].options
    assert option is not None
    assert option.bounds is not None
    assert option.bounds[1] == MOST_ACCESSES
    assert f"[default: {DEFAULT_ACCESSES}]" in option.says


def test_a_new_stream_can_be_asked_for(counts: Stream) -> None:
    assert parse_names("counts,losses") == ("losses", "counts")
    assert parse_names("all") == tuple(STREAMS)
    assert settled(["counts"], {}, 3) == {"pace": 3}
    assert settled(["counts"], {"pace": 7}, 3) == {"pace": 7}
    with pytest.raises(UsageError, match="pace= says how evidence counts is recorded"):
        settled(["losses"], {"pace": 7}, 3)
    with pytest.raises(UsageError, match="store buffers are unknown to evidence counts"):
        check_evidence(["counts"], "tso")
    with pytest.raises(UsageError, match="evidence counts is for firmware that counts"):
        check_evidence(["counts"], "sc", linux=True)
    with pytest.raises(UsageError) as refused:
        parse_names("count")
    assert "losses, counts, all, none" in refused.value.line()


def test_a_new_stream_is_in_the_help_of_record(counts: Stream) -> None:
    @click.command()
    @evidence_choices
    def command(**given: object) -> None:
        click.echo(sorted(given.items()))

    told = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    for row in STREAMS.values():
        assert f"{row.name}: {row.says}" in told
        assert all(f"--{option.key.replace('_', '-')} " in told for option in row.options)
    assert "('pace', 4)" in CliRunner().invoke(command, ["--pace", "4"]).output
    assert CliRunner().invoke(command, ["--pace", "10"]).exit_code == 2


def test_a_new_stream_is_recorded_read_and_verified(
    counts: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = recorded(tmp_path / "rec", "losses", "counts", pace=5)
    manifest = recording.manifest
    assert manifest.evidence == ("losses", "counts")
    assert manifest.options["pace"] == 5
    assert manifest.files[counts.file].records
    found = [*iter_counts(recording)]
    assert found[-1][0] > 0
    assert {pace for _, pace in found} == {5}
    assert integrity(recording) == []

    never = Stream("counts", 13, "", COUNTS.collector, COUNTS.frames, "test_tables:count_faults")
    monkeypatch.setitem(STREAMS, "counts", never)
    assert [one.what for one in integrity(recording)] == [
        f"{recording.path / counts.file}: it counts no strata"
    ] * (not manifest.totals["strata"])

    raw = bytearray((recording.path / counts.file).read_bytes())
    raw[-1] ^= 1
    (recording.path / counts.file).write_bytes(raw)
    assert {one.file for one in integrity(recording)} == {counts.file}


def test_another_stream_in_the_place_of_one_is_named(counts: Stream, tmp_path: Path) -> None:
    recording = recorded(tmp_path / "rec", "losses", "counts")
    (recording.path / "evidence-losses.log").write_bytes((recording.path / counts.file).read_bytes())
    with pytest.raises(Exception, match=r"another kind of stream|bytes"):
        list(iter_evidence(recording, "losses"))


def test_engines_that_need_no_evidence_are_the_solvers() -> None:
    assert [row.name for row in ENGINES.values() if not row.stream] == list(SOLVERS)


def test_engines_need_streams_that_there_are() -> None:
    assert {row.stream for row in ENGINES.values() if row.stream} <= set(STREAMS)
    assert all(row.orders or row.replay for row in ENGINES.values())
    assert ENGINES["auto"].models == ("sc", "tso")
    assert ENGINES["linkage"].models == STREAMS["linkage"].models


def test_the_command_line_offers_the_engines_of_the_table() -> None:
    from corebraid.cli.commands.order import command

    (engine,) = (option for option in command.params if option.name == "engine")
    assert isinstance(engine.type, click.Choice)
    assert list(engine.type.choices) == [row.name for row in ordering_engines()]
    assert isinstance(engine, click.Option)
    assert engine.help == said(engines_said(), TYPED)


def test_a_new_engine_orders_and_takes_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Twin(LinkageEngine):
        name = "twin"

    row = Engine(
        "twin",
        "as linkage",
        "linkage",
        Twin.of,
        lambda _: WholeRun("twin", "looked", {}, ["all"]),
    )
    monkeypatch.setitem(ENGINES, "twin", row)
    recording = recorded(tmp_path / "rec", "linkage")
    assert row in ordering_engines()
    assert "twin" in str(engines_said())
    assert isinstance(evidence_engine(recording, "twin"), Twin)
    assert corebraid.order(recording, engine="twin").verdict.value == "legal"
    assert names_of(recording, None) == ["auto", "linkage", "twin"]
    assert [run.text for run in whole_runs(recording, ["twin"])] == ["looked"]
    with pytest.raises(UsageError, match="no evidence linkage"):
        names_of(recorded(tmp_path / "without", "losses"), "twin")


@pytest.mark.parametrize("engine", [row.name for row in ordering_engines() if row.stream])
def test_python_orders_by_evidence_as_the_command_line_does(engine: str, tmp_path: Path) -> None:
    recording = recorded(tmp_path / "rec", engine)
    certificate = recording.path / "order.cert"
    assert corebraid.order(recording.path, engine=engine).verdict.value == "legal"
    by_python = certificate.read_bytes()
    assert not (recording.path / "order.partial").exists()
    certificate.unlink()
    assert run("order", recording.path, "--engine", engine).code == 0
    assert certificate.read_bytes() == by_python
    assert corebraid.check_order(recording).events > 0
    with pytest.raises(UsageError, match="one after the other"):
        corebraid.order(recording, engine=engine, jobs=2)


def test_an_engine_without_its_evidence(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "rec", "losses")
    with pytest.raises(UsageError, match="the recording has no evidence linkage"):
        corebraid.order(recording, engine="linkage")
    with pytest.raises(UsageError, match="unknown engine"):
        corebraid.order(recording, engine="rpc")
