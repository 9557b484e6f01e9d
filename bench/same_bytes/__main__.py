"""Whether two versions of corebraid make the same recordings and certificates, byte for byte.

    python -m bench.same_bytes make BEFORE.json --source OLD_CHECKOUT
    python -m bench.same_bytes make AFTER.json
    python -m bench.same_bytes compare BEFORE.json AFTER.json

`make` records every firmware image (SC with all evidence, TSO) and some Linux programs with fixed seeds,
orders each by `auto` and by the engine of each evidence stream, and notes digests of every file, certificate
and answer. Both notes have to come from one machine, whose libraries Linux guests load. The programs are
those of the checkout that this script lies in.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from bench.same_bytes.cases import GUESTS, IMAGES, BadInput, all_cases, chosen_cases
from bench.same_bytes.comparing import compare
from bench.same_bytes.making import Tool, make, place_for

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = Path("/tmp/corebraid-same-bytes")
FORMAT, VERSION = "corebraid same bytes", 1


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0: made, or equal. 1: a command failed, or a difference. 2: bad input."""
    options = _parser().parse_args(arguments)
    try:
        return _make(options) if options.what == "make" else _compare(options)
    except BadInput as error:
        print(f"same_bytes: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("same_bytes: interrupted, nothing is written", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m bench.same_bytes", description=__doc__, formatter_class=form)
    commands = parser.add_subparsers(dest="what", required=True)
    making = commands.add_parser("make", help="record, order, and note digests")
    making.add_argument("out", type=Path, metavar="OUT.json")
    making.add_argument("--source", type=Path, default=ROOT, help="the checkout to run (default: this one)")
    making.add_argument("--python", type=Path, help="its interpreter (default: SOURCE/.venv/bin/python)")
    making.add_argument("--programs", nargs="+", default=[], metavar="NAME", help="only these")
    making.add_argument("--quick", action="store_true", help="a few small programs")
    making.add_argument("--jobs", type=int, default=2, help="recordings at a time (default 2)")
    making.add_argument("--firmware", type=Path, default=ROOT / "firmware", help="the folder of the programs")
    making.add_argument(
        "--place", type=Path, default=PLACE,
        help=f"where Linux guests run: the same for both notes, as they know it (default {PLACE})",
    )  # fmt: skip
    comparing = commands.add_parser("compare", help="compare two notes; exit code 1 if they differ")
    comparing.add_argument("before", type=Path, metavar="BEFORE.json")
    comparing.add_argument("after", type=Path, metavar="AFTER.json")
    return parser


def _make(options: argparse.Namespace) -> int:
    if options.jobs < 1:
        raise BadInput("--jobs is at least 1")
    source, firmware = options.source.absolute(), options.firmware.absolute()
    if not (firmware / IMAGES).is_dir() or not (firmware / GUESTS).is_dir():
        raise BadInput(f"{firmware} has no {IMAGES} and {GUESTS}: check --firmware")
    python = options.python.absolute() if options.python else source / ".venv" / "bin" / "python"
    cases = chosen_cases(all_cases(firmware), options.programs, options.quick)
    if options.out.is_dir() or not os.access(options.out.absolute().parent, os.W_OK):
        raise BadInput(f"{options.out} cannot be written")
    with place_for(options.place.absolute(), firmware) as place:
        tool = Tool(source, python, place)
        tool.check()
        recordings, failures = make(tool, cases, firmware, options.jobs)
    # A line for each recording, so that diff and grep do something useful.
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(noted)}" for name, noted in recordings.items())
    head = f'{{"format": {json.dumps(FORMAT)}, "version": {VERSION}, "recordings": {{\n'
    options.out.write_text(f"{head}{lines}\n}}}}\n", encoding="utf-8")
    for line in failures:
        print(f"same_bytes: {line}", file=sys.stderr)
    files = [entry for noted in recordings.values() for entry in noted["files"].values()]
    total = sum(entry["bytes"] for entry in files)
    print(f"{len(recordings):,} recordings, {len(files):,} files and answers, {total:,} bytes: {options.out}")
    return 1 if failures else 0


def _compare(options: argparse.Namespace) -> int:
    totals = compare(_load(options.before), _load(options.after))
    for line in totals.lines:
        print(line)
    print(totals.line())
    return 0 if totals.same else 1


def _load(path: Path) -> dict[str, Any]:
    try:
        note = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise BadInput(f"{path} is not JSON ({error})") from None
    if not _is_note(note):
        raise BadInput(f"{path} is not what `make` of this version writes: make it again")
    recordings: dict[str, Any] = note["recordings"]
    return recordings


def _is_note(note: Any) -> bool:
    if not isinstance(note, dict) or (note.get("format"), note.get("version")) != (FORMAT, VERSION):
        return False
    try:
        return all(
            isinstance(noted["command"], str)
            and all(
                isinstance(entry["bytes"], int)
                and isinstance(entry["sha256"], str)
                and isinstance(entry["blocks"], str)
                for entry in noted["files"].values()
            )
            for noted in note["recordings"].values()
        )
    except (AttributeError, KeyError, TypeError):
        return False


if __name__ == "__main__":
    sys.exit(main())
