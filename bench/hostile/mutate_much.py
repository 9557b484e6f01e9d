"""Files that say much in few bytes: records, rows, pages and runs repeated by the million, which compress to
next to nothing. Each stays below the megabyte for which commands promise a time and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import lz4.block
import numpy as np

from bench.hostile import varints
from bench.hostile.drawing import Draw, Mutation, Unsuited, pick
from bench.hostile.mutate_records import Rows, decoded, decoded_agents, renumber
from bench.hostile.sample import Frame, Sample, Stream
from corebraid.base.errors import FormatError
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.record import END, MISS, RECEIVED, STRATUM
from recorder.evidence.losses import codec as loss_codec
from recorder.files import agent_codec, codec
from recorder.files.manifest import AGENT_LOG, ORDER_CERT, TRUTH_LOG

_MOST_RAW, _MOST_STORED, _MOST_FRAMES = 1 << 20, 800_000, 4_000
#: Of records that a frame may have at most, and of loss rows.
_LOSSES_A_FRAME, _VARINTS_A_FRAME = 16_384, 100_000
_PAGES_A_FRAME = _MOST_RAW // (8 + PAGE_BYTES)
_TRIES = 100
#: Bytes of guest memory for images that say much.
_MEMORY = 1 << 36


class Repeated(NamedTuple):
    """A frame's worth. n: its records."""

    raw: bytes
    n: int
    first: int
    last: int


def _packed(frames: Iterable[Repeated], draw: Draw) -> Iterator[Frame]:
    """As frames that do not hold what they say, until a file has them."""
    stored, most = 0, _MOST_STORED // draw.choice((1, 1, 1, 10))
    for one, _ in zip(frames, range(_MOST_FRAMES), strict=False):
        block = lz4.block.compress(one.raw, store_size=False)
        stored += len(block) + 44
        if stored > most:
            return
        yield Frame(b"", one.n, one.first, one.last, {"raw": len(one.raw)}, block)


