"""`corebraid races`: conflicting accesses that nothing in the program puts in order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corebraid.cli import console
from corebraid.cli.options import SECONDS, json_option, positive, recording_argument

if TYPE_CHECKING:
    from corebraid.study.races.found import Races


@click.command()
@recording_argument
@click.option(
    "--sync",
    multiple=True,
    metavar="DATA",
    help="Bytes that synchronise threads, as 'trace --addr' takes them: a flag, say, that is stored to and "
    "read by plain instructions. May be repeated.",
)
@click.option(
    "--spinning",
    is_flag=True,
    help="Words that threads have waited at, reading them over and over, synchronise too.",
)
@click.option(
    "--suppressions",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Do not tell these: lines of FUNCTION FUNCTION DATA REASON, the first three patterns.",
)
@click.option(
    "--no-default-suppressions",
    is_flag=True,
    help="Tell also what the C library and the loader do on purpose.",
)
@click.option(
    "--quick", is_flag=True, help="Do not look whether accesses could have come the other way round."
)
@click.option(
    "--budget",
    type=positive,
    default="200000",
    show_default=True,
    metavar="CUTS",
    help="Most cuts to explore in each search for that.",
)
@click.option(
    "--timeout",
    type=SECONDS,
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time for each.",
)
@click.option("--limit", type=positive, metavar="N", help="Tell the worst N.")
@json_option
def command(recording: Path, as_json: bool, **asked: Any) -> int:
    """Find the races of REC: accesses of the same bytes by different threads (cores, of firmware), at least
    one of them a write, without anything between them that puts them in order.

    What puts accesses in order: a thread's program order; its creation and its end; words that are changed by
    atomic instructions, used by futexes, declared as atomic or named by --sync, from a write to a read of its
    value; futex calls, pipes, sockets, signals; of firmware messages, interrupts and transfers. A store that
    unlocks a lock counts, an ordinary flag does not. docs/races.md says exactly what, and what that misses.

    REC must have an order ('corebraid order'). Each pair of places is told once, the worst first: with what
    they read and wrote, both call stacks, how often, and whether the order of the two mattered in this run.

    Exit code 0: none; 1: some.

    \b
    Examples:
      corebraid order REC
      corebraid races REC
      corebraid races REC --spinning
      corebraid races REC --spinning --sync search_over --limit 5
    """
    console.announce_compilation()
    from corebraid.api.info import open_recording
    from corebraid.api.races import races

    opened = open_recording(recording)
    console.note_missing_order(opened.manifest)
    with console.progress("accesses") as show:
        found = races(opened, progress=show, **asked)
    if as_json:
        console.facts(found.facts())
    else:
        for number, race in enumerate(found.races, 1):
            head, *lines = race.lines()
            click.echo("\n".join([f"{number}. {head}", *(f"   {line}" for line in lines)]))
        click.echo(_total(found))
    _notes(found)
    return int(bool(found.races))


def _total(found: Races) -> str:
    n = len(found.races)
    hidden = f", {found.hidden} suppressed" if found.hidden else ""
    return (
        f"{n or 'no'} race{'' if n == 1 else 's'}{hidden}: {found.accesses:,} accesses to {found.words:,} "
        f"words that several use, {found.synchronising:,} bytes of which synchronise"
    )


def _notes(found: Races) -> None:
    for hit in found.hits:
        if hit.races and not hit.suppression.where:
            console.note(f"suppressed {hit.races}: {hit.suppression.text} (built in)")
    for one in found.unused:
        console.note(f"{one.where}: this suppression hid nothing: {one.text}")
    if found.unordered:
        regions = ", ".join(map(str, found.unordered[:10]))
        console.note(
            f"regions without an order are passed over, and taken as putting all in order: {regions}"
        )
    if found.left_out:
        console.note(f"{found.left_out:,} accesses were not held against others: too many places use a byte")
    if found.truncated:
        console.note("the last accesses were left out: more to shared words than can be held")
