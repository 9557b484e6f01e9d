"""Kind `bombs`: files below a megabyte that say more than can be held, over all commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.hostile import mutations
from bench.hostile.inside import run_command
from bench.hostile.mutate_much import much
from bench.hostile.mutating import draw_of
from bench.hostile.recordings import samples


class Cases(mutations.Cases):
    """The cases of a seed."""

    def make(self, number: int, folder: Path) -> tuple[str, str]:
        """Write the recording of a case into `folder`; (kind, what was done)."""
        name, _ = self.chosen(number)
        sample = self._originals[name].copy()
        kind, what = much(sample, draw_of(self._seed + 1, number))
        sample.write(folder / "rec")
        return kind, f"{name}: {what}"


def prepare(numbers: Sequence[int], seed: int, folder: Path) -> mutations.Trials:
    """The cases with these numbers."""
    originals = samples(folder / "originals")
    cases = Cases(originals, seed)
    mutations.warm(folder, originals, None)
    return mutations.Trials(cases, run_command, turns=1)
