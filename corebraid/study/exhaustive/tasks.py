"""Whose steps a run is made of: threads of a Linux program (`threads.py`), or cores (`cores.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from corebraid.study.exhaustive.steps import Key
from emu.schedule.stepped import Stepped
from recorder.files.collectors import Rows


@dataclass
class Uses:
    """What a step used besides memory, of a kernel or of devices: see `Footprint`. doubt: why nothing is
    proven of a program that does so, '' if nothing stands in the way. fixed: a choice that was not one.
    quiet: it neither changed anything there nor was told anything that another time may be otherwise. timed:
    it was told how much its task has run. slept: it has waited for a time."""

    keys: dict[Key, bool] = field(default_factory=dict)
    may: set[Key] = field(default_factory=set)
    ranges: tuple[tuple[int, int], ...] = ()
    doubt: str = ""
    fixed: str = ""
    quiet: bool = True
    timed: bool = False
    slept: bool = False


class Tasks(Protocol):
    """The tasks of one machine that runs step by step. policy: by which it does. doubts: what has happened
    that a step does not show."""

    policy: Stepped
    doubts: set[str]

    def core_of(self, task: int) -> int:
        """The core on which a task runs."""

    def stands_on(self, number: int) -> bool:
        """Whether a task stands on a core, and could go on."""

    def is_held(self, number: int) -> bool:
        """Whether what the task on a core does next is known, and has not been done."""

    def living(self) -> set[int]:
        """Those that could go on, now that the run is over."""

    def begin_step(self) -> None:
        """A task is about to make its step."""

    def time_passed(self) -> bool:
        """Whether time has gone on since somebody has asked."""

    def awaits_time(self) -> bool:
        """Whether somebody waits until it does."""

    def uses(self, cores: Rows, agents: Rows) -> Uses:
        """What the step that is over has used besides memory. cores, agents: accesses of the core that made
        it, and of agents, EVENT[n] each."""
