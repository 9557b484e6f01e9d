"""The command group: finds commands without loading what they need, and turns errors into exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

import corebraid
from corebraid.base.descriptors import check_room
from corebraid.base.errors import CorebraidError, shortage_of
from corebraid.base.interrupts import INTERRUPTED, ends_heard, interrupts_heard, interrupts_told
from corebraid.base.wording import MOST_SHOWN, shown, shown_words
from corebraid.cli.console import note
from corebraid.cli.wording import TYPED
from corebraid.names.left_out import told_left_out

#: Command -> its module in corebraid.cli.commands, in the order in which --help shows them.
_COMMANDS = {
    "example": "example",
    "record": "record",
    "hunt": "hunt",
    "info": "info",
    "replay": "replay",
    "checkpoint": "checkpoint",
    "order": "order",
    "pairs": "pairs",
    "races": "races",
    "slices": "slices",
    "check-order": "check_order",
    "check": "check",
    "rpc": "rpc",
    "opr": "opr",
    "trace": "trace",
    "who-wrote": "who_wrote",
    "history": "history",
    "crosscheck": "crosscheck",
    "linkage": "linkage",
    "verify": "verify",
}

#: In the context of a command line (`click.Context.meta`): its words as they were typed.
_GIVEN = "corebraid.given"


class Face(click.Group):
    """The one place where errors become a line on stderr and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which they are used."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the module of a command; the modules load nothing heavy before they run."""
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"corebraid.cli.commands.{_COMMANDS[name]}")
        command: click.Command = module.command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As of any group; keeps the words for messages."""
        ctx.meta[_GIVEN] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what it returns is the exit code."""
        try:
            with told_left_out() as left_out:
                code = self._code(ctx)
                for line in left_out:
                    note(line)
        except KeyboardInterrupt:
            # A second one, before the first was told.
            code = _interrupted("")
        ctx.exit(code)

    def _code(self, ctx: click.Context) -> int:
        try:
            with interrupts_heard(), ends_heard():
                check_room()
                code = int(super().invoke(ctx) or 0)
                sys.stdout.flush()
        except CorebraidError as error:
            code = complain(error.line(TYPED), error.exit_code)
        except click.UsageError as error:
            code = misused(error, ctx.meta[_GIVEN], ctx.command_path)
        except KeyboardInterrupt as interrupt:
            code = _interrupted(str(interrupt))
        except (MemoryError, OSError, ImportError) as error:
            short = shortage_of(error)
            if short is not None:
                code = complain(short.line(TYPED), short.exit_code)
            elif isinstance(error, OSError):
                code = unwritable(error)
            else:
                raise
        return code


def misused(error: click.UsageError, given: Sequence[str], name: str) -> int:
    """Say what of the words `given` cannot be; returns the exit code. name: of the command, if Click does not
    know."""
    message = shown_words(_given_shown(error.format_message(), given))
    command = error.ctx.command_path if error.ctx else name
    return complain(f"{message} (see '{command} --help')", error.exit_code)


def _given_shown(message: str, given: Sequence[str]) -> str:
    """A message of Click's, which repeats what was typed, with the beginning of each long word of that."""
    for word in sorted({*given, *(word.partition("=")[2] for word in given)}, key=len, reverse=True):
        if len(word) > MOST_SHOWN:
            message = message.replace(repr(word), repr(shown(word))).replace(word, shown(word))
    return message


def unwritable(error: OSError) -> int:
    """Say what could not be written, unless a reader has seen enough; returns the exit code."""
    # What Python still holds for standard output must not complain at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError):
        return 0
    # Commands name the files that they fail with; what is left is standard output.
    return complain(f"{error.filename or 'standard output'}: {error.strerror}", 2)


def _interrupted(line: str) -> int:
    """Say so, once; returns the exit code."""
    return INTERRUPTED if interrupts_told() else complain(line or "interrupted", INTERRUPTED)


def complain(line: str, code: int) -> int:
    """Print one line on stderr; returns `code`."""
    # Where stderr is full nobody can be told.
    with suppress(OSError):
        click.echo(f"corebraid: {' '.join(line.split())}", err=True)
    return code


@click.group(
    cls=Face,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 fine; 1 the answer is no (divergence, no legal order, damage); 2 wrong use or "
    "input that cannot be read; 3 the guest failed; 130 interrupted. Facts go to stdout, messages to "
    "stderr. 'corebraid COMMAND --help' has examples.",
)
@click.version_option(corebraid.__version__, prog_name="corebraid")
def cli() -> None:
    """Record every core alone; braid them back together.

    corebraid runs a multi-core program under emulation and logs, for each core, only what that core could
    not have computed itself: the lines it received from elsewhere, timer and device reads, interrupts. It
    never logs in which order the cores' accesses happened. From such a recording it replays any one core
    by itself, bit for bit, and works out afterwards a legal order of all accesses.

    A recording is a directory. A stratum is a cut of the run, every core's instruction count at one
    instant; the accesses between two strata are a region, and each region is ordered by itself.

    \b
    The whole path:
      corebraid example uts
      corebraid record -o REC --cores 4 uts.elf
      corebraid replay REC --core 2
      corebraid order REC
      corebraid trace REC --ordered | less
      corebraid verify REC
    """
