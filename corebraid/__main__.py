"""The command `corebraid`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress

from corebraid.interrupts import interrupts_heard
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
        with interrupts_heard():
            code = _run()
    except KeyboardInterrupt:
        # It came while modules were loading: the commands deal with it themselves.
        sys.stderr.write("corebraid: interrupted\n")
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        _leave_at_once()
    sys.exit(code)


def _leave_at_once() -> None:
    """Exit without tearing anything down: neither a solver that does not heed an interrupt nor a module that
    was half loaded outlives that, and a second Ctrl-C would end it with a signal or a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(_INTERRUPTED)


def _run() -> int:
    """Returns the exit code. Raises KeyboardInterrupt."""
    _open_closed_streams()
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES)
    # Numba reads its cache directory when it is imported, which the commands do.
    use_kernel_cache()
    import click

    from corebraid.cli import cli

    try:
        return int(cli.main(prog_name="corebraid", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        # A second Ctrl-C, while the first was dealt with.
        return _INTERRUPTED


if __name__ == "__main__":
    main()
