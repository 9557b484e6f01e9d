"""How a command may end, whatever it was given (README, "Exit codes").

A line that says that there is no memory is as good as any: what takes memory in earnest is stopped by a
limit.
"""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass

_SEEN_AS_DEFECTS = (
    "Traceback (most recent",
    "this is a defect of corebraid",
    "Exception ignored",
    "Warning:",
)
_PREFIX = "corebraid: "
#: Notes may stand before the line that says why.
_MOST_LINES, _MOST_FOUND = 3, 80
_LONGEST_LINE = 6000


@dataclass(frozen=True)
class Ended:
    """How a process ended. code: exit code, less than 0: the signal. stopped: the limit at which it was
    stopped, or ''. before: cases that its process had ended before."""

    code: int
    out: bytes
    err: bytes
    stopped: str = ""
    seconds: float = 0.0
    before: int = 0


def fault_of(arguments: tuple[str, ...], ended: Ended, codes: tuple[int, ...] = (0, 1, 2)) -> str:
    """What is wrong with how a command ended, or ''. codes: exit codes that are promised."""
    err = ended.err.decode(errors="replace")
    if ended.stopped or ended.code == -signal.SIGXCPU:
        return ended.stopped or "time limit"
    if ended.code < 0:
        return f"signal {signal.Signals(-ended.code).name}"
    found = next((text for text in _SEEN_AS_DEFECTS if text in err), "")
    if found:
        lines = err.strip().splitlines()
        places = [line.strip() for line in lines if line.startswith('  File "')]
        place = places[-1] if places else "no known place"
        return f"{found.split(' (')[0].rstrip(':')}: {lines[-1]}, in {place}"
    if ended.code not in codes:
        return f"exit code {ended.code}: {err.strip()[-200:]}"
    # These name all that they find, of each file or core.
    all_found = (arguments[0] == "verify" and ended.code == 1) or {"replay", "--all"} <= set(arguments)
    most = _MOST_FOUND if all_found else _MOST_LINES
    return _wrong_words(err, ended.code, most) or _lost_output(arguments, ended)


def _wrong_words(err: str, code: int, most: int) -> str:
    lines = err.splitlines()
    if code == 2 and not lines:
        return "exit code 2 without a word"
    if len(lines) > most:
        return f"{len(lines)} lines on stderr: {lines[0]}"
    if strange := [line for line in lines if not line.startswith(_PREFIX)]:
        return f"a strange line on stderr: {strange[0]!r}"
    if long := [line for line in lines if len(line) > _LONGEST_LINE]:
        return f"a line of {len(long[0])} characters on stderr"
    return ""


def _lost_output(arguments: tuple[str, ...], ended: Ended) -> str:
    if ended.code == 2:
        return ""
    if ended.code == 1 and not ended.out and not ended.err:
        return "exit code 1 without a word"
    if ended.code == 0 and not ended.out and arguments[0] not in ("trace", "pairs"):
        return "output lost"
    if "--json" in arguments and ended.out and arguments[0] != "pairs":
        try:
            json.loads(ended.out)
        except ValueError as error:
            return f"--json that is none: {error}"
    return ""
