"""The table of evidence streams: further streams that a recording may have, each for one engine.

Everything that has to do with all streams follows from `STREAMS`: what can be recorded with its help and the
options beside it, what is written and read, what `verify` checks. A new stream is a row here, its collector
and its reader (docs/format.md, section 11). Light: the manifest and the command line's help need it, so what
a row names is loaded only when it is wanted.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase, another
from recorder.files.json_fields import Scalar

#: Names of the streams.
LINKAGE, SLICES, OPR, RPC, LOSSES = "linkage", "slices", "opr", "rpc", "losses"
#: What can share one version in evidence linkage, as its log numbers them.
GROUPS = ("word", "line", "symbol")
#: Which values of reads it logs.
READ_VALUES = ("needed", "all")
#: What it does with accesses to what a lock protects.
PROTECTED = ("log", "skip", "writes")
#: Of a core's number.
_MOST_DIGITS = 9


@dataclass(frozen=True)
class StreamOption:
    """What can be said of how a stream is recorded. key: its name in the manifest. says: for a reader, with
    what holds unless it is given. settle(given, cores): what is recorded as said, None for nothing; given is
    None if nothing was. It raises UsageError. choices, bounds (least, most): what can be given, if it is one
    of few words or a number."""

    key: str
    says: str
    settle: Callable[[Any, int], Scalar | None]
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    bounds: tuple[int, int] | None = None

    @property
    def option(self) -> Option:
        """As messages name it."""
        return Option(self.key)


@dataclass(frozen=True)
class Stream:
    """One evidence stream. kind: of its file (recorder/files/frame.py). says: what it records, in a few
    words.

    collector, frames, faults: "module:function", loaded when wanted. collector(guest, writer, options) makes
    the `Collector`. frames(recording) yields the stream decoded as its engine does, or raises FormatError.
    faults(recording) yields (file, what is wrong) where a sound stream contradicts other files of a whole
    recording; "" if there is nothing to compare.

    of_events: made of the cores' events, so that a machine that records it has taps. models: memory models
    under which it can be recorded. only_for: the guests that alone have it, "" if all do; no Linux program
    is one of them. by_default: recorded unless something else is asked for.
    """

    name: str
    kind: int
    says: str
    collector: str
    frames: str
    faults: str = ""
    options: tuple[StreamOption, ...] = ()
    of_events: bool = False
    models: tuple[str, ...] = ("sc", "tso")
    only_for: str = ""
    by_default: bool = False

    @property
    def file(self) -> str:
        """The name of its file."""
        return evidence_log(self.name)


def is_core_number(text: str) -> bool:
    """Whether it is one of few digits, as any core has."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def parse_rset(text: str, cores: int) -> tuple[int, ...]:
    """The cores of a replay set, ascending, from 'K,K'. Raises UsageError."""
    parts = [part.strip() for part in text.split(",")]
    wrong = [part for part in parts if not is_core_number(part) or int(part) >= cores]
    if wrong or len(set(map(int, parts))) != len(parts):
        raise UsageError(
            "no such replay set",
            expected=f"different cores from 0 to {cores - 1}, as in 0,2",
            found=text or "nothing",
            remedy=another("rset"),
        )
    return tuple(sorted(map(int, parts)))


def _settle_rset(given: str | None, cores: int) -> str:
    members = range(cores) if given is None else parse_rset(given, cores)
    return ",".join(map(str, members))


_GROUP = StreamOption(
    "group", "What shares one version in evidence linkage.  [default: word]",
    lambda given, _: given or "word", choices=GROUPS,
)  # fmt: skip
_READ_VALUES = StreamOption(
    "read_values",
    "Which values of reads evidence linkage logs: those without which no replay of all cores is possible, or "
    "all, so that each core can be replayed alone.  [default: needed]",
    lambda given, _: given, choices=READ_VALUES,
)  # fmt: skip
_PROTECTED = StreamOption(
    "protected",
    "What evidence linkage does with accesses to what a lock protects: log them like others, or skip them, "
    "since the order in which the lock was taken tells theirs. With writes, also skip the writes to what is "
    "read without the lock.  [default: log]",
    lambda given, _: given, choices=PROTECTED,
)  # fmt: skip
_SLICE_ACCESSES = StreamOption(
    "slice_accesses", "Shared accesses in a slice of evidence slices.  [default: 16]",
    lambda given, _: given, "N", bounds=(2, 256),
)  # fmt: skip
_RSET = StreamOption("rset", "Cores whose replay evidence opr is for.  [default: all]", _settle_rset, "K,K")

