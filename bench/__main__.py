"""`python -m bench [speed|paper|ordering|sure|path|linkage|opr|seeds]`: all measurements, or one of them.

`opr-campaign` is not among all: it takes ten minutes.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from isa.kernel_cache import use_kernel_cache


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = ("all", "speed", "paper", "ordering", "sure", "path", "linkage", "opr", "seeds", "opr-campaign")
    parser.add_argument("what", nargs="?", choices=names, default="all")
    parser.add_argument("--rounds", type=int, default=3, help="speed: interleaved rounds (default 3)")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    use_kernel_cache()
    console = Console()
    if options.what in ("all", "speed"):
        from bench.speed import main as speed

        speed(console, rounds=options.rounds)
    if options.what in ("all", "paper"):
        from bench.paper import main as paper

        paper(console)
    if options.what in ("all", "ordering"):
        from bench.ordering import main as ordering

        ordering(console)
    if options.what in ("all", "sure"):
        from bench.sure import main as sure

        sure(console)
    if options.what in ("all", "path"):
        from bench.ordering_path import main as path

        path(console)
    if options.what in ("all", "linkage"):
        from bench.linkage import main as linkage

        linkage(console)
    if options.what in ("all", "opr"):
        from bench.opr import main as opr

        opr(console, rounds=options.rounds)
    if options.what in ("all", "seeds"):
        from bench.seeds import main as seeds

        seeds(console)
    if options.what == "opr-campaign":
        from bench.opr_campaign import main as campaign

        return 1 if campaign(console) else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
