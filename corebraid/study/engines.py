"""The table of engines: what orders a recording's regions, and what replays its whole run from evidence.

Everything that has to do with all engines follows from `ENGINES`: the names to choose from with their help,
what `crosscheck` runs, what orders from Python. Light: the command line's help needs it, so engines
are loaded when wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corebraid.base.wording import Option, Phrase
from recorder.files.evidence_names import LINKAGE, OPR, RPC, SLICES, STREAMS

if TYPE_CHECKING:
    from corebraid.study.whole_runs import WholeRun
    from recorder.files.reader import Recording
    from solver.passes.answers import EvidenceEngine


@dataclass(frozen=True)
class Engine:
    """One engine. says: what it does, in a few words. stream: the evidence that it needs, "" for none; one
    that needs none is known to `solver.passes.answers`. make: makes, of a recording, what solves its regions.
    replay: replays the whole run. Both raise UsageError if the recording lacks the evidence, FormatError.
    exact: whether its evidence tells of every two accesses that it orders which one ran first: no read of its
    order may have another change as its source than it had (stores of what was there are not ordered)."""

    name: str
    says: str
    stream: str = ""
    make: Callable[[Recording], EvidenceEngine] | None = None
    replay: Callable[[Recording], WholeRun] | None = None
    exact: bool = False

    @property
    def orders(self) -> bool:
        """Whether it orders regions."""
        return self.make is not None or not self.stream

    @property
    def models(self) -> tuple[str, ...]:
        """Memory models whose recordings it takes."""
        return STREAMS[self.stream].models if self.stream else ("sc", "tso")

    def applies(self, recording: Recording) -> bool:
        """Whether the recording has what the engine needs."""
        return not self.stream or self.stream in recording.manifest.evidence


def _linkage(recording: Recording) -> EvidenceEngine:
    from solver.evidence.linkage.engine import LinkageEngine

    return LinkageEngine.of(recording, with_values=True)


def _slices(recording: Recording) -> EvidenceEngine:
    from solver.evidence.lightplay.engine import SlicesEngine

    return SlicesEngine.of(recording)


def _opr(recording: Recording) -> EvidenceEngine:
    from solver.evidence.opr.engine import OprEngine

    return OprEngine.of(recording)


def _opr_run(recording: Recording) -> WholeRun:
    from corebraid.study.whole_runs import opr_run

    return opr_run(recording)


def _rpc_run(recording: Recording) -> WholeRun:
    from corebraid.study.rpc_runs import rpc_run

    return rpc_run(recording)


_ROWS = (
    Engine("auto", "cut, then smt for what it leaves"),
    Engine("cut", "exact search over cuts"),
    Engine("smt", "the paper's formulas, by z3"),
    Engine(LINKAGE, "Stride's inference", LINKAGE, _linkage),
    Engine(SLICES, "LightPlay's search, slice by slice", SLICES, _slices),
    Engine(OPR, "OPR's order log; replays its group too", OPR, _opr, _opr_run, exact=True),
    Engine(RPC, "executes again under the receipts", RPC, replay=_rpc_run),
)
#: All engines by name.
ENGINES = {row.name: row for row in _ROWS}


def ordering_engines() -> list[Engine]:
    """Those that order regions."""
    return [row for row in ENGINES.values() if row.orders]


def engines_said() -> Phrase:
    """What the ordering engines do, for a reader."""
    rows = ordering_engines()
    plain = " ".join(f"{row.name}: {row.says}." for row in rows if not row.stream)
    own = ", ".join(row.name for row in rows if row.stream)
    under_sc = ", ".join(row.name for row in rows if "tso" not in row.models)
    told = f" Of model sc alone: {under_sc}." if under_sc else ""
    return Phrase(f"{plain} {own}: from evidence of their own (record ", Option("evidence"), f").{told}")


def evidence_engine(recording: Recording, name: str) -> EvidenceEngine | None:
    """The engine of this name for a recording; None for one that needs no evidence, or that there is not.

    Raises UsageError if the recording lacks the evidence, FormatError if it is damaged.
    """
    row = ENGINES.get(name)
    return row.make(recording) if row is not None and row.make is not None else None


def whole_runs(recording: Recording, names: Iterable[str]) -> list[WholeRun]:
    """What the engines among `names` find that replay the whole run. Raises FormatError."""
    names = set(names)
    return [row.replay(recording) for row in ENGINES.values() if row.name in names and row.replay is not None]
