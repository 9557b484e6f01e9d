"""Two notes held against each other: what is equal, and which file differs first, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.same_bytes.making import BLOCK

#: Most fields of one file that are shown.
_MOST_FIELDS = 5
_NOTHING = object()
#: Fields of the manifest that tell of the run, and so follow from what differs elsewhere.
_FOLLOWING = ("complete", "end", "instructions", "totals", "files", "digest")


@dataclass
class Totals:
    """Counts of recordings, files (what commands say with --json is none), and bytes of equal files."""

    recordings: int = 0
    equal_recordings: int = 0
    files: int = 0
    equal_files: int = 0
    answers: int = 0
    equal_answers: int = 0
    bytes: int = 0
    lines: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.recordings == self.equal_recordings

    def line(self) -> str:
        """In words."""
        return (
            f"{self.equal_recordings:,} of {self.recordings:,} recordings are equal; "
            f"{self.equal_files:,} of {self.files:,} files, {self.bytes:,} bytes; "
            f"{self.equal_answers:,} of {self.answers:,} answers in JSON"
        )


def compare(before: dict[str, Any], after: dict[str, Any]) -> Totals:
    """Compare two notes' recordings: case -> what was noted."""
    totals = Totals()
    for name in dict.fromkeys([*before, *after]):
        totals.recordings += 1
        if name not in before or name not in after:
            totals.lines.append(f"DIFFERENT  {name}: only {'before' if name in before else 'after'}")
            continue
        found = _compare_one(before[name], after[name], totals)
        if not found:
            totals.equal_recordings += 1
            totals.lines.append(f"equal      {name}: {len(before[name]['files'])} files and answers")
            continue
        totals.lines.append(f"DIFFERENT  {name}, first {found[0]}")
        totals.lines += [f"           {line}" for line in found[1:]]
    return totals


def _compare_one(before: dict[str, Any], after: dict[str, Any], totals: Totals) -> list[str]:
    """Lines about what differs in one recording, the first to look at first."""
    lines = []
    if before["command"] != after["command"]:
        lines.append(f"the command: {before['command']!r}, then {after['command']!r}")
    old, new = before["files"], after["files"]
    for name in sorted({*old, *new}, key=lambda name: _rank(name, old, new)):
        said = name.endswith("--json")
        totals.answers += said
        totals.files += not said
        if name not in old or name not in new:
            lines.append(f"{name}: only {'before' if name in old else 'after'}")
        elif old[name]["sha256"] == new[name]["sha256"]:
            totals.equal_answers += said
            totals.equal_files += not said
            totals.bytes += 0 if said else old[name]["bytes"]
        else:
            lines.append(f"{name}: {_where(old[name], new[name])}")
    return lines


def _rank(name: str, old: dict[str, Any], new: dict[str, Any]) -> tuple[int, str]:
    """Causes before what follows from them: what decides the run, memory before it, what was recorded, what
    the manifest says of that, certificates, what commands say."""
    if name == "manifest.json":
        fields = [entries[name].get("fields") if name in entries else {} for entries in (old, new)]
        decides = any(not _follows(path) for path, _, _ in differences(*fields))
        return (0 if decides else 4, name)
    if name.endswith("--json"):
        return (6 if name.startswith("record") else 7, name)
    if " --engine " in name:
        return (5, name)
    if name in ("initial.img", "program.elf"):
        return (1, name)
    return (3 if name.startswith(("evidence-", "final", "truth")) else 2, name)


def _follows(path: str) -> bool:
    return path.partition(".")[0].partition("[")[0] in _FOLLOWING


def _where(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Where two files that differ do so first."""
    if "fields" in old and "fields" in new:
        found = sorted(differences(old["fields"], new["fields"]), key=lambda one: _follows(one[0]))
        if found:
            shown = [f"{path} {_short(a)}, then {_short(b)}" for path, a, b in found[:_MOST_FIELDS]]
            more = f"; and {len(found) - _MOST_FIELDS} more fields" if len(found) > _MOST_FIELDS else ""
            return "; ".join(shown) + more
    one, other = old["blocks"].split(), new["blocks"].split()
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    last = min((same + 1) * BLOCK, max(old["bytes"], new["bytes"])) - 1
    sizes = f"of {old['bytes']:,}" + ("" if old["bytes"] == new["bytes"] else f", then of {new['bytes']:,}")
    return f"first in the bytes {same * BLOCK:,} to {last:,} {sizes}"


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, before, after) of every field that differs between two JSON values, in the order of `old`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*old, *new]):
            below = f"{path}.{name}" if path else name
            yield from differences(old.get(name, _NOTHING), new.get(name, _NOTHING), below)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from differences(a, b, f"{path}[{at}]")
    elif type(old) is not type(new) or old != new:
        yield path, old, new


def _short(value: Any) -> str:
    if value is _NOTHING:
        return "missing"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:36]}..."
