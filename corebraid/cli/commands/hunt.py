"""`corebraid hunt`: record under schedule after schedule until a run fails, and keep that one."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from corebraid.base.errors import GuestFault, UsageError
from corebraid.base.memory import ADDRESS_SPACE
from corebraid.cli import console
from corebraid.cli.finding import Finding, Speed, suspicions_of
from corebraid.cli.linux_guest import LinuxOptions, find_program, guest_spec, linux_options, recording_name
from corebraid.cli.machine_options import (
    check_firmware,
    looks_like_linux,
    machine_choices,
    machine_options,
    with_input,
    with_model,
)
from corebraid.cli.newfile import check_new_file, new_file
from corebraid.cli.options import count, json_option, positive
from corebraid.study.conditions import DEFAULT, Condition
from corebraid.study.hunting import MIXED, Subject, attempts, hunt, keep, prepare, scratch
from recorder.files.evidence_names import DEFAULT_EVIDENCE

if TYPE_CHECKING:
    from corebraid.study.hunting import Run

_MOST_JOBS = 64
#: Options that a recording does not have, or has from the run that was found.
_OWN = (
    "directory", "runs", "seed", "schedule", "conditions", "jobs", "limit", "sink", "explain", "as_json",
)  # fmt: skip


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("program")
@click.argument("arguments", nargs=-1, metavar="[ARGS]...", type=click.UNPROCESSED)
@click.option(
    "-o",
    "directory",
    metavar="REC",
    type=click.Path(path_type=Path),
    help="Where the failing recording goes.  [default: PROGRAM.rec]",
)
@click.option("--runs", type=click.IntRange(1), default=200, show_default=True, help="Runs at most.")
@click.option(
    "--seed",
    type=count,
    default="0",
    show_default=True,
    help="Seed of the first run; the next ones have the numbers that follow.",
)
@click.option(
    "--schedule",
    default=MIXED,
    show_default=True,
    metavar="POLICY",
    help="chaos, pct:D, random, or mixed: chaos and pct:2 to pct:4 in turn.",
)
@click.option(
    "--until",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="What to look for: exit!=0, exit==N, fault (killed by a signal), deadlock, timeout (it does not "
    "end), output~REGEX; several times: any of them.  [default: exit!=0, fault, deadlock]",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, _MOST_JOBS),
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
@machine_choices
@linux_options
@json_option
def command(
    program: str,
    arguments: tuple[str, ...],
    directory: Path | None,
    runs: int,
    seed: int,
    cores: int,
    schedule: str,
    conditions: tuple[str, ...],
    jobs: int | None,
    model: str,
    store_buffer: int | None,
    cache: str,
    strata: str,
    memory: int | None,
    limit: int | None,
    source: str | None,
    sink: Path | None,
    explain: bool,
    as_json: bool,
    guest: str,
    **linux: Any,
) -> int:
    """Record PROGRAM under schedule after schedule until a run fails, and keep the recording of that run.

    Each run has a seed of its own. Recordings of runs that do not fail are deleted, and what they print is
    not shown. Of the run that is found the guest's output is shown, with the command that records it again
    and what looks suspicious in it. A first run, which is not counted, shows which memory threads share;
    schedules switch threads right before accesses to it.

    Exit code 0: found; 1: not in so many runs.

    \b
    Examples:
      corebraid example bug_dcl linux/bug_publication linux/bug_lock_order linux/bug_lost_update
      corebraid hunt -o REC -- ./bug_publication
      corebraid hunt --runs 1000 --until deadlock --schedule pct:3 -- ./bug_lock_order
      corebraid hunt --until 'output~found [0-3]' --jobs 8 -- ./bug_lost_update
      corebraid hunt --cores 2 bug_dcl.elf
    """
    from corebraid.cli.parallel import usable_processors

    wanted = tuple(Condition.parse(text) for text in conditions or DEFAULT)
    path = find_program(program)
    chosen = LinuxOptions(**linux)
    _check(schedule, chosen)
    if seed + runs > 1 << 64:
        raise UsageError("seeds are below 2**64", found=f"{seed} and {runs} runs", remedy="lower --seed")
    if sink is not None:
        check_new_file(sink, "--output")
    console.announce_compilation()
    options = machine_options(cores, seed, "chaos", None, cache, strata, memory, limit)
    options = with_model(with_input(options, source), model, store_buffer)
    options = replace(options, evidence=DEFAULT_EVIDENCE)
    if guest == "linux" or (guest == "auto" and looks_like_linux(path)):
        spec = guest_spec(path, program, arguments, memory, options.input, chosen)
        options = replace(options, memory_bytes=ADDRESS_SPACE)
        subject = Subject(path, options, spec, chosen.facts(), chosen.time_limit)
    else:
        check_firmware(arguments, chosen)
        subject = Subject(path, options, None, {}, chosen.time_limit)
    directory = directory or recording_name(path)
    began = time.monotonic()
    with scratch(directory) as place:
        subject = prepare(subject)
        _check_patience(subject, wanted)
        tries = attempts(runs, seed, schedule)
        with console.progress("runs", runs) as show:
            run, done = hunt(subject, tries, wanted, place, jobs or usable_processors(), show)
        if run is not None and run.held:
            keep(place, run, directory)
    speed = Speed(done, time.monotonic() - began)
    if run is None:
        console.note(f"not found in {done} runs ({speed}); --runs, --seed, --cores or --schedule may help")
        if as_json:
            console.facts({"found": False, "runs": done, "seconds": round(speed.seconds, 3)})
        return 1
    if run.refused:
        raise GuestFault(f"run {run.attempt.number + 1} cannot be emulated: {run.refused}")
    again = _again(program, arguments, directory, subject, run)
    _print_output(run, sink)
    finding = Finding(directory, run, again, speed, suspicions_of(directory) if explain else None)
    if as_json:
        console.facts(finding.facts())
    else:
        for line in finding.lines():
            click.echo(line)
    return 0


def _check(schedule: str, chosen: LinuxOptions) -> None:
    from emu.schedule.scheduler import make_scheduler

    if schedule not in (MIXED, "random"):
        if not (schedule == "chaos" or schedule.startswith("pct:")):
            raise UsageError(
                "a hunt has a schedule that the seed decides", expected="mixed, chaos, pct:D or random",
                found=repr(schedule),
            )  # fmt: skip
        make_scheduler(schedule, 0, 1)
    changing = [text for text in chosen.binds if text.endswith(":rw")]
    if chosen.keep_writes is not None or changing:
        raise UsageError(
            "runs of a hunt must not change what the next one finds",
            found=" ".join(["--keep-writes"] * (chosen.keep_writes is not None) + changing),
            remedy="leave it out; the command that a hunt prints may be given it",
        )


def _check_patience(subject: Subject, wanted: tuple[Condition, ...]) -> None:
    """Raises UsageError where nothing can tell that a run takes too long, though that is looked for."""
    if subject.options.limit or subject.time_limit is not None:
        return
    if any(condition.text == "timeout" for condition in wanted):
        raise UsageError(
            "nothing tells when a run takes too long: the first one was broken off before its end",
            remedy="give --limit or --time-limit",
        )
    console.note("the first run was broken off before its end: runs have no limit (--limit, --time-limit)")


def _again(program: str, arguments: tuple[str, ...], directory: Path, subject: Subject, run: Run) -> str:
    """The command that makes the same recording again, beside this one."""
    words = ["corebraid", "record", "-o", f"{directory}.again", *_given(click.get_current_context())]
    words += ["--schedule", run.attempt.schedule, "--seed", str(run.attempt.seed)]
    if subject.options.limit:
        words += ["--limit", str(subject.options.limit)]
    return shlex.join([*words, "--", program, *arguments])


def _given(context: click.Context) -> list[str]:
    """The options that were given, of those that a recording has too."""
    words: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not given or name in _OWN or not isinstance(option, click.Option):
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
