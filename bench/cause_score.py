"""How often a hunt names the true cause: programs with a known bug, whose lines that make it are marked.

    python -m bench.cause_score [--part all|NAME] [--flags="-O1"] [--programs NAME,...] [--keep FOLDER]
        [--reduce-time S] [--twins]

Needs gcc. Each program of bench/causes is built, hunted with `corebraid hunt`, and each hint is held against
the lines with a `// CAUSE`: it names the cause if two of its steps are at such lines, or next to them, where
compilers put parts of a statement. With --twins their correct twins are hunted too, in which nothing must be
found. The parts but `seen` were written by people who did not know what is looked for.
That was changed after each but the last had been scored once: docs/hunt.md has the scores of then.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from bench.report import Column, Table, publish

CAUSES = Path(__file__).with_name("causes")
_MARK, _HEAD = (
    "// CAUSE",
    re.compile(r"/\* class: (.*?);[\s*]+fails by: ([^;]+);[\s*]+cause: (.*?) \*/", re.DOTALL),
)
_RUNS = 300
#: In the order in which they were written.
PARTS = (
    "seen", "blind", "fresh", "unseen", "later", "further", "sixth", "seventh", "eighth", "ninth", "tenth",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A program with a bug. lines: those that make it."""

    path: Path
    kind: str
    fails_by: str
    lines: frozenset[int]

    @classmethod
    def of(cls, path: Path) -> Program:
        """From its source."""
        text = path.read_text(encoding="utf-8")
        head = _HEAD.search(text)
        assert head is not None, path
        marked = (n for n, line in enumerate(text.splitlines(), 1) if _MARK in line)
        return cls(path, head[1], head[2], frozenset(marked))

    @property
    def twin(self) -> Path:
        """The same without the bug."""
        return self.path.with_name(f"{self.path.stem}_ok{self.path.suffix}")

    def named_by(self, hint: dict[str, object]) -> bool:
        """Whether a hint (`Suspicion.facts`) names the cause."""
        place = re.compile(re.escape(self.path.name) + r":(\d+)")
        steps = hint["steps"]
        assert isinstance(steps, list)
        near = {n + k for n in self.lines for k in (-1, 0, 1)}
        at = [{int(n) for n in place.findall(step)} & near for step in steps]
        return sum(map(bool, at)) >= min(2, len(self.lines))


@dataclass(frozen=True)
class Score:
    """What a hunt said. run: which found it, 0 for none. hints: whether each names the cause. tried: of the
    first one it was tried that it decides."""

    program: Program
    run: int
    hints: list[bool] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    tried: bool = False

    @property
    def first(self) -> str:
        """What stands first: "cause", "other", or "nothing"."""
        return ("cause" if self.hints[0] else "other") if self.hints else "nothing"


def programs(part: str) -> list[Program]:
    """All of a part, by name."""
    folders = PARTS if part == "all" else (part,)
    paths = (path for folder in folders for path in (CAUSES / folder).iterdir())
    return [
        Program.of(path) for path in sorted(paths) if path.suffix in (".c", ".cpp") and not _is_twin(path)
    ]


def _is_twin(path: Path) -> bool:
    return path.stem.endswith("_ok")


def build(source: Path, flags: list[str], folder: Path) -> Path:
    """Compile a program into a folder. Raises CalledProcessError."""
    compiler = ["g++", "-std=c++17"] if source.suffix == ".cpp" else ["gcc", "-std=gnu11"]
    target = folder / source.stem
    subprocess.run([*compiler, "-g", *flags, "-pthread", str(source), "-o", str(target)], check=True)
    return target


def hunt(binary: Path, recording: Path, *, runs: int = _RUNS, reduce_time: float = 20.0) -> dict[str, object]:
    """What `corebraid hunt --json` says. Raises RuntimeError where it fails."""
    command = [sys.executable, "-m", "corebraid", "hunt", "--json", "--jobs", "1", "--runs", str(runs)]
    command += ["--reduce-time", str(reduce_time)]
    asked = [*command, "-o", str(recording), "--output", "/dev/null", "--", str(binary)]
    ran = subprocess.run(asked, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):
        raise RuntimeError(ran.stderr)
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def score(program: Program, flags: list[str], folder: Path, reduce_time: float = 20.0) -> Score:
    """Hunt one program."""
    binary = build(program.path, flags, folder)
    found = hunt(binary, folder / f"{program.path.stem}.rec", reduce_time=reduce_time)
    if not found["found"]:
        return Score(program, 0)
    hints = found["suspicions"]
    assert isinstance(hints, list)
    assert isinstance(found["run"], int)
    titles = [str(hint["title"]) for hint in hints]
    tried = bool(hints) and bool(hints[0]["tried"])
    return Score(program, found["run"], [program.named_by(hint) for hint in hints], titles, tried)


def table_of(scores: list[Score], flags: list[str], name: str) -> Table:
    """All that was said, and rates."""
    found = [one for one in scores if one.run]
    firsts = Counter(one.first for one in found)
    n = max(len(found), 1)
    among = sum(any(one.hints) for one in found)
    table = Table(
        name,
        f"Causes that hunts name ({' '.join(flags)})",
        [
            Column("program"),
            Column("class"),
            Column("run"),
            Column("first"),
            Column("at"),
            Column("said first"),
        ],
        [
            f"{len(found)} of {len(scores)} found. First the cause: {firsts['cause']} "
            f"({firsts['cause'] / n:.0%}); something else first: {firsts['other']} "
            f"({firsts['other'] / n:.0%}); nothing said: {firsts['nothing']}; the cause among the hints: "
            f"{among} ({among / n:.0%}). Tried what decides: {sum(one.tried for one in found)}."
        ],
    )
    for one in scores:
        at = one.hints.index(True) + 1 if any(one.hints) else 0
        said = one.titles[0] if one.titles else ""
        table.add(
            one.program.path.stem, one.program.kind, str(one.run or "-"), one.first, str(at or "-"), said
        )
    return table


def false_alarms(some: list[Program], flags: list[str], folder: Path, runs: int = 40) -> list[str]:
    """Twins in which something was found."""
    return [
        one.twin.stem
        for one in some
        if hunt(build(one.twin, flags, folder), folder / f"{one.twin.stem}.rec", runs=runs)["found"]
    ]


def main() -> int:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all")
    parser.add_argument("--reduce-time", type=float, default=20.0)
    parser.add_argument("--flags", default="-O1")
    parser.add_argument("--programs", default="")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--twins", action="store_true")
    options = parser.parse_args()
    chosen, flags = set(filter(None, options.programs.split(","))), options.flags.split()
    some = [one for one in programs(options.part) if not chosen or one.path.stem in chosen]
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(2) as pool:
            scores = list(pool.map(lambda one: score(one, flags, folder, options.reduce_time), some))
        publish("causes", [table_of(scores, flags, "causes")], Console())
        if options.twins:
            print("twins in which something was found:", false_alarms(some, flags, folder) or "none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
