"""`corebraid record`: run a program and record every core."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, BinaryIO

import click

from corebraid import console
from corebraid.evidence import GROUPS, with_evidence
from corebraid.newfile import new_file
from corebraid.options import count, json_option, positive, size
from isa.errors import GuestFault, UsageError

if TYPE_CHECKING:
    from recorder.capture import Outcome, RecordOptions
    from recorder.manifest import Manifest

_FAILURES = {
    "halted": "every core waits and nothing can wake one (the guest never powered the machine off)",
}


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, metavar="")
@click.option(
    "-o",
    "directory",
    metavar="REC",
    required=True,
    type=click.Path(path_type=Path),
    help="The recording to make: a directory that must not exist yet.",
)
@click.option("--cores", type=int, default=4, show_default=True, help="Cores of the machine, 1 to 64.")
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
    help="round-robin, random, pct:D (priorities with D-1 change points, finds bugs), or a file "
    "with lines 'CORE INSTRUCTIONS'.",
)
@click.option(
    "--slice",
    "longest_slice",
    type=positive,
    metavar="N",
    help="Longest slice of round-robin and random, in instructions.  [default: 10000]",
)
@click.option(
    "--model",
    type=click.Choice(["sc", "tso"]),
    default="sc",
    show_default=True,
    help="Memory model: sequential consistency, or x86's total store order, with store buffers.",
)
@click.option(
    "--store-buffer",
    type=positive,
    metavar="N",
    help="Stores that a core's store buffer holds, 1 to 64, with --model tso.  [default: 16]",
)
@click.option(
    "--cache",
    default="unbounded",
    show_default=True,
    metavar="SIZE:WAYS:LINE",
    help="Each core's private cache, as in 32k:4:32.",
)
@click.option(
    "--evidence",
    metavar="NAMES",
    help="Further streams for other engines: linkage, slices, opr, rpc, several with commas, or all.",
)
@click.option("--rset", metavar="K,K", help="Cores whose replay evidence opr is for.  [default: all]")
@click.option(
    "--group",
    type=click.Choice(GROUPS),
    help="What shares one version in evidence linkage.  [default: word]",
)
@click.option(
    "--slice-accesses",
    type=click.IntRange(2, 256),
    metavar="N",
    help="Shared accesses in a slice of evidence slices.  [default: 16]",
)
@click.option(
    "--strata",
    default="cycles:100000",
    show_default=True,
    metavar="SCHEME",
    help="When to cut the run: cycles:N, downgrades:N (lines lost by one core) or none. Smaller "
    "regions are faster to order and cost a little more log.",
)
@click.option("--memory", type=size, default="64m", show_default=True, help="Guest memory; k, m and g work.")
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
@click.option("--pass-exit-code", is_flag=True, help="Exit with the guest's own exit code.")
@json_option
def command(
    program: Path,
    arguments: tuple[str, ...],
    directory: Path,
    cores: int,
    seed: int,
    schedule: str,
    longest_slice: int | None,
    model: str,
    store_buffer: int | None,
    cache: str,
    evidence: str | None,
    rset: str | None,
    group: str | None,
    slice_accesses: int | None,
    strata: str,
    memory: int,
    limit: int | None,
    source: str | None,
    sink: Path | None,
    pass_exit_code: bool,
    as_json: bool,
) -> int:
    """Run the firmware image PROGRAM on a machine of some cores, and record it.

    What the guest prints goes to stdout as it is; messages of corebraid go to stderr. With --json one JSON
    object follows the guest's output on stdout, on lines of its own (use --output to keep them apart).

    A guest that fails (a fault, or all cores halted) exits with 3; its recording is complete up to there.
    A guest that merely exits with a code of its own exits with 0 unless --pass-exit-code is given. Ctrl-C
    leaves a recording that opens and replays as far as it was written.

    \b
    Examples:
      corebraid record -o REC --cores 4 firmware/x86_64/uts.elf
      corebraid record -o REC --cache 32k:4:32 --strata cycles:10000 firmware/x86_64/radix.elf
      echo hello | corebraid record -o REC --cores 1 firmware/x86_64/input_echo.elf
      corebraid record -o REC --schedule pct:3 --seed 7 firmware/x86_64/bug_aba.elf
      corebraid record -o REC --model tso --cores 2 firmware/x86_64/litmus.elf
      corebraid record -o REC --evidence linkage --cores 4 firmware/x86_64/fig2.elf
    """
    if arguments:
        raise UsageError(
            "firmware takes no arguments", found=" ".join(arguments), remedy="give input with --input"
        )
    console.announce_compilation("emu")
    options = _options(cores, seed, schedule, longest_slice, cache, strata, memory, limit)
    options = _with_model(_with_input(options, source), model, store_buffer)
    options = with_evidence(options, program, evidence, rset, group, slice_accesses)
    with new_file(sink, "--output") if sink else nullcontext(sys.stdout.buffer) as out:
        guest = _GuestOutput(out)
        outcome = _record(program, directory, options, guest)
    _summary(outcome, directory)
    if as_json:
        guest.end_line()
        console.facts(_facts(outcome, directory))
    _raise_failure(outcome, directory)
    if pass_exit_code and outcome.end.exit_code is not None:
        return outcome.end.exit_code
    return 0


def _options(
    cores: int,
    seed: int,
    schedule: str,
    longest_slice: int | None,
    cache: str,
    strata: str,
    memory: int,
    limit: int | None,
) -> RecordOptions:
    from emu.cache import CacheGeometry
    from emu.scheduler import DEFAULT_SLICE
    from recorder.capture import RecordOptions
    from recorder.strata_policy import StrataPolicy

    return RecordOptions(
        cores=cores,
        seed=seed,
        schedule=schedule,
        longest_slice=longest_slice or DEFAULT_SLICE,
        cache=CacheGeometry.parse(cache),
        strata=StrataPolicy.parse(strata),
        memory_bytes=memory,
        limit=limit or 0,
    )


def _with_model(options: RecordOptions, model: str, store_buffer: int | None) -> RecordOptions:
    from dataclasses import replace

    if store_buffer is not None and model != "tso":
        raise UsageError("--store-buffer goes with --model tso", found=f"--model {model}")
    return replace(options, model=model, store_buffer=store_buffer or options.store_buffer)


def _with_input(options: RecordOptions, source: str | None) -> RecordOptions:
    from dataclasses import replace

    if source is None:
        closed = sys.stdin is None or sys.stdin.closed
        return options if closed or sys.stdin.isatty() else replace(options, input=sys.stdin.buffer.read())
    if source == "-":
        return replace(options, input=sys.stdin.buffer.read())
    try:
        return replace(options, input=Path(source).read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"the input cannot be read ({reason})", where=source, remedy="check --input"
        ) from None


class _GuestOutput:
    """Where the guest's bytes go. A reader that goes away does not stop the recording."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink, self._open, self._in_line = sink, True, False

    def __call__(self, data: bytes) -> None:
        if self._open and data:
            self._in_line = not data.endswith(b"\n")
            try:
                self._sink.write(data)
                self._sink.flush()
            except BrokenPipeError:
                self._open = False

    def end_line(self) -> None:
        """Begin a new line if the guest's last one has no end and ours would follow it."""
        if self._in_line and self._sink is sys.stdout.buffer:
            self(b"\n")


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C back while the recorder is at work; gives a function that says whether it came."""
    came = False

    def remember(_: int, __: FrameType | None) -> None:
        nonlocal came
        came = True

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGINT, before)


def _record(program: Path, directory: Path, options: RecordOptions, guest: _GuestOutput) -> Outcome:
    from isa.x86_64 import X86_64
    from recorder.capture import record

    with _interruptible() as interrupted, console.progress("recording", options.limit or None) as show:

        def between_slices(instructions: int) -> None:
            show(instructions)
            if interrupted():
                raise KeyboardInterrupt

        try:
            return record(program, directory, X86_64, options, guest, between_slices)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; {directory} is incomplete, and readable as far as it was written"
            ) from None
        except OSError as error:
            raise UsageError(
                f"the recording cannot be written ({error.strerror})",
                where=str(directory),
                remedy="check the disk; what was written so far is readable",
            ) from None


def _summary(outcome: Outcome, directory: Path) -> None:
    manifest, end = outcome.manifest, outcome.end
    instructions = sum(manifest.instructions)
    log_bytes = sum(manifest.files[f"core-{core}.log"].bytes for core in range(manifest.n_cores))
    ended = f"guest exit code {end.exit_code}" if end.exit_code is not None else f"ended by {end.reason}"
    console.note(
        f"recorded {manifest.program.name} on {manifest.n_cores} core(s) in {directory}: {instructions:,} "
        f"instructions, {manifest.totals['strata']} strata, {log_bytes:,} bytes of core logs"
        f"{_evidence_bytes(manifest)}; {ended}"
    )


def _evidence_bytes(manifest: Manifest) -> str:
    from recorder.evidence import evidence_log

    sizes = [(name, manifest.files[evidence_log(name)].bytes) for name in manifest.evidence]
    return "".join(f", {size:,} of evidence {name}" for name, size in sizes)


def _facts(outcome: Outcome, directory: Path) -> dict[str, object]:
    from dataclasses import asdict

    manifest = outcome.manifest
    return {
        "recording": str(directory),
        "id": manifest.id.hex(),
        "program": asdict(manifest.program),
        "cores": manifest.n_cores,
        "instructions": list(manifest.instructions),
        "totals": manifest.totals,
        "end": asdict(outcome.end),
        "fault": _fault_facts(outcome, directory),
    }


def _fault_facts(outcome: Outcome, directory: Path) -> dict[str, object] | None:
    from corebraid.program import GuestProgram
    from isa.decode import disassemble

    fault = outcome.fault
    if fault is None:
        return None
    program = GuestProgram.of(directory, outcome.manifest)
    return {
        "core": fault.core,
        "count": fault.count,
        "pc": f"{fault.pc:#x}",
        "symbol": program.symbols.name(fault.pc) or None,
        "disassembly": disassemble(fault.code, fault.pc) if fault.code else None,
        "what": fault.what,
    }


def _raise_failure(outcome: Outcome, directory: Path) -> None:
    """Raises GuestFault if the guest failed."""
    facts = _fault_facts(outcome, directory)
    if facts:
        raise GuestFault(
            f"the guest failed: {facts['what']}",
            where=f"core {facts['core']}, instruction {facts['count']}, pc {facts['pc']} in "
            f"{facts['symbol'] or 'no known function'} ({facts['disassembly'] or 'no code here'})",
            remedy=f"the recording {directory} is complete up to there",
        )
    if outcome.end.reason in _FAILURES:
        raise GuestFault(
            f"the guest failed: {_FAILURES[outcome.end.reason]}",
            remedy=f"the recording {directory} is complete up to there",
        )
