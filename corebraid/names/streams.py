"""How streams are called: cores by their numbers, the agents that are not cores by what they are."""

from __future__ import annotations

from corebraid.base.errors import UsageError
from corebraid.base.wording import another

#: What the stream of the agents that are not cores is called: of firmware, of a Linux guest.
_AGENTS = ("dev", "kernel")


def streams(n_cores: int) -> str:
    """The names of streams, for messages."""
    return f"0 to {n_cores - 1}, or {' or '.join(_AGENTS)}"


def parse_stream(text: str, n_cores: int) -> int | None:
    """The stream that is called `text`: a core's number, or the number of cores for agents; None for none."""
    if text in _AGENTS:
        return n_cores
    is_core = text.isascii() and text.isdigit() and len(text) < 20 and int(text) < n_cores
    return int(text) if is_core else None


def stream_named(text: str, n_cores: int, where: str | None = None) -> int:
    """The stream that is called `text`. where: for messages. Raises UsageError if there is none."""
    stream = parse_stream(text, n_cores)
    if stream is None:
        raise UsageError(
            "no such core in this recording",
            expected=streams(n_cores),
            found=text,
            where=where,
            remedy=another("core"),
        )
    return stream
