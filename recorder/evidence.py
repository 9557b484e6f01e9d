"""Evidence: the further streams that a recording may have, each for one engine (docs/format.md, section 11).

A collector takes one stream down while the machine runs. It is handed every event in the order in which they
ran; what of that its paper's recorder could not have seen it must not use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from isa.errors import FormatError, UsageError

if TYPE_CHECKING:
    from emu.post import Post

Rows = npt.NDArray[np.void]

#: Names of the streams, and the kinds of their files (recorder/frame.py).
LINKAGE, SLICES, OPR, RPC = "linkage", "slices", "opr", "rpc"
KINDS = {LINKAGE: 8, SLICES: 9, OPR: 10, RPC: 11}
#: Streams that are made of the cores' events, so that a machine that records them has taps; they know no
#: store buffers.
OF_EVENTS = (LINKAGE, SLICES, OPR)


@dataclass(frozen=True)
class Guest:
    """What a collector is told of the machine. memory: uint8[memory_bytes], home memory before the run; it
    changes once that begins. symbols: (first byte, bytes) of each object that the program names. executable:
    uint8[pages], nonzero for pages from which the program may run code. mail: the messages between cores,
    which evidence rpc is made of. used: numbers of the pages that may hold something; None: any may."""

    n_cores: int
    line: int
    seed: int
    memory: npt.NDArray[np.uint8]
    symbols: tuple[tuple[int, int], ...] = ()
    executable: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    mail: Post | None = None
    used: npt.NDArray[np.int64] | None = None


class Collector(Protocol):
    """Takes one evidence stream down while the machine runs."""

    def take(self, stream: int, rows: Rows) -> None:
        """What a core, or the agents (stream n_cores), did since its last turn, in the order in which all
        ran: EVENT[n], as a traced replay gives them later. A view, good during the call."""

    def stratum(self) -> None:
        """A stratum was cut here."""

    def flush(self) -> None:
        """Write what there is, so that a killed recorder loses no more than what comes after."""

    def finish(self) -> None:
        """The run is over: write what is left."""


class EvidenceWriter(Protocol):
    """Where a collector writes its frames."""

    def append(self, raw: bytes | memoryview, records: int, first: int, last: int) -> None:
        """One frame, see `FrameWriter.append`."""


def evidence_log(name: str) -> str:
    """The file name of a stream."""
    return f"evidence-{name}.log"


def stream_of(file_name: str) -> str | None:
    """The stream whose file has this name, if any."""
    return next((name for name in KINDS if evidence_log(name) == file_name), None)


def parse_names(text: str) -> tuple[str, ...]:
    """The streams named in 'linkage,opr' or 'all', in their fixed order. Raises UsageError."""
    asked = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in asked if name not in KINDS and name != "all"]
    if unknown or not asked:
        raise UsageError(
            "no such evidence",
            expected=", ".join([*KINDS, "all"]),
            found=", ".join(unknown) or repr(text),
            remedy="choose another --evidence",
        )
    return tuple(name for name in KINDS if name in asked or "all" in asked)


def check_evidence(names: Iterable[str], model: str) -> None:
    """Raise UsageError for streams that cannot be recorded under this memory model."""
    bad = [name for name in names if name in OF_EVENTS]
    if model != "sc" and bad:
        raise UsageError(
            f"store buffers are unknown to evidence {', '.join(bad)}, and the model is {model}",
            remedy="record with --model sc, or leave --evidence out",
        )


def make_collector(
    name: str, guest: Guest, writer: EvidenceWriter, options: Mapping[str, object]
) -> Collector:
    """The collector of one stream. options: what the command line said of it. Raises UsageError."""
    # Each is loaded only where it is wanted: their kernels take time.
    if name == LINKAGE:
        from recorder.linkage import LinkageCollector

        return LinkageCollector(guest, writer, str(options.get("group", "word")))
    if name == RPC:
        from recorder.receipts import ReceiptCollector

        return ReceiptCollector(guest, writer)
    if name == OPR:
        from recorder.opr_collector import OprCollector

        return OprCollector(guest, writer, str(options.get("rset", "")))
    if name == SLICES:
        from recorder.slices import make_slices

        return make_slices(guest, writer, options)
    raise FormatError(f"evidence {name} has no collector")
