"""`corebraid hunt`: record under schedule after schedule until a run fails, and keep that one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from corebraid.api.asked import MOST_PREEMPTIONS
from corebraid.base.errors import CorebraidError
from corebraid.base.wording import said
from corebraid.cli import console
from corebraid.cli.guest_options import (
    linux_options,
    machine_choices_of_hunts,
    program_arguments,
    read_input,
)
from corebraid.cli.guest_output import not_seen
from corebraid.cli.hunt_notes import note_not_found, note_threads
from corebraid.cli.newfile import check_new_file, new_file
from corebraid.cli.options import Whole, json_behind_option, positive, seconds, seed
from corebraid.cli.wording import TYPED
from corebraid.study.attempts import MIXED
from corebraid.study.conditions import Condition
from recorder.capture.guest import find_program, recording_name

if TYPE_CHECKING:
    from corebraid.study.attempts import Run
    from corebraid.study.findings import Finding, Hunted

_MOST_JOBS = 64
#: Exit code of a search in which no execution failed and nothing is proven.
_UNPROVEN = 4
#: Options that a recording does not have, or has from the run that was found.
_OWN = (
    "directory", "runs", "seed", "schedule", "until", "jobs", "limit", "sink", "explain", "reduce",
    "reduce_time", "bisect", "as_json", "exhaustive", "preemptions", "learn",
)  # fmt: skip


@click.command(context_settings={"allow_interspersed_args": False})
@program_arguments
@click.option(
    "-o",
    "directory",
    metavar="REC",
    type=click.Path(path_type=Path),
    help="Where the failing recording goes.  [default: PROGRAM.rec]",
)
@click.option(
    "--runs", type=Whole(1), metavar="N", help="Runs at most.  [default: 200; any number with --exhaustive]"
)
@click.option(
    "--exhaustive",
    is_flag=True,
    help="Make every execution once, instead of runs by chance: it ends with how many there are, all right, "
    "or with one that fails. --runs and --time-limit are then of all of it.",
)
@click.option(
    "--preemptions",
    type=Whole(0, MOST_PREEMPTIONS),
    metavar="N",
    help="With --exhaustive: only executions with at most N switches away from a thread that could go on.",
)
@click.option(
    "--seed",
    type=seed,
    default="0",
    show_default=True,
    help="Seed of the first run; the next ones have the numbers that follow. Of a Linux program it is the "
    "schedule's alone (--schedule-seed), and all runs have this one.",
)
@click.option(
    "--schedule",
    default=MIXED,
    show_default=True,
    metavar="POLICY",
    help="chaos, pct:D, late:D, random, or mixed: chaos and pct:2 to pct:4 in turn (late:3 and late:5, too, "
    "where threads wait with timeouts); cover: every second run tries an "
    "order of two accesses that no run before it has shown (Linux programs).",
)
@click.option(
    "--until",
    multiple=True,
    metavar="CONDITION",
    help="What to look for: exit!=0, exit==N, fault (killed by a signal), deadlock, idle (it waits for "
    "work from outside), timeout (it does not end), output~REGEX; several times: any of them.  [default: "
    "exit!=0, fault, deadlock; idle where the program mostly ends]",
)
@click.option(
    "--jobs",
    type=Whole(1, _MOST_JOBS),
    metavar="N",
    help="Processes; which run is found does not depend on it.  [default: one for each processor]",
)
@click.option(
    "--limit",
    type=positive,
    metavar="N",
    help="Instructions after which a run is taken not to end.  [default: 50 times what a first run took, "
    "none if that one is too long to be run to its end]",
)
@click.option(
    "--input", "source", metavar="FILE", help="What the guest reads as its standard input, in each run."
)
@click.option(
    "--output",
    "sink",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where what the found run prints goes, instead of stdout.",
)
@click.option(
    "--no-explain", "explain", flag_value=False, default=True, help="Do not look for suspicious accesses."
)
@click.option(
    "--no-reduce",
    "reduce",
    flag_value=False,
    default=True,
    help="Do not look for the smallest schedule that fails the same way (REC.reduced).",
)
@click.option(
    "--reduce-time",
    type=seconds,
    default="20",
    show_default=True,
    metavar="SECONDS",
    help="For the runs that takes, at most.",
)
@click.option(
    "--bisect",
    metavar="GOOD",
    help="A recording of a run that passes, or none for the run without preemptions: name the one switch "
    "between it and the failing run that makes it fail.",
)
@machine_choices_of_hunts
@linux_options
@json_behind_option
def command(
    program: str,
    arguments: tuple[str, ...],
    directory: Path | None,
    runs: int | None,
    until: tuple[str, ...],
    exhaustive: bool,
    preemptions: int | None,
    source: str | None,
    sink: Path | None,
    explain: bool,
    reduce: bool,
    reduce_time: float,
    bisect: str | None,
    as_json: bool,
    **asked: Any,
) -> int:
    """Record PROGRAM under schedule after schedule until a run fails, and keep the recording of that run.

    Each run has a seed of its own. Recordings of runs that do not fail are deleted, and what they print is
    not shown. Of the run that is found the guest's output is shown, with the command that records it again
    and what looks suspicious in it, and it is reduced: REC.reduced is a recording that fails the same way
    with the fewest preemptions that were found, which are shown. A first run, which is not counted, shows
    which memory threads share; schedules switch threads right before accesses to it, so that runs are on the
    bus of lines.

    With --exhaustive every execution is made once, of a small program; under --model tso also every moment
    at which a buffered store may commit (docs/exhaustive.md).

    Exit code 0: found; 1: not in so many runs, or, with --exhaustive, all executions are right; 4: a search
    in which none failed proves nothing.

    \b
    Examples:
      corebraid example bug_dcl linux/bug_publication linux/bug_lock_order linux/bug_lost_update
      corebraid example linux/small_races
      corebraid hunt -o REC --no-reduce -- ./bug_publication
      corebraid hunt --no-reduce --runs 1000 --until deadlock --schedule pct:3 -- ./bug_lock_order
      corebraid hunt --until 'output~found [0-3]' --jobs 8 -- ./bug_lost_update
      corebraid hunt --no-reduce --schedule cover -- ./bug_publication
      corebraid hunt --cores 2 bug_dcl.elf
      corebraid hunt --exhaustive --preemptions 1 -- ./small_races bad_aba
      corebraid hunt --exhaustive --model tso --cores 2 -o TSO -- ./small_races peterson
    """
    from corebraid.api.hunt import hunt
    from corebraid.study.hunting import check_free
    from corebraid.study.smallest.bisected import good_manifest
    from corebraid.study.smallest.kept import reduced_place

    for text in until:
        Condition.parse(text)
    find_program(program)
    if sink is not None:
        check_new_file(sink, "--output")
    if bisect is not None:
        good_manifest(bisect)
    reduce = reduce and not exhaustive
    if reduce:
        check_free(reduced_place(directory or recording_name(Path(program))))
    console.announce_compilation()
    with ExitStack() as shown:
        show: console.Advance = _ignore
        branches: console.Advance = _ignore
        piped = False

        def read() -> bytes:
            nonlocal show, branches, piped
            data = read_input(source)
            piped = source is None and data != b""
            if exhaustive:
                show, branches = shown.enter_context(console.progress_of_search())
            else:
                show = shown.enter_context(console.progress("runs", runs or 200))
            return data

        hunted = hunt(
            program, directory, arguments=arguments, runs=runs, until=until, input=read, explain=False,
            exhaustive=exhaustive, preemptions=preemptions, progress=lambda done: show(done), reduce=False,
            bisect=bisect if exhaustive else None, branches=lambda left: branches(left),
            note=console.note, **asked,
        )  # fmt: skip
    if hunted.searched is not None and hunted.finding is None:
        return _show_search(hunted, as_json=as_json)
    if hunted.finding is None:
        note_not_found(hunted)
        if as_json:
            console.facts(hunted.facts())
        return 1
    _print_output(hunted.finding.run, sink)
    try:
        for known in _looked_into(hunted, reduce_time if reduce else None, bisect, explain=explain):
            hunted = known
    except (KeyboardInterrupt, CorebraidError):
        # What was found is not lost.
        _show(hunted, program, arguments, as_json)
        raise
    _show(hunted, program, arguments, as_json)
    note_threads(hunted)
    if hunted.hidden:
        console.note(not_seen(hunted.hidden))
    if piped:
        console.note("once more: with the same standard input")
    return 0


def _looked_into(
    hunted: Hunted, reduce_time: float | None, bisect: str | None, *, explain: bool
) -> Iterator[Hunted]:
    """What was found, with more and more that is known of it. reduce_time: None: it is not reduced."""
    if reduce_time is not None:
        with console.progress("runs of smaller schedules") as advance:
            hunted = hunted.reduced(reduce_time, advance)
        yield hunted
        assert hunted.finding is not None
        if hunted.finding.reduction is not None and hunted.finding.reduction.interrupted:
            raise KeyboardInterrupt
    if bisect is not None:
        with console.progress("runs between the two") as advance:
            hunted = hunted.bisected(bisect, reduce_time or _BISECT_TIME, advance)
        yield hunted
    if explain:
        from corebraid.study.causes.passing import COMPARED

        with console.progress("runs to compare with", COMPARED) as advance:
            yield hunted.explained(advance)


#: Seconds for the runs of a bisection where nothing is reduced.
_BISECT_TIME = 20.0


def _show_search(hunted: Hunted, *, as_json: bool) -> int:
    """Of a search in which no execution failed."""
    from corebraid.study.exhaustive.claims import lines_of, nothing_proven

    assert hunted.searched is not None
    if as_json:
        console.facts(hunted.facts())
    else:
        for line in lines_of(hunted.searched):
            click.echo(said(line, TYPED))
    console.note(f"nothing found in {hunted.speed.runs} runs ({hunted.speed})")
    if hunted.searched.unfinished:
        console.note(nothing_proven(hunted.searched))
        return _UNPROVEN
    return 1


def _ignore(_: int) -> None:
    pass


def _show(hunted: Hunted, program: str, arguments: tuple[str, ...], as_json: bool) -> None:
    assert hunted.finding is not None
    finding = hunted.finding
    finding = replace(finding, again=_again(program, arguments, finding, finding.recording, finding.run))
    if (small := finding.reduction) is not None and small.recording is not None and small.run is not None:
        again = _again(program, arguments, finding, small.recording, small.run)
        finding = replace(finding, reduction=replace(small, again=again))
    if isinstance(finding.unexplained, CorebraidError):
        console.note(f"no explanation: {finding.unexplained.line(TYPED)}")
    if as_json:
        console.facts(replace(hunted, finding=finding).facts(TYPED))
        return
    for line in finding.lines(TYPED):
        click.echo(line)


def _again(program: str, arguments: tuple[str, ...], finding: Finding, recording: Path, run: Run) -> str:
    """The command that makes the recording of a run again, beside it, with the options as they were given."""
    words = ["corebraid", "record", "-o", f"{recording}.again", *_given(click.get_current_context())]
    tried = run.attempt
    words += ["--schedule", tried.schedule, "--seed", str(tried.seed)]
    words += [] if tried.schedule_seed is None else ["--schedule-seed", str(tried.schedule_seed)]
    words += ["--bus", tried.bus] if tried.bus else []
    words += ["--model", "tso"] if finding.buffered else []
    words += ["--learn", str(finding.learning)] if finding.learning != 1 else []
    if finding.limit:
        words += ["--limit", str(finding.limit)]
    return shlex.join([*words, "--", program, *arguments])


def _given(context: click.Context) -> list[str]:
    """The options that were given, of those that a recording has too."""
    words: list[str] = []
    # Of a search it is no run's.
    own = (*_OWN, "time_limit") if context.params["exhaustive"] else _OWN
    for option in context.command.params:
        name = option.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not given or name in own or not isinstance(option, click.Option):
            continue
        value = context.params[name]
        for one in value if option.multiple else (value,):
            words += [option.opts[0]] if option.is_flag else [option.opts[0], str(one)]
    return words


def _print_output(run: Run, sink: Path | None) -> None:
    """What the guest printed: its standard output, or all of it to a file."""
    with new_file(sink, "--output") if sink else nullcontext(sys.stdout.buffer) as out:
        for is_error, data in run.printed:
            (sys.stderr.buffer if is_error and sink is None else out).write(data)
        out.flush()
        last = run.printed[-1][1] if run.printed else b""
        if sink is None and last and not last.endswith(b"\n"):
            out.write(b"\n")
            out.flush()
