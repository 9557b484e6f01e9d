"""Small recordings with every kind of record, and ways to break them, for the tests of the format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from corebraid.base.rows.event import GLUED, READ, WRITE
from corebraid.base.rows.record import CONTEXT, DIGEST, END, INPUT, MISS, RECORD, STRATUM
from emu.bus.sync_points import ENTER
from recorder.files.agent_codec import AGENT_OP, DMA, INTERRUPT, MARK, SYNC
from recorder.files.end import End
from recorder.files.manifest import Manifest, Program
from recorder.files.reader import Recording, iter_agent_rows, iter_core_records, iter_image, iter_sealed_truth
from recorder.files.truth import TRUTH
from recorder.files.writer import RecordingWriter

Rows = npt.NDArray[np.void]
Bytes = npt.NDArray[np.uint8]
LINE, MEMORY = 16, 1 << 16
BLOB = np.arange(7, 207, dtype=np.uint8)


def manifest(seed: int = 1, n_cores: int = 2) -> Manifest:
    """A manifest for small recordings; the seed alone tells two recordings apart."""
    program = Program("demo.elf", "ab" * 32)
    return Manifest(
        "x86_64", program, n_cores, MEMORY, line=LINE, seed=seed, strata="cycles:100", agents=("dma",)
    )


def records(*rows: tuple[int, int, int, int, int, int, int]) -> Rows:
    """RECORD rows from (count, kind, flags, addr, value, offset, size)."""
    names = ("count", "kind", "flags", "addr", "value", "offset", "size")
    table = np.zeros(len(rows), dtype=RECORD)
    for index, row in enumerate(rows):
        for name, value in zip(names, row, strict=True):
            table[index][name] = value
    return table


def core_batches(core: int) -> list[Rows]:
    """Three batches, hence three frames, of a core's log: every kind of record once or more."""
    base = core * 1000
    return [
        records(
            (0, CONTEXT, 1, 0, 0, 0, 24),
            (base + 3, MISS, 1, 0x1230, 0, 24, LINE),
            (base + 3, MISS, 4, 0x1240, 0, 40, LINE),
            (base + 90, STRATUM, 0, 0, 0, 0, 0),
        ),
        records(
            (base + 91, INPUT, 4, 0xFEE0_0000, 0xDEAD_BEEF_0123_4567, 0, 8),
            (base + 92, INPUT, 1, 0, 5, 0, 8),
            (base + 190, STRATUM, 0, 0, 1, 0, 0),
            (base + 190, DIGEST, 0, 0, 0, 60, 8),
        ),
        records((base + 200, MISS, 0, 0, 0, 70, LINE), (base + 300, END, 0, 0, 1, 0, 0)),
    ]


def agent_batches() -> list[Rows]:
    """Two batches of the agent log with two strata in all."""
    table = np.zeros(7, dtype=AGENT_OP)
    table[0] = (0, 50, 0, 0, 0, 0, SYNC, 0, ENTER)
    table[1] = (0, 0x2000, 5, 5, 0, 8, READ, DMA, 0)
    table[2] = (1, 0x3000, 0, 5, 0, 8, WRITE, DMA, GLUED)
    table[3] = (2, 0, 0, 0, 0, 0, MARK, 0, 0)
    table[4] = (2, 1100, 0, 0, 1, 0, SYNC, 1, ENTER)
    table[5] = (2, 0x3008, 1, 2, 1, 4, WRITE, INTERRUPT, 0)
    table[6] = (3, 0, 0, 0, 1, 0, MARK, 0, 0)
    return [table[:4], table[4:]]


def truth_rows() -> Rows:
    """The interleaving of a small recording."""
    return np.array([(0, 50), (1, 700), (2, 2), (0, 120), (1, 1300), (2, 3), (0, 300)], dtype=TRUTH)


def page(seed: int) -> Bytes:
    """A page that compresses well."""
    return np.full(4096, seed, dtype=np.uint8)


def write(path: Path, *, seed: int = 1, finish: bool = True) -> Recording:
    """Write a small recording of two cores; without `finish`, as a killed recorder leaves it."""
    with RecordingWriter.create(path, manifest(seed)) as writer:
        writer.write_image("initial", [(0x1000, page(0)), (0x2000, page(3)), (0xF000, page(4))])
        for core in range(2):
            for batch in core_batches(core):
                writer.append_core(core, batch, BLOB)
        for rows in agent_batches():
            writer.append_agent(rows)
        writer.append_truth(truth_rows()[:4])
        writer.append_truth(truth_rows()[4:])
        if finish:
            writer.write_image("final", [(0x2000, page(5))])
            writer.finish(End("power-off", 0, 0, 300), (300, 1300), {"misses": 6})
    return Recording.open(path)


def contents(recording: Recording, name: str) -> list[object]:
    """Everything that the reader gives of one file."""
    readers: dict[str, Callable[[], list[object]]] = {
        "agent.log": lambda: [rows.tolist() for rows in iter_agent_rows(recording)],
        "truth.log": lambda: [rows.tolist() for rows in iter_sealed_truth(recording)],
        "initial.img": lambda: list(iter_image(recording, "initial")),
        "final.img": lambda: list(iter_image(recording, "final")),
    }
    for core in range(recording.manifest.n_cores):
        readers[f"core-{core}.log"] = lambda core=core: [  # type: ignore[misc]
            (rows.tolist(), blob.tobytes()) for rows, blob in iter_core_records(recording, core)
        ]
    return readers[name]()


def flips(data: bytes) -> list[bytes]:
    """`data` with each of its bits flipped in turn."""
    whole = int.from_bytes(data, "little")
    return [(whole ^ (1 << bit)).to_bytes(len(data), "little") for bit in range(8 * len(data))]