_ROWS = (
    Stream(
        LINKAGE, 8, "which versions each core met, as Stride",
        collector="recorder.evidence.linkage.collector:make_linkage",
        frames="recorder.evidence.linkage.codec:iter_linkage",
        options=(_GROUP, _READ_VALUES, _PROTECTED), of_events=True, models=("sc",),
    ),
    Stream(
        SLICES, 9, "time slices of shared accesses, as LightPlay",
        collector="recorder.evidence.slices.collector:make_slices",
        frames="recorder.evidence.slices.log:iter_slices",
        options=(_SLICE_ACCESSES,), of_events=True, models=("sc",),
    ),
    Stream(
        OPR, 10, "the values that a group of cores read, as OPR",
        collector="recorder.evidence.opr.collector:make_opr",
        frames="recorder.evidence.opr.log:iter_opr",
        options=(_RSET,), of_events=True, models=("sc",),
    ),
    Stream(
        RPC, 11, "receipts of remote procedure calls",
        collector="recorder.evidence.rpc.receipts:make_receipts",
        frames="recorder.evidence.rpc.receipts:iter_receipts",
        only_for="firmware with mailboxes",
    ),
    Stream(
        LOSSES, 12, "when cores lost lines",
        collector="recorder.evidence.losses.collector:make_losses",
        frames="recorder.evidence.losses.log:iter_all_losses",
        faults="recorder.evidence.owned_integrity:loss_faults", by_default=True,
    ),
)  # fmt: skip
#: All streams by name, in the order in which a recording names them.
STREAMS = {row.name: row for row in _ROWS}
#: What is recorded unless something else is asked for: it costs next to nothing.
DEFAULT_EVIDENCE = tuple(row.name for row in _ROWS if row.by_default)


def loaded(place: str) -> Any:
    """What a row names as "module:function"."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def evidence_log(name: str) -> str:
    """The file name of a stream."""
    return f"evidence-{name}.log"


def stream_of(file_name: str) -> Stream | None:
    """The stream whose file has this name, if any."""
    return next((row for row in STREAMS.values() if row.file == file_name), None)


def parse_names(text: str) -> tuple[str, ...]:
    """The streams named in 'linkage,opr', 'all' or 'none', in their fixed order. Raises UsageError."""
    asked = [part.strip() for part in text.split(",") if part.strip()]
    if asked == ["none"]:
        return ()
    unknown = [name for name in asked if name not in STREAMS and name != "all"]
    if unknown or not asked:
        raise UsageError(
            "no such evidence",
            expected=", ".join([*STREAMS, "all", "none"]),
            found=", ".join(unknown) or repr(text),
            remedy=another("evidence"),
        )
    return tuple(name for name in STREAMS if name in asked or "all" in asked)


def check_evidence(names: Iterable[str], model: str, *, linux: bool = False) -> None:
    """Raise UsageError for streams that cannot be recorded under this memory model, or of a Linux program."""
    rows = [STREAMS[name] for name in names]
    for row in rows:
        if linux and row.only_for:
            raise UsageError(f"evidence {row.name} is for {row.only_for}", remedy="leave it out")
    bad = [row.name for row in rows if model not in row.models]
    if bad:
        raise UsageError(
            f"store buffers are unknown to evidence {', '.join(bad)}, and the model is {model}",
            remedy=Phrase("record with ", Option("model", "sc"), ", or leave ", Option("evidence"), " out"),
        )


def settled(
    names: Iterable[str], given: Mapping[str, object], cores: int, asked: str | None = None
) -> dict[str, Scalar]:
    """What the manifest says of how streams are recorded. given: values by the key of their option, None or
    missing for none. asked: what was asked for, as it was written.

    Raises UsageError, also where a value is for a stream that is not among `names`."""
    names, said = tuple(names), dict[str, Scalar]()
    for row, option in ((stream, option) for stream in STREAMS.values() for option in stream.options):
        value = given.get(option.key)
        if row.name in names:
            if (settled_value := option.settle(value, cores)) is not None:
                said[option.key] = settled_value
        elif value is not None:
            raise UsageError(
                Phrase(option.option, f" says how evidence {row.name} is recorded, which was not asked for"),
                found=Option("evidence", asked) if asked else Phrase(Option("evidence"), " not given"),
                remedy=Phrase("add ", Option("evidence", row.name)),
            )
    return said
