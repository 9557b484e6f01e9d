"""`corebraid check`: is a memory trace legal, one answer a trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.cli import console
from corebraid.cli.options import json_option

if TYPE_CHECKING:
    from corebraid.cli.check_progress import CheckProgress
    from solver.axe.decide import Answer
    from solver.axe.explain import Explanation
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
    type=click.FloatRange(min=0.001, max=1e9),
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
def command(
    file: Path,
    model: str,
    timeout: float,
    engine: str,
    witness: bool,
    hints: bool,
    explain: bool,
    as_json: bool,
) -> int:
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
        from corebraid.base.errors import UsageError

        raise UsageError("--witness is printed as JSON only", remedy="give --json too")
    console.announce_compilation()
    from corebraid.cli.check_progress import check_progress
    from solver.axe.decide import decide
    from solver.axe.explain import explain as find_reason
    from solver.axe.text import read_traces

    model = model.lower()

    def decided(shown: CheckProgress) -> Iterator[tuple[Trace, Answer, Explanation | None]]:
        for trace in read_traces(file, shown.read, hints=hints):
            shown.begin(trace)
            answer = decide(trace, model, engine=engine, timeout_s=timeout, show=shown.step)
            reason = None
            if explain and answer.verdict.value == "illegal":
                shown.step("explanation", 0, 0)
                reason = find_reason(trace, model, budget_s=timeout)
            shown.pause()
            yield trace, answer, reason

    tally = _Tally()
    with check_progress(file) as shown:
        if as_json:
            _print_json(decided(shown), file, model, witness, tally)
        else:
            for trace, answer, reason in decided(shown):
                click.echo(tally.word(answer))
                _note(trace, answer, file)
                for line in reason.text(trace) if reason else ():
                    click.echo(f"  {line}")
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

    def word(self, answer: Answer) -> str:
        """Count an answer and name it."""
        if answer.verdict.value == "legal":
            self.ok += 1
            return "OK"
        if answer.verdict.value == "illegal":
            self.no += 1
            return "NO"
        self.undecided += 1
        return "UNDECIDED"


def _called(trace: Trace, file: Path) -> str:
    return f"{file}:{trace.line}" + (f" ({trace.name})" if trace.name else "")


def _note(trace: Trace, answer: Answer, file: Path) -> None:
    """Say what the one word of an answer does not."""
    if answer.reason:
        console.note(f"{_called(trace, file)}: undecided ({answer.reason})")
    if answer.hints == "contradicted" and answer.verdict.value != "illegal":
        console.note(
            f"{_called(trace, file)}: the hints in its comments contradict the trace: "
            "no legal order meets them, and they were not used"
        )


def _print_json(
    answers: Iterator[tuple[Trace, Answer, Explanation | None]],
    file: Path,
    model: str,
    witness: bool,
    tally: _Tally,
) -> None:
    """One JSON object, written trace by trace, so that none is held."""
    head = json.dumps({"file": str(file), "model": model})
    for number, (trace, answer, reason) in enumerate(answers):
        fields: dict[str, object] = {
            "name": trace.name or None,
            "line": trace.line,
            "verdict": tally.word(answer),
            "operations": trace.n_ops,
            "engine": answer.engine or None,
            "seconds": round(answer.seconds, 6),
        }
        if answer.reason:
            fields["reason"] = answer.reason
        if answer.hints:
            fields["hints"] = answer.hints
        _note(trace, answer, file)
        if witness and answer.verdict.value == "legal":
            fields["order"] = trace.lines[answer.order].tolist()
        if reason:
            fields["explanation"] = reason.facts(trace)
        click.echo((",\n" if number else f'{head[:-1]}, "traces": [\n') + json.dumps(fields), nl=False)
    counts = json.dumps({"ok": tally.ok, "no": tally.no, "undecided": tally.undecided})
    click.echo(f'\n], "counts": {counts}}}')
