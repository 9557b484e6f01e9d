"""The small recordings that are changed: firmware and a Linux program with two threads, SC and TSO, finite
caches, a ring and one that was never put together, all evidence, with an order; one of version 1, and what a
fault and a deadlock leave."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import corebraid
from bench.hostile.line_table import with_lines
from bench.hostile.sample import Sample
from corebraid.base.errors import CorebraidError, FormatError
from recorder.capture import intervals

ROOT = Path(__file__).resolve().parents[2]
IMAGES, GOLDEN = ROOT / "firmware" / "x86_64", ROOT / "tests" / "golden"
TINY = GOLDEN / "v2" / "tiny" / "program.elf"
_MEMORY = 8 << 20
_BUFFER = {"sc": None, "tso": 4}


@dataclass(frozen=True)
class How:
    """How a recording is made. program: a firmware image's name, or "" for the Linux program."""

    program: str
    cores: int = 2
    evidence: str = "losses"
    strata: str = "cycles:2000"
    cache: str = "unbounded"
    model: str = "sc"
    limit: int | None = None
    slice: int | None = None
    bus: str = "mesi"
    checkpoint: str = "none"
    last: str | None = None
    unfinished: bool = False


HOW = {
    "firmware": How("bug_lost_update", evidence="all", strata="cycles:6000"),
    "firmware tso": How("peterson", model="tso", strata="cycles:1500"),
    "firmware cache": How("dma_race", cache="64:2:32", strata="downgrades:20", limit=25_000),
    "three cores": How("stride_fig2", cores=3, evidence="all", strata="cycles:500", cache="1k:2:64"),
    "puts and gets": How("pgas_guppie", evidence="opr,losses", strata="cycles:5000", limit=9_000),
    "messages": How("rpc_divide", evidence="rpc,losses", strata="cycles:20000", limit=20_000),
    "fault": How("fault_div", strata="none"),
    "linux": How("", slice=60, strata="cycles:3000", evidence="linkage,slices,opr,losses"),
    "pages": How("smc", strata="cycles:2000", bus="page", limit=9_000, checkpoint="1"),
    "linux pages": How("", slice=60, strata="cycles:3000", bus="page", checkpoint="1"),
    "linux tso": How("", slice=40, strata="cycles:2500", model="tso", checkpoint="1"),
    "ring": How("smc", strata="cycles:1000", bus="page", limit=9_000, last="4k"),
    "unfinished ring": How("smc", strata="cycles:1000", bus="page", limit=9_000, last="4k", unfinished=True),
    "checkpoints": How("uts", strata="cycles:4000", slice=200, limit=30_000, checkpoint="2000"),
}


def make(how: How, path: Path) -> None:
    """Record into the new folder `path`, and order it if that can be done."""
    if how.unfinished:
        with (
            patch.object(intervals.Joining, "__init__", side_effect=FormatError("no room")),
            suppress(FormatError),
        ):
            _record(how, path)
        return
    _record(how, path)
    with suppress(CorebraidError):
        corebraid.order(path, jobs=1)


def _record(how: How, path: Path) -> None:
    program = IMAGES / f"{how.program}.elf" if how.program else linux_program()
    corebraid.record(
        program,
        path,
        cores=how.cores,
        evidence=how.evidence,
        strata=how.strata,
        cache=how.cache,
        model=how.model,
        limit=how.limit,
        slice=how.slice,
        bus=how.bus,
        checkpoint=how.checkpoint,
        last=how.last,
        memory=_MEMORY,
        system=bool(how.program),
        store_buffer=_BUFFER[how.model],
    )


def linux_program() -> Path:
    """The two threads, with lines, at a path that is the same each time: it is in the guest's memory."""
    path = Path(tempfile.gettempdir()) / "corebraid-hostile" / "guest"
    data = with_lines(TINY.read_bytes())
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(exist_ok=True)
        new = path.with_name(f"guest.{os.getpid()}")
        new.write_bytes(data)
        new.chmod(0o755)
        new.replace(path)
    return path


def samples(folder: Path, heard: Callable[[str], None] = lambda _: None) -> dict[str, Sample]:
    """All of them by name, made in the new folder `folder`. heard: told of each before it is made."""
    folder.mkdir()
    found = {}
    for name, how in HOW.items():
        heard(name)
        path = folder / name.replace(" ", "-")
        make(how, path)
        found[name] = Sample.read(path)
    found["version 1"] = Sample.read(GOLDEN / "v1" / "tiny")
    return found
