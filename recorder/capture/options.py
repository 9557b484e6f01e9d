"""How to record, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from emu.board.faults import Fault
from emu.bus.cache import CacheGeometry
from emu.bus.names import MESI
from emu.schedule.deferred import Deferred
from emu.schedule.scheduler import DEFAULT_SLICE, Scheduler, learns, make_scheduler
from emu.schedule.shared_words import SharedWords
from emu.schedule.stepped import Stepped
from recorder.capture.ring_policy import RingPolicy
from recorder.capture.strata_policy import STRATA_OF_LINES, StrataPolicy
from recorder.files.collectors import Follower
from recorder.files.end import End
from recorder.files.json_fields import Scalar
from recorder.files.manifest import Manifest
from recorder.replay.checkpointing import CheckpointPolicy


@dataclass(frozen=True)
class RecordOptions:
    """How to record. limit: instructions over all cores after which the recording ends, 0 for none;
    most_calls: of a Linux guest, system calls after which it ends so too, 0 for any number. model:
    "sc" or "tso"; store_buffer: stores that a core's store buffer holds under TSO. evidence: further streams
    (recorder/files/collectors.py), and what is said of them. followers: of streams, who is handed them as
    they come. symbols: see `Guest`. shared: the words that the
    policy is to watch, None: learn them first if it wants to know, from so many runs (learning). scheduler:
    in place of the policy.
    schedule_seed: decides of schedules, in place of `seed`, once there are two tasks or cores to choose from,
    and nothing before. steps: in place of the policy from then on. unwritten: nothing of
    the recording is written. around: of a policy that it has made, what runs in its place.
    checkpoint: how far checkpoints are apart, None for none. bus: see `emu.board.config.MachineConfig`.
    ring: what is kept of the run, None for all."""

    cores: int = 1
    seed: int = 0
    schedule: str = "random"
    longest_slice: int = DEFAULT_SLICE
    cache: CacheGeometry = field(default_factory=lambda: CacheGeometry(0, 0, 64))
    strata: StrataPolicy = STRATA_OF_LINES
    memory_bytes: int = 64 << 20
    limit: int = 0
    most_calls: int = 0
    input: bytes = b""
    model: str = "sc"
    store_buffer: int = 16
    evidence: tuple[str, ...] = ()
    evidence_options: dict[str, Scalar] = field(default_factory=dict)
    followers: Mapping[str, Follower] = field(default_factory=dict)
    symbols: tuple[tuple[int, int], ...] = ()
    shared: SharedWords | None = None
    learning: int = 1
    scheduler: Scheduler | None = None
    schedule_seed: int | None = None
    steps: Stepped | None = None
    unwritten: bool = False
    around: Callable[[Scheduler], Scheduler] | None = None
    bus: str = MESI
    checkpoint: CheckpointPolicy | None = field(default_factory=CheckpointPolicy)
    ring: RingPolicy | None = None

    def make_scheduler(self, begin: Callable[[], Scheduler]) -> Scheduler:
        """The policy. begin: makes that of `schedule_seed`, where it begins. Raises UsageError."""
        if self.scheduler is not None:
            return self.scheduler
        later = self.schedule_seed is not None or self.steps is not None
        return Deferred(begin) if later else self.policy()

    def policy(self) -> Scheduler:
        """The policy itself. Raises UsageError."""
        seed = self.seed if self.schedule_seed is None else self.schedule_seed
        made = make_scheduler(self.schedule, seed, self.cores, self.longest_slice, self.shared)
        return made if self.around is None else self.around(made)

    @property
    def must_learn(self) -> bool:
        """Whether it must be learnt before the run which words are shared."""
        return learns(self.schedule) and self.shared is None and self.scheduler is None


@dataclass(frozen=True)
class Outcome:
    """What became of a recording. exit_code: the guest's; fault: where it failed, if it did."""

    manifest: Manifest
    fault: Fault | None

    @property
    def end(self) -> End:
        """Why the recording ended."""
        assert self.manifest.end is not None
        return self.manifest.end


def check_model(options: RecordOptions) -> None:
    """Raise UsageError for a memory model that there is not."""
    if options.model not in ("sc", "tso"):
        raise UsageError("no such memory model", expected="sc or tso", found=options.model)
    if options.model == "tso" and options.store_buffer < 1:
        raise UsageError(
            "a store buffer holds 1 to 64 stores",
            found=str(options.store_buffer),
            remedy=Phrase("use ", Option("model", "sc"), " for none"),
        )
