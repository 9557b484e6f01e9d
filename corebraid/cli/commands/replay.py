"""`corebraid replay`: one core, from its own log alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.api.replay import check_stops
from corebraid.base.errors import UsageError
from corebraid.cli import console
from corebraid.cli.options import Integer, Whole, count, json_option, recording_argument
from corebraid.cli.wording import TYPED

if TYPE_CHECKING:
    from corebraid.study.pauses import Paused
    from corebraid.study.replays.cores import Replays
    from recorder.replay.pause import CoreState

_COLUMNS = 4


@click.command()
@recording_argument
@click.option("--core", type=Integer(), metavar="K", help="The core to replay.")
@click.option("--all", "every", is_flag=True, help="Replay every core.")
@click.option(
    "--jobs",
    type=Whole(1, 1024),
    metavar="N",
    help="With --all: processes at a time.  [default: what is worth it, one for each processor at most]",
)
@click.option(
    "--from",
    "first",
    type=count,
    metavar="COUNT",
    help="With --until: also print the accesses from this instruction count on.",
)
@click.option(
    "--until",
    type=count,
    metavar="COUNT",
    help="Stop when COUNT instructions have retired, and print the registers there.",
)
@json_option
def command(
    recording: Path,
    core: int | None,
    every: bool,
    jobs: int | None,
    first: int | None,
    until: int | None,
    as_json: bool,
) -> int:
    """Replay cores of REC, each from its own log alone, and compare it with every digest on the way.

    Only the manifest and the log of the core itself are read; with --until its checkpoints too, if it has
    some: what came before the last one is passed over (docs/seek.md). Exit code 1 means that the replay
    diverged: the message says where, what was expected and found, and what to run to look closer.

    \b
    Examples:
      corebraid replay REC --core 2
      corebraid replay REC --all --jobs 4
      corebraid replay REC --core 2 --until 5000
      corebraid replay REC --core 2 --from 4990 --until 5000
    """
    _check(core, every, jobs, first, until)
    console.announce_compilation()
    from corebraid.api.info import open_recording
    from corebraid.api.replay import replay, replay_all
    from corebraid.study.replays.cores import CoreVerdict, Replays

    opened = open_recording(recording)
    if core is not None and until is not None:
        table = None if as_json or first is None else sys.stdout.buffer
        _show_pause(replay(opened, core, first=first, until=until, sink=table), as_json)
        return 0
    if core is not None:
        counts = opened.manifest.instructions
        total = counts[core] if 0 <= core < len(counts) else None
        with console.progress(f"replaying core {core}", total) as show:
            result = replay(opened, core, progress=show)
        return _report(Replays(opened.path, [CoreVerdict(core, result)]), as_json)
    with console.progress("cores replayed", opened.manifest.n_cores) as show:
        replays = replay_all(opened, jobs=jobs, progress=show)
    return _report(replays, as_json)


def _check(core: int | None, every: bool, jobs: int | None, first: int | None, until: int | None) -> None:
    if (core is None) != every:
        raise UsageError("say which core to replay", remedy="give --core K or --all, and not both")
    if every and (first is not None or until is not None):
        raise UsageError("--from and --until are for one core", remedy="give --core K")
    if jobs is not None and not every:
        raise UsageError("--jobs is for --all", remedy="leave --jobs out")
    check_stops(first, until)


def _report(replays: Replays, as_json: bool) -> int:
    if as_json:
        console.facts(replays.facts(TYPED))
    console.notes([one.line(TYPED) for one in replays.cores if one.result is None], replays.recording)
    for verdict in replays.cores:
        result = verdict.result
        if result is not None and not as_json:
            ending = "" if result.complete else " (the log is incomplete: as far as it goes)"
            click.echo(
                f"core {result.core}: {result.count:,} instructions, {result.strata} strata, "
                f"{result.digests} digests compared: bit-exact{ending}"
            )
    return max((verdict.exit_code for verdict in replays.cores), default=0)


def _show_pause(paused: Paused, as_json: bool) -> None:
    sys.stdout.buffer.flush()
    if as_json:
        console.facts(paused.facts())
        return
    state = paused.state
    place = " ".join(part for part in (paused.symbol, paused.line) if part)
    click.echo(
        f"core {state.core}, instruction {state.count}, pc {state.pc:#x} {place}: {paused.disassembly}"
    )
    for cells in _register_table(state):
        click.echo("  ".join(cells).rstrip())


def _register_table(state: CoreState) -> Iterator[list[str]]:
    """Rows of 'name value'; the vector and floating-point registers that are 0 are left out."""
    narrow = [f"{name:<8}{value:<#18x}" for name, value in state.registers.items() if name not in state.wide]
    wide = [
        f"{name:<8}{value:<#34x}" for name, value in state.registers.items() if name in state.wide and value
    ]
    for cells, columns in ((narrow, _COLUMNS), (wide, _COLUMNS // 2)):
        for start in range(0, len(cells), columns):
            yield cells[start : start + columns]
