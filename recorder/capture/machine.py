"""The machine that a recording asks for."""

from __future__ import annotations

from emu.board.config import MachineConfig
from emu.core.surroundings import DEVICES, Surroundings
from recorder.capture.options import RecordOptions
from recorder.files.evidence_names import STREAMS


def machine_config(
    options: RecordOptions, watched: bool, surroundings: Surroundings = DEVICES
) -> MachineConfig:
    """The machine that `options` ask for. watched: somebody wants all events."""
    return MachineConfig(
        options.cores,
        options.memory_bytes,
        options.cache,
        options.seed,
        options.strata.downgrades,
        options.input,
        options.store_buffer if options.model == "tso" else 0,
        any(STREAMS[name].of_events for name in options.evidence) or watched,
        surroundings=surroundings,
        bus=options.bus,
    )
