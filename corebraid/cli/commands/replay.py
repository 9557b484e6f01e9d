"""`corebraid replay`: one core, from its own log alone."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.base.errors import UsageError
from corebraid.cli import console
from corebraid.cli.options import count, json_option, recording_argument

if TYPE_CHECKING:
    from corebraid.cli.parallel import CoreVerdict
    from corebraid.names.program import GuestProgram
    from recorder.files.reader import Recording
    from recorder.replay.pause import CoreState

_COLUMNS = 4


@click.command()
@recording_argument
@click.option("--core", type=int, metavar="K", help="The core to replay.")
@click.option("--all", "every", is_flag=True, help="Replay every core.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
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

    Only the manifest and the log of the core itself are read. Exit code 1 means that the replay diverged:
    the message says where, what was expected and found, and what to run to look closer.

    \b
    Examples:
      corebraid replay REC --core 2
      corebraid replay REC --all --jobs 4
      corebraid replay REC --core 2 --until 5000
      corebraid replay REC --core 2 --from 4990 --until 5000
    """
    _check(core, every, jobs, first, until)
    console.announce_compilation()
    from corebraid.cli.parallel import replay_cores, worthwhile_processes
    from recorder.files.reader import Recording

    opened = Recording.open(recording)
    if core is not None and until is not None:
        return _pause(opened, core, first, until, as_json)
    if core is not None:
        return _one(opened, core, as_json)
    n_cores = opened.manifest.n_cores
    with console.progress("cores replayed", n_cores) as show:
        verdicts = replay_cores(opened, range(n_cores), jobs or worthwhile_processes(opened), show)
    return _report(opened, verdicts, as_json)


def _check(core: int | None, every: bool, jobs: int | None, first: int | None, until: int | None) -> None:
    if (core is None) != every:
        raise UsageError("say which core to replay", remedy="give --core K or --all, and not both")
    if every and (first is not None or until is not None):
        raise UsageError("--from and --until are for one core", remedy="give --core K")
    if jobs is not None and not every:
        raise UsageError("--jobs is for --all", remedy="leave --jobs out")
    if first is not None and until is None:
        raise UsageError("--from needs --until", remedy="give both")
    if first is not None and until is not None and first >= until:
        raise UsageError(
            "a range of instruction counts that holds nothing",
            found=f"--from {first} --until {until}",
            remedy="give --until a greater count than --from",
        )


def _one(recording: Recording, core: int, as_json: bool) -> int:
    from corebraid.cli.parallel import CoreVerdict
    from recorder.replay.core import replay_core

    total = (
        recording.manifest.instructions[core] if 0 <= core < len(recording.manifest.instructions) else None
    )
    with console.progress(f"replaying core {core}", total) as show:
        result = replay_core(recording, core, show)
    return _report(recording, [CoreVerdict(core, result)], as_json)


def _report(recording: Recording, verdicts: list[CoreVerdict], as_json: bool) -> int:
    if as_json:
        cores = [verdict_facts(verdict) for verdict in verdicts]
        console.facts({"recording": str(recording.path), "cores": cores})
    for verdict in verdicts:
        result = verdict.result
        if result is None:
            console.note(verdict.line)
        elif not as_json:
            ending = "" if result.complete else " (the log is incomplete: as far as it goes)"
            click.echo(
                f"core {result.core}: {result.count:,} instructions, {result.strata} strata, "
                f"{result.digests} digests compared: bit-exact{ending}"
            )
    return max((verdict.exit_code for verdict in verdicts), default=0)


def verdict_facts(verdict: CoreVerdict) -> dict[str, object]:
    """A verdict as JSON."""
    result = verdict.result
    return {
        "core": verdict.core,
        "bit_exact": result is not None,
        "complete": result.complete if result else None,
        "instructions": result.count if result else None,
        "strata": result.strata if result else None,
        "digests": result.digests if result else None,
        "contexts": result.contexts if result else None,
        "error": verdict.line or None,
    }


def _pause(recording: Recording, core: int, first: int | None, until: int, as_json: bool) -> int:
    from corebraid.cli.tracing import make_exporter
    from corebraid.names.devices import device_symbols
    from corebraid.names.program import GuestProgram
    from corebraid.names.selection import Selection
    from corebraid.names.threads import threads_of
    from recorder.replay.pause import PausedReplay

    replay = PausedReplay(recording, core, (until,), traced=first is not None)
    program = GuestProgram.of(recording.path, recording.manifest, device_symbols())
    wanted = Selection(first=first, until=until)
    seen = io.BytesIO()
    sink = seen if as_json else sys.stdout.buffer
    pieces = (rows[wanted.mask(rows)] for rows in replay.run())
    if first is None:
        for _ in pieces:
            pass
    else:
        format_name, n_cores = "jsonl" if as_json else "text", recording.manifest.n_cores
        out = make_exporter(format_name, sink, program, n_cores, threads_of(recording))
        for rows in pieces:
            out.write(rows, True)
        out.close()
        sink.flush()
    accesses = [json.loads(line) for line in seen.getvalue().splitlines()]
    _show_state(replay.state(until), program, accesses, as_json)
    return 0


def _show_state(state: CoreState, program: GuestProgram, accesses: list[object], as_json: bool) -> None:
    from corebraid.names.program import UNKNOWN, WRITTEN

    symbol, line = program.symbols.name(state.pc), program.lines.at(state.pc)
    text = program.instruction(state.pc)
    if text in (UNKNOWN, WRITTEN):
        # The core has these bytes only if it has executed here before.
        text = program.disassemble(state.code, state.pc) if state.code else "(outside memory)"
    if as_json:
        registers = {name: f"{value:#x}" for name, value in state.registers.items()}
        console.facts({
            "core": state.core, "count": state.count, "pc": f"{state.pc:#x}", "symbol": symbol or None,
            "line": line or None, "disassembly": text, "registers": registers, "accesses": accesses,
        })  # fmt: skip
        return
    place = " ".join(part for part in (symbol, line) if part)
    click.echo(f"core {state.core}, instruction {state.count}, pc {state.pc:#x} {place}: {text}")
    for cells in _register_table(state):
        click.echo("  ".join(cells).rstrip())


def _register_table(state: CoreState) -> Iterator[list[str]]:
    """Rows of 'name value'; the vector and floating-point registers that are 0 are left out."""
    narrow = [f"{name:<8}{value:<#18x}" for name, value in state.registers.items() if not _is_wide(name)]
    wide = [f"{name:<8}{value:<#34x}" for name, value in state.registers.items() if _is_wide(name) and value]
    for cells, columns in ((narrow, _COLUMNS), (wide, _COLUMNS // 2)):
        for start in range(0, len(cells), columns):
            yield cells[start : start + columns]


def _is_wide(name: str) -> bool:
    return name.startswith(("xmm", "st"))
