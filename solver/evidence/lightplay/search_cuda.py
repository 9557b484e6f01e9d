"""The search on a GPU (LightPlay, section 3), through numba-cuda: pip install 'corebraid[cuda]'.

One thread tries one interleaving after the other, in blocks of 32 as in the paper. What it emulates is in
registers where a slice fits in there, and in shared memory else (`cuda_batch.py` has the layouts). Slices go
to the device packed together in batches, batches to several streams: all are uploaded, then all launched,
then all read back, so that copies and kernels overlap. A correct interleaving is its rank, written to memory
of the host that the device sees.

Constant memory: numba-cuda fills it when a kernel is compiled, so a batch gets a kernel of its own whose
slices are constants where the work is worth that, and otherwise one that reads them from global memory.

With NUMBA_ENABLE_CUDASIM=1 all of it runs in numba's simulator, without a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from solver.evidence.lightplay.cuda_batch import (
    BLOCK,
    MOST_CORES,
    MOST_PLACES,
    SHARED,
    Packed,
    PackedNumbers,
    pack,
    pack_numbers,
)
from solver.evidence.lightplay.cuda_registers import number_values
from solver.evidence.lightplay.found import Found
from solver.evidence.lightplay.interleavings import SMALLER, TooLong, count
from solver.evidence.lightplay.search_cpu import orders_of
from solver.evidence.lightplay.slice_problem import Instance

#: Correct interleavings that are listed of each slice, slices in a batch, streams.
LISTED, BATCH, STREAMS = 1024, 64, 4
#: Most blocks of a launch; interleavings in a batch from which a kernel of its own is worth its compilation.
MOST_BLOCKS, CONSTANT_FROM = 4096, 1 << 28
#: Bytes of constant memory that a kernel may have.
_CONSTANT_BYTES = 60 << 10
#: Where the time of a search goes: packing slices; slices to the device; until launches return; until the
#: device is done; ranks back to the host, and made into orders.
PHASES = ("pack", "copy", "launch", "kernel", "collect")


def cuda_module() -> Any:
    """numba.cuda, if there is a device or the simulator. Raises UsageError."""
    try:
        from numba import cuda
    except ImportError:
        raise _missing("numba-cuda is not installed") from None
    if not cuda.is_available():
        raise _missing("no CUDA device")
    return cuda


def _missing(what: str) -> UsageError:
    return UsageError(
        "back end cuda cannot run here",
        found=what,
        remedy=Phrase(
            "install corebraid[cuda] on a machine with an NVIDIA GPU, or use ",
            Option("backend", "cpu"),
            " or cut",
        ),
    )


def fits(instance: Instance, tries: int) -> bool:
    """Whether a thread has room for a slice, and its interleavings are no more than `tries`."""
    room = len(instance.sizes) <= MOST_CORES and len(instance.initial) <= MOST_PLACES
    return room and count(instance.sizes) <= tries


def check_fits(instance: Instance, tries: int) -> None:
    """Raises TooLong for a slice that does not fit."""
    if not fits(instance, tries):
        raise TooLong(
            "a slice is too large for back end cuda",
            expected=f"at most {tries} interleavings, {MOST_CORES} cores, {MOST_PLACES} places",
            found=f"{count(instance.sizes):.3g}, {len(instance.sizes)}, {len(instance.initial)}",
            remedy=SMALLER,
        )


class _Laps:
    """Adds seconds up by phase, waiting for the device at the end of each; without `phases` it does
    nothing."""

    def __init__(self, cuda: Any, phases: dict[str, float] | None) -> None:
        self._cuda, self._phases, self._at = cuda, phases, working_time()

    def end(self, phase: str, *, wait: bool = True) -> None:
        """A phase is over. wait: for the device."""
        if self._phases is None:
            return
        if wait:
            self._cuda.synchronize()
        now = working_time()
        self._phases[phase] = self._phases.get(phase, 0.0) + now - self._at
        self._at = now


class _Job:
    """One batch on one stream."""

    def __init__(self, cuda: Any, packed: Packed | PackedNumbers, stream: Any, constant: bool | None) -> None:
        # Loaded only here: it imports numba.cuda.
        from solver.evidence.lightplay.cuda_kernel import kernel_of, kernel_with

        self._packed, self._stream = packed, stream
        work, n = int(packed.ranks[-1]), len(packed.ranks) - 1
        if constant is None:
            small = sum(array.nbytes for array in packed.arrays()) <= _CONSTANT_BYTES
            constant = small and work >= CONSTANT_FROM
        self._blocks = min(-(-work // BLOCK), MOST_BLOCKS)
        self._kernel = kernel_with(packed) if constant else kernel_of(packed.layout)
        self._given: list[Any] = []
        if not constant:
            self._given = [cuda.to_device(array, stream) for array in packed.arrays()]
        self._counts = cuda.to_device(np.zeros(n, np.uint64), stream)
        self._listed = cuda.mapped_array((n, LISTED), np.uint64)

    def launch(self) -> None:
        """Try all interleavings of the batch."""
        how = self._blocks, BLOCK, self._stream, self._packed.shared_bytes
        self._kernel[how](*self._given, self._counts, self._listed)

    def results(self) -> list[tuple[NDArray[np.uint64], int]]:
        """(ranks of correct interleavings, ascending, at most LISTED; how many there are) of each slice."""
        counts = self._counts.copy_to_host(stream=self._stream)
        self._stream.synchronize()
        listed = np.asarray(self._listed)
        return [(np.sort(listed[k, : min(int(n), LISTED)]), int(n)) for k, n in enumerate(counts)]


def _batches(
    instances: list[Instance], batch: int, layout: str | None
) -> list[tuple[list[int], Packed | PackedNumbers]]:
    """Slices in batches of one layout: (which ones, packed)."""
    numbered = [None if layout == SHARED else number_values(one) for one in instances]
    small = [k for k, one in enumerate(numbered) if one is not None]
    large = [k for k, one in enumerate(numbered) if one is None]
    found: list[tuple[list[int], Packed | PackedNumbers]] = []
    for k in range(0, len(small), batch):
        mine = small[k : k + batch]
        words = [one for i in mine if (one := numbered[i]) is not None]
        found.append((mine, pack_numbers([instances[i] for i in mine], words)))
    for k in range(0, len(large), batch):
        mine = large[k : k + batch]
        found.append((mine, pack([instances[i] for i in mine])))
    return found


def search_cuda(
    instances: list[Instance],
    *,
    batch: int = BATCH,
    streams: int = STREAMS,
    constant: bool | None = None,
    layout: str | None = None,
    phases: dict[str, float] | None = None,
) -> list[Found]:
    """All correct orders of many slices, each of which `fits`.

    Where a slice has more than LISTED correct orders, which of them are listed is not determined. constant:
    whether slices are constants of a kernel; chosen by the work unless given. layout: SHARED for all; chosen
    by size unless given. phases: takes the seconds of each of PHASES; one batch then goes after the other,
    on one stream, and nothing overlaps. Raises UsageError where there is no device.
    """
    cuda = cuda_module()
    if not instances:
        return []
    began = working_time()
    laps = _Laps(cuda, phases)
    lanes = [cuda.stream() for _ in range(streams if phases is None else 1)]
    batches = _batches(instances, batch, layout)
    laps.end("pack")
    found: dict[int, Found] = {}
    for first in range(0, len(batches), len(lanes)):
        together = batches[first : first + len(lanes)]
        jobs = [
            _Job(cuda, packed, lane, constant) for (_, packed), lane in zip(together, lanes, strict=False)
        ]
        laps.end("copy")
        for job in jobs:
            job.launch()
        laps.end("launch", wait=False)
        laps.end("kernel")
        for (which, _), job in zip(together, jobs, strict=True):
            for k, (ranks, correct) in zip(which, job.results(), strict=True):
                ways = count(instances[k].sizes)
                found[k] = Found(orders_of(ranks, ways, instances[k]), correct, True, ways, 0.0, "cuda")
        laps.end("collect")
    seconds = (working_time() - began) / len(instances)
    return [replace(found[k], seconds=seconds) for k in range(len(instances))]
