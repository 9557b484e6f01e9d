"""Exported traces: the three formats agree row by row, filters are a naive predicate's, memory is bounded."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from cli_factory import COUNT_UP, ROOT, elf, record, run

import corebraid
from corebraid.base.rows.event import EVENT, FETCH, GLUED, OWNED, READ, RMW, UNCACHED, WRITE
from corebraid.names.selection import AddressRange, Selection
from recorder.files.reader import Recording

Rows = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with DMA, device registers, atomics and fetches on 3 cores, ordered."""
    path = tmp_path_factory.mktemp("export") / "rec"
    assert record(path, "dma_race", "--cores", 3, "--strata", "cycles:5000").code == 0
    assert run("order", path).code == 0
    return path


def every_row(rec: Path) -> Rows:
    """All rows of all streams, from the Python interface."""
    return np.concatenate([rows for rows, _ in corebraid.trace(rec, fetches=True)])


def jsonl(rec: Path, *arguments: object) -> list[dict[str, Any]]:
    """Rows of a JSON-lines trace."""
    ran = run("trace", rec, "--format", "jsonl", *arguments)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


# -- formats -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [[], ["--ordered"]], ids=["plain", "ordered"])
def test_formats_agree_row_by_row(rec: Path, tmp_path: Path, ordered: list[str]) -> None:
    ordered = [*ordered, "--fetches"]
    lines = jsonl(rec, *ordered)
    assert run("trace", rec, "--format", "parquet", "-o", tmp_path / "t", *ordered).code == 0
    table = pq.read_table(tmp_path / "t").to_pylist()
    text = run("trace", rec, *ordered).out.splitlines()[1:]
    rows = np.concatenate(
        [rows for rows, _ in corebraid.trace(rec, ordered="--ordered" in ordered, fetches=True)]
    )
    assert len(lines) == len(table) == len(text) == len(rows) > 1000
    for line, record_, shown, row in zip(lines, table, text, rows.tolist(), strict=True):
        for name in ("pc", "addr", "old", "new"):
            line[name] = None if line[name] is None else int(line[name], 16)
        assert line == record_
        assert row == from_json(line, row)
        check_text(shown, line)


