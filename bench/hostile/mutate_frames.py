"""Frames cut, repeated, swapped, lengthened, and headers that say something else; payloads as bytes and
varints."""

from __future__ import annotations

from bench.hostile import varints
from bench.hostile.drawing import EDGES, Draw, Mutation, Unsuited, edge, edit_bytes, pick, stream
from bench.hostile.sample import Frame, Sample

_LIES = ("sequence", "raw", "stored", "records", "first", "last")
_MOST_RAW = 1 << 20


def _keep_sound(frame: Frame, raw: bytes) -> None:
    if not 1 <= len(raw) <= _MOST_RAW:
        raise Unsuited
    frame.raw = raw


def frames_moved(sample: Sample, draw: Draw) -> str:
    """Leave out, repeat, swap, reverse or add frames of one file."""
    name, found = stream(sample, draw)
    frames = found.frames
    at, other = draw.randrange(len(frames)), draw.randrange(len(frames))
    way = draw.choice(("drop", "repeat", "swap", "reverse", "only", "many", "none"))
    if way == "drop":
        del frames[at]
    elif way == "repeat":
        frames.insert(other, frames[at].copy())
    elif way == "swap":
        frames[at], frames[other] = frames[other], frames[at]
    elif way == "reverse":
        frames.reverse()
    elif way == "only":
        found.frames = [frames[at]]
    elif way == "many":
        frames[at:at] = [frames[at].copy() for _ in range(draw.choice((10, 100)))]
    else:
        found.frames = []
    return f"{name}: frames: {way}"


def frame_header(sample: Sample, draw: Draw) -> str:
    """A frame's header says something that is not so."""
    name, found = stream(sample, draw)
    frame = draw.choice(found.frames)
    for field in draw.sample(_LIES, draw.choice((1, 1, 2))):
        frame.lies[field] = edge(
            draw,
            getattr(frame, field, found.frames.index(frame))
            if field not in ("raw", "sequence", "stored")
            else len(frame.raw),
        )
    return f"{name}: header: {frame.lies}"


def records_and_range(sample: Sample, draw: Draw) -> str:
    """A frame's number of records and range, as the manifest counts them too."""
    name, found = stream(sample, draw)
    frame = draw.choice(found.frames)
    field = draw.choice(("records", "first", "last"))
    setattr(frame, field, edge(draw, getattr(frame, field)) & 0xFFFFFFFF)
    return f"{name}: {field} = {getattr(frame, field)}"


def file_header(sample: Sample, draw: Draw) -> str:
    """A file says that it is something else."""
    name, found = stream(sample, draw)
    way = draw.choice(("kind", "number", "line", "version", "recording", "tail"))
    if way == "recording":
        found.recording = draw.randbytes(16)
    elif way == "tail":
        found.tail = draw.randbytes(draw.choice((1, 43, 44, 100)))
    else:
        most = 255 if way == "kind" else 65535
        setattr(found, way, draw.choice((0, 1, 2, 3, 6, 12, 16, 64, 256, most)) & most)
    return f"{name}: {way}"


def files_moved(sample: Sample, draw: Draw) -> str:
    """One file in another's place, gone, or of another kind."""
    name, found = stream(sample, draw)
    other, second = stream(sample, draw)
    way = draw.choice(("swap", "gone", "same", "header"))
    if way == "gone":
        del sample.streams[name]
    elif way == "swap":
        sample.streams[name], sample.streams[other] = second, found
    elif way == "same":
        sample.streams[name] = second.copy()
        sample.streams[name].kind, sample.streams[name].number = found.kind, found.number
    else:
        sample.streams[name] = found.copy()
        sample.streams[name].frames = [one.copy() for one in second.frames]
    return f"{name}, {other}: {way}"


