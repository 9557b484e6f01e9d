"""Who gets signals: what this folder needs to know of tasks (`emu.linux.tasks`)."""

from __future__ import annotations

from typing import Protocol

from emu.linux.ground.wait import Reason
from emu.linux.signals.of_task import TaskSignals


class Receiver(Protocol):
    """A task that signals are sent to."""

    @property
    def tid(self) -> int:
        """Its number."""

    @property
    def signals(self) -> TaskSignals:
        """Its mask, its pending signals and its alternate stack."""

    def end_wait(self, reason: Reason) -> None:
        """End what it waits for, if it does."""
