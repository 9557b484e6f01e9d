"""The examples of our pages: commands are run, what they print is held against what is shown.

In a fenced block a line that begins with `$ ` is a command, lines that begin with `> ` go on with it, and the
others, up to the next command, are what it prints: standard output, then standard error. A line `...` stands
for any lines, ` ...` at a line's end for the rest of it. A page's examples are run one after the other in one
folder.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli_factory import ROOT, run

#: What differs from run to run and from machine to machine.
_MASKS = (
    (re.compile(r" *\b\d+\.\d{3,}\b(?=$| |;)"), " S"),
    (re.compile(r"\d+\.\d s, \d+\.\d runs/s"), "S s, N runs/s"),
    (re.compile(r" *\b\d+\.\d{3,} s\b"), " S s"),
    # A Linux program's start takes more instructions where its path is longer.
    (re.compile(r"(?<=instruction )\d{5,}"), "N"),
    # Where it maps what depends on how long the host's list of libraries is.
    (re.compile(r"\b0xf[0-9a-f]{5}(?=[0-9a-f]{3}\b)"), "0xMAPPED"),
)
_PASSED = re.compile(r"in (?:none|\d+) of \d+ runs that passed"), "in M of N runs that passed"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:\w+=\S+ )*(?:corebraid [a-z]|python -m bench|echo .*\| corebraid)")
_COMMENT = re.compile(r"\s{2,}# .*")


@dataclass(frozen=True)
class Example:
    """A command of a page, as it is typed (several lines, if it goes on), and the lines shown of its output.

    language: that of the block; 'python' for a program, whose text `command` is.
    """

    command: str
    shown: tuple[str, ...]
    language: str = ""

    @property
    def words(self) -> list[str] | None:
        """The words of a single corebraid command that needs no shell."""
        if self.language or set("|<>&;$\n*") & set(re.sub(r"'[^']*'", "", self.command)):
            return None
        words = shlex.split(self.command)
        return words[1:] if words[0] == "corebraid" else None


def examples(text: str) -> list[Example]:
    """All examples of a page, in their order."""
    found: list[Example] = []
    for language, block in _FENCE.findall(text):
        if language == "python":
            found.append(Example(block, (), language))
            continue
        if language:
            continue
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            first, *rest = part.rstrip("\n").split("\n")
            more = 0
            while more < len(rest) and rest[more].startswith("> "):
                more += 1
            command = [_COMMENT.sub("", first), *(line[2:] for line in rest[:more])]
            while rest[more:] and not rest[-1].strip():
                rest.pop()
            found.append(Example("\n".join(command).strip(), tuple(rest[more:])))
    return found


def unmarked(text: str) -> list[str]:
    """Lines of code that look like a command but have no `$ `, and so are not run."""
    blocks = [block for language, block in _FENCE.findall(text) if not language]
    prose = _FENCE.sub("", text)
    indented = re.findall(r"^(?: {4}|\t)(?:\$ )?(.*)$", prose, re.M)
    return [line for line in (*indented, *"".join(blocks).splitlines()) if _COMMAND.match(line)]


def masked(line: str, *, compared: bool = True) -> str:
    """A line without what differs from run to run. compared: with how many runs a hunt compared with."""
    line = line.rstrip()
    for pattern, instead in _MASKS if compared else (*_MASKS, _PASSED):
        line = pattern.sub(instead, line)
    return line


def first_difference(shown: tuple[str, ...], printed: list[str], *, compared: bool = True) -> str:
    """The first line shown that was not printed at its place; '' if all are as shown. compared: see `masked`.

    The lines between two `...` must be printed one right after the other, as they are shown.
    """
    wanted = [line if line.strip() == "..." else masked(line, compared=compared) for line in shown]
    there = [masked(line, compared=compared) for line in printed]
    at, pieces = 0, _pieces(wanted)
    for number, piece in enumerate(pieces):
        is_first, is_last = number == 0, number == len(pieces) - 1
        starts = [at] if is_first else range(at, len(there) - len(piece) + 1)
        if is_last and not is_first:
            starts = [max(at, len(there) - len(piece))]
        for start in starts:
            if all(_is(line, there, start + i) for i, line in enumerate(piece)):
                at = start + len(piece)
                break
        else:
            return _first_wrong(piece, there, at)
    if pieces and at != len(there) and len(pieces[-1]):
        return f"(nothing more is shown, but there is:) {there[at]}"
    return ""


def _pieces(wanted: list[str]) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for line in wanted:
        if line.strip() == "...":
            pieces.append([])
        else:
            pieces[-1].append(line)
    return pieces


def _is(line: str, there: list[str], at: int) -> bool:
    if not 0 <= at < len(there):
        return False
    return there[at].startswith(line[:-4]) if line.endswith(" ...") else there[at] == line


def _first_wrong(piece: list[str], there: list[str], at: int) -> str:
    """The first line of a piece that is not there, where most of those before it are."""

    def matched(start: int) -> int:
        fits = [_is(line, there, start + i) for i, line in enumerate(piece)]
        return (*fits, False).index(False)

    return piece[min(max(map(matched, range(at, len(there) + 1))), len(piece) - 1)]


@dataclass(frozen=True)
class Printed:
    """What an example did: its exit code, and lines of output, then of errors."""

    code: int
    lines: list[str]


def run_example(example: Example, folder: Path, names: dict[str, Any]) -> Printed:
    """Run it in `folder`, a command that needs no shell in this process. names: what the page's programs so
    far have left."""
    if example.language:
        return _run_python(example.command, folder, names)
    if example.words is None:
        return _run_shell(example.command, folder)
    with _inside(folder):
        ran = run(*example.words)
    return Printed(ran.code, [*ran.out.splitlines(), *ran.err.splitlines()])


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run_shell(command: str, folder: Path) -> Printed:
    """By bash, where `corebraid` is this one, and a pager shows all at once."""
    here = f'corebraid() {{ {shlex.quote(sys.executable)} -m corebraid "$@"; }}; less() {{ cat; }}\n'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        ["bash", "-c", here + command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return Printed(ran.returncode, [*ran.stdout.splitlines(), *ran.stderr.splitlines()])


def _run_python(program: str, folder: Path, names: dict[str, Any]) -> Printed:
    """In this process, after the page's programs before it; what it prints."""
    out = io.StringIO()
    code, end = 0, []
    with _inside(folder), contextlib.redirect_stdout(out):
        try:
            exec(compile(program, "example", "exec"), names)
        except Exception as error:
            code, end = 1, [f"{type(error).__name__}: {error}"]
    return Printed(code, [*out.getvalue().splitlines(), *end])