def cut_short(sample: Sample, draw: Draw) -> str:
    """As a killed recorder leaves it, with some logs shorter."""
    sample.manifest.update(complete=False, instructions=[])
    if draw.random() < 0.8:
        sample.manifest.update(end=None, totals={})
    files = sample.manifest["files"]
    for name in [one for one in files if one != "initial.img" or draw.random() < 0.1]:
        del files[name]
    if draw.random() < 0.8:
        sample.streams.pop("final.img", None)
        sample.streams.pop("order.cert", None)
    for name in list(sample.streams):
        found = sample.streams[name]
        if name == "initial.img" or not found.frames or draw.random() < 0.4:
            continue
        del found.frames[draw.randrange(len(found.frames)) :]
        found.tail = draw.randbytes(draw.randrange(44)) if draw.random() < 0.2 else b""
    if draw.random() < 0.2:
        # Killed behind its manifest, which is written first.
        kept = draw.sample(sorted(sample.streams), draw.choice((0, 0, 1, 2)))
        sample.streams = {name: sample.streams[name] for name in sorted(kept)}
        sample.others, sample.index = {}, None
    return "a killed recorder's"


def payload_bytes(sample: Sample, draw: Draw) -> str:
    """Other bytes in a payload."""
    name, found = stream(sample, draw)
    frame = draw.choice(found.frames)
    others = [one.raw for row in sample.streams.values() for one in row.frames]
    _keep_sound(frame, edit_bytes(frame.raw, draw, others))
    return f"{name}: bytes of frame {found.frames.index(frame)}"


def payload_varints(sample: Sample, draw: Draw) -> str:
    """A payload's integers changed, moved, repeated or left out."""
    name, found = stream(sample, draw)
    frame = draw.choice(found.frames)
    skip = draw.choice((0, 0, 0, 1, 2, 10, 24, 44, draw.randrange(len(frame.raw))))
    values = varints.split(frame.raw[skip:])
    if not values:
        raise Unsuited
    at = draw.randrange(len(values))
    way = draw.choice(("edge", "edge", "edge", "edge", "swap", "repeat", "drop", "many", "zero"))
    if way == "edge":
        values[at] = edge(draw, values[at])
    elif way == "swap":
        other = draw.randrange(len(values))
        values[at], values[other] = values[other], values[at]
    elif way == "repeat":
        values[at:at] = values[at : at + draw.choice((1, 2, 3, 5))]
    elif way == "drop":
        del values[at : at + draw.choice((1, 2, 3, 5))]
    elif way == "many":
        values[at:at] = [draw.choice((0, 1, values[at], draw.choice(EDGES)))] * draw.choice((10, 1000, 5000))
    else:
        values = values[:at] + [0] * (len(values) - at)
    _keep_sound(frame, frame.raw[:skip] + varints.join(values))
    if way in ("repeat", "drop", "many") and draw.random() < 0.5:
        frame.records = max(1, frame.records + draw.choice((-3, -2, -1, 1, 2, 3, 10, 1000)))
    return f"{name}: integers of frame {found.frames.index(frame)}: {way} at {at} behind {skip}"


def stored_block(sample: Sample, draw: Draw) -> str:
    """Another LZ4 block: bytes that are none, or that become more than the header says."""
    name, found = stream(sample, draw)
    frame = pick(draw, found.frames)
    # A token of 15 literals and 15 + 255 n bytes to repeat is the most that a block can grow.
    bomb = b"\x1fA\x01\x00" + b"\xff" * draw.choice((10, 500, 4000)) + b"\x00\x50AAAAA"
    frame.stored = draw.choice((bomb, draw.randbytes(50), b"\0", b"\xff" * 20))
    return f"{name}: block of frame {found.frames.index(frame)}"


MUTATIONS: tuple[tuple[int, Mutation], ...] = (
    (3, frames_moved),
    (2, frame_header),
    (2, records_and_range),
    (1, file_header),
    (2, files_moved),
    (2, cut_short),
    (5, payload_bytes),
    (12, payload_varints),
    (1, stored_block),
)
