"""`corebraid crosscheck`: every engine that can order a recording does, and all are held against each
other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.base.errors import UsageError
from corebraid.cli import console
from corebraid.cli.options import json_option, recording_argument

if TYPE_CHECKING:
    from corebraid.study.whole_runs import WholeRun
    from recorder.files.reader import Recording
    from solver.passes.crosscheck import Contender, CrossCheck, Row

_MOST_ROWS = 60


@click.command()
@recording_argument
@click.option(
    "--engines",
    metavar="NAMES",
    help="Which engines, with commas; the first is what the others are compared with.  "
    "[default: auto, and every one that REC has evidence for]",
)
@click.option(
    "--region-timeout",
    type=click.FloatRange(min=0.001, max=1e9),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time that an engine may take for one region; then it stays undecided.",
)
@json_option
def command(recording: Path, engines: str | None, region_timeout: float, as_json: bool) -> int:
    """Order REC by every engine that can, and compare what they say.

    Every order passes the independent checker. Reads-from maps (which write each access found) are compared:
    identical, or equivalent, which means that an access found another write of the same value. Engines that
    replay rather than order (opr, rpc) are checked as a whole.

    Exit code 1: engines disagree, or the checker refused an order; each case is named down to the event.

    \b
    Examples:
      corebraid example uts
      corebraid record -o REC --evidence all --cores 4 uts.elf
      corebraid crosscheck REC
      corebraid crosscheck REC --engines cut,linkage
    """
    console.announce_compilation()
    from corebraid.study.engines import whole_runs
    from recorder.files.reader import Recording
    from recorder.replay.traces import RecordingTraces
    from solver.passes.crosscheck import crosscheck

    opened = Recording.open(recording)
    console.note_missing_order(opened.manifest)
    names = _names(opened, engines)
    contenders = _contenders(opened, names, region_timeout)
    with console.progress("regions cross-checked") as show:
        found = crosscheck(RecordingTraces(opened), contenders, show)
    wholes = whole_runs(opened, names)
    wrong = found.disagreements + [f"engine {one.engine}: {why}" for one in wholes for why in one.wrong]
    if as_json:
        console.facts(_facts(opened, names, found, wholes, wrong))
    else:
        _show(opened, names, found, wholes)
        for line in wrong:
            click.echo(f"disagreement: {line}")
        if not wrong:
            click.echo("no disagreement")
    return 1 if wrong else 0


def _names(recording: Recording, asked: str | None) -> list[str]:
    from corebraid.study.engines import ENGINES
    from recorder.files.reader import no_evidence

    if asked is None:
        return ["auto", *(row.name for row in ENGINES.values() if row.stream and row.applies(recording))]
    names = [name.strip() for name in asked.split(",") if name.strip()]
    if not names or len(set(names)) != len(names) or any(name not in ENGINES for name in names):
        raise UsageError(
            "no such engines",
            expected=f"different ones of {', '.join(ENGINES)}",
            found=asked,
            remedy="choose other --engines",
        )
    for row in map(ENGINES.__getitem__, names):
        if not row.applies(recording):
            raise no_evidence(recording, row.stream)
    return names


def _contenders(recording: Recording, names: list[str], timeout_s: float) -> list[Contender]:
    from corebraid.study.engines import ENGINES, evidence_engine
    from solver.passes.answers import Options
    from solver.passes.crosscheck import Contender

    made = []
    for name in names:
        if ENGINES[name].orders:
            options = Options(name, timeout_s, evidence=evidence_engine(recording, name))
            options.check()
            made.append(Contender(name, options))
    return made


def _bytes_of(recording: Recording, engine: str) -> int:
    """Bytes of what the engine needs besides the cores' logs; of the others those logs."""
    from corebraid.study.engines import ENGINES
    from recorder.files.evidence_names import evidence_log

    if stream := ENGINES[engine].stream:
        return (recording.path / evidence_log(stream)).stat().st_size
    cores = range(recording.manifest.n_cores)
    return sum(recording.core_log_path(core).stat().st_size for core in cores)


def _by_engine(names: list[str], found: CrossCheck) -> dict[str, list[Row]]:
    return {name: [row for row in found.rows if row.engine == name] for name in names}


def _sums(rows: list[Row]) -> dict[str, object]:
    said = [row.agrees for row in rows]
    return {
        "regions": len(rows),
        "decided": sum(row.verdict.value != "undecided" for row in rows),
        "legal": sum(row.verdict.value == "legal" for row in rows),
        "checked": sum(row.checked for row in rows),
        "identical": said.count("identical"),
        "equivalent": said.count("equivalent"),
        "differs": said.count("differs"),
        "seconds": round(sum(row.seconds for row in rows), 6),
    }


def _facts(
    recording: Recording, names: list[str], found: CrossCheck, wholes: list[WholeRun], wrong: list[str]
) -> dict[str, object]:
    by = _by_engine(names, found)
    return {
        "recording": str(recording.path),
        "engines": {
            name: {**_sums(rows), "bytes": _bytes_of(recording, name)} for name, rows in by.items() if rows
        },
        "whole_runs": {
            one.engine: {**one.facts, "bytes": _bytes_of(recording, one.engine)} for one in wholes
        },
        "by_region": [
            {
                "region": row.region,
                "engine": row.engine,
                "verdict": row.verdict.value,
                "checked": row.checked,
                "agrees": row.agrees,
                "seconds": round(row.seconds, 6),
                "why": row.why or None,
            }
            for row in found.rows
        ],
        "disagreements": wrong,
    }


def _show(recording: Recording, names: list[str], found: CrossCheck, wholes: list[WholeRun]) -> None:
    click.echo(f"{'region':>7} {'engine':<9} {'verdict':<10} {'checked':<8} {'agrees':<11} {'seconds':>9}")
    for row in found.rows[:_MOST_ROWS]:
        click.echo(
            f"{row.region:>7} {row.engine:<9} {row.verdict.value:<10} {'yes' if row.checked else 'no':<8} "
            f"{row.agrees:<11} {row.seconds:>9.4f}{'  ' + row.why if row.why else ''}"
        )
    if len(found.rows) > _MOST_ROWS:
        click.echo(f"{'...':>7} {len(found.rows) - _MOST_ROWS} more rows (--json has all)")
    for name, rows in _by_engine(names, found).items():
        if rows:
            sums = _sums(rows)
            click.echo(
                f"{'all':>7} {name:<9} {sums['decided']} of {sums['regions']} decided, {sums['checked']} "
                f"checked, {sums['identical']} identical, {sums['equivalent']} equivalent, "
                f"{sums['differs']} different; {sums['seconds']:.4f} s; {_bytes_of(recording, name):,} bytes"
            )
    for one in wholes:
        click.echo(f"{'all':>7} {one.engine:<9} {one.text}; {_bytes_of(recording, one.engine):,} bytes")
