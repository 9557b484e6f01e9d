"""Kind `mutations`: recordings whose contents are hostile and whose checksums are right, over all
commands."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench.hostile.asked import NEW, REC, command_lines, draw_arguments, evidence_of
from bench.hostile.campaign import Verdict
from bench.hostile.drawing import Draw
from bench.hostile.inside import quiet, run_command, run_nested_command
from bench.hostile.judging import Ended, fault_of
from bench.hostile.mutating import draw_of, mutate
from bench.hostile.recordings import samples
from bench.hostile.sample import Sample
from bench.hostile.slot import Limits
from corebraid.cli.group import cli
from emu.hooks.x86_64.native import load_coprocessor
from solver.smt.process import PROCESSES

#: Changes a sample; (kind of change, what was done).
Change = Callable[[Sample, Draw], tuple[str, str]]
_REC, _NEW = "rec", "new"
#: So many cases need not all kernels.
_FEW = 100
_LONG = Limits(seconds=600.0)
#: Most cases that a process takes.
_TURNS = 500


def placed(arguments: Iterable[str], folder: Path) -> list[str]:
    """A command line for the recording in `folder`."""
    names = {REC: str(folder / _REC), NEW: str(folder / _NEW)}
    return [names.get(one, one) for one in arguments]


class Cases:
    """The cases of a seed. originals: the recordings that they change, by name. change: how."""

    def __init__(self, originals: dict[str, Sample], seed: int, change: Change = mutate) -> None:
        self._originals, self._seed, self._change = originals, seed, change
        self._evidence = {name: evidence_of(sample) for name, sample in originals.items()}

    def chosen(self, number: int) -> tuple[str, tuple[str, ...]]:
        """(the recording's name, the command line) of a case."""
        draw = draw_of(self._seed, number)
        name = draw.choice(sorted(self._originals))
        return name, draw_arguments(self._evidence[name], draw)

    def make(self, number: int, folder: Path) -> tuple[str, str]:
        """Write the recording of a case into `folder`; (kind of mutation, what was done)."""
        name, _ = self.chosen(number)
        sample = self._originals[name].copy()
        kind, what = self._change(sample, draw_of(self._seed + 1, number))
        sample.write(folder / _REC)
        return kind, f"{name}: {what}"


def warm(folder: Path, originals: dict[str, Sample], wanted: set[tuple[str, tuple[str, ...]]] | None) -> None:
    """Run every command once on every recording, so that all kernels are loaded; leaves one thread.

    wanted: only these (recording's name, command line).
    """
    done = set()
    for name, sample in originals.items():
        path = folder / f"warm-{name.replace(' ', '-')}"
        path.mkdir()
        sample.copy().write(path / _REC)
        for _, line in command_lines(evidence_of(sample)):
            key = (line, sample.manifest["model"], sample.manifest["options"].get("guest"))
            if key in done or (wanted is not None and (name, line) not in wanted):
                continue
            done.add(key)
            if "2" in line:
                # Its processes have kernels of their own to compile.
                run_nested_command(*placed(line, path), limits=_LONG)
                continue
            with quiet(), contextlib.suppress(SystemExit):
                cli.main(placed(line, path), prog_name="corebraid", standalone_mode=False)
    if wanted is None:
        load_coprocessor()
    PROCESSES.close()
    gc.collect()
    gc.freeze()


class Trials:
    """The cases of a seed, run. command: what is done with a command line."""

    limits = Limits()

    def __init__(self, cases: Cases, command: Callable[[list[str]], int], turns: int) -> None:
        self._cases, self._command, self.turns = cases, command, turns

    def work(self, number: int, folder: Path, note: int) -> int:
        """Make the recording, and read it."""
        drawn, what = self._cases.make(number, folder)
        os.write(note, f"{drawn}\n{what}".encode(errors="replace"))
        return self._command(placed(self._cases.chosen(number)[1], folder))

    def judge(self, number: int, how: Ended, note: str) -> Verdict:
        """Any exit code that the command has is right."""
        drawn, _, what = note.partition("\n")
        line = self._cases.chosen(number)[1]
        fault = fault_of(line, how, (0, 1, 2, 3) if line[0] == "rpc" else (0, 1, 2))
        shown = " ".join(line) if fault else line[0]
        return Verdict(drawn or "unmade", line[0], f"exit code {how.code}", fault, f"{shown}: {what}")


def prepare(
    numbers: Sequence[int],
    seed: int,
    folder: Path,
    command: Callable[[list[str]], int] = run_command,
    originals: dict[str, Sample] | None = None,
    turns: int = _TURNS,
    change: Change = mutate,
) -> Trials:
    """The cases with these numbers. originals: the recordings that are changed, those of `samples` unless
    given. command: what is run, in one process for at most `turns` cases. change: see `Cases`."""
    originals = originals or samples(folder / "originals")
    cases = Cases(originals, seed, change)
    if command is run_command:
        few = {cases.chosen(number) for number in numbers} if len(numbers) <= _FEW else None
        warm(folder, originals, few)
    return Trials(cases, command, turns)
