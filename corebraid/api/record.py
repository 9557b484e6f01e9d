"""`corebraid.record`: run a program and record every core."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import (
    MOST,
    MOST_LEARNT,
    check_choice,
    check_integer,
    check_place,
    check_seconds,
    check_text,
    check_whole,
    ignore,
    texts_of,
)
from corebraid.base.errors import UsageError, unless_short
from corebraid.base.wording import Option, Phrase, another
from corebraid.study.subjects import Asked, Subject, subject_of
from emu.bus.names import BUSES
from emu.schedule.policy import Scheduler
from emu.schedule.switches import missed_by
from recorder.capture.guest import LinuxOptions, recording_name
from recorder.files.evidence_names import PROTECTED, READ_VALUES, SLICES

if TYPE_CHECKING:
    from corebraid.study.evidence.slice_search import SearchedAhead, SliceSearch
    from corebraid.study.recorded import Recorded
    from recorder.capture.options import Outcome, RecordOptions


def record(
    program: Path | str,
    directory: Path | str | None = None,
    *,
    arguments: Iterable[str] = (),
    seed: int = 0,
    schedule: str = "random",
    schedule_seed: int | None = None,
    learn: int | None = None,
    slice: int | None = None,
    cores: int = 4,
    model: str = "sc",
    store_buffer: int | None = None,
    bus: str | None = None,
    cache: str = "unbounded",
    strata: str = "auto",
    checkpoint: int | str = "auto",
    last: int | str | None = None,
    memory: int | None = None,
    evidence: str | None = None,
    group: str | None = None,
    read_values: str | None = None,
    protected: str | None = None,
    slice_accesses: int | None = None,
    search_slices: bool = False,
    rset: str | None = None,
    limit: int | None = None,
    input: bytes | Callable[[], bytes] = b"",
    guest: str = "auto",
    env: Iterable[str] = (),
    bind: Iterable[str] = (),
    keep_writes: Path | str | None = None,
    given: bool = True,
    system: bool = True,
    clock: str = "virtual",
    strict: bool = False,
    time_limit: float | None = None,
    output: Callable[[bytes], None] = ignore,
    error: Callable[[bytes], None] = ignore,
    progress: Callable[[int], None] = ignore,
) -> Recorded:
    """Record a Linux program, or a firmware image, into the new directory `directory`.

    program: a path, or a name that is looked up in PATH. directory: of a Linux program PROGRAM.rec if None.
    Options are those of `corebraid record`, in its words; None: its default. bus: None: pages, or lines where
    another option needs them (`Recorded.because`). checkpoint: instructions between two checkpoints of a
    core, "auto" or "none". last: keep the last so many instructions of the run, or seconds ("60s"); None:
    all. memory: bytes. slice, limit: instructions. input: what the guest reads, or a function that gives it.
    env, bind: as --env and --bind take them ("NAME=VALUE", "HOST:GUEST:rw"). group, read_values,
    protected, slice_accesses, rset: how evidence is recorded. search_slices: search evidence slices while the
    program runs, in a process of its own, and keep what is found (`Recorded.search`). time_limit: seconds.
    output, error: called with what the guest prints. progress: called after slices with the instructions so
    far; it may raise KeyboardInterrupt, which ends the recording as Ctrl-C does.

    learn: runs from which it is learnt which words are shared, one if None.

    A guest that fails is no error: see `Recorded.failure`. Raises UsageError, ImageError.
    """
    check_place("program", program)
    if directory is not None:
        check_place("directory", directory)
    arguments, env, bind = texts_of("arguments", arguments), texts_of("env", env), texts_of("bind", bind)
    check_guest(cores=cores, seed=seed, schedule=schedule, model=model,
                cache=cache, strata=strata, memory=memory, limit=limit, clock=clock, time_limit=time_limit,
                input=input)  # fmt: skip
    if bus is not None:
        check_choice("bus", bus, BUSES)
    check_whole("slice", slice, 1)
    check_whole("schedule_seed", schedule_seed, 0, 2 * MOST + 1)
    check_whole("learn", learn, 1, MOST_LEARNT)
    check_whole("slice_accesses", slice_accesses, 1)
    if not isinstance(checkpoint, str):
        check_whole("checkpoint", checkpoint, 1, optional=False)
    if last is not None and not isinstance(last, str):
        check_whole("last", last, 1)
    streams = {
        "group": group, "read_values": read_values, "protected": protected,
        "slice_accesses": slice_accesses, "rset": rset,
    }  # fmt: skip
    if read_values is not None:
        check_choice("read_values", read_values, READ_VALUES)
    if protected is not None:
        check_choice("protected", protected, PROTECTED)
    for name, text in (("evidence", evidence), ("group", group), ("rset", rset)):
        check_text(name, text, optional=True)
    kept = None if keep_writes is None else Path(keep_writes)
    asked = Asked(
        str(program), tuple(arguments), cores=cores, seed=seed, schedule=schedule,
        schedule_seed=schedule_seed, learn=learn, slice=slice, model=model, store_buffer=store_buffer,
        bus=bus, cache=cache, strata=strata, memory=memory, limit=limit, input=input, guest=guest,
        evidence=evidence, checkpoint=str(checkpoint), last=None if last is None else str(last),
        linux=LinuxOptions(tuple(env), tuple(bind), kept, clock, strict, time_limit, given, system),
        streams=streams, search_slices=search_slices,
    )  # fmt: skip
    subject = subject_of(asked)
    if directory is None:
        if subject.spec is None:
            raise UsageError(
                "where does the recording go?", remedy=Phrase("name a directory with ", Option("directory"))
            )
        directory = recording_name(subject.program)
    return _recorded(subject, Path(directory), search_slices, output, error, progress)


def check_guest(
    *,
    cores: object,
    seed: object,
    schedule: object,
    model: object,
    cache: object,
    strata: object,
    memory: object,
    limit: object,
    clock: object,
    time_limit: object,
    input: object,
) -> None:
    """Raises UsageError for values of options of `record` and `hunt` that are of another kind than theirs;
    what they mean is looked at later."""
    # How many there can be is the machine's to say.
    check_integer("cores", cores)
    check_whole("seed", seed, 0, 2 * MOST + 1, optional=False)
    check_whole("memory", memory, 0)
    check_whole("limit", limit, 1)
    for name, text in (("schedule", schedule), ("model", model), ("cache", cache), ("strata", strata)):
        check_text(name, text)
    check_choice("clock", clock, ("virtual", "host"))
    check_seconds("time_limit", time_limit, optional=True)
    if not isinstance(input, bytes) and not callable(input):
        raise UsageError("the guest reads bytes", found=repr(input), remedy=another("input"))


def _recorded(
    subject: Subject,
    directory: Path,
    search_slices: bool,
    output: Callable[[bytes], None],
    error: Callable[[bytes], None],
    progress: Callable[[int], None],
) -> Recorded:
    from corebraid.study.recorded import Recorded
    from corebraid.study.recording import record_subject
    from recorder.capture.learning import StopRecording

    policies, done = list[Scheduler](), 0

    def looked_at(policy: Scheduler) -> Scheduler:
        policies.append(policy)
        return policy

    def between(instructions: int) -> None:
        nonlocal done
        done = instructions
        try:
            progress(instructions)
        except KeyboardInterrupt:
            # What a Linux guest has is not lost: the recording is ended as if it were whole.
            if subject.spec is None:
                raise
            raise StopRecording("interrupted") from None

    options = replace(subject.options, around=looked_at)
    with _searching(options, search_slices) as (search, options):
        try:
            outcome, refused = record_subject(subject, options, directory, output, error, between)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; {directory} is incomplete, and readable as far as it was written"
            ) from None
        except OSError as failure:
            if failure.errno == errno.ENOMEM:
                remedy = Phrase("free some, or choose less ", Option("memory"), " or fewer ", Option("cores"))
                raise UsageError("out of memory", where=str(directory), remedy=remedy) from None
            unless_short(failure)
            raise UsageError(
                f"the recording cannot be written ({failure.strerror})",
                where=str(directory),
                remedy="check the disk; if the guest had begun, what was written so far is readable",
            ) from None
        searched = _searched(search, outcome, directory, lambda: progress(done)) if search else None
    missed = tuple(str(one) for policy in policies for one in missed_by(policy))
    return Recorded(directory, outcome, refused.calls, subject.because, refused.hidden, missed, searched)


@contextmanager
def _searching(
    options: RecordOptions, search_slices: bool
) -> Iterator[tuple[SliceSearch | None, RecordOptions]]:
    """A search of slices that has begun, if one is wanted, and how to record so that it has them."""
    if not search_slices:
        yield None, options
        return
    from corebraid.study.evidence.slice_search import searching

    with searching() as search:
        yield search, replace(options, followers={SLICES: search})


def _searched(
    search: SliceSearch, outcome: Outcome, directory: Path, look: Callable[[], None]
) -> SearchedAhead:
    """What became of the search of a recording that is complete. Of one that was interrupted it is not waited
    for."""
    if outcome.end.reason == "interrupted":
        return search.call_off()
    try:
        return search.finish(look)
    except KeyboardInterrupt:
        line = f"interrupted; {directory} is complete, and some of its slices are left to be searched"
        raise KeyboardInterrupt(line) from None
