"""The search on a GPU (LightPlay, section 3), through numba-cuda: pip install 'corebraid[cuda]'.

One thread tries one interleaving after the other, in blocks of 32 as in the paper, with the body that the CPU
runs. Slices go to the device packed together in batches, batches to several streams: all are uploaded, then
all launched, then all read back, so that copies and kernels overlap. A correct interleaving is its rank,
written to memory of the host that the device sees.

Constant memory: numba-cuda fills it when a kernel is compiled, so a batch gets a kernel of its own whose
slices are constants where the work is worth that, and otherwise one that reads them from global memory.

With NUMBA_ENABLE_CUDASIM=1 all of it runs in numba's simulator, without a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from solver.evidence.lightplay.cuda_batch import MOST_CORES, MOST_PLACES, pack
from solver.evidence.lightplay.found import Found
from solver.evidence.lightplay.interleavings import SMALLER, TooLong, count
from solver.evidence.lightplay.search_cpu import orders_of
from solver.evidence.lightplay.slice_problem import Instance

#: Threads in a block, the paper's.
BLOCK = 32
#: Correct interleavings that are listed of each slice, slices in a batch, streams.
LISTED, BATCH, STREAMS = 1024, 64, 4
#: Most blocks of a launch; interleavings in a batch from which a kernel of its own is worth its compilation.
MOST_BLOCKS, CONSTANT_FROM = 4096, 1 << 28
#: Bytes of constant memory that a kernel may have.
_CONSTANT_BYTES = 60 << 10


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


class _Job:
    """One batch on one stream."""

    def __init__(
        self, cuda: Any, instances: list[Instance], stream: Any, kernel: Any, constant: bool | None
    ) -> None:
        self.instances, self._stream = instances, stream
        self._packed = pack(instances)
        work = int(self._packed.ranks[-1])
        # Loaded only here: it imports numba.cuda.
        from solver.evidence.lightplay.cuda_kernel import make_kernel

        small = sum(array.nbytes for array in self._packed.arrays()) <= _CONSTANT_BYTES
        if constant is None:
            constant = small and work >= CONSTANT_FROM
        self._blocks = min(-(-work // BLOCK), MOST_BLOCKS)
        self._kernel = make_kernel(self._packed) if constant else kernel
        self._given: list[Any] = []
        if not constant:
            self._given = [cuda.to_device(array, stream) for array in self._packed.arrays()]
        self._counts = cuda.to_device(np.zeros(len(instances), np.uint64), stream)
        self._listed = cuda.mapped_array((len(instances), LISTED), np.uint64)

    def launch(self) -> None:
        """Try all interleavings of the batch."""
        self._kernel[self._blocks, BLOCK, self._stream](*self._given, self._counts, self._listed)

    def results(self) -> list[tuple[NDArray[np.uint64], int]]:
        """(ranks of correct interleavings, ascending, at most LISTED; how many there are) of each slice."""
        counts = self._counts.copy_to_host(stream=self._stream)
        self._stream.synchronize()
        listed = np.asarray(self._listed)
        return [(np.sort(listed[k, : min(int(n), LISTED)]), int(n)) for k, n in enumerate(counts)]


def search_cuda(
    instances: list[Instance], *, batch: int = BATCH, streams: int = STREAMS, constant: bool | None = None
) -> list[Found]:
    """All correct orders of many slices, each of which `fits`.

    Where a slice has more than LISTED correct orders, which of them are listed is not determined. constant:
    whether slices are constants of a kernel; chosen by the work unless given. Raises UsageError where there
    is no device.
    """
    cuda = cuda_module()
    if not instances:
        return []
    began = working_time()
    from solver.evidence.lightplay.cuda_kernel import make_kernel

    kernel = make_kernel(None)
    lanes = [cuda.stream() for _ in range(streams)]
    batches = [instances[k : k + batch] for k in range(0, len(instances), batch)]
    found: list[Found] = []
    for first in range(0, len(batches), streams):
        jobs = [
            _Job(cuda, mine, lane, kernel, constant)
            for mine, lane in zip(batches[first : first + streams], lanes, strict=False)
        ]
        for job in jobs:
            job.launch()
        for job in jobs:
            for instance, (ranks, correct) in zip(job.instances, job.results(), strict=True):
                ways = count(instance.sizes)
                found.append(Found(orders_of(ranks, ways, instance), correct, True, ways, 0.0, "cuda"))
    seconds = (working_time() - began) / len(instances)
    return [Found(f.orders, f.total, f.exhausted, f.work, seconds, f.backend) for f in found]
