"""A core replayed from one checkpoint to another: intervals together are a whole replay.

The end of each is held against the digest in the log and the registers of the checkpoint there, which is
where the next begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from recorder.files.checkpoints import Checkpoint, checkpoints
from recorder.files.reader import Recording
from recorder.replay.contested import Watched
from recorder.replay.core import CoreReplay, ReplayResult
from recorder.replay.holds import Carried
from recorder.replay.start import checkpoint_damage, start_from


@dataclass(frozen=True)
class Interval:
    """Of a core, from a checkpoint, None for its beginning, to a later one, None for its end."""

    core: int
    start: Checkpoint | None = None
    end: Checkpoint | None = None

    @property
    def first(self) -> int:
        """The instruction count at which it begins."""
        return 0 if self.start is None else self.start.count


def intervals(recording: Recording, core: int, longest: int) -> list[Interval]:
    """All of a core in intervals of about `longest` instructions, as far as its checkpoints allow. Raises
    FormatError."""
    cuts, last = list[Checkpoint](), 0
    # How far the log of a killed recorder reaches, nobody knows yet.
    for one in [] if recording.killed else checkpoints(recording, core):
        if one.count - last >= longest:
            cuts.append(one)
            last = one.count
    return _cut(core, cuts)


def intervals_at(recording: Recording, core: int, regions: Collection[int]) -> list[Interval]:
    """All of a core in intervals that begin with these of its regions, as far as there are checkpoints.
    Raises FormatError."""
    return _cut(core, [one for one in checkpoints(recording, core) if one.stratum + 1 in regions])


def _cut(core: int, cuts: Sequence[Checkpoint]) -> list[Interval]:
    return [Interval(core, *ends) for ends in zip([None, *cuts], [*cuts, None], strict=True)]


class HeldReplay(CoreReplay):
    """A replay of an interval that holds the registers of checkpoints against its own. traced, watched,
    carried: as of a `CoreReplay`, of a whole core."""

    def __init__(
        self,
        recording: Recording,
        interval: Interval,
        *,
        traced: bool = False,
        watched: Watched | None = None,
        carried: Carried | None = None,
    ) -> None:
        core, start, end = interval.core, interval.start, interval.end
        begin = None if start is None else start_from(recording, core, start)
        super().__init__(recording, core, traced=traced, watched=watched, start=begin, carried=carried)
        self._held = {one.stratum: one for one in checkpoints(recording, core)}
        self._end = None if end is None else end.stratum
        self._arrived = False

    def _cut(self, stratum: int) -> None:
        one = self._held.get(stratum)
        if one is not None and one.unlisted != self._core.core.unlisted():
            raise checkpoint_damage(self._recording, self._number, one, "its registers are not the replay's")
        self._arrived = stratum == self._end

    def _over(self) -> bool:
        return self._arrived


def replay_interval(recording: Recording, interval: Interval) -> ReplayResult:
    """Replay an interval, and hold the registers of checkpoints in it, and at its end, against it. What is
    counted is the interval's, but for `count` and `strata`. Raises Divergence, FormatError."""
    replay = HeldReplay(recording, interval)
    for _ in replay.run():
        pass
    return replay.result


def joined(results: Iterable[ReplayResult]) -> ReplayResult:
    """What became of the intervals of a core, one after the other, as of one replay."""
    found, *others = results
    for one in others:
        digests, contexts = found.digests + one.digests, found.contexts + one.contexts
        found = ReplayResult(one.core, one.count, one.strata, digests, contexts, one.complete)
    return found
