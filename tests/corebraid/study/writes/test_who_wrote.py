"""`who-wrote` and `history` against plain Python over the rows of `trace --ordered --format jsonl`."""

from __future__ import annotations

import io
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_factory import FIRMWARE, record, run

import corebraid
from corebraid.names.event_names import EventName
from corebraid.names.selection import AddressRange
from corebraid.study.writes.in_order import Query, order_of, standings
from corebraid.study.writes.possible import possible_writers
from solver.freedom.freedom import Limits

Line = dict[str, Any]
_QUERIES = 80


def lines_of(recording: Path) -> list[Line]:
    """All rows in order, each with its event's number among those of its instruction."""
    sink, seen = io.BytesIO(), dict[tuple[int, int], int]()
    corebraid.trace(recording, ordered=True, fetches=True).write(sink, "jsonl")
    lines = [json.loads(line) for line in sink.getvalue().splitlines()]
    for line in lines:
        key = line["core"], line["count"]
        line["number"] = seen[key] = seen.get(key, -1) + 1
        for name in ("addr", "old", "new"):
            line[name] = int(line[name], 16)
    return lines


def is_write(line: Line) -> bool:
    changed = line["kind"] == "RMW" and line["old"] != line["new"]
    return (line["kind"] == "W" or changed) and not line["uncached"]


def covers(line: Line, byte: int) -> bool:
    return bool(line["addr"] <= byte < line["addr"] + line["size"])


class Naive:
    """Who wrote a byte last before an event, by looking through all rows."""

    def __init__(self, lines: list[Line], buffered: bool) -> None:
        self._lines, self._buffered = lines, buffered
        self._writes: dict[int, list[int]] = {}
        self._of: dict[int, list[int]] = {}
        self._places: dict[EventName, tuple[int, bool]] = {}
        for k, line in enumerate(lines):
            self._of.setdefault(line["core"], []).append(k)
            for byte in range(line["addr"], line["addr"] + line["size"]) if is_write(line) else ():
                self._writes.setdefault(byte, []).append(k)

    def writer(self, byte: int, event: EventName | None) -> Line | None:
        lines, writes = self._lines, self._writes.get(byte, [])
        if event is None:
            return lines[writes[-1]] if writes else None
        if event not in self._places:
            self._places[event] = self._place(event)
        at, same = self._places[event]
        before = [k for k in writes if k < at]
        if self._buffered and not (same and is_write(lines[at])):
            own = set(self._of.get(event.stream, []))
            # Stores that wait in the core's own buffer.
            before += [k for k in writes if k >= at and k in own and lines[k]["count"] < event.count]
        return lines[before[-1]] if before else None

    def _place(self, event: EventName) -> tuple[int, bool]:
        """Where an event stands, and whether it is an access."""
        lines = self._lines
        own = self._of.get(event.stream, [])
        same = [k for k in own if lines[k]["count"] == event.count]
        if event.number is None:
            same = [k for k in same if lines[k]["kind"] != "F"]
        else:
            same = [k for k in same if lines[k]["number"] == event.number]
        later = [k for k in own if lines[k]["count"] > event.count]
        at = (same or later or [own[-1] + 1])[0]
        return at, bool(same)


def queries_of(lines: list[Line], n_cores: int, seed: int) -> list[Query]:
    """Random bytes that somebody accessed, at random events and between them."""
    rng, found = random.Random(seed), list[Query]()
    written = [line for line in lines if is_write(line)]
    own: dict[int, list[Line]] = {}
    for line in lines:
        line["nth"] = len(own.setdefault(line["core"], []))
        own[line["core"]].append(line)

    def follow(line: Line, first: int, end: int) -> list[Line]:
        return own[line["core"]][max(line["nth"] + first, 0) : max(line["nth"] + end, 0)]

    while len(found) < _QUERIES:
        line, seen = rng.choice(rng.choice((lines, written))), rng.choice(rng.choice((lines, written)))
        if rng.random() < 0.3:
            # What its core does next: the store may still be in its buffer.
            later = [one for one in follow(seen, 1, 9) if one["count"] > seen["count"]]
            seen = min(later, key=lambda one: one["count"]) if later else seen
        # Half of them of what the event itself accesses, or its core shortly before: it may wait in a buffer.
        near = [one for one in follow(seen, -12, 0) if is_write(one)]
        line = rng.choice([line, line, seen, rng.choice(near) if near else seen])
        if line["uncached"] or (seen["core"] == n_cores and rng.random() < 0.7):
            continue
        low, size = line["addr"] + rng.randrange(-3, 4), rng.randint(1, 12)
        number = rng.choice((None, None, seen["number"]))
        count = seen["count"] + (rng.choice((0, 0, 1)) if number is None else 0)
        event = None if rng.random() < 0.1 else EventName(seen["core"], count, number, "")
        found.append(Query(AddressRange(max(low, 0), low + size), event))
    return found


