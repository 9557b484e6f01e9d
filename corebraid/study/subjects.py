"""What is recorded, and how: from what was asked for to a machine and its guest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.base.errors import ImageError, UsageError, unless_short
from corebraid.base.memory import ADDRESS_SPACE
from corebraid.base.wording import Call, Option, Phrase, Text
from emu.bus.names import MESI, PAGE
from recorder.capture.guest import LinuxOptions, find_program, guest_spec
from recorder.files.evidence_names import (
    DEFAULT_EVIDENCE,
    LOSSES,
    SLICES,
    STREAMS,
    check_evidence,
    parse_names,
    settled,
)
from recorder.files.manifest import MOST_SCHEDULE

if TYPE_CHECKING:
    from emu.linux.boot import GuestSpec
    from recorder.capture.options import RecordOptions
    from recorder.capture.strata_policy import StrataPolicy
    from recorder.files.json_fields import Scalar
    from recorder.replay.checkpointing import CheckpointPolicy

FIRMWARE_MEMORY = 64 << 20
GUESTS = ("auto", "linux", "firmware")
#: Strata where nobody says when to cut the run.
AUTO = "auto"


@dataclass(frozen=True)
class Asked:
    """What is to be recorded, in the words of whoever asks. slice: the longest, in instructions. memory:
    bytes. limit: instructions. input: what the guest reads, or what reads that. guest: one of `GUESTS`.
    learn: learning runs.
    bus: one of `emu.bus.names`; None: pages, unless something asked for needs the bus of lines.
    evidence: names with commas, "all" or "none"; None: what is recorded of every guest. streams: what was
    said of how evidence is recorded, by the key of its `StreamOption`. search_slices: search evidence slices
    while the program runs. None: as nobody asked."""

    program: str
    arguments: tuple[str, ...] = ()
    cores: int = 4
    seed: int = 0
    schedule: str = "random"
    schedule_seed: int | None = None
    learn: int | None = None
    slice: int | None = None
    model: str = "sc"
    store_buffer: int | None = None
    bus: str | None = None
    cache: str = "unbounded"
    strata: str = AUTO
    checkpoint: str = "auto"
    last: str | None = None
    memory: int | None = None
    limit: int | None = None
    input: bytes | Callable[[], bytes] = b""
    guest: str = "auto"
    linux: LinuxOptions = field(default_factory=LinuxOptions)
    evidence: str | None = None
    streams: Mapping[str, object] = field(default_factory=dict)
    search_slices: bool = False


@dataclass(frozen=True)
class Subject:
    """What is recorded, and how. spec: of a Linux program, None for firmware. more: facts for the manifest.
    time_limit: seconds for one run. because: what has chosen the bus of lines, where nobody named a bus.
    hidden: paths that the host has, and the guest has asked for in earlier runs and does not see. ends: in
    all of these it has exited. timed: threads wait with timeouts, or call what can. split: instructions of
    the program's own, or of libraries that are not the system's, read a shared word and write it, and are not
    indivisible. overtaken: threads store and load crosswise there (`recorder.capture.overtaking`)."""

    program: Path
    options: RecordOptions
    spec: GuestSpec | None
    more: dict[str, Scalar]
    time_limit: float | None
    because: tuple[Option, ...] = ()
    hidden: tuple[str, ...] = ()
    ends: bool = False
    timed: bool = False
    split: bool = False
    overtaken: bool = False


def subject_of(asked: Asked) -> Subject:
    """The subject that is asked for. Raises UsageError, ImageError."""
    path = find_program(asked.program)
    is_linux = _is_linux(path, asked.guest)
    options = _with_model(_options(asked), asked)
    options = _with_evidence(options, path, asked, not is_linux)
    options, because = _with_bus(options, asked)
    options = _with_strata(_with_ring(options, asked), asked)
    if not is_linux:
        _check_firmware(asked)
        return Subject(path, _with_steps(options, asked), None, {}, asked.linux.time_limit, because)
    spec = guest_spec(path, asked.program, asked.arguments, asked.memory, options.input, asked.linux)
    options = replace(_with_steps(options, asked), memory_bytes=ADDRESS_SPACE)
    return Subject(path, options, spec, asked.linux.facts(), asked.linux.time_limit, because)


def _is_linux(path: Path, guest: str) -> bool:
    from emu.linux.program import is_linux_program

    if guest not in GUESTS:
        raise UsageError("no such kind of guest", expected=", ".join(GUESTS), found=guest)
    if guest != "auto":
        return guest == "linux"
    try:
        return is_linux_program(path.read_bytes(), path.name)
    except OSError as error:
        unless_short(error)
        raise ImageError(
            f"the program cannot be read ({error.strerror})", where=str(path), remedy="check the path"
        ) from None


def _options(asked: Asked) -> RecordOptions:
    from emu.bus.cache import CacheGeometry
    from emu.schedule.scheduler import DEFAULT_SLICE, learns, make_scheduler
    from recorder.capture.options import RecordOptions
    from recorder.capture.strata_policy import StrataPolicy

    if learns(asked.schedule):
        # Before anything is learnt for it.
        make_scheduler(asked.schedule, 0, 1)
    if len(asked.schedule) > MOST_SCHEDULE:
        raise UsageError(
            "a schedule that a recording cannot name",
            expected=f"at most {MOST_SCHEDULE} characters",
            found=f"{len(asked.schedule)}",
            remedy="list fewer switches",
        )
    options = RecordOptions(
        cores=asked.cores,
        seed=asked.seed,
        schedule=asked.schedule,
        schedule_seed=_schedule_seed(asked),
        learning=learning_runs(asked.schedule, asked.learn),
        longest_slice=asked.slice or DEFAULT_SLICE,
        cache=CacheGeometry.parse(asked.cache),
        memory_bytes=FIRMWARE_MEMORY if asked.memory is None else asked.memory,
        limit=asked.limit or 0,
        checkpoint=_checkpoint(asked),
    )
    if asked.strata != AUTO:
        options = replace(options, strata=StrataPolicy.parse(asked.strata))
    return replace(options, input=asked.input() if callable(asked.input) else asked.input)


def _schedule_seed(asked: Asked) -> int | None:
    from emu.schedule.scheduler import is_drawn

    if asked.schedule_seed is not None and not is_drawn(asked.schedule):
        raise UsageError(
            "no seed decides this schedule",
            found=Phrase(
                Option("schedule", asked.schedule), " ", Option("schedule_seed", asked.schedule_seed)
            ),
            remedy="leave one of them out",
        )
    return asked.schedule_seed


def learning_runs(schedule: str, learn: int | None) -> int:
    """From how many runs is learnt which words are shared. Raises UsageError where nobody asks that."""
    from emu.schedule.scheduler import learns

    if learn is not None and not learns(schedule):
        raise UsageError(
            "this schedule does not ask which words are shared",
            expected="pct:D, late:D, chaos or switches:LIST",
            found=Phrase(Option("schedule", schedule), " ", Option("learn", learn)),
            remedy="leave one of them out",
        )
    return 1 if learn is None else learn


def _checkpoint(asked: Asked) -> CheckpointPolicy | None:
    from recorder.replay.checkpointing import CheckpointPolicy

    policy = CheckpointPolicy.parse(asked.checkpoint)
    if policy is not None and policy.every and asked.strata == "none":
        raise UsageError(
            "checkpoints stand at strata, and there are none",
            found=Phrase(Option("checkpoint", asked.checkpoint), " ", Option("strata", "none")),
            remedy="leave one of them out",
        )
    return policy


def _with_steps(options: RecordOptions, asked: Asked) -> RecordOptions:
    """A schedule file may hold steps in place of slices."""
    from emu.schedule.scheduler import is_named_policy
    from emu.schedule.step_file import read_steps
    from emu.schedule.stepped import listed

    if is_named_policy(asked.schedule) or (steps := read_steps(Path(asked.schedule))) is None:
        return options
    if options.bus == PAGE:
        raise UsageError(
            "the page bus does not see single accesses, before which steps end",
            found=Option("bus", PAGE),
            where=asked.schedule,
            remedy=Phrase("leave that out, or use ", Option("bus", MESI)),
        )
    return replace(options, steps=listed(steps.tasks, steps.left), shared=steps.shared)


def _with_model(options: RecordOptions, asked: Asked) -> RecordOptions:
    if asked.store_buffer is not None and asked.model != "tso":
        raise UsageError(
            Phrase(Option("store_buffer"), " goes with ", Option("model", "tso")),
            remedy=Phrase("add ", Option("model", "tso")),
        )
    buffered = options.store_buffer if asked.store_buffer is None else asked.store_buffer
    return replace(options, model=asked.model, store_buffer=buffered)


def _with_evidence(options: RecordOptions, program: Path, asked: Asked, mailboxes: bool) -> RecordOptions:
    """mailboxes: the guest may have some; streams that need them are recorded of others only where they are
    named."""
    names = parse_names(asked.evidence) if asked.evidence is not None else DEFAULT_EVIDENCE
    if not mailboxes and asked.evidence is not None:
        names = tuple(name for name in names if not STREAMS[name].only_for or name in asked.evidence)
    check_evidence(names, options.model)
    said = settled(names, asked.streams, options.cores, asked.evidence)
    _check_search(names, asked)
    symbols = objects_of(program) if said.get("group") == "symbol" else ()
    return replace(options, evidence=names, evidence_options=said, symbols=symbols)


def _check_search(names: tuple[str, ...], asked: Asked) -> None:
    """Raises UsageError for a search of slices that are not recorded."""
    if asked.search_slices and SLICES not in names:
        evidence = Option("evidence", asked.evidence)
        raise UsageError(
            Phrase(Option("search_slices", True), f" is for evidence {SLICES}, which was not asked for"),
            found=evidence if asked.evidence else Phrase(Option("evidence"), " not given"),
            remedy=Phrase("add ", Option("evidence", SLICES)),
        )


def pages_cannot(options: RecordOptions, asked: Asked) -> tuple[Option, ...]:
    """What of these only the bus of lines can do: it alone sees single accesses."""
    from emu.schedule.scheduler import learns

    seen = [name for name in options.evidence if STREAMS[name].of_events]
    wants = (
        (options.model == "tso", "model", options.model),
        (options.cache.sets > 0, "cache", asked.cache),
        (options.strata.downgrades > 0, "strata", asked.strata),
        (learns(options.schedule), "schedule", options.schedule),
        (bool(seen), "evidence", ",".join(seen)),
    )
    return tuple(Option(name, value) for wanted, name, value in wants if wanted)


def _schedule_file(options: RecordOptions) -> tuple[Option, ...]:
    """The schedule, if it is a file: that says after which instruction a slice ends, and a slice of pages
    ends where the next block begins."""
    from emu.schedule.scheduler import is_named_policy

    return () if is_named_policy(options.schedule) else (Option("schedule", options.schedule),)


def _with_bus(options: RecordOptions, asked: Asked) -> tuple[RecordOptions, tuple[Option, ...]]:
    """The options with a bus, and what has chosen that of lines. Raises UsageError for pages where lines are
    needed."""
    cannot = pages_cannot(options, asked)
    if asked.bus is not None:
        if asked.bus == PAGE and cannot:
            raise UsageError(
                "the page bus does not see single accesses",
                found=cannot[0],
                remedy=Phrase("leave that out, or use ", Option("bus", MESI)),
            )
        return replace(options, bus=asked.bus), ()
    cannot += _schedule_file(options)
    return replace(options, bus=MESI if cannot else PAGE), cannot


def _with_ring(options: RecordOptions, asked: Asked) -> RecordOptions:
    """Raises UsageError for a ring that cannot be."""
    from recorder.capture.ring_policy import INTERVALS, RingPolicy
    from recorder.capture.strata_policy import STRATA_OF_LINES

    if asked.last is None:
        return options
    ring, last = RingPolicy.parse(asked.last), Option("last", asked.last)
    others = [name for name in options.evidence if name != LOSSES]
    if others:
        raise UsageError(
            "evidence that begins with the run cannot begin anew in the middle of it",
            found=Phrase(last, " ", Option("evidence", ",".join(others))),
            remedy="leave one of them out",
        )
    if not options.strata.cycles:
        scheme = str(replace(options.strata, cycles=STRATA_OF_LINES.cycles))
        raise UsageError(
            "a ring's intervals begin at strata, and there may be none for as long as you like",
            found=Phrase(last, " ", Option("strata", asked.strata)),
            remedy=Phrase("leave that out, or cut now and then: ", Option("strata", scheme)),
        )
    if asked.checkpoint not in ("auto", "none"):
        raise UsageError(
            "a ring has no other checkpoints than its intervals' beginnings",
            found=Phrase(last, " ", Option("checkpoint", asked.checkpoint)),
            remedy=Phrase(
                "leave ", Option("checkpoint"), " out, or make some afterwards: ", Call("checkpoint", "REC")
            ),
        )
    if not ring.timed and ring.amount < (least := INTERVALS * options.strata.cycles):
        raise UsageError(
            "a ring smaller than one interval",
            expected=f"at least {least} instructions, {INTERVALS} times what lies between two strata",
            found=last,
            remedy=_wider(ring.amount // INTERVALS, options.strata),
        )
    return replace(options, ring=ring, checkpoint=None)


def _wider(cycles: int, strata: StrataPolicy) -> Text:
    """How a ring gets room for its intervals. cycles: that could lie between two strata."""
    if not cycles:
        return "keep more"
    return Phrase("keep more, or cut more often: ", Option("strata", str(replace(strata, cycles=cycles))))


def _with_strata(options: RecordOptions, asked: Asked) -> RecordOptions:
    """Where nobody says when to cut the run: there is less to be ordered of a region of pages, and a ring
    wants its intervals short."""
    from recorder.capture.strata_policy import STRATA_OF_PAGES

    if asked.strata != AUTO or options.bus != PAGE or options.ring is not None:
        return options
    return replace(options, strata=STRATA_OF_PAGES)


def _check_firmware(asked: Asked) -> None:
    """Raises UsageError for what only Linux programs have."""
    if asked.arguments:
        raise UsageError(
            "firmware takes no arguments",
            found=" ".join(asked.arguments),
            remedy=Phrase("put options before PROGRAM, and give input with ", Option("input")),
        )
    if used := asked.linux.used():
        joined = [part for option in used for part in (", ", option)][1:]
        raise UsageError("only for Linux guests", found=Phrase(*joined), remedy="leave it out")


def objects_of(program: Path) -> tuple[tuple[int, int], ...]:
    """(first byte, bytes) of the objects that the program names, ascending, none inside another."""
    from corebraid.names.symbols import objects_of_elf

    try:
        raw = program.read_bytes()
    except OSError:
        # Whoever loads the program says what is wrong with it.
        return ()
    found: list[tuple[int, int]] = []
    for symbol in objects_of_elf(raw):
        if not found or symbol.address >= found[-1][0] + found[-1][1]:
            found.append((symbol.address, symbol.size))
    return tuple(found)
