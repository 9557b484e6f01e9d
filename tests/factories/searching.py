"""Exhaustive searches of the example of small races, and how their runs ended."""

from __future__ import annotations

from cli_factory import ROOT

from corebraid.study.conditions import Condition
from corebraid.study.exhaustive.forking import Made
from corebraid.study.exhaustive.search import Budget, Search, Searched
from corebraid.study.subjects import Asked, subject_of

RACES = ROOT / "firmware" / "linux" / "x86_64" / "small_races"


def searched(
    name: str, until: str = "deadlock", cores: int = 3, preemptions: int | None = None, model: str = "sc"
) -> tuple[Searched, set[int | None]]:
    """All executions of one of them, and the exit codes that were seen."""
    asked = Asked(str(RACES), (name,), cores=cores, schedule="chaos", evidence="none", model=model)
    codes = set()

    class Noting(Search):
        def _failing(self, made: Made):  # type: ignore[no-untyped-def]
            if made.run is not None and made.run.manifest.end is not None:
                codes.add(made.run.manifest.end.exit_code)
            return super()._failing(made)

    conditions = (Condition.parse(until),)
    return Noting(subject_of(asked), conditions, preemptions, Budget(), lambda made, left: None).run(), codes
