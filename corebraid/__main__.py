"""The command `corebraid`."""

from __future__ import annotations

import gc
import os
import sys
import threading

from isa.kernel_cache import use_kernel_cache

_INTERRUPTED = 130
#: New objects after which Python looks for cycles among them. The modules that we load make some hundred
#: thousand, all of which stay: with Python's 700 a third of a small recording's time goes into looking.
_OBJECTS_BETWEEN_SEARCHES = 100_000


def _open_closed_streams() -> None:
    """Let standard streams that were closed lead nowhere. Files would get their numbers otherwise."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def main() -> None:
    """Run the command line and exit with its code (docs: `corebraid --help`)."""
    try:
        _run()
    except KeyboardInterrupt:
        # It came while modules were loading: the commands deal with it themselves.
        sys.stderr.write("corebraid: interrupted\n")
        sys.exit(_INTERRUPTED)


def _run() -> None:
    _open_closed_streams()
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES)
    # Numba reads its cache directory when it is imported, which the commands do.
    use_kernel_cache()
    from corebraid.cli import cli

    try:
        cli(prog_name="corebraid")
    except SystemExit as ending:
        if ending.code == _INTERRUPTED and threading.active_count() > 1:
            # A solver that does not heed an interrupt must not be torn down under its own feet.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(_INTERRUPTED)
        raise


if __name__ == "__main__":
    main()
