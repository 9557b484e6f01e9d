"""What may be said of a program after a search, and no more."""

from __future__ import annotations

from corebraid.base.wording import Option, Phrase, Text
from corebraid.study.exhaustive.following import MADE_ROOM
from corebraid.study.exhaustive.search import Searched

#: What the claim covers: what was tried in every way, and what was the same in all runs.
TRIED = "tried: every order of accesses to shared words and system calls, between instructions (model sc)"
FIXED = (
    "the same in all runs: arguments, input, files, random bytes, which memory is free; "
    "time stands while a thread can run"
)
#: The same of firmware; and of firmware under TSO, given how many stores a buffer holds.
TRIED_OF_CORES = "tried: every order of accesses to shared words and devices, between instructions (model sc)"
TRIED_UNDER_TSO = (
    "tried: every order of loads, commits of buffered stores, and accesses to devices, between instructions "
    "(model tso: store buffers of {}, never full)"
)
#: Of Linux programs; the buffers may have been full.
TRIED_OF_THREADS_UNDER_TSO = (
    "tried: every order of loads, commits of buffered stores, and system calls, which are fences, between "
    "instructions (model tso: store buffers of {}, {})"
)
FIXED_OF_CORES = (
    "the same in all runs: input, the sequence of random numbers; a core's time is its own instructions"
)
#: More places of split instructions are not named.
_MOST = 4


def lines_of(searched: Searched) -> list[Text]:
    """For people: what came of a search in which no execution failed."""
    many = _many(searched.executions, "different execution")
    bound = ""
    if searched.preemptions is not None:
        bound = f" with at most {_many(searched.preemptions, 'preemption')}"
    if searched.unfinished:
        seen = f"{many}{bound} so far, all right" if searched.executions else "no execution came to its end"
        left = _many(searched.open, "branch", "branches")
        head: list[Text] = [f"not proven: {searched.unfinished}; {seen}; {left} open"]
    else:
        head = [f"all right: {many}{bound}, each made, none fails ({_work(searched)})"]
    return [*head, *_covers(searched)]


def _covers(searched: Searched) -> list[Text]:
    lines: list[Text] = [*_claim(searched)]
    if searched.fixed:
        lines.append(f"not tried: {'; '.join(searched.fixed)}")
    if searched.splits:
        places = ", ".join(f"{pc:#x}" for pc in searched.splits[:_MOST])
        more = f" and {len(searched.splits) - _MOST} more" if len(searched.splits) > _MOST else ""
        lines.append(
            f"taken as one, though a processor may let others in between: instructions at {places}{more} "
            "that read and write shared memory without lock, use several words, or one that lies in two lines"
        )
    return lines


def _claim(searched: Searched) -> tuple[str, str]:
    if searched.buffered and not searched.firmware:
        full = "whose stores wait when they are full" if MADE_ROOM in searched.fixed else "never full"
        return TRIED_OF_THREADS_UNDER_TSO.format(_many(searched.buffered, "store"), full), FIXED
    if searched.buffered:
        return TRIED_UNDER_TSO.format(_many(searched.buffered, "store")), FIXED_OF_CORES
    return (TRIED_OF_CORES, FIXED_OF_CORES) if searched.firmware else (TRIED, FIXED)


def _work(searched: Searched) -> str:
    parts = [
        _many(searched.threads, "core" if searched.firmware else "thread"),
        f"up to {_many(searched.steps, 'step')}",
        _many(len(searched.words), "shared word"),
        _many(searched.runs, "run"),
    ]
    return ", ".join(parts)


def facts_of(searched: Searched) -> dict[str, object]:
    """As JSON."""
    return {
        "exhaustive": True,
        "proven": searched.all_right,
        "executions": searched.executions,
        "preemptions": searched.preemptions,
        "unfinished": searched.unfinished,
        "open": searched.open,
        "threads": searched.threads,
        "steps": searched.steps,
        "words": [word * 8 for word in searched.words],
        "restarts": searched.begun,
        "covers": [*_claim(searched)],
        "not_tried": list(searched.fixed),
        "taken_as_one": list(searched.splits),
    }


def nothing_proven(searched: Searched) -> Text:
    """What to do where a search cannot end."""
    if not searched.ran_out:
        return Phrase("no search proves anything of that; hunt without ", Option("exhaustive", True))
    if searched.open and searched.buffered:
        return Phrase("a smaller input has fewer executions; or hunt without ", Option("exhaustive", True))
    fewer = 2 if searched.preemptions is None else min(2, searched.preemptions - 1)
    if searched.open and fewer >= 0:
        return Phrase("fewer executions have ", Option("preemptions", fewer), ", or a smaller input")
    return "a smaller input has fewer executions"


def _many(n: int, one: str, several: str = "") -> str:
    return f"{n:,} {one if n == 1 else several or one + 's'}"
