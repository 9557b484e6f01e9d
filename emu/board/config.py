"""What a machine is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from corebraid.base.errors import UsageError
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.wording import Option, Phrase, another
from emu.bus.cache import CacheGeometry
from emu.bus.names import MESI, PAGE
from emu.bus.store_buffer import MOST_BUFFERED
from emu.core.surroundings import DEVICES, Surroundings
from emu.devices.post import DEFAULT_MAIL_LATENCY, MOST_MAIL_LATENCY


@dataclass(frozen=True)
class MachineConfig:
    """What a machine is made of. memory_bytes: RAM. downgrade_bound: 0, or D of strata downgrades:D.
    store_buffer: stores that each core's store buffer holds (TSO), 0 for none (SC). tapped: see
    `RecordedCore`; SC only. mail_latency: mean cycles that a message between cores is under way.
    surroundings: what the cores meet besides memory; with a kernel memory_bytes is the address space's.
    bus: one of `emu.bus.names`; PAGE: without finite caches, store buffers, taps and bounds on downgrades."""

    n_cores: int
    memory_bytes: int = 64 << 20
    cache: CacheGeometry = field(default_factory=lambda: CacheGeometry(0, 0, 64))
    seed: int = 0
    downgrade_bound: int = 0
    input: bytes = b""
    store_buffer: int = 0
    tapped: bool = False
    mail_latency: int = DEFAULT_MAIL_LATENCY
    surroundings: Surroundings = DEVICES
    bus: str = MESI

    @property
    def line(self) -> int:
        """Bytes that the bus moves at a time."""
        return PAGE_BYTES if self.bus == PAGE else self.cache.line

    def check(self) -> None:
        """Raise UsageError for a machine that cannot be."""
        if not 1 <= self.n_cores <= 64:
            raise UsageError(
                "a machine has 1 to 64 cores",
                found=str(self.n_cores),
                remedy=Phrase("choose ", Option("cores"), " 1 to 64"),
            )
        most = self.surroundings.most_memory
        if self.memory_bytes % PAGE_BYTES or not 1 << 20 <= self.memory_bytes <= most:
            raise UsageError(
                "a machine has 1m to 3840m of memory, in whole pages",
                found=str(self.memory_bytes),
                remedy=another("memory"),
            )
        if not 0 <= self.store_buffer <= MOST_BUFFERED:
            raise UsageError(
                f"a store buffer holds 1 to {MOST_BUFFERED} stores",
                found=str(self.store_buffer),
                remedy=another("store_buffer"),
            )
        if self.bus == PAGE and (self.cache.sets or self.store_buffer or self.tapped or self.downgrade_bound):
            raise UsageError(
                "finite caches, store buffers, taps and strata by downgrades need the line bus",
                remedy=Phrase("choose ", Option("bus"), f" {MESI}"),
            )
        if not 0 <= self.mail_latency <= MOST_MAIL_LATENCY:
            raise UsageError(
                f"a message is under way for at most {MOST_MAIL_LATENCY} cycles",
                found=str(self.mail_latency),
                remedy=another("latency"),
            )
