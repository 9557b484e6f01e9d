"""`python -m bench [NAME]`: all measurements, or one of them."""

from __future__ import annotations

import argparse
import importlib
import sys

from rich.console import Console

from bench.report import OUT
from corebraid.base.kernel_cache import use_kernel_cache

#: Name -> module, in the order in which all are run; `seeds` shows what those before it have measured.
_BENCHMARKS = {
    "speed": "speed",
    "pages": "pages",
    "start": "start",
    "seek": "seek",
    "shares": "shares",
    "contested": "contested",
    "cuts": "cuts",
    "page": "page",
    "linux": "linux_speed",
    "paper": "paper",
    "figure6": "figure6",
    "ordering": "ordering",
    "sure": "sure",
    "settled": "settled",
    "path": "ordering_path",
    "check": "axe_check",
    "locks": "ordering_linux",
    "rerun": "rerun_tables",
    "linkage": "linkage",
    "leap": "linkage_leap",
    "waits": "linkage_waits",
    "protected": "linkage_protected",
    "replayer": "linkage_replay",
    "edges": "linkage_edges",
    "lightplay": "lightplay",
    "stages": "lightplay_stages",
    "devices": "lightplay_devices",
    "total": "lightplay_total",
    "ahead": "lightplay_ahead",
    "opr": "opr",
    "oprlog": "opr_log",
    "rpc": "rpc",
    "points": "rpc_points",
    "judged": "judged",
    "systems": "systems",
    "races": "races",
    "hunt": "hunt",
    "forks": "forks",
    "smallest": "smallest",
    "exhaustive": "exhaustive",
    "corrections": "corrections",
    "seeds": "seeds",
}


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("all", *_BENCHMARKS), default="all")
    rounds = "of speed, pages, start, seek, shares, contested, cuts, page, linux, systems, forks (default 3)"
    parser.add_argument("--rounds", type=int, default=3, help=rounds)
    only = "linux, page, judged, systems: only these"
    parser.add_argument("--programs", nargs="+", default=[], metavar="NAME", help=only)
    parser.add_argument("--json", action="store_true", help="print what OUT/<name>.json holds, nothing else")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    use_kernel_cache()
    console = Console(quiet=options.json)
    for name, module in _BENCHMARKS.items():
        if options.what in ("all", name):
            run = importlib.import_module(f"bench.{module}").main
            if name in ("speed", "pages", "start", "seek", "shares", "contested", "cuts", "forks"):
                run(console, rounds=options.rounds)
            elif name == "judged":
                run(console, chosen=tuple(options.programs))
            elif name in ("linux", "page", "systems"):
                run(console, rounds=options.rounds, chosen=tuple(options.programs))
            else:
                run(console)
            if options.json:
                print((OUT / f"{name}.json").read_text(encoding="utf-8"), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
