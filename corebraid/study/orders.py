"""What an ordering of a recording says: regions, the certificate, what is known of the orders there are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recorder.files.manifest import ORDER_CERT
from solver.check.checker import CheckReport
from solver.passes.results import OrderResult, RegionResult
from solver.regions.problem import Verdict
from solver.sifting.filters import Counts

if TYPE_CHECKING:
    from corebraid.study.explaining import Explained
    from corebraid.study.freedom.counting import Counted

DISCLAIMER = "a legal order, not necessarily the one that ran"


@dataclass(frozen=True)
class Ordering:
    """A recording that was ordered. constraints: what the order obeys. missing_edges: between what the logs
    do not say the order. counted: if orders were to be counted. explanations: of regions without a legal
    order."""

    recording: Path
    result: OrderResult
    seconds: float
    constraints: str
    missing_edges: list[str]
    counted: Counted | None = None
    explanations: list[Explained] | None = None

    @property
    def verdict(self) -> Verdict:
        """ILLEGAL if any region is, else UNDECIDED if any is, else LEGAL."""
        return self.result.verdict

    @property
    def regions(self) -> list[RegionResult]:
        """From the first to the last."""
        return self.result.regions

    @property
    def counts(self) -> Counts:
        """All event rows by what became of them."""
        return self.result.counts

    @property
    def check(self) -> CheckReport:
        """The checker's report."""
        return self.result.check

    @property
    def kept(self) -> bool:
        """Whether the certificate is the one that was there, which orders every region."""
        return self.result.kept

    @property
    def certificate(self) -> Path:
        """The file with the order."""
        return self.recording / ORDER_CERT

    def with_verdict(self, verdict: str) -> list[RegionResult]:
        """Regions that are "legal", "illegal" or "undecided"."""
        return [region for region in self.regions if region.verdict.value == verdict]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        facts: dict[str, object] = {
            "recording": str(self.recording),
            "certificate": str(self.certificate),
            "verdict": self.verdict.value,
            "meaning": DISCLAIMER,
            "regions": {v: len(self.with_verdict(v)) for v in ("legal", "illegal", "undecided")},
            "events": asdict(self.counts),
            "checked_events": self.check.events,
            "seconds": round(self.seconds, 3),
            "by_region": [_region(region) for region in self.regions],
            "missing_edges": self.missing_edges,
            "constraints": self.constraints,
        }
        if self.kept:
            facts["certificate_kept"] = True
        if self.counted is not None:
            facts["orders"] = self.counted.facts()
        if self.explanations is not None:
            facts["explanations"] = [one.facts() for one in self.explanations]
        return facts


def _region(region: RegionResult) -> dict[str, object]:
    return {
        "region": region.region,
        "verdict": region.verdict.value,
        "reason": region.reason or None,
        "engine": region.engine or None,
        "seconds": round(region.seconds, 6),
        "events": asdict(region.counts),
    }
