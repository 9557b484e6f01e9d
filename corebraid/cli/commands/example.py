"""`corebraid example`: the guest programs that are installed with corebraid, to record."""

from __future__ import annotations

from pathlib import Path

import click

from corebraid.cli import console
from corebraid.cli.options import json_option


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-o",
    "directory",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the copies go; made if it is not there.  [default: the current directory]",
)
@json_option
def command(names: tuple[str, ...], directory: Path | None, as_json: bool) -> int:
    """List the guest programs that come with corebraid, or copy those NAMEd, with their C source.

    Firmware images run on the machine that 'corebraid record' makes of N cores; names that begin with
    linux/ are Linux programs, for a x86-64 Linux host. A file that is already there is not written over.

    \b
    Examples:
      corebraid example
      corebraid example uts
      corebraid example linux/bug_publication -o guests
    """
    from corebraid.base.errors import UsageError
    from corebraid.cli.examples import copy_examples, examples, find_example

    if not names:
        if directory is not None:
            raise UsageError("which example is to be copied?", remedy="name one; without -o all are listed")
        if as_json:
            console.facts({"examples": [one.facts() for one in examples()]})
        else:
            _list()
        return 0
    chosen = [find_example(name) for name in dict.fromkeys(names)]
    copies = copy_examples(chosen, directory or Path())
    if as_json:
        console.facts({"examples": [one.name for one in chosen], "files": [str(path) for path in copies]})
    else:
        for path in copies:
            click.echo(path)
    return 0


def _list() -> None:
    from corebraid.cli.examples import examples

    width = max(len(one.name) for one in examples())
    click.echo(f"{'name':<{width}} {'cores':<6}what it is; what it shows; what it prints")
    for one in examples():
        parts = [
            one.does,
            *([one.shows] if one.shows else []),
            *([f"prints '{one.prints}'"] if one.prints else []),
        ]
        click.echo(f"{one.name:<{width}} {one.cores:<6}{'; '.join(parts)}")