@pytest.fixture(scope="module")
def tso(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Firmware under TSO, with stores that wait in their buffers."""
    path = tmp_path_factory.mktemp("who") / "tso"
    corebraid.record(FIRMWARE / "peterson_nofence.elf", path, cores=2, model="tso", strata="cycles:3000")
    corebraid.order(path)
    return path


@pytest.fixture(scope="module")
def linux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Linux program with four threads, without its order."""
    path = tmp_path_factory.mktemp("who") / "linux"
    corebraid.record(FIRMWARE.parent / "linux" / "x86_64" / "static_pie_threads", path, cores=3, seed=3)
    corebraid.order(path)
    return path


@pytest.fixture(scope="module")
def dma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Firmware with transfers, on the bus of pages."""
    path = tmp_path_factory.mktemp("who") / "dma"
    corebraid.record(FIRMWARE / "dma_race.elf", path, cores=3, strata="cycles:5000")
    corebraid.order(path)
    return path


@pytest.fixture(params=["dma", "tso", "linux"])
def ordered(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.mark.sampled(1)
def test_the_last_writers_are_those_of_plain_python(ordered: Path) -> None:
    recording, lines = corebraid.open_recording(ordered), lines_of(ordered)
    buffered = recording.manifest.store_buffer
    naive, queries = Naive(lines, bool(buffered)), queries_of(lines, recording.manifest.n_cores, 1)
    found = standings(order_of(recording), queries, buffered)
    somebody = 0
    for query, standing in zip(queries, found, strict=True):
        for byte, access in zip(range(query.span.low, query.span.high), standing.last, strict=True):
            expected = naive.writer(byte, query.event)
            told = (
                None if access is None else (int(access.row["core"]), int(access.row["count"]), access.first)
            )
            wanted = None if expected is None else (expected["core"], expected["count"], expected["addr"])
            assert told == wanted, f"{query}, byte {byte:#x}"
            somebody += expected is not None
    assert somebody > _QUERIES


@pytest.mark.sampled(1)
def test_the_writer_of_the_order_is_a_possible_one(ordered: Path) -> None:
    recording, lines = corebraid.open_recording(ordered), lines_of(ordered)
    queries = [one for one in queries_of(lines, recording.manifest.n_cores, 2) if one.event][:3]
    found = standings(order_of(recording), queries, recording.manifest.store_buffer)
    for query, standing in zip(queries, found, strict=True):
        possible = possible_writers(recording, query.span, query.event, "losses", Limits(seconds=20))
        for access, one in zip(standing.last, possible, strict=True):
            mine = access.key in one.writers if access is not None else one.initial is not None
            assert mine, f"{query}: {access}, {one}"


@pytest.mark.sampled(1)
def test_history_is_what_plain_python_finds(ordered: Path) -> None:
    lines, rng = lines_of(ordered), random.Random(5)
    shared = [line for line in lines if is_write(line) and line["pc"]]
    for line in rng.sample(shared, 3):
        low, high = line["addr"], line["addr"] + 8
        told = [one.facts() for one in corebraid.history(ordered, f"{low:#x}:8")]
        assert told[0]["type"] == "begin"
        known: dict[tuple[Any, ...], dict[int, int]] = {}
        expected = []
        for one in lines:
            inside = [b for b in range(low, high) if covers(one, b)]
            if not inside or one["uncached"] or one["kind"] == "F":
                continue
            mine = known.setdefault((one["agent"] is not None, one.get("thread", one["core"])), {})
            old, new = (one[name].to_bytes(8, "little") for name in ("old", "new"))
            news = any(mine.get(b) != old[b - one["addr"]] for b in inside)
            mine.update({b: new[b - one["addr"]] for b in inside})
            if news or is_write(one):
                expected.append((one["core"], one["count"], "write" if is_write(one) else "read"))
        assert [(one["core"], one["count"], one["type"]) for one in told[1:]] == expected


# -- the command -------------------------------------------------------------------------------------------


def test_what_is_printed_of_a_moment(uts: Path) -> None:
    ran = run("who-wrote", uts, "idle_cores", "--chain", 2)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("at the end of the run:\nidle_cores (0x102040, 8 bytes) holds ")
    assert "certain: every legal order says so" in ran.out
    assert "computed from" in ran.out
    facts = json.loads(run("who-wrote", uts, "idle_cores", "--chain", 2, "--json").out)
    assert facts == corebraid.who_wrote(uts, "idle_cores", chain=2).facts()
    (part,) = facts["parts"]
    (writer,) = part["writers"]
    assert (writer["in_order"], writer["sure"], part["exact"]) == (True, "possible", True)
    # What it was computed from: the value there before, at the same event.
    assert [step["depth"] for step in facts["chain"]] == [0, 1, 2]
    assert facts["chain"][1]["read"]["event"] == facts["chain"][0]["write"]["event"] == writer["event"]
    # Right before it, somebody else had written.
    before = corebraid.who_wrote(uts, "idle_cores", at=writer["event"], only_order=True).facts()
    assert before["parts"][0]["value"] == int(writer["old"], 16).to_bytes(8, "little").hex()


def test_a_crash_is_asked_about_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    corebraid.record(FIRMWARE / "bug_lost_update.elf", path, cores=2)
    corebraid.order(path)
    assert corebraid.who_wrote(path, "hits", only_order=True).event is None
    fault = tmp_path / "fault"
    corebraid.record(FIRMWARE / "fault_null.elf", fault, cores=1)
    corebraid.order(fault)
    end = corebraid.info(fault).facts()["end"]
    assert isinstance(end, dict)
    assert corebraid.who_wrote(fault, "0x100000", only_order=True).event == f"{end['core']}:{end['count']}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "no such address or symbol 'nowhere'"),
        (["idle_cores", "--at", "3:1"], "no such core in this recording: expected 0 to 2, or dev or kernel"),
        (["idle_cores", "--at", "0:999999999"], "no such event: its stream ends before"),
        (["idle_cores", "--at", "zero"], "not an event"),
        (["stealStack"], "too many bytes: expected at most 4096"),
        (["0xf0000000:8"], "an address outside memory"),
        (["idle_cores:none"], "not a number of bytes"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_bad_questions(uts: Path, arguments: list[str], said: str) -> None:
    ran = run("who-wrote", uts, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_memory_that_a_linux_program_need_not_have(linux: Path) -> None:
    ran = run("who-wrote", linux, "0xdead")
    assert "nobody: as memory was when the recording began (zeros; whether any was mapped there" in ran.out


def test_bytes_that_nobody_touched(uts: Path) -> None:
    ran = run("who-wrote", uts, "0x200000:4")
    assert ran.code == 0
    assert "nobody: as memory was when the recording began (of uts.elf)\n" in ran.out
    ran = run("history", uts, "0x200000:4")
    assert len(ran.out.splitlines()) == 1
    assert "4 bytes) holds 0 when the recording begins" in ran.out
    assert "no access touches these bytes" in ran.err


def test_a_recording_without_an_order(copy_of_uts: Path) -> None:
    (copy_of_uts / "order.cert").unlink()
    for command in ("who-wrote", "history"):
        ran = run(command, copy_of_uts, "idle_cores")
        assert ran.code == 2
        assert f"has not been ordered; run 'corebraid order {copy_of_uts}' first" in ran.err


def test_rings_and_recordings_without_strata(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    corebraid.record(
        FIRMWARE / "radix.elf", ring, cores=3, strata="cycles:2000", limit=120_000, last=40_000
    )  # fmt: skip
    plain = tmp_path / "plain"
    assert record(plain, "fig1", "--cores", 2, "--strata", "none").code == 0
    for path, name in ((ring, "digit_counts"), (plain, "x")):
        corebraid.order(path)
        found = corebraid.who_wrote(path, f"{name}:8", region_timeout=5.0).facts()
        assert found["parts"]


def test_what_a_killed_recorder_left(uts: Path, tmp_path: Path) -> None:
    killed = Path(shutil.copytree(uts, tmp_path / "killed"))
    manifest = json.loads((killed / "manifest.json").read_text())
    assert manifest
    ran = run("who-wrote", killed, "idle_cores", "--at", "0:100", "--only-order")
    assert ran.code == 0
