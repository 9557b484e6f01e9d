"""Everything of one program: its recordings, every system's log and order, and what recording costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.linux_bare import run_bare_linux
from bench.linux_means import spec_of
from bench.systems.logs import Logs, logs_of, micro_bytes
from bench.systems.orders import Ordered, order_all, replay_all
from bench.systems.runs import EVIDENCE, Subject, record
from corebraid.base.errors import CorebraidError
from emu.bus.names import MESI, PAGE
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64
from recorder.files.evidence_names import LINKAGE, LOSSES, OPR, SLICES

#: For a region, and for one by the paper's formula, which is seldom done later than at once.
REGION_TIMEOUT_S, PAPER_TIMEOUT_S = 5.0, 1.0
#: Ways to record whose time is taken, each over "lines": name -> (evidence, bus).
WAYS: dict[str, tuple[tuple[str, ...], str]] = {
    "lines": ((), MESI),
    "pages": ((LOSSES,), PAGE),
    LOSSES: ((LOSSES,), MESI),
    LINKAGE: ((LINKAGE,), MESI),
    SLICES: ((SLICES,), MESI),
    OPR: ((OPR,), MESI),
}


@dataclass(frozen=True)
class Measured:
    """One program. ratios: seconds of `WAYS` over those of recording by lines without evidence, and "bare",
    by lines over the bare emulator; empty if not taken. paged: bytes of the default recording's logs.
    failed: what went wrong, instead of all that."""

    subject: Subject
    logs: Logs | None = None
    orders: dict[str, Ordered] | None = None
    replays: dict[str, str] | None = None
    ratios: dict[str, float] | None = None
    paged: int = 0
    failed: str = ""


def costs(subject: Subject, folder: Path, rounds: int) -> dict[str, float]:
    """Processor seconds of each way, the least of some rounds in which all take turns, as ratios."""
    best: dict[str, float] = {}
    for number in range(rounds):
        for way, (evidence, bus) in WAYS.items():
            seconds = record(subject, folder / f"{way}-{number}", evidence, bus).seconds
            best[way] = min(best.get(way, seconds), seconds)
        spec = spec_of(list(subject.command))
        bare = run_bare_linux(spec, X86_64, LINUX_X86_64, lambda _: None, lambda _: None).run
        best["bare"] = min(best.get("bare", bare), bare)
    ratios = {way: seconds / best["lines"] for way, seconds in best.items()}
    return ratios | {"bare": 1 / ratios["bare"]}


def measure(subject: Subject, folder: Path, rounds: int, timeout_s: float = REGION_TIMEOUT_S) -> Measured:
    """Everything of one program. rounds: of timing; 0 for none."""
    if subject.why_not:
        return Measured(subject, failed=f"skipped: {subject.why_not}")
    try:
        made = record(subject, folder / "all", EVIDENCE)
        if made.exit_code != 0:
            return Measured(subject, failed=f"exit code {made.exit_code}")
        recording = made.recording
        logs, replays = logs_of(recording), replay_all(recording)
        orders = order_all(recording, timeout_s, min(timeout_s, PAPER_TIMEOUT_S))
        ratios = costs(subject, folder, rounds) if rounds else {}
        paged = micro_bytes(record(subject, folder / "default", *WAYS["pages"]).recording)
    except CorebraidError as error:
        return Measured(subject, failed=error.line())
    return Measured(subject, logs, orders, replays, ratios, paged)
