"""Recordings with OPR evidence, and a value logger with a planted bug."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from cli_factory import FIRMWARE
from evidence_factory import record_with

from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.opr.rows import VALUE
from recorder.evidence.opr.shadow import ValueLogger
from recorder.files.reader import Recording


def recorded(program: str, folder: Path, cores: int, rset: str, **options: Any) -> Recording:
    """A recording with the evidence, in short slices and short regions."""
    chosen = {"longest_slice": 200, "strata": StrataPolicy(cycles=5000), **options}
    return record_with(
        FIRMWARE / f"{program}.elf",
        folder / program,
        cores=cores,
        evidence=("opr",),
        evidence_options={"rset": rset},
        **chosen,
    )


class StaleBlock(ValueLogger):
    """Shadow memory that takes the eighth new value, of those that are not 0, for one that the member
    knows."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.left = 8

    def take(self, rows: Any) -> Any:
        logged, fresh = super().take(rows)
        for k in np.flatnonzero((logged["kind"] == VALUE) & (logged["value"] != 0)).tolist():
            self.left -= 1
            if self.left == 0:
                return np.delete(logged, k), fresh
        return logged, fresh
