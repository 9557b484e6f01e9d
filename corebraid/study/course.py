"""The course of a run: who ran, from where to where, and which switches of its schedule took place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.study.covering.encounters import Encounters, encounters
from emu.schedule.noting import Noting, Stay, merged, switches_between
from emu.schedule.policy import Scheduler
from emu.schedule.switches import Fired, Switch, Switches


@dataclass(frozen=True)
class Course:
    """stays: in order; no two that follow each other are of one task on one core, unless that has yielded.
    first: the task that would have begun without a switch. fired: of a schedule of switches those that took
    place; impatient: how often a task was taken to spin. pc: where a guest stood that a signal or a fault
    ended."""

    stays: tuple[Stay, ...]
    first: int = 0
    fired: tuple[Fired, ...] = ()
    impatient: int = 0
    pc: int | None = None

    @property
    def preemptions(self) -> int:
        """How often a task ran that was not the one before, though that could have gone on; or a timeout
        came, though some task could have."""
        pairs = zip(self.stays, self.stays[1:], strict=False)
        begins = bool(self.stays) and self.stays[0].who != self.first
        chosen = ((one.able and one.who != other.who) or other.late is not None for one, other in pairs)
        return begins + sum(chosen)

    @property
    def preempting(self) -> tuple[Fired, ...]:
        """Of a schedule of switches those that are preemptions."""
        return tuple(one for one in self.fired if one.preempting)

    def switches(self, *, by_instructions: bool, able: bool = False) -> list[Switch]:
        """The switches that make it, preemptions and others: see `switches_between`."""
        return switches_between(self.stays, self.first, by_instructions=by_instructions, able=able)


class OnLooker:
    """Looks on at a policy: `RecordOptions.around`."""

    def __init__(self) -> None:
        self._noting: Noting | None = None

    def __call__(self, policy: Scheduler) -> Scheduler:
        """The policy, looked on at."""
        self._noting = Noting(policy)
        return self._noting

    def encounters(self, log: NDArray[np.uint64]) -> Encounters:
        """Of the run, now that it is over. log: see `corebraid.study.covering.encounters`."""
        assert self._noting is not None
        return encounters(log, self._noting.stays, self._noting.begins, self._noting.met)

    def course(self, pc: int | None) -> Course:
        """Of the run, now that it is over. pc: see `Course`."""
        if self._noting is None:
            return Course((), pc=pc)
        policy, stays = self._noting.policy, tuple(merged(self._noting.stays))
        first = self._noting.first or 0
        if not isinstance(policy, Switches):
            return Course(stays, first, pc=pc)
        return Course(stays, first, tuple(policy.fired), policy.impatient, pc)
