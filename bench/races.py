"""Races that `corebraid races` finds, beside helgrind, drd and gcc's thread sanitizer on the same programs.

    python -m bench races        python -m bench.races [--programs NAME,...] [--keep FOLDER]

Needs gcc; a tool that is not there is left out, and told. Each program says in its first line, or below,
which of its variables race. What tools report is held against that by the address: a variable that races and
is reported is a hit, one that is not a miss, any other that is reported a false report. Natively each program
runs once, and is recorded once.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

import corebraid
from bench.report import Column, Table, publish

SOURCES = Path(__file__).with_name("race_programs")
LINUX = Path(__file__).resolve().parents[1] / "firmware" / "linux"
_HEAD = re.compile(r"/\* class: (.*?); races on: (.*?) \*/")
#: Programs of firmware/linux, and the variables that race in those with a bug, and in their twins.
_GUESTS = {
    "bug_lost_update": ("counter", ""), "bug_publication": ("shared, storage", ""), "bug_atomicity": ("", ""),
    "bug_lock_order": ("", ""), "bug_missed_wakeup": ("ready", ""),
}  # fmt: skip
_FLAGS = ("-std=gnu11", "-g", "-O1", "-no-pie", "-pthread")
_SECONDS = 120
_RACE_AT = {
    "helgrind": re.compile(r"Possible data race during \w+ of size \d+ at 0x([0-9A-Fa-f]+)"),
    "drd": re.compile(r"Conflicting \w+ by thread \d+ at 0x([0-9A-Fa-f]+)"),
    "tsan": re.compile(r"(?:Write|Read|[Aa]tomic \w+) of size \d+ at 0x([0-9A-Fa-f]+)"),
}


@dataclass(frozen=True)
class Program:
    """defines: for the preprocessor. racy: variables that race."""

    name: str
    source: Path
    kind: str
    racy: frozenset[str]
    defines: tuple[str, ...] = ()

    def build(self, folder: Path, *more: str) -> Path:
        """Compile it. Raises CalledProcessError."""
        target = folder / f"{self.name}{''.join(more)}"
        flags = [*_FLAGS, f'-DPROGRAM="{self.name}"', *self.defines, *more]
        subprocess.run(["gcc", *flags, str(self.source), "-o", str(target)], check=True)
        return target


def programs() -> Iterator[Program]:
    """All, with what is known of them."""
    for path in sorted(SOURCES.glob("*.c")):
        head = _HEAD.search(path.read_text(encoding="utf-8"))
        assert head is not None, path
        yield Program(path.stem, path, head[1], _variables(head[2]))
    for name, (bug, twin) in _GUESTS.items():
        source, good = LINUX / f"{name}.c", name.replace("bug_", "good_")
        yield Program(name, source, "firmware/linux", _variables(bug))
        yield Program(good, source, "firmware/linux, its twin", _variables(twin), ("-DGOOD",))


def _variables(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",")) - {"-", ""}


def symbols_of(binary: Path) -> Callable[[int], str]:
    """The name of the variable at an address; an address in hexadecimal where there is none."""
    listed = subprocess.run(["nm", "-S", str(binary)], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listed.splitlines())
    spans = [(int(row[0], 16), int(row[1], 16), row[3]) for row in rows if len(row) == 4]

    def name(address: int) -> str:
        return next((name for start, size, name in spans if start <= address < start + size), hex(address))

    return name


def by_us(program: Program, folder: Path, *, spinning: bool = False) -> frozenset[str]:
    """What `corebraid races` reports. Raises CorebraidError."""
    binary, recording = program.build(folder), folder / f"{program.name}.rec"
    if not recording.exists():
        corebraid.record(binary, recording, cores=4, output=lambda _: None, error=lambda _: None)
        corebraid.order(recording)
    found = corebraid.races(recording, quick=True, spinning=spinning)
    name = symbols_of(binary)
    return frozenset(name(race.address) for race in found.races)


def by_tool(tool: str, program: Program, folder: Path) -> frozenset[str]:
    """What another tool reports."""
    binary = program.build(folder, *(["-fsanitize=thread"] if tool == "tsan" else []))
    # The sanitizer wants addresses where it expects them.
    before = ["setarch", "-R"] if tool == "tsan" else ["valgrind", f"--tool={tool}"]
    try:
        ran = subprocess.run(
            [*before, str(binary)], capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return frozenset({f"(no end in {_SECONDS} s)"})
    name = symbols_of(binary)
    return frozenset(name(int(at, 16)) for at in _RACE_AT[tool].findall(ran.stderr))


def tools() -> list[str]:
    """Those that are there."""
    found = ["helgrind", "drd"] if shutil.which("valgrind") else []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.c")
        source.write_text("int main(void) { return 0; }\n")
        command = ["gcc", "-fsanitize=thread", str(source), "-o", str(source.with_suffix(""))]
        built = subprocess.run(command, capture_output=True, check=False).returncode == 0
    return [*found, "tsan"] if built else found


def _said(found: frozenset[str], racy: frozenset[str]) -> str:
    """Hits, misses and false reports."""
    parts = [", ".join(sorted(found & racy))]
    parts += [f"misses {', '.join(sorted(racy - found))}"] if racy - found else []
    parts += [f"false: {', '.join(sorted(found - racy))}"] if found - racy else []
    return "; ".join(filter(None, parts)) or "-"


def measure(some: list[Program], folder: Path) -> Table:
    """All programs by all tools."""
    others = tools()
    names = ["corebraid", "corebraid --spinning", *others]
    table = Table(
        "races",
        "Races reported, by variable",
        [Column(name) for name in ("program", "class", "races on", *names)],
    )
    totals = {name: [0, 0, 0] for name in names}
    for program in some:
        found = {names[0]: by_us(program, folder), names[1]: by_us(program, folder, spinning=True)}
        found |= {tool: by_tool(tool, program, folder) for tool in others}
        for name, one in found.items():
            hits = len(one & program.racy)
            for n, more in enumerate((hits, len(program.racy) - hits, len(one - program.racy))):
                totals[name][n] += more
        said = [_said(found[name], program.racy) for name in names]
        table.add(program.name, program.kind, ", ".join(sorted(program.racy)) or "-", *said)
    table.notes = [
        f"{name}: {hits} found, {misses} missed, {false} false"
        for name, (hits, misses, false) in totals.items()
    ]
    missing = {"helgrind", "drd", "tsan"} - set(others)
    table.notes += [f"not there: {', '.join(sorted(missing))}"] if missing else []
    return table


def main(console: Console | None = None) -> int:
    """Measure and publish."""
    chosen, keep = set[str](), None
    if console is None:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--programs", default="")
        parser.add_argument("--keep", type=Path)
        options = parser.parse_args()
        chosen, keep = set(filter(None, options.programs.split(","))), options.keep
    some = [one for one in programs() if not chosen or one.name in chosen]
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        folder = keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        publish("races", [measure(some, folder)], console or Console())
    return 0


if __name__ == "__main__":
    from corebraid.base.kernel_cache import use_kernel_cache

    use_kernel_cache()
    sys.exit(main())
