"""A replay set of threads: what each read that it did not know, and which of them wrote it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from corebraid.names.threads import Threads, cores_of_threads, thread_named
from recorder.evidence.opr.log import OprLog
from recorder.files.reader import Recording
from solver.evidence.opr.by_thread import values_of_threads

#: Threads of a set at most: their places are bytes.
_MOST = 250


@dataclass(frozen=True)
class ThreadGroup:
    """threads: numbers, ascending. cores: on which they ran, all of which were replayed. values:
    THREAD_VALUE[n]. given_up: event orders that kept cores waiting for each other."""

    threads: tuple[int, ...]
    cores: tuple[int, ...]
    values: NDArray[np.void]
    given_up: int

    def matrix(self) -> dict[tuple[int, int], int]:
        """How many new values went from which thread (0: none of the set) to which."""
        pairs = np.stack([self.values["writer"], self.values["reader"]], axis=1)
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        named = {-1: 0, **dict(enumerate(self.threads))}
        return {(named[int(a)], named[int(b)]): int(n) for (a, b), n in zip(found, counts, strict=True)}

    def facts(self, *, listing: bool) -> dict[str, object]:
        """As JSON."""
        facts: dict[str, object] = {
            "threads": list(self.threads),
            "cores": list(self.cores),
            "given_up": self.given_up,
            "communications": [
                {"writer": writer or None, "reader": reader, "values": n}
                for (writer, reader), n in sorted(self.matrix().items())
            ],
        }
        if listing:
            facts["values"] = [
                {
                    "reader": self.threads[int(row["reader"])],
                    "writer": self.threads[int(row["writer"])] if row["writer"] >= 0 else None,
                    "address": f"{int(row['addr']):#x}",
                    "size": int(row["size"]),
                    "value": f"{int(row['value']):#x}",
                }
                for row in self.values
            ]
        return facts


def thread_group(recording: Recording, log: OprLog, text: str, *, relaxed: bool) -> ThreadGroup:
    """The threads of 'T,T', by number or name. Raises UsageError for one that never ran, or that ran on a
    core of which the recording has no evidence; FormatError; Divergence."""
    names = [part.strip() for part in text.split(",")]
    threads = tuple(sorted({thread_named(recording, name) for name in names}))
    if len(threads) < len(names) or len(threads) > _MOST:
        raise UsageError(
            "no such set of threads", expected=f"different threads, at most {_MOST}", found=text,
            where=str(recording.path), remedy=Phrase("name each once in ", Option("threads")),
        )  # fmt: skip
    ran = cores_of_threads(recording)
    cores = tuple(sorted({core for thread in threads for core in ran[thread]}))
    if missing := sorted(set(cores) - set(log.members)):
        raise UsageError(
            "a thread ran on a core of which there is no evidence",
            expected=f"cores {','.join(map(str, log.members))}",
            found=f"core {missing[0]}",
            where=str(recording.path),
            remedy=Phrase("record without ", Option("rset")),
        )
    who = Threads(recording)
    values, given_up = values_of_threads(
        recording, log, threads, lambda rows: who.of(rows, called=False), relaxed=relaxed
    )
    return ThreadGroup(threads, cores, values, given_up)