def _many(unit: bytes | Rows, size: int, draw: Draw) -> int:
    """How often a unit of so many bytes goes into a frame, at most."""
    return max(1, (_MOST_RAW - 4096) // max(1, size)) // draw.choice((1, 1, 1, 2, 16)) or 1


def core_records(sample: Sample, draw: Draw) -> str:
    """A log goes on with the same few records, at one count or at ever higher ones."""
    name = pick(
        draw, [one for one in sample.streams if one.startswith("core-") and sample.streams[one].frames]
    )
    found, line = sample.streams[name], int(sample.manifest["line"])
    cut = draw.randrange(len(found.frames)) + 1
    rows, blob = decoded(sample, found.frames[cut - 1])
    at, n = draw.randrange(len(rows)), draw.choice((1, 1, 1, 2, 3))
    if draw.random() < 0.3:
        at = draw.choice(np.flatnonzero(rows["kind"] == STRATUM).tolist() or [at])
    unit = rows[at : at + n][rows["kind"][at : at + n] != END].copy()
    if not len(unit) or unit["kind"][0] == RECEIVED:
        raise Unsuited
    unit["count"] -= unit["count"][0]
    step = int(unit["count"][-1]) + draw.choice((0, 0, 1, 1, 3, 1000))
    way = draw.choice(("same", "other lines"))
    strata = sum(int((decoded(sample, one)[0]["kind"] == STRATUM).sum()) for one in found.frames[:cut])
    data = np.frombuffer(bytes(blob) or b"\0", np.uint8)

    def frames() -> Iterator[Repeated]:
        count, number = int(rows["count"][-1]), strata
        many = _many(unit, len(codec.encode(np.tile(unit, 64), data, line)) // 64 + 2, draw)
        marks = unit["kind"] == STRATUM
        while True:
            some = np.tile(unit, many)
            some["count"] += np.uint64(count) + np.repeat(
                np.arange(many, dtype=np.uint64) * np.uint64(step), len(unit)
            )
            some["value"][np.tile(marks, many)] = number + np.arange(many * int(marks.sum()))
            if way == "other lines":
                misses = np.flatnonzero(some["kind"] == MISS)
                lines = int(sample.manifest["memory"]) // line
                some["addr"][misses] = (misses + count) % lines * line
            raw = codec.encode(some, data, line)
            yield Repeated(raw, len(some), int(some["count"][0]), int(some["count"][-1]))
            count, number = int(some["count"][-1]) + step, number + many * int(marks.sum())

    try:
        found.frames = found.frames[:cut] + list(_packed(frames(), draw))
    except (FormatError, OverflowError) as error:
        raise Unsuited from error
    _end_later(sample, found.number, found.frames[-1].last)
    kinds = ", ".join(map(str, unit["kind"]))
    return f"{name}: {_told(found)}, records of kinds {kinds}, step {step}, {way}"


def _end_later(sample: Sample, core: int, count: int) -> None:
    """The manifest says that the core ended there."""
    counts = sample.manifest.get("instructions")
    if isinstance(counts, list) and core < len(counts):
        counts[core] = count


def agent_rows(sample: Sample, draw: Draw) -> str:
    """The agent log goes on with the same few rows: accesses, marks, sync points."""
    found = pick(draw, [sample.streams[one] for one in sample.streams if one == AGENT_LOG])
    rows, end = (
        decoded_agents(sample, pick(draw, found.frames)),
        decoded_agents(sample, found.frames[-1])[-1:],
    )
    unit = rows[draw.randrange(len(rows)) :][: draw.choice((1, 1, 2, 4))].copy()
    many = _many(unit, len(unit) * 4, draw)

    def frames() -> Iterator[Repeated]:
        encoder = agent_codec.Encoder(_MOST_RAW, int(sample.manifest["memory"]))
        # Behind the row that comes before.
        some = np.concatenate([end, np.tile(unit, many)])
        while True:
            renumber(some)
            done, raw = encoder.encode_some(some[1:], 0)
            yield Repeated(bytes(raw), done, int(some["number"][1]), int(some["number"][done]))
            some[0] = some[done]

    try:
        found.frames = found.frames + list(_packed(frames(), draw))
    except FormatError as wrong:
        raise Unsuited from wrong
    return f"{AGENT_LOG}: {_told(found)}, rows of kinds {', '.join(map(str, unit['kind']))}"


def losses(sample: Sample, draw: Draw) -> str:
    """A core loses the same few lines again and again, at one count or at ever higher ones."""
    found = pick(
        draw, [one for name, one in sample.streams.items() if name.endswith("losses.log") and one.frames]
    )
    said = sample.manifest
    cores, line, memory = int(said["cores"]), int(said["line"]), int(said["memory"])
    rows = loss_codec.decode(found.frames[-1].raw, found.frames[-1].records, line, cores, memory)
    unit = rows[draw.randrange(len(rows)) :][: draw.choice((1, 1, 2))].copy()
    unit["core"] = unit["core"][0]
    step, far = draw.choice((0, 1, 1, 7)), draw.random() < 0.3
    count, many = int(rows["count"][-1]), _LOSSES_A_FRAME // len(unit)

    def frames() -> Iterator[Repeated]:
        first, at = sum(frame.records for frame in found.frames), count
        while True:
            some = np.tile(unit, many)
            some["count"] = at + np.repeat(np.arange(many) * step, len(unit))
            if far:
                some["line"] = (at + np.arange(len(some))) % (memory // line) * line
            yield Repeated(loss_codec.encode(some, line), len(some), first, first + len(some) - 1)
            first, at = first + len(some), int(some["count"][-1]) + 1

    found.frames = found.frames + list(_packed(frames(), draw))
    if isinstance(said.get("totals"), dict):
        said["totals"]["downgrades"] = found.records
    return f"losses: {_told(found)}, step {step}, {'ever others' if far else 'the same'}"


def pages(sample: Sample, draw: Draw) -> str:
    """An image of a guest that has used much memory."""
    name = pick(draw, [one for one in sample.streams if one.endswith(".img")])
    found, fill = sample.streams[name], draw.choice((b"\0", b"\x90", b"\1\0\0\0\0\0\0\0"))
    sample.manifest["memory"] = _MEMORY
    if draw.random() < 0.2:
        sample.manifest["files"].pop("final.img", None)
    begin = (found.frames[-1].last // PAGE_BYTES + 1) if found.frames else 0
    apart, page = draw.choice((1, 1, 16)), fill * (PAGE_BYTES // len(fill))

    def frames() -> Iterator[Repeated]:
        at = begin
        while at + _PAGES_A_FRAME * apart < _MEMORY // PAGE_BYTES:
            places = (at + np.arange(_PAGES_A_FRAME, dtype="<u8") * np.uint64(apart)) * np.uint64(PAGE_BYTES)
            raw = places.tobytes() + page * _PAGES_A_FRAME
            yield Repeated(raw, _PAGES_A_FRAME, int(places[0]), int(places[-1]))
            at += _PAGES_A_FRAME * apart

    found.frames = found.frames + list(_packed(frames(), draw))
    return f"{name}: {_told(found)}, pages of {fill!r}"


def runs(sample: Sample, draw: Draw) -> str:
    """A certificate of one region with as many runs as there is room for."""
    found = pick(
        draw, [one for name, one in sample.streams.items() if name == ORDER_CERT and len(one.frames) > 1]
    )
    streams = int(sample.manifest["cores"]) + 1
    unit = draw.choice(
        ([0, 1], [0, 0], [0, 1, 1, 1], [0, 0, 1, 0], [streams - 1, 1], [0, 1 << 62], [0, 1, 1, 0])
    )
    region = draw.choice((0, 0, found.frames[-1].last))
    kept = [one for one in found.frames[1:] if one.first < region]
    many = _VARINTS_A_FRAME // len(unit)
    raw = varints.join(unit * many)
    n = draw.choice((5, 100, 2000))

    def frames() -> Iterator[Repeated]:
        head = varints.join([region, 0, n * many * len(unit) // 2])
        yield Repeated(head, 3, region, region)
        for _ in range(n):
            yield Repeated(raw, many * len(unit), region, region)

    found.frames = found.frames[:1] + kept + list(_packed(frames(), draw))
    return f"{ORDER_CERT}: {_told(found)}, runs {unit} in region {region}"


#: Rows of what the replay set needs: values, code, who came first, digests.
_OPR_ROWS = (
    "01 01 00", "01 00 00", "71 01" + 8 * " 00", "22 00" + 8 * " 00", "22 01" + 8 * " 00", "03 01 01 00",
    "03 01 01 02", "04 01 01 02", "05 01" + 8 * " 00", "05 00" + 8 * " 00",
)  # fmt: skip


def _units(name: str, sample: Sample) -> tuple[bytes, tuple[bytes, ...]]:
    """What a frame begins with, and rows that can follow one another."""
    nothing = bytes(int(sample.manifest["cores"]) + 1)
    if name == TRUTH_LOG:
        return b"", (b"\0\1", b"\0\0", b"\0\1\1\1", b"\1\0")
    if name == "evidence-opr.log":
        return b"", tuple(map(bytes.fromhex, _OPR_ROWS))
    alone = (b"\x08\0\0", b"\x08\x7f\0", b"\x18\0\1")
    kept = b"\1" + nothing + b"\0" + nothing
    return b"\0" + nothing, (*alone, b"\0" + nothing, b"\2" + nothing, kept)


def stream_units(sample: Sample, draw: Draw) -> str:
    """The sealed truth, slices, or what the replay set needs, of many rows."""
    names = (TRUTH_LOG, "evidence-slices.log", "evidence-opr.log")
    name = pick(draw, [one for one in names if one in sample.streams and sample.streams[one].frames])
    found = sample.streams[name]
    head, units = _units(name, sample)
    unit = draw.choice(units)
    kept = found.frames[: draw.choice((1, len(found.frames)))] if name != TRUTH_LOG else found.frames[:0]
    if name == "evidence-slices.log":
        kept = []
    many = _many(unit, len(unit), draw)

    def frames() -> Iterator[Repeated]:
        first = 0 if not kept or (name == "evidence-opr.log" and len(kept) == 1) else kept[-1].last + 1
        while True:
            yield Repeated(head + unit * many, many, first, first + many - 1)
            first += many

    found.frames = kept + list(_packed(frames(), draw))
    return f"{name}: {_told(found)}, {unit.hex(' ')}"


def linkage_rows(sample: Sample, draw: Draw) -> str:
    """Rows of who was at a variable."""
    found = pick(
        draw, [one for name, one in sample.streams.items() if name == "evidence-linkage.log" and one.frames]
    )
    what, unit = draw.choice(
        (
            (0, b"\2\1"),
            (1, b"\2\0\0\0"),
            (2, b"\2\0"),
            (2, b"\0\0\0"),
            (3, b"\0\1"),
            (3, b"\2"),
            (4, b"\0\0"),
            (4, b"\2"),
            (5, b"\2\0\0\1"),
            (6, b"\2\0"),
        )
    )
    many, kept = _many(unit, len(unit), draw), found.frames[: draw.choice((1, len(found.frames)))]

    def frames() -> Iterator[Repeated]:
        number = len(kept)
        while True:
            yield Repeated(bytes([what, 0]) + unit * many, many, number, number)
            number += 1

    found.frames = kept + list(_packed(frames(), draw))
    return f"linkage: {_told(found)}, rows {unit.hex(' ')} of {what}"


def receipts(sample: Sample, draw: Draw) -> str:
    """Requests that were received, or tested."""
    found = pick(draw, [one for name, one in sample.streams.items() if name == "evidence-rpc.log"])
    tested, unit = draw.random() < 0.5, draw.choice((b"\0\0\2", b"\0\2\0", b"\0\0\0"))
    many = _many(unit, 4, draw)

    def frames() -> Iterator[Repeated]:
        first = 0
        while True:
            got = varints.join([1, 0, 2, many]) + unit * many + b"\0"
            asked = b"\0" + varints.join([many]) + unit * many + b"\2" * many
            yield Repeated(asked if tested else got, many, first, first + many - 1)
            first += many

    found.frames = list(_packed(frames(), draw))
    return f"rpc: {_told(found)}, {'tests' if tested else 'receipts'} {unit.hex(' ')}"


def checkpoint_pages(sample: Sample, draw: Draw) -> str:
    """A checkpoint of much memory."""
    name = pick(
        draw, [one for one in sample.streams if one.startswith("checkpoints-") and sample.streams[one].frames]
    )
    found, line = sample.streams[name], int(sample.manifest["line"])
    sample.manifest["memory"] = _MEMORY
    first = found.frames[0]
    bits = b"\xff" * max(1, PAGE_BYTES // line // 8)
    many = _MOST_RAW // (8 + len(bits) + PAGE_BYTES)

    def frames() -> Iterator[Repeated]:
        at = 0
        while True:
            places = (at + np.arange(many, dtype="<u8")).tobytes()
            yield Repeated(places + bits * many + bytes(many * PAGE_BYTES), many, first.first, first.last)
            at += many

    found.frames = list(_packed(frames(), draw)) + found.frames
    return f"{name}: {_told(found)}"


def _told(found: Stream) -> str:
    return f"{found.records:,} records in {len(found.frames):,} frames"


def left_unfinished(sample: Sample, draw: Draw) -> str:
    """As a killed recorder leaves it: nobody has counted what the files hold."""
    sample.manifest.update(complete=False, instructions=[], end=None, totals={})
    files = sample.manifest["files"]
    for name in [one for one in files if one != "initial.img"]:
        del files[name]
    sample.streams.pop("final.img", None)
    if draw.random() < 0.5:
        sample.streams.pop(ORDER_CERT, None)
    return "a killed recorder's"


def _one(sample: Sample, draw: Draw) -> tuple[str, str]:
    weights, mutations = zip(*MUTATIONS, strict=True)
    for _ in range(_TRIES):
        mutation: Mutation = draw.choices(mutations, weights)[0]
        try:
            return mutation.__name__.replace("_", " "), mutation(sample, draw)
        except (Unsuited, KeyError, ValueError, FormatError):
            continue
    return "none", "nothing"


def much(sample: Sample, draw: Draw) -> tuple[str, str]:
    """One file says much, rarely two; (kind of the first, what was done)."""
    done = [_one(sample, draw) for _ in range(draw.choice((1, 1, 1, 2)))]
    what = "; ".join(what for _, what in done)
    if draw.random() < 0.3:
        what += f"; {left_unfinished(sample, draw)}"
    return done[0][0], what


MUTATIONS: tuple[tuple[int, Callable[[Sample, Draw], str]], ...] = (
    (6, core_records),
    (4, agent_rows),
    (3, losses),
    (2, pages),
    (2, runs),
    (3, stream_units),
    (2, linkage_rows),
    (1, receipts),
    (1, checkpoint_pages),
)
