"""`corebraid record`: run a program and record every core."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corebraid.cli import console
from corebraid.cli.guest_options import (
    evidence_choices,
    linux_options,
    machine_choices,
    program_arguments,
    read_input,
)
from corebraid.cli.guest_output import GuestOutput, interruptible, not_seen
from corebraid.cli.kept import kept_of
from corebraid.cli.newfile import new_file
from corebraid.cli.options import json_behind_option, positive, seed
from corebraid.cli.wording import TYPED
from emu.bus.names import BUSES
from emu.linux.files.absent import is_systems
from recorder.capture.guest import find_program

if TYPE_CHECKING:
    from corebraid.study.recorded import Recorded
    from recorder.files.manifest import Manifest

_INTERRUPTED = 130
#: Switches that did not take place, of which so many are named.
_MOST_MISSED = 4


@click.command(context_settings={"allow_interspersed_args": False})
@program_arguments
@click.option(
    "-o",
    "directory",
    metavar="REC",
    type=click.Path(path_type=Path),
    help="The recording to make: a directory that must not exist yet.  [default for Linux: PROGRAM.rec]",
)
@click.option(
    "--seed",
    type=seed,
    default="0",
    show_default=True,
    help="Decides scheduling and devices; the same seed gives the same recording, bit for bit.",
)
@click.option(
    "--schedule",
    default="random",
    show_default=True,
    metavar="POLICY",
    help="round-robin, random, chaos, pct:D (priorities with D-1 change points; both find bugs), "
    "late:D (the same; at a change point the next timeout is over), switches:LIST (a thread runs until it "
    "stops by itself, or until one of these: docs/hunt.md), or a file with lines 'CORE INSTRUCTIONS'.",
)
@click.option(
    "--schedule-seed",
    type=seed,
    metavar="N",
    help="Decides schedules in place of --seed from where there are two threads or cores to choose from; "
    "what comes before is the same for all N.",
)
@click.option(
    "--slice",
    type=positive,
    metavar="N",
    help="Longest slice of round-robin and random, in instructions.  [default: 10000]",
)
@click.option(
    "--bus",
    type=click.Choice(BUSES),
    help="page: cores have rights to whole pages, and run at the emulator's own speed. mesi: the exact model "
    "of lines, which sees every access.  [default: page; mesi with --model tso, a finite --cache, strata by "
    "downgrades, --schedule pct:D, chaos, switches or a file, and evidence of accesses]",
)
@machine_choices
@evidence_choices
@click.option(
    "--search-slices",
    is_flag=True,
    help="Search evidence slices for their orders while the program runs, in a process of its own, and keep "
    "what is found in REC/slices.found.",
)
@click.option(
    "--checkpoint",
    default="auto",
    show_default=True,
    metavar="N",
    help="Instructions of a core after which the next stratum is a checkpoint, from which replay and trace "
    "can begin; auto: some 16 million, more where much memory changes; none.",
)
@click.option(
    "--last",
    metavar="N",
    help="Keep what came last of a long run: at least N instructions over all cores (100M; k, m and g for "
    "thousands and so on), or as many seconds of recording (60s). What is kept is a recording of its own, "
    "which begins there.",
)
@click.option("--limit", type=positive, metavar="N", help="Stop after N instructions over all cores.")
@click.option(
    "--input",
    "source",
    metavar="FILE",
    help="What the guest reads as its standard input, read whole before it starts; '-' is stdin.  "
    "[default: stdin, unless it is a terminal]",
)
@click.option(
    "--output",
    "sink",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where what the guest prints goes, instead of stdout.",
)
@linux_options
@click.option("--pass-exit-code", is_flag=True, help="Exit with the guest's own exit code.")
@json_behind_option
def command(
    program: str,
    arguments: tuple[str, ...],
    source: str | None,
    sink: Path | None,
    pass_exit_code: bool,
    as_json: bool,
    **asked: Any,
) -> int:
    """Run PROGRAM, a Linux program or a firmware image, on a machine of some cores, and record it.

    What the guest prints goes to stdout as it is; messages of corebraid go to stderr. With --json one JSON
    object follows the guest's output on stdout, on lines of its own (use --output to keep them apart).

    A guest that fails (a fault, or all cores halted) exits with 3; its recording is complete up to there.
    A guest that merely exits with a code of its own exits with 0 unless --pass-exit-code is given. Ctrl-C
    leaves a recording that opens and replays as far as it was written.

    \b
    Examples:
      corebraid example uts radix input_echo bug_aba litmus fig2
      corebraid record -o REC --cores 4 uts.elf
      corebraid record -o REC --cache 32k:4:32 --strata cycles:10000 radix.elf
      echo hello | corebraid record -o REC --cores 1 input_echo.elf
      corebraid record -o REC --bus mesi radix.elf
      corebraid record -o REC --schedule pct:3 --seed 7 bug_aba.elf
      corebraid record -o REC --model tso --cores 2 litmus.elf
      corebraid record -o REC --evidence linkage --cores 4 fig2.elf
      corebraid record -o REC --evidence slices --search-slices litmus.elf
      corebraid record -o REC -- pigz -p 4 -c big.txt > big.txt.gz
      corebraid record -o REC --last 10M --cores 4 uts.elf
      corebraid record -o REC --env LANG=C.UTF-8 --bind data:/data python3 script.py
    """
    from corebraid.api.record import record

    find_program(program)
    console.announce_compilation()
    with new_file(sink, "--output") if sink else nullcontext(sys.stdout.buffer) as out, ExitStack() as held:
        output, error = GuestOutput(out), GuestOutput(sys.stderr.buffer)
        interrupted: Callable[[], bool] = _never
        show: console.Advance = _ignore

        def read() -> bytes:
            nonlocal interrupted, show
            data = read_input(source)
            # Ctrl-C ends the reading at once; from here on it ends the recording, between two slices.
            interrupted = held.enter_context(interruptible())
            show = held.enter_context(console.progress("recording", asked["limit"]))
            return data

        def progress(instructions: int) -> None:
            show(instructions)
            if interrupted():
                raise KeyboardInterrupt

        recorded = record(
            program, arguments=arguments, input=read, output=output, error=error, progress=progress, **asked
        )
    error.end_line()
    _tell(recorded)
    if as_json:
        output.end_line()
        console.facts(recorded.facts())
    return _exit_code(recorded, output, pass_exit_code)


def _never() -> bool:
    return False


def _ignore(_: int) -> None:
    pass


def _exit_code(recorded: Recorded, output: GuestOutput, pass_exit_code: bool) -> int:
    """Raises GuestFault if the guest failed, UsageError where what it printed could not be written."""
    end = recorded.end
    if failure := recorded.failure():
        for line in recorded.waits():
            console.note(line)
        for line in recorded.stack.short() if recorded.stack else ():
            console.note(line)
        if not pass_exit_code or end.exit_code is None:
            raise failure
        console.note(failure.line())
    output.check(recorded.directory)
    if end.reason == "idle":
        for line in recorded.waits():
            console.note(line)
        console.note(
            "the guest waits for work from outside, and none comes: it ends here, and has not failed"
        )
    if end.reason == "interrupted":
        return _INTERRUPTED
    return end.exit_code if pass_exit_code and end.exit_code is not None else 0


def _never_came(missed: tuple[str, ...]) -> str:
    """Of switches."""
    listed = ", ".join(missed[:_MOST_MISSED]) + (", ..." if len(missed) > _MOST_MISSED else "")
    return (
        f"{len(missed)} switch(es) of the schedule did not take place, since the thread never came there or "
        f"the other could not run: {listed}"
    )


def _tell(recorded: Recorded) -> None:
    """One line about a recording, and before it one about system calls that nobody served."""
    if recorded.unknown:
        calls = ", ".join(f"{name} ({n})" for name, n in sorted(recorded.unknown.items()))
        console.note(f"system calls that are not emulated, answered with ENOSYS: {calls}")
    # What every program looks for is of interest where one fails.
    if recorded.hidden and (recorded.end.exit_code != 0 or not is_systems(recorded.hidden[0])):
        console.note(not_seen(recorded.hidden))
    if recorded.because:
        options = ", ".join(map(TYPED, recorded.because))
        console.note(f"--bus mesi, as is needed for {options} (docs/pages.md)")
    if recorded.missed:
        console.note(_never_came(recorded.missed))
    manifest, end = recorded.manifest, recorded.end
    if approximated := manifest.totals.get("approximated"):
        console.note(
            "approximations, which differ between processors too, were computed by some of "
            f"{str(approximated).replace(' ', ', ')} (docs/processor.md)"
        )
    if omitted := manifest.totals.get("omitted"):
        console.note(f"the guest asked for what is not emulated: {omitted} (docs/processor.md)")
    instructions = kept_of(manifest)
    log_bytes = sum(manifest.files[f"core-{core}.log"].bytes for core in range(manifest.n_cores))
    ended = f"guest exit code {end.exit_code}" if end.exit_code is not None else f"ended: {end.reason}"
    console.note(
        f"recorded {manifest.program.name} on {manifest.n_cores} core(s) in {recorded.directory}: "
        f"{instructions} instructions, {manifest.totals['strata']} strata, {log_bytes:,} bytes of core logs"
        f"{_evidence_bytes(manifest)}{_checkpoint_bytes(recorded)}; {ended}"
    )
    if recorded.search is not None:
        console.note(recorded.search.line())


def _checkpoint_bytes(recorded: Recorded) -> str:
    from recorder.files.manifest import checkpoint_log

    paths = (recorded.directory / checkpoint_log(core) for core in range(recorded.manifest.n_cores))
    total = sum(path.stat().st_size for path in paths if path.exists())
    return f", {total:,} of checkpoints" if total else ""


def _evidence_bytes(manifest: Manifest) -> str:
    from recorder.files.evidence_names import evidence_log

    sizes = [(name, manifest.files[evidence_log(name)].bytes) for name in manifest.evidence]
    return "".join(f", {size:,} of evidence {name}" for name, size in sizes)
