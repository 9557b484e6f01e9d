"""Going to a moment of one core: from the last checkpoint before it, and without a trace as far as that
goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay
from recorder.replay.start import Start, start_before

#: Instructions whose traced replay takes longer than to change over to a second core.
_WORTH_IT = 1_000_000


class _LeadIn(CoreReplay):
    """A replay without a trace that ends at an instruction count, or at a stratum, whichever comes last.

    count, strata: None for any."""

    def __init__(
        self, recording: Recording, core: int, count: int | None, strata: int | None, start: Start | None
    ) -> None:
        passed = count is None or (start is not None and start.state.count >= count)
        stops = () if passed or count is None else (count,)
        super().__init__(recording, core, stops=stops, start=start, paged=True)
        self._reached, self._until = passed, strata

    def _stop(self, count: int) -> None:
        self._reached = True

    def _over(self) -> bool:
        return self._reached and (self._until is None or self._strata >= self._until)


def start_at(
    recording: Recording, core: int, first: int | None = None, region: int | None = None
) -> Start | None:
    """Where a traced replay begins that is to have the accesses of a core from instruction count `first` on,
    or from the region after `region` strata on; with both given, what either leaves out is passed over. None:
    at the beginning. Raises FormatError, Divergence."""
    if first is None and region is None:
        return None
    buffered = bool(recording.manifest.store_buffer)
    start = start_before(recording, core, first, region, traced=buffered)
    near = first is not None and first - (0 if start is None else start.state.count) < _WORTH_IT
    # Under TSO a store's old bytes follow from what came before it.
    if buffered or (near and region is None):
        return start
    lead_in = _LeadIn(recording, core, first, region, start)
    for _ in lead_in.run():
        pass
    return lead_in.stands()


def accesses(
    recording: Recording, core: int, first: int | None = None, region: int | None = None
) -> Iterator[NDArray[np.void]]:
    """The accesses of a core, EVENT[n] after EVENT[n], without some of those that lie before `first` and
    `region` (`start_at`). Their `seq` counts from the first that comes. Raises FormatError, Divergence."""
    start = start_at(recording, core, first, region)
    return CoreReplay(recording, core, traced=True, start=start).run()


def start_of(recording: Recording, core: int, counts: Sequence[int]) -> Start | None:
    """Where a replay begins that is to stop at these instruction counts. Raises FormatError."""
    return start_before(recording, core, min(counts)) if counts else None
