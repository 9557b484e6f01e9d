"""What each firmware program must do, as a function of the number of cores: reads expected.json.

expected.json maps a program to

outcomes  the ways it may end: `exit` (its exit code) and `stdout`, where `{name}` stands for a value,
          `{cores}` for the number of cores and `<number>` for any decimal number. `min_cores`: possible
          from so many cores on. `model`: possible under that memory model only.
values    name -> constant + per_core * cores + per_pair * ceil(cores / 2), or `alone` on one core.
stdin     what to give it (default: nothing).
fault     instead of outcomes: the fault it ends with, on core 1 (core 0 when alone).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Fault:
    """The fault that a program ends with: on which core, in which function, of what kind."""

    core: int
    symbol: str
    kind: str


@dataclass(frozen=True)
class Expectation:
    """What one program may do on a given number of cores under a given memory model."""

    stdin: bytes
    outcomes: tuple[tuple[int, re.Pattern[bytes]], ...]
    fault: Fault | None

    def allows(self, exit_code: int, stdout: bytes) -> bool:
        """Whether a run that ended with `exit_code` after printing `stdout` is one of the outcomes."""
        return any(exit_code == code and pattern.fullmatch(stdout) for code, pattern in self.outcomes)


def program_names() -> list[str]:
    """Names of all programs that have an expectation, sorted."""
    return sorted(_entries())


def expectation(program: str, cores: int, model: str = "sc") -> Expectation:
    """What `program` may do on `cores` cores (1 to 64) under `model` ("sc" or "tso").

    Raises KeyError when there is no such program.
    """
    entry = _entries()[program]
    values = {name: _value(terms, cores) for name, terms in entry.get("values", {}).items()}
    outcomes = tuple(
        (outcome["exit"], _pattern(outcome["stdout"], {**values, "cores": cores}))
        for outcome in entry.get("outcomes", [])
        if cores >= outcome.get("min_cores", 1) and outcome.get("model", model) == model
    )
    fault = Fault(core=min(1, cores - 1), **entry["fault"]) if "fault" in entry else None
    return Expectation(entry.get("stdin", "").encode(), outcomes, fault)


def _entries() -> dict[str, Any]:
    entries: dict[str, Any] = json.loads((HERE / "expected.json").read_text())
    return entries


def _value(terms: dict[str, int], cores: int) -> int:
    if cores == 1 and "alone" in terms:
        return terms["alone"]
    per_core = terms.get("per_core", 0) * cores
    return terms.get("constant", 0) + per_core + terms.get("per_pair", 0) * ((cores + 1) // 2)


def _pattern(template: str, values: dict[str, int]) -> re.Pattern[bytes]:
    text = re.sub(r"\{(\w+)\}", lambda match: str(values[match[1]]), template)
    return re.compile(b"[0-9]+".join(re.escape(part.encode()) for part in text.split("<number>")))
