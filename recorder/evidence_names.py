"""Names of the evidence streams and of their files. Light: the manifest and `--help` need it."""

from __future__ import annotations

from collections.abc import Iterable

from isa.errors import UsageError

#: Names of the streams, and the kinds of their files (recorder/frame.py).
LINKAGE, SLICES, OPR, RPC, LOSSES = "linkage", "slices", "opr", "rpc", "losses"
KINDS = {LINKAGE: 8, SLICES: 9, OPR: 10, RPC: 11, LOSSES: 12}
#: What is recorded unless something else is asked for: it costs next to nothing.
DEFAULT_EVIDENCE = (LOSSES,)
#: Streams that are made of the cores' events, so that a machine that records them has taps; they know no
#: store buffers.
OF_EVENTS = (LINKAGE, SLICES, OPR)


def evidence_log(name: str) -> str:
    """The file name of a stream."""
    return f"evidence-{name}.log"


def stream_of(file_name: str) -> str | None:
    """The stream whose file has this name, if any."""
    return next((name for name in KINDS if evidence_log(name) == file_name), None)


def parse_names(text: str) -> tuple[str, ...]:
    """The streams named in 'linkage,opr', 'all' or 'none', in their fixed order. Raises UsageError."""
    asked = [part.strip() for part in text.split(",") if part.strip()]
    if asked == ["none"]:
        return ()
    unknown = [name for name in asked if name not in KINDS and name != "all"]
    if unknown or not asked:
        raise UsageError(
            "no such evidence",
            expected=", ".join([*KINDS, "all", "none"]),
            found=", ".join(unknown) or repr(text),
            remedy="choose another --evidence",
        )
    return tuple(name for name in KINDS if name in asked or "all" in asked)


def check_evidence(names: Iterable[str], model: str, *, linux: bool = False) -> None:
    """Raise UsageError for streams that cannot be recorded under this memory model, or of a Linux program."""
    names = tuple(names)
    if linux and RPC in names:
        raise UsageError(f"evidence {RPC} is for firmware with mailboxes", remedy="leave it out")
    bad = [name for name in names if name in OF_EVENTS]
    if model != "sc" and bad:
        raise UsageError(
            f"store buffers are unknown to evidence {', '.join(bad)}, and the model is {model}",
            remedy="record with --model sc, or leave --evidence out",
        )