def wrong_examples(
    found: list[Example], folder: Path, codes: dict[str, int], *, compared: bool = True
) -> list[str]:
    """Run examples one after the other; what is not as shown. codes: of commands whose code is not 0.
    compared: see `masked`."""
    wrong = []
    names: dict[str, Any] = {"__name__": "__main__"}
    for example in found:
        printed = run_example(example, folder, names)
        if printed.code != codes.get(example.command, 0):
            wrong.append(f"$ {example.command}\n  exit code {printed.code}\n" + _some(printed.lines))
        elif example.shown and (line := first_difference(example.shown, printed.lines, compared=compared)):
            wrong.append(f"$ {example.command}\n- {line}\n" + _some(printed.lines))
    return wrong


def _some(lines: list[str]) -> str:
    """Enough of what was printed to see what is wrong."""
    head, tail = lines[:30], lines[30:][-10:]
    middle = [f"+ ... {len(lines) - 40} more"] if len(lines) > 40 else []
    return "\n".join([*(f"+ {line}" for line in head), *middle, *(f"+ {line}" for line in tail)])


def help_examples(text: str) -> list[str]:
    """The commands under 'Examples:' (or 'The whole path:') of what --help prints."""
    found = re.search(r"(?:Examples?|The whole path):\n(.*?)(?:\n\n|\Z)", text, re.DOTALL)
    return [line.strip() for line in found[1].splitlines()] if found else []


def commands_named(text: str) -> list[str]:
    """Commands that a page has in backticks or in a block, benches too: what can be looked up of each is."""
    inline = re.findall(r"`((?:corebraid |python -m bench)[^`]*)`", _FENCE.sub("", text).replace("\n", " "))
    shown = [
        line for example in examples(text) if not example.language for line in example.command.splitlines()
    ]
    return [*inline, *(line for line in shown if line.startswith(("corebraid ", "python -m bench")))]


def options_of(command: str) -> list[str]:
    """The options that a command line gives to its first program."""
    first = re.split(r" -- |[|;&>]", command)[0]
    return [
        word for word in re.findall(r"(?<![\w-])--[a-z][\w-]*", first) if word not in ("--help", "--version")
    ]
