"""What processes that make run after run tell of themselves (`corebraid.study.runs_again`)."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corebraid.study import runs_again
from corebraid.study.runs_again import Again
from emu.snapshot import machine
from emu.snapshot.failure import UnsavableError


class Told:
    """Through a file. always: from the first run on, and each but that one is forked, too, and compared."""

    def __init__(self, path: Path, patched: pytest.MonkeyPatch, *, always: bool = True) -> None:
        self.path = path
        path.write_text("")
        compare, end, run = Again.compare, Again._end, Again.run
        if always:
            patched.setattr(runs_again, "FORKED_FIRST", 0)
            patched.setattr(Again, "in_doubt", property(lambda again: again._runs > 1))

        def compared(again: Again, answer: bytes | None, forked: bytes) -> bytes:
            if answer is not None:
                self.tell("same" if pickle.loads(answer) == pickle.loads(forked) else "other")
            return compare(again, answer, forked)

        def ended(again: Again) -> None:
            self.tell("ended")
            end(again)

        def ran(again: Again, tried: Any) -> bytes | None:
            answer = run(again, tried)
            self.tell("forked" if answer is None else "again")
            return answer

        patched.setattr(Again, "compare", compared)
        patched.setattr(Again, "_end", ended)
        patched.setattr(Again, "run", ran)

    def tell(self, what: str) -> None:
        with self.path.open("a") as told:
            told.write(f"{what}\n")

    def words(self) -> list[str]:
        return self.path.read_text().split()


def without_any() -> Iterator[None]:
    """First the process that makes run after run is killed behind its first one, then there is none."""

    def die(_: object) -> None:
        os.kill(os.getpid(), 9)

    def refuse(*_: object) -> None:
        raise UnsavableError("a test")

    for what, does in (("restore", die), ("__init__", refuse)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(machine.Snapshot, what, does)
            yield
