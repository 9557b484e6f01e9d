"""What LightPlay's evidence of a recording says: the search of all slices, and one slice in full."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

from corebraid.base.wording import Text
from corebraid.names.devices import device_symbols
from corebraid.names.program import GuestProgram
from corebraid.study.events import data_name
from recorder.evidence.slices.codec import DEFAULT_ACCESSES
from recorder.files.evidence_names import SLICES, evidence_log
from recorder.files.reader import Recording
from solver.evidence.lightplay.execute import Executed
from solver.evidence.lightplay.report import Report, Shown

#: How a slice got its order, and in words.
HOW = {
    "found": "an order from the search replays",
    "fixed": "fixed: accesses moved in an order that did not replay",
    "relaxed": "relaxed: from an order of the checkpoints alone",
    "apart": "apart: accesses and checkpoints ordered in one search",
    "nothing": "nothing left to order after refinement",
    "undecided": "undecided: the search was too large",
    "contradicted": "contradicted: no order explains the evidence",
}


@dataclass(frozen=True)
class Slices:
    """The slices of a recording. executed: what became of executing them, if they were. backend: what
    searched them."""

    recording: Recording
    report: Report
    executed: Executed | None
    backend: str

    def facts(self) -> dict[str, object]:
        """As JSON."""
        recording, report = self.recording, self.report
        file = recording.manifest.files.get(evidence_log(SLICES))
        return {
            "recording": str(recording.path),
            "accesses_a_slice": recording.manifest.options.get("slice_accesses", DEFAULT_ACCESSES),
            "slices": report.slices,
            "entries": report.entries,
            "kept": report.kept,
            "kept_share": round(report.kept / max(report.slices, 1), 6),
            "log_bytes": file.bytes if file else None,
            "backend": self.backend,
            "searched": report.searched,
            "split": report.split,
            "searched_ahead": report.ahead,
            "longest": max(report.sizes, default=0),
            "search_seconds": round(report.search_seconds, 6),
            "seconds": round(report.seconds, 6),
            "fixing_seconds": round(report.fixing_seconds, 6),
            "orders_found": report.orders,
            "work": report.work,
            "how": {name: report.how[name] for name in HOW},
            "fixed_share": round(report.fixed / max(report.searched, 1), 6),
            "without_order": report.undecided[:100],
            "constraints": report.constraints,
            "constraints_always": report.always,
            "constraint_seconds": round(report.constraint_seconds, 6),
            "regions": dict(report.regions),
            "replayed": None if self.executed is None else asdict(self.executed),
        }


@dataclass(frozen=True)
class OneSlice:
    """A slice in full: its racing accesses in the order that was found, or as they are numbered. told: what
    there is to say of slices that were searched while they were recorded."""

    recording: Recording
    number: int
    shown: Shown
    executed: Executed | None = None
    told: tuple[Text, ...] = ()

    @property
    def order(self) -> list[int]:
        """The accesses."""
        return self.shown.decided.order.tolist() or list(range(self.shown.decided.problem.n))

    @property
    def has_order(self) -> bool:
        """Whether one was found."""
        return bool(self.shown.decided.order.size)

    def facts(self) -> dict[str, object]:
        """As JSON."""
        decided = self.shown.decided
        return {
            "slice": self.number,
            "how": decided.how,
            "searched_ahead": decided.ahead,
            "orders_found": decided.found.total if decided.found else None,
            "legal_orders": self.shown.total,
            "accesses": [self.access(op) for op in self.order],
            "constraints": [
                {"first": self.name(c.first), "second": self.name(c.second), "always": c.always}
                for c in self.shown.constraints
            ],
            "replayed": None if self.executed is None else asdict(self.executed),
        }

    @cached_property
    def _program(self) -> GuestProgram:
        return GuestProgram.of(self.recording.path, self.recording.manifest, device_symbols())

    def name(self, op: int) -> str:
        """CORE:COUNT."""
        event = self.shown.events[op]
        core = (
            self._program.agents if event["core"] == self.recording.manifest.n_cores else str(event["core"])
        )
        return f"{core}:{event['count']}"

    def access(self, op: int) -> dict[str, object]:
        """One of them as JSON."""
        event, problem = self.shown.events[op], self.shown.decided.problem
        parts = slice(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1]))
        columns = (problem.place, problem.how, problem.before, problem.after)
        checkpoints = [
            {
                "address": f"{int(problem.address[g]):#x}",
                "before": f"{int(x):#x}" if how & 1 else None,
                "after": f"{int(y):#x}" if how & 2 else None,
            }
            for g, how, x, y in zip(*(column[parts] for column in columns), strict=True)
        ]
        return {
            "event": self.name(op),
            "address": f"{int(event['addr']):#x}",
            "size": int(event["size"]),
            "data": data_name(self._program, int(event["addr"])),
            "kind": ("?", "R", "W", "RMW")[int(event["kind"])],
            "old": f"{int(event['old']):#x}",
            "new": f"{int(event['new']):#x}",
            "checkpoints": checkpoints,
        }
