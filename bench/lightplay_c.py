"""The search over all interleavings of a slice as a C loop, compiled by gcc: what the CPU back end is held
against. The same work: make the interleaving of each rank, emulate it until something does not fit, compare
the final state."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from solver.evidence.lightplay.slice_problem import Instance

_SOURCE = r"""
#include <stdint.h>
#include <string.h>

uint64_t try_ranks(int cores, int n, int places, const int64_t *core_ptr, const int64_t *part_ptr,
                   const int32_t *place, const uint8_t *how, const uint64_t *before, const uint64_t *after,
                   const uint64_t *initial, const uint64_t *final, uint64_t ways, uint64_t low, uint64_t high,
                   uint64_t *found, uint64_t room) {
    int64_t at[64];
    uint64_t memory[256], correct = 0;
    for (uint64_t number = low; number < high; number++) {
        uint64_t rank = number, now = ways;
        memcpy(at, core_ptr, cores * sizeof *at);
        memcpy(memory, initial, places * sizeof *memory);
        for (int left = n; left > 0; left--) {
            int core = 0;
            uint64_t here = now * (uint64_t)(core_ptr[1] - at[0]) / (uint64_t)left;
            while (rank >= here) {
                rank -= here;
                core++;
                here = now * (uint64_t)(core_ptr[core + 1] - at[core]) / (uint64_t)left;
            }
            now = here;
            int64_t op = at[core]++;
            for (int64_t part = part_ptr[op]; part < part_ptr[op + 1]; part++) {
                if ((how[part] & 1) && memory[place[part]] != before[part])
                    goto next;
                if (how[part] & 2)
                    memory[place[part]] = after[part];
            }
        }
        if (memcmp(memory, final, places * sizeof *memory) == 0) {
            if (correct < room)
                found[correct] = number;
            correct++;
        }
    next:;
    }
    return correct;
}
"""


@contextmanager
def c_search() -> Iterator[Any]:
    """A function (instance, ways, found: uint64 array) -> correct interleavings; None where there is no
    gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
        source, library = Path(folder) / "search.c", Path(folder) / "search.so"
        source.write_text(_SOURCE)
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        function = ctypes.CDLL(str(library)).try_ranks
        function.restype = ctypes.c_uint64
        yield lambda instance, ways, found: _call(function, instance, ways, found)


def _call(function: Any, instance: Instance, ways: int, found: Any) -> int:
    arrays = [ctypes.c_void_p(array.ctypes.data) for array in instance]
    sizes = (len(instance.core_ptr) - 1, instance.n, len(instance.initial))
    ranks = [ctypes.c_uint64(n) for n in (ways, 0, ways)]
    return int(
        function(*sizes, *arrays, *ranks, ctypes.c_void_p(found.ctypes.data), ctypes.c_uint64(len(found)))
    )
