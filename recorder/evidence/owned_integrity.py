"""Whether what agents' accesses say of cores (OWNED) goes with what the cores' logs and losses say.

While a core has a line alone, a read by somebody else takes the right to write to it, and a write the line:
a loss of that core. So between two strata every read that says it came to a line that a core had alone has
a downgrade of its own, and every write a line lost; and with unbounded caches, where each miss has its
record, every downgrade has its read too. That holds at the bus, whatever the memory model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from corebraid.base.rows.event import OWNED, READ
from corebraid.base.rows.record import MISS, MISS_OWNED, MISS_WRITE, STRATUM
from recorder.evidence.losses.integrity import loss_fault
from recorder.evidence.losses.log import DOWNGRADED, LOST, iter_losses
from recorder.files.agent_log import is_access
from recorder.files.evidence_names import LOSSES, evidence_log
from recorder.files.manifest import AGENT_LOG
from recorder.files.reader import Recording, iter_agent_rows, iter_core_records, strata

Lines = npt.NDArray[np.uint64]
#: (address of a line, strata that had been cut before).
_Place = tuple[int, int]


def loss_faults(recording: Recording) -> Iterator[tuple[str, str]]:
    """What is wrong with the losses of a complete recording whose files are sound, with the cores' logs and
    with what agents say: (file, fault), at most one."""
    table = strata(recording)
    if fault := loss_fault(recording, table):
        yield evidence_log(LOSSES), fault
    elif fault := owned_fault(recording, table):
        yield AGENT_LOG, fault


def owned_fault(recording: Recording, table: npt.NDArray[np.uint64]) -> str:
    """What is wrong with OWNED in the agent log of a complete recording whose files are sound, "" if nothing
    is, or if the agents do not say it. table: `strata` of the recording. Memory is needed for lines and
    strata of agents' accesses.

    Raises FormatError.
    """
    manifest = recording.manifest
    if not (manifest.agents_say_owned and recording.has_losses):
        return ""
    lines, gets, takes = _agents(recording)
    if not len(lines):
        return ""
    for core in range(manifest.n_cores):
        _count_misses(recording, core, lines, gets, takes)
    downgraded, lost = _losses(recording, lines, table)
    for name, said, found in (
        ("reads that got a line from a core that had it alone", gets, downgraded),
        ("writes that took a line from a core that had it alone", takes, lost),
    ):
        exact = found is downgraded and manifest.cache == "unbounded"
        for place in sorted({*said, *found} if exact else said):
            n, most = said[place], found[place]
            if n > most or (exact and n != most):
                wanted = f"{most}" if exact else f"at most {most}"
                where = f"line {place[0]:#x} after {place[1]} strata"
                return f"{where}: expected {wanted} {name}, as the cores' losses say, found {n}"
    return ""


def _agents(recording: Recording) -> tuple[Lines, Counter[_Place], Counter[_Place]]:
    """(lines of all agents' accesses, ascending; reads and writes of agents that say OWNED, by place)."""
    line = np.uint64(recording.manifest.line)
    gets: Counter[_Place] = Counter()
    takes: Counter[_Place] = Counter()
    lines = [np.empty(0, np.uint64)]
    for rows in iter_agent_rows(recording):
        rows = rows[is_access(rows)]
        first = rows["addr"] // line * line
        lines.append(np.unique(first))
        owned = (rows["flags"] & np.uint8(OWNED)) != 0
        # Of two lines in one access it is not told whose it was; no agent of ours makes such.
        owned &= (rows["addr"] + rows["size"] - np.uint64(1)) // line * line == first
        read = rows["kind"] == READ
        for counter, mine in ((gets, owned & read), (takes, owned & ~read)):
            counter.update(_places(first[mine], rows["stratum"][mine]))
    return np.unique(np.concatenate(lines)), gets, takes


def _places(line: npt.NDArray[np.uint64], stratum: npt.NDArray[np.integer]) -> Iterator[_Place]:
    return zip(line.tolist(), stratum.tolist(), strict=True)


def _count_misses(
    recording: Recording,
    core: int,
    lines: Lines,
    gets: Counter[_Place],
    takes: Counter[_Place],
) -> None:
    """Add a core's misses on lines that came from a core that had them alone."""
    cut = 0
    for rows, _ in iter_core_records(recording, core):
        marks = rows["kind"] == STRATUM
        stratum = cut + np.cumsum(marks)
        cut += int(marks.sum())
        mine = (rows["kind"] == MISS) & ((rows["flags"] & np.uint8(MISS_OWNED)) != 0)
        mine &= np.isin(rows["addr"], lines)
        wrote = (rows["flags"] & np.uint8(MISS_WRITE)) != 0
        for counter, those in ((gets, mine & ~wrote), (takes, mine & wrote)):
            counter.update(_places(rows["addr"][those], stratum[those]))


def _losses(
    recording: Recording, lines: Lines, table: npt.NDArray[np.uint64]
) -> tuple[Counter[_Place], Counter[_Place]]:
    """(downgrades, lost lines) of all cores, by place."""
    downgraded: Counter[_Place] = Counter()
    lost: Counter[_Place] = Counter()
    for core in range(recording.manifest.n_cores):
        for rows in iter_losses(recording, core, table):
            mine = np.isin(rows["line"], lines)
            for counter, way in ((downgraded, DOWNGRADED), (lost, LOST)):
                those = mine & ((rows["way"] & np.uint8(DOWNGRADED | LOST)) == way)
                counter.update(_places(rows["line"][those], rows["stratum"][those]))
    return downgraded, lost
