"""Certificates and unfinished orders whose runs, statuses and numbers are others."""

from __future__ import annotations

from bench.hostile import varints
from bench.hostile.drawing import EDGES, Draw, Mutation, Unsuited, edge
from bench.hostile.sample import Frame, Sample
from recorder.files.manifest import ORDER_CERT

_HEAD, _LEAST = 24, 4
_PARTIAL = "order.partial"


def _runs(sample: Sample) -> tuple[list[Frame], list[list[int]]]:
    found = sample.streams.get(ORDER_CERT)
    if found is None or len(found.frames) < 2:
        raise Unsuited
    return found.frames, [varints.split(frame.raw) for frame in found.frames[1:]]


def _put(frames: list[Frame], values: list[list[int]]) -> None:
    for frame, own in zip(frames[1:], values, strict=True):
        if not own:
            raise Unsuited
        raw = varints.join(own)
        if len(raw) > 1 << 20:
            raise Unsuited
        frame.raw, frame.records = raw, len(own)


def runs(sample: Sample, draw: Draw) -> str:
    """Runs of a region swapped, split, longer, of other streams."""
    frames, values = _runs(sample)
    large = [own for own in values if len(own) > 2 * _LEAST]
    if not large:
        raise Unsuited
    own = draw.choice(large)
    at = 3 + 2 * draw.randrange((len(own) - 3) // 2)
    way = draw.choice(("swap", "split", "rows", "stream", "many", "zeros"))
    if way == "swap":
        own[at : at + 4] = own[at + 2 : at + 4] + own[at : at + 2]
    elif way == "rows":
        own[at + 1 : at + 2] = [edge(draw, own[at + 1] if at + 1 < len(own) else 1)]
    elif way == "stream":
        own[at] = edge(draw, own[at])
    elif way == "split" and at + 1 < len(own) and own[at + 1] > 1:
        own[at + 1 : at + 2] = [1, own[at], own[at + 1] - 1]
        own[2] += 1
    else:
        n = draw.choice((10, 1000, 40_000))
        own[at:at] = [own[at], 0 if way == "zeros" else 1] * n
        own[2] += n
    _put(frames, values)
    return f"{ORDER_CERT}: runs: {way}"


def statuses(sample: Sample, draw: Draw) -> str:
    """A region's number, status or how many runs it has; the totals at the end."""
    frames, values = _runs(sample)
    own = draw.choice((draw.choice(values), values[-1]))
    at = draw.choice((0, 1, 2, len(own) - 1, draw.randrange(len(own))))
    if at >= len(own):
        raise Unsuited
    own[at] = draw.choice((draw.randrange(9), draw.choice(EDGES), edge(draw, own[at])))
    _put(frames, values)
    return f"{ORDER_CERT}: integer {at} = {own[at]}"


def head(sample: Sample, draw: Draw) -> str:
    """What the first frame says: version, streams, regions, engine."""
    name = draw.choice((ORDER_CERT, _PARTIAL))
    found = sample.streams.get(name)
    if found is None or not found.frames:
        raise Unsuited
    frame = found.frames[0]
    size = draw.choice((1, 2, 4))
    at = draw.randrange(len(frame.raw) - size + 1)
    value = draw.choice((edge(draw, frame.raw[at]), *EDGES)) & ((1 << 8 * size) - 1)
    frame.raw = frame.raw[:at] + value.to_bytes(size, "little") + frame.raw[at + size :]
    return f"{name}: byte {at} of the head = {value}"


def regions(sample: Sample, draw: Draw) -> str:
    """Whole regions left out, repeated, swapped."""
    frames, values = _runs(sample)
    at, other = draw.randrange(len(values)), draw.randrange(len(values))
    way = draw.choice(("drop", "repeat", "swap"))
    if way == "swap":
        values[at], values[other] = values[other], values[at]
    elif way == "drop":
        values[at] = values[at][: draw.randrange(len(values[at]) + 1)]
    else:
        values[at] = values[at] + values[other]
    _put(frames, values)
    return f"{ORDER_CERT}: regions: {way}"


MUTATIONS: tuple[tuple[int, Mutation], ...] = ((4, runs), (3, statuses), (1, head), (1, regions))
