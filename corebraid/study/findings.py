"""What a hunt has found, for people and as facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.base.errors import CorebraidError
from corebraid.base.wording import Call, Option, Text, Wording, said
from corebraid.study.conditions import how_it_ended
from corebraid.study.deadlocks import deadlock_lines
from corebraid.study.stacks import Stack, stack_at_end
from corebraid.study.subjects import Asked
from recorder.capture.guest import LinuxOptions
from recorder.files.manifest import ORDER_CERT

if TYPE_CHECKING:
    from corebraid.study.attempts import Run
    from corebraid.study.causes.passing import Comparison, Passed
    from corebraid.study.causes.suspects import Suspicion
    from corebraid.study.exhaustive.search import Searched
    from corebraid.study.smallest.bisected import Bisection
    from corebraid.study.smallest.kept import Again, Reduction


#: What stands above what a run ended over, above hints of which it was tried whether they decide, and above
#: others.
_OVER = "what it ended over (each waits for what the next one holds):"
_DECIDES = "what decides (tried: the other way round it does not fail so):"
_SUSPICIOUS = "suspicious, not proven (a legal order of the accesses; the likeliest first):"
#: What a run of a hunt has of what was asked for.
_ASKED = ("arguments", "cores", "learn", "model", "store_buffer", "cache", "strata", "memory", "guest")
#: Of that, what only Linux guests have, and how `corebraid.record` calls it.
_ASKED_OF_LINUX = {
    "environment": "env", "binds": "bind", "given": "given", "system": "system", "clock": "clock",
    "strict": "strict", "time_limit": "time_limit",
}  # fmt: skip


#: Bytes of a word, by which accesses are looked for.
_WORD = 8


@dataclass(frozen=True)
class Speed:
    """Runs, and the seconds that they took together. first: how many of these had gone when the first one
    ended: before it kernels are loaded or made, and it is learnt what threads share."""

    runs: int
    seconds: float
    first: float = 0.0

    @property
    def rate(self) -> float:
        """Runs a second behind the first one; of one alone with all that came before it."""
        behind = self.seconds - self.first
        return (self.runs - 1) / behind if self.runs > 1 and behind > 0 else self.runs / self.seconds

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.rate:.1f} runs/s"


#: Of a run whose cores have store buffers.
_BUFFERED = (
    "its cores have store buffers (x86's total store order): a thread can read before others see what it has "
    "written, and others can come between the halves of an instruction, as 'x += 1' may become"
)


@dataclass(frozen=True)
class Finding:
    """The failing run. again: what records it once more. suspicions: None where nobody looked, or where that
    cannot be said: unexplained is why. limit: instructions that a run had, 0 for any number. learning: runs
    from which was learnt what threads share. comparison: makes runs that do not fail. repeats: says how a run
    of this hunt is recorded once more. reduction: what is left of the run, None where nobody has reduced it;
    bisection: the same of another question. buffered: its cores have store buffers, for which nobody has
    asked."""

    recording: Path
    run: Run
    again: Text
    speed: Speed
    suspicions: list[Suspicion] | None = None
    limit: int = 0
    learning: int = 1
    unexplained: CorebraidError | None = None
    comparison: Comparison | None = None
    repeats: Again | None = None
    reduction: Reduction | None = None
    bisection: Bisection | None = None
    buffered: bool = False

    @cached_property
    def stack(self) -> Stack | None:
        """The call stack of a guest that a signal killed, or that failed otherwise."""
        return stack_at_end(self.recording, self.run.manifest)

    @property
    def _ends_else(self) -> bool:
        """It waits for work from outside, and nobody had asked for that."""
        asked = self.comparison.conditions if self.comparison is not None else ()
        return any(one.if_it_ends and one.text == self.run.held for one in asked)

    def lines(self, wording: Wording | None = None) -> list[str]:
        """For people. wording: how options are called."""
        tried, manifest = self.run.attempt, self.run.manifest
        assert manifest.end is not None
        lines = [
            f"found in run {tried.number + 1} ({self.speed}): {tried.named}: "
            f"{how_it_ended(manifest.end)} ({self.run.held})",
            *(f"  {line}" for line in deadlock_lines(self.recording, manifest)),
            *(["  in other runs it ends: that nobody wakes it is a failure then"] if self._ends_else else []),
            *([f"  {_BUFFERED}"] if self.buffered else []),
            *(f"  {line}" for line in (self.stack.short() if self.stack else ())),
            f"recording: {self.recording}",
            f"once more: {said(self.again, wording)}",
        ]
        if self.suspicions:
            told = ""
            for number, one in enumerate(self.suspicions, 1):
                above = _OVER if one.certain else _DECIDES if one.tried else _SUSPICIOUS
                lines += [told := above] if told != above else []
                head, *more = one.lines()
                lines += [f"  {number}. {head}", *(f"     {line}" for line in more)]
        elif self.suspicions is not None:
            lines.append("no access looks suspicious by itself (docs/hunt.md says what is looked for)")
        if self.suspicions is None and self.reduction is not None and self.reduction.decided:
            lines.append(_DECIDES)
            for number, decided in enumerate(self.reduction.decided, 1):
                lines += [f"  {number}. {decided.title}", *(f"     {step}" for step in decided.steps)]
        lines += self.reduction.lines(wording) if self.reduction is not None else []
        lines += self.bisection.lines() if self.bisection is not None else []
        return [*lines, "next:", *(f"  {said(call, wording)}" for call in self.calls())]

    def calls(self) -> list[Call]:
        """What to look at it with."""
        name, ended = str(self.recording), self.run.manifest.end
        ordered = (self.recording / ORDER_CERT).exists()
        found = [] if ordered else [Call("order", name)]
        first = self.suspicions[0] if self.suspicions else None
        if first is not None and first.address is not None:
            address = first.address & -_WORD
            around = Option("addr", f"{address:#x}:{address + 8:#x}")
            found.append(Call("trace", name, (Option("ordered", True), around)))
            if (read := first.read) is not None:
                at, data = f"{read.core}:{read.retired}", f"{read.address:#x}:{read.size}"
                found.append(Call("who-wrote", name, (Option("at", at),), (data,)))
        else:
            found.append(Call("trace", name, (Option("ordered", True),)))
        if ended is not None and ended.core is not None:
            found.append(Call("replay", name, (Option("core", ended.core),)))
        return [*found, Call("pairs", name)]

    def facts(self, wording: Wording | None = None) -> dict[str, object]:
        """As JSON."""
        tried, manifest = self.run.attempt, self.run.manifest
        return {
            "found": True,
            "run": tried.number + 1,
            "runs": self.speed.runs,
            "seconds": round(self.speed.seconds, 3),
            "runs_a_second": round(self.speed.rate, 1),
            "schedule": tried.schedule,
            "seed": tried.seed,
            **({} if tried.schedule_seed is None else {"schedule_seed": tried.schedule_seed}),
            **({} if self.learning == 1 else {"learn": self.learning}),
            "model": manifest.model,
            "condition": self.run.held,
            "recording": str(self.recording),
            "end": manifest.end.facts() if manifest.end else None,
            "deadlock": deadlock_lines(self.recording, manifest),
            "stack": None if self.stack is None else self.stack.facts(),
            "again": said(self.again, wording),
            "suspicions": [one.facts() for one in self.suspicions or []],
            **({} if self.reduction is None else {"reduction": self.reduction.facts(wording)}),
            **({} if self.bisection is None else {"bisection": self.bisection.facts()}),
            "next": [said(call, wording) for call in self.calls()],
        }


@dataclass(frozen=True)
class Hunted:
    """A hunt that is over. finding: what was found, if anything was. searched: what an exhaustive one came
    to. cut: runs that ended at their limit. hidden: paths that the host has, and the guest asked for and does
    not see. whole: instructions that read shared words and write them, and are not indivisible, were taken as
    one in all runs. in_order: threads store and load crosswise, and no load overtook a store. buffered: runs
    in which cores had store buffers, for which nobody has asked. alone: the program has one thread with the
    first seed, and its runs have a seed each; threaded: the lowest of these with which it has several."""

    speed: Speed
    finding: Finding | None = None
    searched: Searched | None = None
    cut: int = 0
    hidden: tuple[str, ...] = ()
    whole: bool = False
    in_order: bool = False
    buffered: int = 0
    alone: bool = False
    threaded: int | None = None

    @property
    def printed(self) -> tuple[tuple[bool, bytes], ...]:
        """What the found run printed: (whether it went to standard error, bytes), in order."""
        return self.finding.run.printed if self.finding else ()

    def explained(self, compared: Callable[[int], None] = lambda _: None) -> Hunted:
        """The same, with what looks suspicious in the recording of what was found, held against runs that do
        not fail. compared: called with how many of these are over."""
        from corebraid.study.causes.suspects import suspicions

        passed: list[Passed] = []
        if self.finding is None:
            return self
        try:
            recording, comparison = self.finding.recording, self.finding.comparison
            small = self.finding.reduction
            decisive = [] if small is None else small.decisive
            besides = small is not None and bool(small.decided)
            if comparison is not None:
                passed = comparison.runs(recording, compared, besides=besides)
            found = replace(self.finding, suspicions=suspicions(recording, passed, decisive))
        except CorebraidError as error:
            found = replace(self.finding, unexplained=error)
        return replace(self, finding=found)

    def reduced(self, seconds: float, progress: Callable[[int], None] = lambda _: None) -> Hunted:
        """The same, with the smallest schedule under which what was found fails the same way; its recording
        is beside the found one. seconds: for the runs that takes. progress: called with how many there were.
        Ctrl-C ends it early (`Reduction.interrupted`). Raises CorebraidError."""
        from corebraid.study.smallest.kept import reduction_of

        found = self.finding
        if found is None or found.comparison is None or found.repeats is None:
            return self
        reduction = reduction_of(
            found.recording, found.run, found.comparison, seconds, found.repeats, progress
        )
        return replace(self, finding=replace(found, reduction=reduction))

    def bisected(
        self, good: Path | str, seconds: float, progress: Callable[[int], None] = lambda _: None
    ) -> Hunted:
        """The same, with the one switch that turns `good`, a run that passes, into the one that was found, or
        into what that was reduced to. good: a recording, or "none" for the run without preemptions. seconds,
        progress: see `reduced`. Raises CorebraidError."""
        from corebraid.study.smallest.bisected import bisection_of

        found = self.finding
        if found is None or found.comparison is None:
            return self
        small = found.reduction
        run = small.run if small is not None and small.run is not None else found.run
        bisection = bisection_of(good, run, found.comparison, seconds, progress, found.recording)
        return replace(self, finding=replace(found, bisection=bisection))

    def facts(self, wording: Wording | None = None) -> dict[str, object]:
        """As JSON."""
        from corebraid.study.exhaustive.claims import facts_of

        more = {} if self.searched is None else facts_of(self.searched)
        more |= {"cut": self.cut} if self.cut else {}
        more |= {"not_seen": list(self.hidden)} if self.hidden else {}
        more |= {"taken_whole": True} if self.whole else {}
        more |= {"stores_in_order": True} if self.in_order else {}
        more |= {"runs_with_store_buffers": self.buffered} if self.buffered else {}
        more |= {"one_thread": self.threaded is None} if self.alone else {}
        more |= {"several_threads_with_seed": self.threaded} if self.threaded is not None else {}
        if self.finding is not None:
            return self.finding.facts(wording) | more
        speed = {"seconds": round(self.speed.seconds, 3), "runs_a_second": round(self.speed.rate, 1)}
        return {"found": False, "runs": self.speed.runs, **speed, **more}


def again_of(asked: Asked, directory: Path, run: Run, limit: int) -> Call:
    """What makes the recording `directory` of a run once more, beside it. limit: of its run, 0 for none."""
    plain, linux, without = Asked(asked.program), asked.linux, LinuxOptions()
    given = {name: getattr(asked, name) for name in _ASKED if getattr(asked, name) != getattr(plain, name)}
    given |= {
        shown: getattr(linux, name)
        for name, shown in _ASKED_OF_LINUX.items()
        if getattr(linux, name) != getattr(without, name)
    }
    given |= {"schedule": run.attempt.schedule, "seed": run.attempt.seed} | (
        {"limit": limit} if limit else {}
    )
    if run.attempt.schedule_seed is not None:
        given["schedule_seed"] = run.attempt.schedule_seed
    given |= {"bus": run.attempt.bus} if run.attempt.bus else {}
    options = [Option("directory", f"{directory}.again"), *(Option(*one) for one in given.items())]
    # What it read may be anything, of any length.
    options += [Option("input")] if asked.input != b"" else []
    return Call("record", asked.program, tuple(options))
