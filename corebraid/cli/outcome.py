"""What became of a recording, told on stderr, as facts, and as the error of a guest that failed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.base.errors import GuestFault
from corebraid.cli import console
from corebraid.study.deadlocks import deadlock_lines

if TYPE_CHECKING:
    from recorder.capture.options import Outcome
    from recorder.files.manifest import Manifest

_FAILURES = {
    "halted": "every core waits and nothing can wake one (the guest never powered the machine off)",
    "deadlock": "every thread waits and nothing can wake one (deadlock)",
    "signal": "it was killed by a signal",
}


def tell_unknown(unknown: Mapping[str, int]) -> None:
    """Name the system calls that nobody served, and how often each was made."""
    if unknown:
        calls = ", ".join(f"{name} ({n})" for name, n in sorted(unknown.items()))
        console.note(f"system calls that are not emulated, answered with ENOSYS: {calls}")


def summarize(outcome: Outcome, directory: Path) -> None:
    """One line about a recording."""
    manifest, end = outcome.manifest, outcome.end
    instructions = sum(manifest.instructions)
    log_bytes = sum(manifest.files[f"core-{core}.log"].bytes for core in range(manifest.n_cores))
    ended = f"guest exit code {end.exit_code}" if end.exit_code is not None else f"ended by {end.reason}"
    console.note(
        f"recorded {manifest.program.name} on {manifest.n_cores} core(s) in {directory}: {instructions:,} "
        f"instructions, {manifest.totals['strata']} strata, {log_bytes:,} bytes of core logs"
        f"{_evidence_bytes(manifest)}; {ended}"
    )


def _evidence_bytes(manifest: Manifest) -> str:
    from recorder.files.evidence_names import evidence_log

    sizes = [(name, manifest.files[evidence_log(name)].bytes) for name in manifest.evidence]
    return "".join(f", {size:,} of evidence {name}" for name, size in sizes)


def outcome_facts(outcome: Outcome, directory: Path) -> dict[str, object]:
    """The same for --json."""
    from dataclasses import asdict

    manifest = outcome.manifest
    return {
        "recording": str(directory),
        "id": manifest.id.hex(),
        "program": asdict(manifest.program),
        "cores": manifest.n_cores,
        "instructions": list(manifest.instructions),
        "totals": manifest.totals,
        "end": outcome.end.facts(),
        "fault": _fault_facts(outcome, directory),
    }


def _fault_facts(outcome: Outcome, directory: Path) -> dict[str, object] | None:
    """Where the guest failed: a fault that nobody handles, or a signal that killed a Linux program."""
    from corebraid.names.program import GuestProgram
    from corebraid.study.ended import end_place
    from recorder.files.reader import Recording

    fault = outcome.fault
    place = fault or (
        end_place(Recording(directory, outcome.manifest)) if outcome.end.reason == "signal" else None
    )
    if place is None:
        return None
    program = GuestProgram.of(directory, outcome.manifest)
    text = program.disassemble(fault.code, fault.pc) if fault and fault.code else None
    return {
        "core": place.core,
        "count": place.count,
        "pc": f"{place.pc:#x}",
        "symbol": program.symbols.name(place.pc) or None,
        "line": program.lines.at(place.pc) or None,
        "disassembly": text if fault else program.instruction(place.pc),
        "what": fault.what if fault else outcome.end.text or _FAILURES["signal"],
    }


def raise_failure(outcome: Outcome, directory: Path) -> None:
    """Raises GuestFault if the guest failed."""
    facts = _fault_facts(outcome, directory)
    if facts:
        at = f" at {facts['line']}" if facts["line"] else ""
        raise GuestFault(
            f"the guest failed: {facts['what']}",
            where=f"core {facts['core']}, instruction {facts['count']}, pc {facts['pc']} in "
            f"{facts['symbol'] or 'no known function'}{at} ({facts['disassembly'] or 'no code here'})",
            remedy=f"the recording {directory} is complete up to there",
        )
    if outcome.end.reason in _FAILURES:
        for line in deadlock_lines(directory, outcome.manifest):
            console.note(line)
        raise GuestFault(
            f"the guest failed: {_FAILURES[outcome.end.reason]}",
            remedy=f"the recording {directory} is complete up to there",
        )
