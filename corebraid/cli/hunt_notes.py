"""What a hunt says on stderr: that nothing was found, what may help, and what its runs leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corebraid.cli import console
from corebraid.cli.guest_output import not_seen
from emu.linux.files.absent import is_systems

if TYPE_CHECKING:
    from corebraid.study.findings import Hunted

_MORE = (
    "--runs, --seed, --cores, --learn or --schedule may help; "
    "--exhaustive tries all orders of a small program"
)
#: The same of a program in which schedules decide nothing, and that it is one.
_MORE_SEEDS = "--runs or --seed may help"
_ALONE = (
    "the program had one thread in every run: runs differ by --seed alone (addresses of the stack, "
    "getrandom, the order of directories)"
)
_THREADED = (
    "the program has one thread in the run from which was learnt what it shares, and several with "
    "--seed {seed}: hunt with that one"
)
#: What a hunt does not try that would have others come between.
_WHOLE = (
    "instructions of the program read shared memory and write it, as 'x += 1' may become: each was taken as "
    "one; --model tso lets others come in between"
)
_IN_ORDER = (
    "threads of the program each store to what the other one then loads: no load came before an earlier "
    "store; --model tso lets them"
)


def note_not_found(hunted: Hunted) -> None:
    """Of a hunt that has found nothing."""
    buffered = f", {hunted.buffered} of them with store buffers" if hunted.buffered else ""
    more = _MORE_SEEDS if hunted.alone else _MORE
    console.note(f"not found in {hunted.speed.runs} runs{buffered} ({hunted.speed}); {more}")
    note_threads(hunted)
    if hunted.whole:
        console.note(_WHOLE)
    if hunted.in_order:
        console.note(_IN_ORDER)
    if hunted.cut:
        console.note(
            f"{hunted.cut} of these runs did not end: they were ended at their limit of instructions, or of "
            "system calls (--limit); --until timeout finds them"
        )
    # What every program looks for is of interest where one fails.
    if hunted.hidden and not is_systems(hunted.hidden[0]):
        console.note(not_seen(hunted.hidden))


def note_threads(hunted: Hunted) -> None:
    """Where there was one thread in the run that was learnt from."""
    if hunted.threaded is not None:
        console.note(_THREADED.format(seed=hunted.threaded))
    elif hunted.alone:
        console.note(_ALONE)
