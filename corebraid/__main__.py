"""The command `corebraid`."""

from __future__ import annotations

# Nothing that takes time: until `main` runs a Ctrl-C is a traceback.
import gc
import io
import os
import sys

#: New objects after which Python looks for cycles among them. The modules that we load make some hundred
#: thousand, all of which stay: with Python's 700 a third of a small recording's time goes into looking, with
#: a hundred thousand a twentieth.
_OBJECTS_BETWEEN_SEARCHES = 500_000
_NAME = "corebraid"
_INTERRUPTED, _MISUSED = 130, 2
#: Set by a shell that asks how a command line may go on (Click's documentation, "Shell Completion").
_COMPLETION = "_COREBRAID_COMPLETE"
#: Threads that NumPy's linear algebra starts when it is loaded, where nobody has said how many: nothing here
#: asks it for any, and starting them takes a tenth of a second of processors.
_ALGEBRA_THREADS = ("OPENBLAS_NUM_THREADS", "1")


def _open_closed_streams() -> None:
    """Let standard streams that were closed lead nowhere. Files would get their numbers otherwise."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _buffer_output() -> None:
    """Let what cannot be written at once wait, or be told of. Of streams that Python was told not to buffer
    (PYTHONUNBUFFERED) it writes what there is room for, and loses the rest without a word."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(getattr(stream, "buffer", None), io.RawIOBase):
            buffer = os.fdopen(stream.fileno(), "wb", closefd=False)
            wrapped = io.TextIOWrapper(buffer, stream.encoding, stream.errors, write_through=True)
            setattr(sys, name, wrapped)


def _let_go_of_output() -> None:
    """What could not be written has been told of: Python is not to try again at its end, and fail."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main() -> None:
    """Run the command line and exit with its code (docs: `corebraid --help`)."""
    try:
        from corebraid.base.stack import too_small

        # Before anything that takes more of it.
        if refused := too_small():
            os.write(2, f"corebraid: {refused}\n".encode())
            os._exit(_MISUSED)
        from corebraid.base.interrupts import answered, ignore_ends

        code = answered(_run)
        ignore_ends()
    except KeyboardInterrupt:
        # It came before it could be answered: what there is to do that with may be half loaded.
        try:
            os.write(2, b"corebraid: interrupted\n")
        finally:
            os._exit(_INTERRUPTED)
    _let_go_of_output()
    sys.exit(code)


def _run() -> int:
    """Returns the exit code. Raises KeyboardInterrupt."""
    from corebraid.base.kernel_cache import use_kernel_cache

    _open_closed_streams()
    _buffer_output()
    gc.set_threshold(_OBJECTS_BETWEEN_SEARCHES)
    if _ALGEBRA_THREADS[0] not in os.environ:
        # Not in `os.environ`, which is what guests are given.
        os.putenv(*_ALGEBRA_THREADS)
    # Numba reads its cache directory when it is imported, which the commands do.
    own_cache = use_kernel_cache() is not None
    import click

    from corebraid.cli.console import OWN_CACHE
    from corebraid.cli.group import cli, misused, unwritable

    if _COMPLETION in os.environ:
        return int(cli.main(prog_name=_NAME, standalone_mode=False) or 0)
    # What `cli.main` does, which would answer an interrupt with an empty line.
    try:
        with cli.make_context(_NAME, sys.argv[1:]) as context:
            context.meta[OWN_CACHE] = own_cache
            return int(cli.invoke(context) or 0)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        # Of options before there is a command.
        return misused(error, sys.argv[1:], _NAME)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except OSError as error:
        # Of help and the version, which are printed before there is a command.
        return unwritable(error)


if __name__ == "__main__":
    main()
