"""`corebraid check`: is a memory trace legal, one answer a trace."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corebraid.base.errors import UsageError
from corebraid.cli import console
from corebraid.cli.options import SECONDS, json_option

if TYPE_CHECKING:
    from solver.axe.answers import Checked
    from solver.axe.trace import Trace


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--model",
    type=click.Choice(["sc", "tso"], case_sensitive=False),
    required=True,
    help="sc: sequential consistency. tso: a store buffer for each thread.",
)
@click.option(
    "--timeout",
    type=SECONDS,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time for one trace; then it is UNDECIDED.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "search", "smt"]),
    default="auto",
    show_default=True,
    help="search: deduction and exact search. smt: z3 alone. auto: search, then smt for what it leaves.",
)
@click.option("--witness", is_flag=True, help="With --json: the order that was found for each OK.")
@click.option(
    "--hints/--no-hints", default=True, help="Whether comments may have hints; else they say nothing."
)
@click.option("--explain", is_flag=True, help="For each NO, a small set of lines that is illegal by itself.")
@json_option
def command(file: Path, model: str, witness: bool, as_json: bool, **asked: Any) -> int:
    """Say OK or NO for each trace of FILE ('-': standard input), one line each, in order.

    FILE is in the plain text format of the axe checker. Stores are known by the value they leave, not the
    one they overwrite, values may repeat, and every location is 0 at first. OK: some order of the accesses is
    legal under the model; it was found, and passed an independent checker. NO: there is none. UNDECIDED: not
    decided within --timeout. Comments with hints, as those of a recording's trace, can make OK quicker, and
    are never the ground of a NO: that no order meets them is said on stderr, and they are let go.

    \b
    A trace:                          Lines:
      # message passing                 T: M[A] := V              a store by thread T
      0: M[1] := 1                      T: M[A] == V              a load
      0: M[2] := 1                      T: { M[A] == V; M[A] := W }  an atomic
      1: M[2] == 1                      T: sync                   a fence
      1: M[1] == 0                      final M[A] == V           value at the end
      check                             check                     end of a trace

    Exit code 0: every trace is OK; 1: one is NO, or undecided; 2: a line that cannot be read. What stands
    before that line has been answered by then. The whole format: docs/axe.md.

    \b
    Examples:
      corebraid check traces.axe --model sc
      corebraid check traces.axe --model tso --explain
      corebraid trace REC --format axe | corebraid check - --model sc
    """
    if witness and not as_json:
        raise UsageError("--witness is printed as JSON only", remedy="give --json too")
    console.announce_compilation()
    from corebraid.api.check import check
    from corebraid.cli.check_progress import check_progress

    tally = _Tally()
    with check_progress(file) as shown:
        answers = check(file, model=model, progress=shown, **asked)
        if as_json:
            _print_json(answers, file, model.lower(), witness, tally)
        else:
            _print(answers, file, tally)
    if tally.undecided:
        console.note(
            f"{tally.undecided:,} of {tally.total:,} traces undecided; try a longer --timeout "
            "or another --engine"
        )
    return 1 if tally.no or tally.undecided else 0


class _Tally:
    """How many traces got which answer."""

    def __init__(self) -> None:
        self.ok = self.no = self.undecided = 0

    @property
    def total(self) -> int:
        """Traces answered."""
        return self.ok + self.no + self.undecided

    def count(self, one: Checked) -> None:
        """One more."""
        self.ok += one.word == "OK"
        self.no += one.word == "NO"
        self.undecided += one.word == "UNDECIDED"


def _called(trace: Trace, file: Path) -> str:
    return f"{file}:{trace.line}" + (f" ({trace.name})" if trace.name else "")


def _note(one: Checked, file: Path) -> None:
    """Say what the one word of an answer does not."""
    trace, answer = one.trace, one.answer
    if answer.reason:
        console.note(f"{_called(trace, file)}: undecided ({answer.reason})")
    if answer.hints == "contradicted" and answer.verdict.value != "illegal":
        console.note(
            f"{_called(trace, file)}: the hints in its comments contradict the trace: "
            "no legal order meets them, and they were not used"
        )


def _print(answers: Iterable[Checked], file: Path, tally: _Tally) -> None:
    for one in answers:
        tally.count(one)
        click.echo(one.word)
        _note(one, file)
        for line in one.reason.text(one.trace) if one.reason else ():
            click.echo(f"  {line}")


def _print_json(answers: Iterable[Checked], file: Path, model: str, witness: bool, tally: _Tally) -> None:
    """One JSON object, written trace by trace, so that none is held."""
    head = json.dumps({"file": str(file), "model": model})
    for number, one in enumerate(answers):
        tally.count(one)
        _note(one, file)
        text = json.dumps(one.facts(witness=witness))
        click.echo((",\n" if number else f'{head[:-1]}, "traces": [\n') + text, nl=False)
    counts = json.dumps({"ok": tally.ok, "no": tally.no, "undecided": tally.undecided})
    click.echo(f'\n], "counts": {counts}}}')