def from_json(line: dict[str, Any], row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The EVENT row that a JSON line tells of; `seq` is not shown, and the pc of an agent is its cause."""
    kind = READ if line["kind"] == "F" else {"R": READ, "W": WRITE, "RMW": RMW}[line["kind"]]
    flags = (UNCACHED if line["uncached"] else 0) | (GLUED if line["glued"] else 0)
    flags |= FETCH if line["kind"] == "F" else 0
    # Whose a line was is the bus's to know; no format shows it.
    flags |= row[-1] & OWNED
    cause = {"dma": 1, "interrupt": 2, "device": 3}.get(line["agent"] or "")
    pc = line["pc"] if cause is None else cause
    values = (row[0], line["count"], pc, line["addr"], line["old"], line["new"], line["stratum"])
    return (*values, line["core"], line["size"], kind, flags)


def check_text(shown: str, line: dict[str, Any]) -> None:
    """A line of the text format says what the JSON line says."""
    words = shown.split()
    core = "dev" if line["agent"] else f"c{line['core']}"
    assert words[:3] == [str(line["stratum"]), core, str(line["count"])]
    marks = ("/io" if line["uncached"] else "") + ("+" if line["glued"] else "")
    assert words[-4:] == [str(line["size"]), line["kind"] + marks, f"{line['old']:#x}", f"{line['new']:#x}"]
    data = f"{line['data']}+{line['data_offset']:#x}" if line["data_offset"] else line["data"]
    assert words[-6:-4] == [f"{line['addr']:#010x}", data or "-"]
    assert (f"({line['agent']})" if line["agent"] else line["disassembly"]) in shown
    if line["symbol"]:
        where = f"{line['symbol']}+{line['offset']:#x}" if line["offset"] else line["symbol"]
        assert words[4] == where


def test_device_registers_have_names(rec: Path) -> None:
    named = {line["data"] for line in jsonl(rec) if line["uncached"]}
    assert {"DMA_SRC", "DMA_START", "CONSOLE_TX", "POWER_OFF"} <= named


def test_a_braided_trace_is_every_row_once(rec: Path) -> None:
    braided = np.concatenate([rows for rows, _ in corebraid.trace(rec, ordered=True, fetches=True)])
    plain = every_row(rec)
    key = ["core", "seq"]
    assert np.array_equal(np.sort(braided, order=key), np.sort(plain, order=key))
    assert (np.diff(braided["stratum"].astype(np.int64)) >= 0).all()


def test_parquet_columns_are_typed(rec: Path, tmp_path: Path) -> None:
    assert run("trace", rec, "--core", 0, "--format", "parquet", "-o", tmp_path / "t").code == 0
    schema = {field.name: str(field.type) for field in pq.read_schema(tmp_path / "t")}
    assert schema["count"] == schema["addr"] == schema["old"] == "uint64"
    assert schema["ordered"] == "bool"
    assert "dictionary" in schema["disassembly"]


def test_a_parquet_file_without_rows_can_be_read(rec: Path, tmp_path: Path) -> None:
    ran = run("trace", rec, "--addr", "0x10", "--format", "parquet", "-o", tmp_path / "t")
    assert (ran.code, pq.read_table(tmp_path / "t").num_rows) == (0, 0)
    assert "no access passes" in ran.err


# -- filters -----------------------------------------------------------------------------------------


def naive(row: Any, wanted: Selection) -> bool:
    """Whether one row is wanted, in plain Python."""
    first, size = int(row["addr"]), int(row["size"])
    fetched = bool(row["flags"] & FETCH)
    kind = "F" if fetched else {READ: "R", WRITE: "W", RMW: "RMW"}[int(row["kind"])]
    touched = range(first, first + size)
    low, high = (wanted.addresses.low, wanted.addresses.high) if wanted.addresses else (0, 1 << 64)
    return (
        (wanted.core is None or row["core"] == wanted.core)
        and (wanted.first is None or row["count"] >= wanted.first)
        and (wanted.until is None or row["count"] < wanted.until)
        and (wanted.region is None or row["stratum"] == wanted.region)
        and (wanted.kinds is None or kind in wanted.kinds)
        and (wanted.fetches or not fetched)
        and (wanted.pcs is None or any(one.low <= row["pc"] < one.high for one in wanted.pcs))
        and (wanted.pcs is None or row["core"] != wanted.agents)
        and any(low <= byte < high for byte in touched)
    )


def test_masks_are_the_naive_predicate() -> None:
    for seed in range(60):
        choose = random.Random(seed)
        rows = np.zeros(200, EVENT)
        for row in rows:
            top = choose.choice([100, (1 << 64) - 200])
            row["addr"], row["size"] = choose.randrange(100) + top, choose.randint(1, 8)
            row["core"], row["count"] = choose.randrange(4), choose.randrange(1000)
            row["pc"] = choose.randrange(100)
            row["kind"], row["flags"] = choose.choice([READ, WRITE, RMW]), choose.choice([0, UNCACHED, GLUED])
            row["stratum"] = choose.randrange(3)
            if row["kind"] == READ and choose.random() < 0.3:
                row["flags"] |= FETCH
        low = choose.choice([100, (1 << 64) - 200]) + choose.randrange(100)
        wanted = Selection(
            core=choose.choice([None, 0, 3]),
            addresses=choose.choice([None, AddressRange(low, low + choose.randint(1, 90))]),
            first=choose.choice([None, 0, 300]),
            until=choose.choice([None, 500, 2000]),
            kinds=choose.choice([None, frozenset("R"), frozenset(["W", "RMW"]), frozenset("F")]),
            region=choose.choice([None, None, 1]),
            pcs=choose.choice([None, (AddressRange(0, 50), AddressRange(70, 80))]),
            agents=3,
            fetches=choose.random() < 0.7,
        )
        expected = [naive(row, wanted) for row in rows]
        assert wanted.mask(rows).tolist() == expected, f"seed {seed}: {wanted}"


def test_a_trace_is_left_early_only_when_nothing_wanted_follows() -> None:
    """At every cut of a stream (counts ascend) and of a braided trace (strata ascend)."""
    left_early = 0
    for seed in range(40):
        choose = random.Random(seed)
        for braided in (False, True):
            rows = np.zeros(60, EVENT)
            rows["size"] = 1
            counts = [choose.randrange(40) for _ in rows]
            rows["count"] = counts if braided else sorted(counts)
            rows["stratum"] = sorted(choose.randrange(4) for _ in rows)
            wanted = Selection(until=choose.choice([None, 20]), region=choose.choice([None, 0, 2]))
            for cut in range(1, len(rows)):
                if wanted.past(rows[max(0, cut - 8) : cut], braided=braided):
                    left_early += 1
                    assert not wanted.mask(rows[cut:]).any(), f"seed {seed}, braided {braided}, cut {cut}"
    assert left_early > 100


@pytest.mark.parametrize(
    "arguments",
    [
        ["--core", "1"],
        ["--core", "dev"],
        ["--kind", "W,RMW"],
        ["--kind", "f"],
        ["--from", "2000", "--until", "9000"],
        ["--core", "2", "--until", "500"],
        ["--region", "1"],
        ["--core", "0", "--region", "1", "--kind", "R"],
        ["--addr", "dma_source"],
        ["--addr", "dma_destination:dma_source"],
        ["--addr", "0xf0000000:0xf0001000"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("ordered", [[], ["--ordered"]], ids=["plain", "ordered"])
@pytest.mark.sampled(8)
def test_filters_on_the_command_line(rec: Path, arguments: list[str], ordered: list[str]) -> None:
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    everything = jsonl(rec, *ordered, "--fetches")
    assert jsonl(rec, *ordered, *arguments) == [line for line in everything if kept(line, options)]
    assert any(kept(line, options) for line in everything)


def kept(line: dict[str, Any], options: dict[str, str]) -> bool:
    """Whether a JSON line passes, in plain Python; symbols are looked up in the line itself."""
    first, size = int(line["addr"], 16), line["size"]
    core = options.get("--core")
    kinds = options.get("--kind", "R,W,RMW").upper().split(",")
    place = options.get("--addr")
    inside = True
    if place == "dma_source":
        inside = line["data"] == place
    elif place == "dma_destination:dma_source":
        inside = line["data"] == "dma_destination"
    elif place:
        low, high = (int(part, 16) for part in place.split(":"))
        inside = low < first + size and first < high
    return (
        (core is None or line["core"] == (3 if core == "dev" else int(core)))
        and line["kind"] in kinds
        and int(options.get("--from", 0)) <= line["count"] < int(options.get("--until", 1 << 64))
        and line["stratum"] == int(options.get("--region", line["stratum"]))
        and inside
    )


def test_a_limit_keeps_the_first_rows(rec: Path) -> None:
    everything = jsonl(rec, "--ordered")
    for limit in (1, 16384, 16385, len(everything), len(everything) + 1):
        assert jsonl(rec, "--ordered", "--limit", limit) == everything[:limit]


# -- size --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_name", ["text", "jsonl", "parquet"])
@pytest.mark.sampled(1)
def test_memory_does_not_grow_with_the_trace(tmp_path: Path, format_name: str) -> None:
    """Ten times the accesses (1 million of 56 bytes in memory) must not take 30 MiB more."""
    image = tmp_path / "count.elf"
    image.write_bytes(elf(COUNT_UP))
    peaks = []
    for name, limit in (("small", 200_000), ("large", 2_000_000)):
        path = tmp_path / name
        assert record(path, image, "--cores", 1, "--limit", limit).code == 0
        assert Recording.open(path).manifest.instructions[0] >= limit
        peaks.append(peak_kib("trace", path, "--format", format_name, "-o", tmp_path / f"{name}.out"))
    assert peaks[1] - peaks[0] < 30 << 10, peaks


def peak_kib(*arguments: object) -> int:
    """The peak resident memory of one corebraid process, KiB."""
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "corebraid", *(str(argument) for argument in arguments)],
        {**os.environ, "PYTHONPATH": str(ROOT)},
    )
    _, status, usage = os.wait4(child, 0)
    assert status == 0
    return int(usage.ru_maxrss)


# -- the Python interface ----------------------------------------------------------------------------


def test_the_python_interface_is_the_whole_path(tmp_path: Path) -> None:
    printed: list[bytes] = []
    outcome = corebraid.record(
        ROOT / "firmware/x86_64/fig1.elf", tmp_path / "rec", cores=2, seed=3, output=printed.append
    )
    assert outcome.fault is None
    assert b"".join(printed) == b"fig1: R1 1 R6 2 R3 4 x 3\n"
    recording = corebraid.open_recording(tmp_path / "rec")
    assert corebraid.replay(recording, 1).complete
    result = corebraid.order(recording)
    assert corebraid.check_order(tmp_path / "rec").events == result.counts.total
    ordered = np.concatenate([rows for rows, _ in corebraid.trace(recording, 1, ordered=True)])
    alone = np.concatenate([rows for rows, _ in corebraid.trace(recording, 1)])
    assert np.array_equal(ordered, alone)
    with pytest.raises(AttributeError, match="no attribute 'braid'"):
        _ = corebraid.braid
