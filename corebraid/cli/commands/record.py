"""`corebraid record`: run a program and record every core."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from corebraid.base.errors import GuestFault, UsageError
from corebraid.base.memory import ADDRESS_SPACE
from corebraid.cli import console
from corebraid.cli.evidence import evidence_choices, stream_options, with_evidence
from corebraid.cli.linux_guest import LinuxOptions, find_program, guest_spec, linux_options, recording_name
from corebraid.cli.machine_options import (
    check_firmware,
    looks_like_linux,
    machine_choices,
    machine_options,
    with_input,
    with_model,
)
from corebraid.cli.newfile import new_file
from corebraid.cli.options import count, json_option, positive
from corebraid.cli.outcome import outcome_facts, raise_failure, summarize, tell_unknown
from corebraid.cli.running import GuestOutput, record_firmware, record_program

_INTERRUPTED = 130


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("program")
@click.argument("arguments", nargs=-1, metavar="[ARGS]...", type=click.UNPROCESSED)
@click.option(
    "-o",
    "directory",
    metavar="REC",
    type=click.Path(path_type=Path),
    help="The recording to make: a directory that must not exist yet.  [default for Linux: PROGRAM.rec]",
)
@click.option(
    "--seed",
    type=count,
    default="0",
    show_default=True,
    help="Decides scheduling and devices; the same seed gives the same recording, bit for bit.",
)
@click.option(
    "--schedule",
    default="random",
    show_default=True,
    metavar="POLICY",
    help="round-robin, random, chaos, pct:D (priorities with D-1 change points; both find bugs), or a file "
    "with lines 'CORE INSTRUCTIONS'.",
)
@click.option(
    "--slice",
    "longest_slice",
    type=positive,
    metavar="N",
    help="Longest slice of round-robin and random, in instructions.  [default: 10000]",
)
@machine_choices
@evidence_choices
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
@json_option
def command(
    program: str,
    arguments: tuple[str, ...],
    directory: Path | None,
    cores: int,
    seed: int,
    schedule: str,
    longest_slice: int | None,
    model: str,
    store_buffer: int | None,
    cache: str,
    evidence: str | None,
    strata: str,
    memory: int | None,
    limit: int | None,
    source: str | None,
    sink: Path | None,
    pass_exit_code: bool,
    as_json: bool,
    guest: str,
    **more: Any,
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
      corebraid record -o REC --schedule pct:3 --seed 7 bug_aba.elf
      corebraid record -o REC --model tso --cores 2 litmus.elf
      corebraid record -o REC --evidence linkage --cores 4 fig2.elf
      corebraid record -o REC -- pigz -p 4 -c big.txt > big.txt.gz
      corebraid record -o REC --env LANG=C.UTF-8 --bind data:/data python3 script.py
    """
    path = find_program(program)
    given = {option.key: more.pop(option.key) for option in stream_options()}
    chosen = LinuxOptions(**more)
    is_linux = guest == "linux" or (guest == "auto" and looks_like_linux(path))
    console.announce_compilation()
    options = machine_options(cores, seed, schedule, longest_slice, cache, strata, memory, limit)
    options = with_model(with_input(options, source), model, store_buffer)
    options = with_evidence(options, path, evidence, given, not is_linux)
    if not is_linux:
        check_firmware(arguments, chosen)
        if directory is None:
            raise UsageError("where does the recording go?", remedy="name a directory with -o")
    directory = directory or recording_name(path)
    with new_file(sink, "--output") if sink else nullcontext(sys.stdout.buffer) as out:
        output = GuestOutput(out)
        if is_linux:
            options = replace(options, memory_bytes=ADDRESS_SPACE)
            spec = guest_spec(path, program, arguments, memory, options.input, chosen)
            error = GuestOutput(sys.stderr.buffer)
            outcome, capture = record_program(
                spec, directory, options, output, error, chosen.facts(), chosen.time_limit
            )
            error.end_line()
            tell_unknown(capture.guest.kernel.unknown)
        else:
            outcome = record_firmware(path, directory, options, output)
    summarize(outcome, directory)
    if as_json:
        output.end_line()
        console.facts(outcome_facts(outcome, directory))
    try:
        raise_failure(outcome, directory)
    except GuestFault as failure:
        if not pass_exit_code or outcome.end.exit_code is None:
            raise
        console.note(failure.line())
    output.check(directory)
    if outcome.end.reason == "interrupted":
        return _INTERRUPTED
    if pass_exit_code and outcome.end.exit_code is not None:
        return outcome.end.exit_code
    return 0
