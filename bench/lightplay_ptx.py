"""What the CUDA kernels of LightPlay's search are given by the compiler: registers, local, shared and
constant memory.

    python -m bench.lightplay_ptx [ARCHITECTURE]

Compiles for a GPU that need not be there (9.0 unless given); it takes numba-cuda and NVIDIA's compiler,
which are packages (`pip install numba-cuda nvidia-cuda-nvcc-cu12 nvidia-cuda-nvrtc-cu12`). Beside the table
are the seconds that a kernel takes to compile, which is what slices in constant memory cost a batch.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.lightplay_devices import slices_of
from bench.programs import image, recorded
from bench.report import Column, Table
from recorder.capture.firmware import RecordOptions
from solver.evidence.lightplay.cuda_batch import Packed, PackedNumbers, pack, pack_numbers
from solver.evidence.lightplay.cuda_registers import number_values
from solver.evidence.lightplay.search_cuda import BATCH

#: What ptxas says of a kernel: pattern, column.
_SAID = (
    (r"Used (\d+) registers", "registers"),
    (r"(\d+) bytes stack frame", "local memory, bytes"),
    (r"(\d+) bytes spill stores", "spilled, bytes"),
)
CONSTANTS = "constant memory, bytes"


def batches() -> list[Packed | PackedNumbers]:
    """A batch of real slices in each layout."""
    options = RecordOptions(cores=4, seed=1, longest_slice=400, evidence=("slices",))
    with recorded(image("litmus"), options) as made:
        slices = [one for one in slices_of(made.recording) if number_values(one)][:BATCH]
    numbered = [one for k in slices if (one := number_values(k)) is not None]
    return [pack_numbers(slices, numbered), pack(slices)]


def compile_for(kernel: Callable[..., None], arguments: list[Any], architecture: tuple[int, int]) -> str:
    """A kernel as PTX. arguments: numpy arrays of the types that it takes."""
    from numba import cuda, typeof
    from numba.cuda import compiler, dispatcher

    class Device:
        compute_capability = architecture

    # Functions that a kernel calls are compiled for the device at hand, and there is none.
    for module in (compiler, dispatcher):
        module.get_current_device = lambda: Device
    types = tuple(typeof(array) for array in arguments)
    text, _ = cuda.compile_ptx(kernel, types, cc=architecture)
    return str(text)


def assemble(ptx: str, architecture: tuple[int, int]) -> dict[str, int]:
    """What ptxas says of it, by column; 0 of what it does not mention."""
    import nvidia.cuda_nvcc

    (folder,) = nvidia.cuda_nvcc.__path__
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as place:
        source = Path(place) / "kernel.ptx"
        source.write_text(ptx)
        major, minor = architecture
        command = [f"{folder}/bin/ptxas", "-v", f"-arch=sm_{major}{minor}", str(source), "-o", f"{place}/out"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = {name: re.search(pattern, said) for pattern, name in _SAID}
    told = {name: int(match.group(1)) if match else 0 for name, match in found.items()}
    # Of constants it says nothing for some architectures; they stand in the PTX.
    return {**told, CONSTANTS: sum(map(int, re.findall(r"^\.const .*?\[(\d+)\]", ptx, re.MULTILINE)))}


def main(console: Console, architecture: tuple[int, int]) -> Table:
    """Compile and print."""
    import numpy as np

    from solver.evidence.lightplay import cuda_kernel

    table = Table(
        "ptx",
        f"The kernels of the CUDA search, compiled for {architecture[0]}.{architecture[1]}",
        [
            Column("layout"), Column("slices"), *(Column(name, ",d") for _, name in _SAID),
            Column(CONSTANTS, ",d"),
            Column("shared memory, bytes a block", ",d"), Column("seconds to compile", ".2f"),
        ],
        [f"A batch of {BATCH} slices of litmus on 4 cores; blocks of 32 threads."],
    )  # fmt: skip
    results = [np.zeros(1, np.uint64), np.zeros((1, 1), np.uint64)]
    for batch in batches():
        for constant in (False, True):
            given = cuda_kernel.kernel_with(batch) if constant else cuda_kernel.kernel_of(batch.layout)
            arguments = results if constant else [*batch.arrays(), *results]
            began = time.perf_counter()
            said = assemble(compile_for(given.py_func, arguments, architecture), architecture)
            seconds = time.perf_counter() - began
            where = "constant" if constant else "global"
            table.add(batch.layout, where, *said.values(), batch.shared_bytes, seconds)
    table.print(console)
    console.print(table.markdown(), highlight=False, soft_wrap=True)
    return table


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else "9.0"
    main(Console(), (int(wanted.split(".")[0]), int(wanted.split(".")[1])))
