"""What a recording says of itself when it begins: the manifest of a run that has not run yet."""

from __future__ import annotations

import hashlib
from pathlib import Path

from emu.board.board import Board
from emu.core.surroundings import KERNEL
from emu.schedule.scheduler import is_named_policy, schedule_bytes
from isa.table import Isa
from recorder.capture.options import RecordOptions
from recorder.files.frame import RING_VERSION, VERSION
from recorder.files.json_fields import Scalar
from recorder.files.manifest import Manifest, Processor, Program


def begun_manifest(
    options: RecordOptions, isa: Isa, board: Board, program: Program, agents: tuple[str, ...],
    more: dict[str, Scalar],
) -> Manifest:  # fmt: skip
    """The manifest of a run on a board, of which nothing has run. agents: names of those that are not cores.
    more: further facts that decide the run."""
    asks = board.config.surroundings is KERNEL
    return Manifest(
        isa=isa.name,
        processor=Processor(isa.revision, isa.identity if asks else ()),
        program=program,
        n_cores=options.cores,
        memory=options.memory_bytes,
        line=board.bus.line,
        cache=str(options.cache),
        seed=options.seed,
        schedule=options.schedule if is_named_policy(options.schedule) else "file",
        model=options.model,
        strata=str(options.strata),
        agents=agents,
        version=RING_VERSION if options.ring else VERSION,
        options={
            **({"store_buffer": options.store_buffer} if options.model == "tso" else {}),
            **({"last": str(options.ring)} if options.ring else {}),
            **({} if options.schedule_seed is None else {"schedule_seed": options.schedule_seed}),
            **({"learn": options.learning} if options.learning > 1 else {}),
            "slice": options.longest_slice,
            "limit": options.limit,
            "input": hashlib.sha256(options.input).hexdigest(),
            "schedule_file": _schedule_digest(options.schedule),
            **({"evidence": ",".join(options.evidence)} if options.evidence else {}),
            **options.evidence_options,
            **more,
        },
    )


def _schedule_digest(schedule: str) -> str:
    """Of an explicit schedule's bytes, since they decide the run; empty for the other policies."""
    return "" if is_named_policy(schedule) else hashlib.sha256(schedule_bytes(Path(schedule))).hexdigest()
