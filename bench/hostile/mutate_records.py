"""Records of cores' logs, rows of the agent log and pages of images: decoded, changed, encoded again."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.hostile.drawing import Draw, Mutation, Unsuited, edge, edit_bytes, pick, stream
from bench.hostile.sample import Frame, Sample
from corebraid.base.errors import FormatError
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.record import CONTEXT, DIGEST, END, MISS, RECEIVED, RECORD, STRATUM
from recorder.files import agent_codec, codec
from recorder.files.agent_codec import AGENT_OP, MARK
from recorder.files.manifest import AGENT_LOG, MAX_CORES

Rows = Any
_CAPACITY = 1 << 20
#: Instructions at which replays have gone wrong: barriers, string instructions, faults, calls, far jumps.
_CODE = (
    "0f05",
    "0f0b",
    "cc",
    "f4",
    "0faef0",
    "f30f09",
    "0fa2",
    "0f31",
    "f3a4",
    "f348ab",
    "ebfe",
    "c3",
    "ff20",
    "cf",
    "9c9d",
    "0f01d0",
    "c5f877",
    "f00fc70f",
    "0fc7f0",
    "cd80",
    "cb",
    "e8fffffffe",
    "48b8",
    "67a1",
    "f30fb8c0",
    "d9f0",
    "0f3f",
    "8ed8",
)


def decoded(sample: Sample, frame: Frame) -> tuple[Rows, bytearray]:
    said = sample.manifest
    try:
        rows, blob = codec.decode(frame.raw, int(said["line"]), "", memory=int(said["memory"]))
    except (FormatError, KeyError, TypeError, ValueError) as error:
        raise Unsuited from error
    if not len(rows):
        raise Unsuited
    return rows.copy(), bytearray(blob.tobytes())


def _encode(frame: Frame, rows: Rows, blob: bytes | bytearray, line: int) -> None:
    """Into the frame, whose range follows."""
    if not len(rows):
        raise Unsuited
    rows = np.ascontiguousarray(rows)
    data = np.frombuffer(bytes(blob) or b"\0", np.uint8)
    try:
        raw = codec.encode(rows, data, line)
    except FormatError as error:
        raise Unsuited from error
    if not 1 <= len(raw) <= _CAPACITY:
        raise Unsuited
    frame.raw, frame.records = raw, len(rows)
    frame.first, frame.last = int(rows["count"][0]), int(rows["count"][-1])


def _core_frame(sample: Sample, draw: Draw) -> tuple[str, Frame]:
    names = [name for name in sample.streams if name.startswith("core-")]
    name, found = stream(sample, draw, names)
    return name, draw.choice(found.frames)


def record_field(sample: Sample, draw: Draw) -> str:
    """A field of a record is another."""
    name, frame = _core_frame(sample, draw)
    rows, blob = decoded(sample, frame)
    at = draw.randrange(len(rows))
    row = rows[at]
    key = draw.choice(("count", "addr", "value", "flags", "kind", "size"))
    if key == "count":
        low = int(rows["count"][at - 1]) if at else 0
        high = int(rows["count"][at + 1]) if at + 1 < len(rows) else low + 10_000
        row["count"] = draw.choice(
            (low, high, draw.randint(low, max(low, high)), min(int(row["count"]) + 1, high))
        )
    elif key == "addr" and row["kind"] in (MISS, RECEIVED):
        line = int(sample.manifest["line"])
        other = rows[rows["kind"] == MISS]["addr"]
        pool = (*(int(one) for one in other[:50]), edge(draw, int(row["addr"])), int(row["addr"]) + line)
        row["addr"] = draw.choice(pool) // line * line % int(sample.manifest["memory"])
    else:
        most = {"flags": 0x1F, "kind": 7, "size": 65535}.get(key, (1 << 64) - 1)
        row[key] = edge(draw, int(row[key])) & most
    _encode(frame, rows, blob, int(sample.manifest["line"]))
    return f"{name}: record {at}: {key} = {row[key]}"


def records_moved(sample: Sample, draw: Draw) -> str:
    """Records left out, repeated or swapped; their counts stay in order."""
    name, frame = _core_frame(sample, draw)
    rows, blob = decoded(sample, frame)
    at, other = draw.randrange(len(rows)), draw.randrange(len(rows))
    way = draw.choice(("drop", "drop kind", "repeat", "swap", "end", "many"))
    if way == "drop":
        rows = np.delete(rows, slice(at, at + draw.choice((1, 1, 1, 3))))
    elif way == "drop kind":
        rows = rows[rows["kind"] != draw.choice((MISS, STRATUM, DIGEST, CONTEXT, END))]
    elif way == "repeat":
        rows = np.insert(rows, at, rows[at])
    elif way == "swap":
        counts = rows["count"].copy()
        rows[[at, other]] = rows[[other, at]]
        rows["count"] = counts
    elif way == "end":
        rows = rows[: at + 1]
        rows[-1] = (rows[-1]["count"], 0, draw.randint(1, 6), 0, 0, END, 0)
    else:
        rows = np.insert(rows, [at] * draw.choice((10, 500)), rows[at])
    _encode(frame, rows, blob, int(sample.manifest["line"]))
    return f"{name}: records: {way} at {at}"


def record_data(sample: Sample, draw: Draw) -> str:
    """Other bytes of a line that a core received, of registers, of a digest."""
    name, frame = _core_frame(sample, draw)
    rows, blob = decoded(sample, frame)
    carry = np.flatnonzero(np.isin(rows["kind"], (MISS, RECEIVED, DIGEST, CONTEXT)) & (rows["size"] > 0))
    at = int(pick(draw, carry.tolist()))
    begin, size = int(rows[at]["offset"]), int(rows[at]["size"])
    if draw.random() < 0.4:
        code = bytes.fromhex(draw.choice(_CODE)) * draw.choice((1, 1, 4))
        where = begin + draw.randrange(size)
        blob[where : where + len(code)] = code
        del blob[len(blob) :]
    elif draw.random() < 0.3:
        where = begin + draw.randrange(size) // 8 * 8
        blob[where : where + 8] = edge(draw, int.from_bytes(blob[where : where + 8], "little")).to_bytes(
            8, "little"
        )
    else:
        new = edit_bytes(bytes(blob[begin : begin + size]), draw)
        blob[begin : begin + size] = new.ljust(size, b"\x90")[:size]
    blob.extend(bytes(64))
    _encode(frame, rows, bytes(blob), int(sample.manifest["line"]))
    return f"{name}: data of record {at}, kind {rows[at]['kind']}"


def agent_rows(sample: Sample, draw: Draw) -> str:
    """Rows of the agent log: fields changed, rows left out, repeated, swapped."""
    name, found = stream(sample, draw, [AGENT_LOG])
    frame, said = draw.choice(found.frames), sample.manifest
    rows = decoded_agents(sample, frame)
    at, other = draw.randrange(len(rows)), draw.randrange(len(rows))
    way = draw.choice(("field", "field", "field", "drop", "repeat", "swap", "mark"))
    if way == "field":
        key = draw.choice(("addr", "old", "new", "size", "kind", "cause", "flags"))
        rows[at][key] = edge(draw, int(rows[at][key])) & ((1 << 8 * rows.dtype[key].itemsize) - 1)
    elif way == "drop":
        rows = np.delete(rows, at)
    elif way == "repeat":
        rows = np.insert(rows, at, rows[at])
    elif way == "swap":
        rows[[at, other]] = rows[[other, at]]
    else:
        rows = np.insert(rows, at, np.zeros(1, AGENT_OP)[0])
    renumber(rows)
    try:
        end, raw = agent_codec.Encoder(_CAPACITY, int(said["memory"])).encode_some(rows, 0)
    except FormatError as wrong:
        raise Unsuited from wrong
    frame.raw, frame.records = bytes(raw), int(end)
    frame.first, frame.last = int(rows["number"][0]), int(rows["number"][end - 1])
    return f"{name}: rows: {way} at {at}"


def decoded_agents(sample: Sample, frame: Frame) -> Rows:
    """The rows of a frame of the agent log. Raises Unsuited."""
    said = sample.manifest
    cores = int(said["cores"]) if sample.streams[AGENT_LOG].version >= 2 else 0
    if not 0 <= cores <= MAX_CORES:
        raise Unsuited
    rows = np.zeros(len(frame.raw), AGENT_OP)
    data = np.frombuffer(frame.raw, np.uint8)
    n, error, _ = agent_codec.decode_ops(data, np.uint64(said["memory"]), cores, rows)
    if error or not n:
        raise Unsuited
    return rows[:n].copy()


def renumber(rows: Rows) -> None:
    """Number rows from their first one on. Raises Unsuited where there is none."""
    if not len(rows):
        raise Unsuited
    marks = rows["kind"] == MARK
    accesses = ~marks & (rows["kind"] != agent_codec.SYNC)
    rows["number"] = int(rows["number"][0]) + np.cumsum(accesses) - accesses
    rows["stratum"] = int(rows["stratum"][0]) + np.cumsum(marks) - marks


def empty_strata(sample: Sample, draw: Draw) -> str:
    """Strata in which nothing ran, at the end of every log."""
    many = draw.choice((1, 2, 100, 2000))
    for name in [one for one in sample.streams if one.startswith("core-")]:
        found = sample.streams[name]
        if not found.frames:
            raise Unsuited
        frame = found.frames[-1]
        rows, blob = decoded(sample, frame)
        cut = found.frames[:-1]
        before = sum(int((decoded(sample, one)[0]["kind"] == STRATUM).sum()) for one in cut)
        new = np.zeros(many, RECORD)
        new["count"], new["kind"] = rows["count"][-1], STRATUM
        new["value"] = before + int((rows["kind"] == STRATUM).sum()) + np.arange(many)
        ended = len(rows) - 1 if rows["kind"][-1] == END else len(rows)
        _encode(frame, np.concatenate([rows[:ended], new, rows[ended:]]), blob, int(sample.manifest["line"]))
    agents = sample.streams[AGENT_LOG].frames
    if not agents:
        agents.append(Frame(b"\0\0", 0, 0, 0))
    agents[-1].raw += bytes(many)
    agents[-1].records += many
    return f"{many} empty strata"


def image_pages(sample: Sample, draw: Draw) -> str:
    """An image with pages left out, elsewhere, or of other bytes."""
    name, found = stream(sample, draw, ["initial.img", "final.img"])
    frame = draw.choice(found.frames)
    n = frame.records
    if n * (8 + PAGE_BYTES) != len(frame.raw) or not n:
        raise Unsuited
    places = np.frombuffer(frame.raw[: 8 * n], "<u8").copy()
    pages = [frame.raw[8 * n + PAGE_BYTES * k :][:PAGE_BYTES] for k in range(n)]
    at = draw.randrange(n)
    way = draw.choice(("drop", "move", "bytes", "bytes", "swap"))
    if way == "drop":
        places, pages = np.delete(places, at), pages[:at] + pages[at + 1 :]
    elif way == "move":
        places[at] = edge(draw, int(places[at])) // PAGE_BYTES * PAGE_BYTES
    elif way == "swap":
        pages[at], pages[0] = pages[0], pages[at]
    else:
        used = len(pages[at].rstrip(b"\0")) or PAGE_BYTES
        where = draw.randrange(used)
        put = draw.choice((bytes.fromhex(draw.choice(_CODE)), draw.randbytes(8)))
        pages[at] = (pages[at][:where] + put + pages[at][where + len(put) :])[:PAGE_BYTES]
    if not pages:
        raise Unsuited
    frame.raw, frame.records = places.tobytes() + b"".join(pages), len(pages)
    frame.first, frame.last = int(places[0]), int(places[-1])
    return f"{name}: page {at}: {way}"


MUTATIONS: tuple[tuple[int, Mutation], ...] = (
    (8, record_field),
    (6, records_moved),
    (8, record_data),
    (6, agent_rows),
    (1, empty_strata),
    (4, image_pages),
)
