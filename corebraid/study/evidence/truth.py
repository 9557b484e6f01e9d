"""The sealed truth as an order to compare with. Only what is asked to opens it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.study.engines import ENGINES
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.replay.traces import RecordingTraces
from solver.check.certificate import Certificate
from solver.check.checker import check_slices
from solver.passes.ledger import Ledger
from solver.score import NOBODY, Score, score_certificate


def slices_that_ran(recording: Recording) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
    """The sealed truth, as the checker takes it. Raises FormatError."""
    for rows in iter_sealed_truth(recording):
        yield rows["stream"].astype("int64"), rows["end"].astype("uint64")


class TruthScores:
    """Scores the orders of engines against the sealed truth, which must be whole and legal. scores: by
    engine. Raises UsageError for an incomplete recording, FormatError, OrderError if it is not legal."""

    def __init__(self, recording: Recording, traces: RecordingTraces) -> None:
        if not recording.manifest.complete:
            raise UsageError(
                "an incomplete recording has no order of all that its logs hold to compare with",
                where=str(recording.path),
                remedy="let it be recorded to its end, or compare without the truth",
            )
        self._recording, self._traces = recording, traces
        self.scores: dict[str, Score] = {}
        check_slices(traces, slices_that_ran(recording))

    def take(self, engine: str, answers: Ledger) -> None:
        """What an engine answered for all regions. One whose evidence tells every order is judged region by
        region, too, but for the kernel of a Linux program, of which it tells nothing."""
        recording = self._recording
        apart = recording.manifest.n_cores if recording.manifest.linux else NOBODY

        def granules(region: int) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
            problem = answers.problem(region)
            return problem.address, problem.size

        with tempfile.TemporaryDirectory(prefix="corebraid-") as folder:
            path = Path(folder) / "order.cert"
            answers.write(path, recording.manifest.id, engine)
            certificate = Certificate(path, recording.manifest.id)
            self.scores[engine] = score_certificate(
                self._traces,
                certificate,
                slices_that_ran(recording),
                within=ENGINES[engine].exact,
                to_order=granules,
                apart=apart,
            )
