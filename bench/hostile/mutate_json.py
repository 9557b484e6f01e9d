"""Manifests and indexes of objects with other types, huge numbers, missing keys and what no JSON can say."""

from __future__ import annotations

from typing import Any

from bench.hostile.drawing import Draw, Mutation, Unsuited, edge
from bench.hostile.sample import Sample

#: Stands for what Python's JSON cannot write, until the text is sealed.
_PLACE = "@@@"
_TEXTS = (
    "",
    "x",
    "x" * 5000,
    "\0",
    "\ud800",
    "é漢",
    "../../etc/passwd",
    "/",
    "a\nb",
    "\x1b[31m",
    "%s",
    "{0}",
)
_NUMBERS = (
    -1,
    0,
    1,
    2,
    63,
    64,
    65,
    4096,
    1 << 31,
    1 << 40,
    (1 << 40) + 4096,
    1 << 63,
    (1 << 64) - 1,
    1 << 64,
    10**300,
)
_STRANGE: tuple[Any, ...] = (None, True, False, 1.5, -0.0, 1e308, [], {}, [[]], [{}], {"": 0}, [0] * 3000)
_RAW = (
    b"NaN",
    b"Infinity",
    b"9" * 5000,
    b"-" + b"9" * 4400,
    b"[" * 100_000,
    b"1e999",
    b"\xff",
    b'"\\u0000"',
    b"",
)
#: What a field may say instead that is well formed.
_SAID = {
    "cache": (
        "unbounded",
        "64:2:32",
        "1k:2:64",
        "0:0:0",
        "1:1:1",
        "999999999m:1:64",
        "64:99999:16",
        "9" * 50 + ":1:64",
    ),
    "strata": ("none", "cycles:0", "cycles:1", "downgrades:1", "cycles:" + "9" * 400),
    "schedule": ("random", "pct:3", "pct:" + "9" * 4000, "nonsense", "/dev/zero", "chaos"),
    "model": ("sc", "tso"),
    "isa": ("x86_64", "arm64", "x" * 4000, "-"),
    "evidence": ("losses", "linkage", "linkage,slices,opr,rpc,losses", "", "opr", "rpc,losses"),
    "guest": ("linux", "firmware"),
    "reason": ("power-off", "fault", "halted", "limit", "stopped", "exit", "deadlock", "idle", "x" * 4000),
    "clock": ("virtual", "host", ""),
    "rights": ("---", "rwx", "r-x", "--x", "xxx"),
}


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """(container, key or index) of everything inside `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items)[:2000]:
        found.append((value, key))
        _places(inner, found)
    return found


def _other(value: Any, key: Any, draw: Draw) -> Any:
    if key in _SAID and draw.random() < 0.5:
        return draw.choice(_SAID[key])
    if isinstance(value, bool):
        return draw.choice((not value, *_STRANGE))
    if isinstance(value, int) and draw.random() < 0.7:
        return draw.choice((edge(draw, value), value + 1, value - 1, draw.choice(_NUMBERS)))
    if isinstance(value, str) and value and draw.random() < 0.5:
        at = draw.randrange(len(value))
        put = draw.choice(("", "0", "9", "f", ":", "-", " ", "\0", value))
        return (value[:at] + put + value[at + 1 :])[:5000]
    return draw.choice((*_STRANGE, *_NUMBERS, *_TEXTS))


def _change(values: dict[str, Any], draw: Draw, edits: list[tuple[bytes, bytes]]) -> str:
    places = _places(values, [])
    if not places:
        raise Unsuited
    holder, key = draw.choice(places)
    way = draw.choice(("other", "other", "other", "other", "gone", "more", "move", "deep", "raw"))
    if way == "other":
        holder[key] = _other(holder[key], key, draw)
    elif way == "gone":
        del holder[key]
    elif way == "more" and isinstance(holder, dict):
        holder[draw.choice(("zzz", "", "id", "core-9.log", "evidence", "x" * 300))] = draw.choice(_STRANGE)
    elif way == "more":
        holder.extend([holder[key]] * draw.choice((1, 2, 100, 3000)))
    elif way == "move":
        other, name = draw.choice(places)
        if name in (other if isinstance(other, dict) else range(len(other))):
            holder[key] = other[name] if not isinstance(other[name], (dict, list)) else []
    elif way == "deep":
        value: Any = holder[key]
        for _ in range(draw.choice((2, 50, 300))):
            value = [value] if draw.random() < 0.5 else {"a": value}
        holder[key] = value
    else:
        holder[key] = _PLACE
        edits.append((b'"' + _PLACE.encode() + b'"', draw.choice(_RAW)))
    return f"{str(key)[:40]}: {way}"


def manifest(sample: Sample, draw: Draw) -> str:
    """A field of the manifest; what the id and the digest are of follows."""
    if draw.random() < 0.1:
        sample.told |= set(draw.sample(sorted(sample.streams), draw.randrange(1, 3)))
    return "manifest: " + _change(sample.manifest, draw, sample.edits)


def guest_options(sample: Sample, draw: Draw) -> str:
    """What decides the run, well formed but not how it was recorded."""
    said = sample.manifest
    key = draw.choice(
        (
            "cores",
            "memory",
            "line",
            "cache",
            "model",
            "strata",
            "agents",
            "options",
            "processor",
            "instructions",
        )
    )
    if key == "options":
        name = draw.choice(
            (*said["options"], "evidence", "store_buffer", "slice", "guest", "memory_limit", "rset")
        )
        said["options"][name] = _other(said["options"].get(name, 1), name, draw)
        return f"options.{name}"
    if key == "cores":
        said["cores"] = draw.choice((1, 2, 3, 4, 64))
        said["instructions"] = (said["instructions"] * 64)[: said["cores"]]
        return f"cores: {said['cores']}"
    if key == "memory":
        said["memory"] = draw.choice(
            (4096, 1 << 20, 1 << 30, 1 << 36, 1 << 40, said["memory"] // 2 & ~4095 or 4096)
        )
    elif key == "line":
        said["line"] = draw.choice((16, 32, 64, 128, 256))
        for found in sample.streams.values():
            found.line = said["line"] if found.line else 0
    elif key == "processor":
        said["processor"] = draw.choice(
            (
                {
                    "revision": draw.randrange(4),
                    "identity": [[edge(draw, 0) for _ in range(6)] for _ in range(draw.randrange(4))],
                },
                said.get("processor"),
                {},
            )
        )
    elif key in said:
        said[key] = _other(said[key], key, draw)
    return f"{key}: {str(said.get(key))[:60]}"


def no_seal(sample: Sample, draw: Draw) -> str:
    """The id or the digest is not what follows from the rest."""
    way = draw.choice(("id", "digest", "text"))
    if way == "id":
        sample.own_id = draw.randbytes(16).hex()
    elif way == "digest":
        sample.manifest["digest"] = draw.choice((None, 5, "x", "0" * 63))
    else:
        sample.edits.append(
            draw.choice(((b"{", b"["), (b" ", b""), (b"\n", b"\r\n"), (b"}", b"}\0"), (b":", b"")))
        )
    return f"manifest: {way}"


def index(sample: Sample, draw: Draw) -> str:
    """A field of the index of objects."""
    if sample.index is None:
        raise Unsuited
    return "objects.json: " + _change(sample.index, draw, [])


def interval(sample: Sample, draw: Draw) -> str:
    """A field of what an interval of an unfinished ring says of itself, or of where it begins."""
    if not sample.parts:
        raise Unsuited
    name = draw.choice(sorted(sample.parts))
    return f"{name}: " + _change(sample.parts[name], draw, [])


MUTATIONS: tuple[tuple[int, Mutation], ...] = (
    (6, manifest),
    (5, guest_options),
    (1, no_seal),
    (2, index),
    (8, interval),
)
