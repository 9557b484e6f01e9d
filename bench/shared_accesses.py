"""What each core of a run did to shared variables, and how many instructions lay between: traces for models
of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import READ, UNCACHED
from recorder.evidence.linkage.codec import Grouping
from recorder.files.collectors import Guest, Rows

_U3 = np.uint64(3)


@dataclass(frozen=True)
class SharedAccesses:
    """Accesses to shared variables, core by core. first: int64 (cores + 1,), where each core's begin. word,
    variable: int64 (n,), numbered from 0 without gaps. writes: bool (n,). gap: int64 (n,), instructions of
    the core since the access before. rest: int64 (cores,), instructions after its last one. spun: how many
    were left out."""

    first: NDArray[np.int64]
    word: NDArray[np.int64]
    variable: NDArray[np.int64]
    writes: NDArray[np.bool_]
    gap: NDArray[np.int64]
    rest: NDArray[np.int64]
    spun: int


class Accesses:
    """Keeps what cores did, as a watcher. Agents are left out; an access that spans two words counts for the
    first."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._kept: list[list[NDArray[np.int64]]] = [[] for _ in range(guest.n_cores)]

    def take(self, stream: int, rows: Rows) -> None:
        """See `recorder.files.collectors.Collector`."""
        if stream == self._guest.n_cores:
            return
        rows = rows[(rows["flags"] & np.uint8(UNCACHED)) == 0]
        columns = (rows["addr"] >> _U3, rows["count"], rows["kind"] != READ, rows["old"])
        self._kept[stream].append(np.stack([column.astype(np.int64) for column in columns]))

    def stratum(self) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""

    def shared(self, group: str, *, private: bool = False) -> SharedAccesses:
        """Accesses to variables that two cores touch in the run, as an escape analysis would find them; with
        `private` accesses to all. Of reads that do nothing but wait (of the word that the core's last access
        of these read, finding the same) only the first is kept, and none of the instructions between."""
        cores = [np.concatenate([np.zeros((4, 0), np.int64), *kept], axis=1) for kept in self._kept]
        variables = [self._variables(core[0], group) for core in cores]
        first_by, shared = {}, set()
        for number, mine in enumerate(variables):
            for variable in np.unique(mine).tolist():
                if first_by.setdefault(variable, number) != number or private:
                    shared.add(variable)
        wanted = np.array(sorted(shared), np.int64)
        parts, rest, spun = [], [], 0
        for core, mine in zip(cores, variables, strict=True):
            end = int(core[1][-1]) if core.shape[1] else 0
            kept = np.isin(mine, wanted)
            word, count, writes, value = core[:, kept]
            waits = np.zeros(len(word), np.bool_)
            waits[1:] = (
                (word[1:] == word[:-1]) & (value[1:] == value[:-1]) & (writes[1:] == 0) & (writes[:-1] == 0)
            )
            gap = np.diff(count, prepend=0)
            spun += int(waits.sum())
            rest.append(end - int(count[-1]) if len(count) else end)
            parts.append((word[~waits], mine[kept][~waits], writes[~waits] != 0, gap[~waits]))
        lengths = [len(part[0]) for part in parts]
        word, variable, writes, gap = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return SharedAccesses(
            np.cumsum([0, *lengths]).astype(np.int64),
            np.unique(word, return_inverse=True)[1].astype(np.int64),
            np.searchsorted(wanted, variable).astype(np.int64),
            writes,
            gap,
            np.array(rest, np.int64),
            spun,
        )

    def _variables(self, words: NDArray[np.int64], group: str) -> NDArray[np.int64]:
        """The variable of each word."""
        if group == "word":
            return words
        objects = np.array(self._guest.symbols, np.uint64).reshape(-1, 2)
        grouping = Grouping("symbol", self._guest.line, len(self._guest.memory), objects)
        symbols = grouping.symbol_of_word().astype(np.int64)[words]
        return np.where(symbols > 0, symbols - 1, len(objects) + words)
