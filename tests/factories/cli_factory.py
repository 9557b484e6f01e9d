"""Small guest programs and a way to run the command line, for the tests of the face."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from corebraid.cli.group import cli

ROOT = Path(__file__).resolve().parents[2]
FIRMWARE = ROOT / "firmware" / "x86_64"
BASE = 0x100000

#: Machine code: jmp to itself; hlt with interrupts off; write 7 to POWER_OFF (firmware/include/machine.h).
FOREVER = bytes.fromhex("ebfe")
HALT = bytes.fromhex("f4ebfd")
EXIT_7 = bytes.fromhex("b8100000f0 c70007000000 ebfe")
#: inc qword [0x101000]; jmp back: one read-modify-write every two instructions.
COUNT_UP = bytes.fromhex("48ff042500101000 ebf6")


def elf(
    code: bytes = FOREVER,
    *,
    entry: int = BASE,
    address: int = BASE,
    memory: int = 0x2000,
    machine: int = 62,
    kind: int = 2,
    flags: int = 7,
) -> bytes:
    """A static ELF of one segment, without sections; `machine` 62 is x86-64, `kind` 2 is ET_EXEC."""
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, entry, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, flags, 120, address, address, len(code), memory, 0x1000)
    return ident + header + segment + code


@dataclass(frozen=True)
class Ran:
    """What a command did. out, err: its stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of stderr."""
        return self.err.splitlines()


def run(*arguments: object, stdin: bytes = b"") -> Ran:
    """Run corebraid in this process. A traceback fails the test."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    """Start corebraid in a process of its own, which heeds Ctrl-C even where this one was started so as to
    ignore it: in the background of a shell script."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "corebraid", *(str(argument) for argument in arguments)]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        preexec_fn=_heed_interrupts,
        **options,  # type: ignore[call-overload]
    )


def record(directory: Path, program: Path | str, *more: object) -> Ran:
    """Record a firmware program by name, or an image by path, on 4 cores unless `more` says otherwise."""
    image = FIRMWARE / f"{program}.elf" if isinstance(program, str) else program
    return run("record", "-o", directory, *more, image)


def refused(ran: Ran, *parts: str, code: int = 2) -> None:
    """One line on stderr that names what matters, and nothing on stdout."""
    assert (ran.code, ran.out) == (code, ""), ran
    assert len(ran.lines) == 1, ran.err
    assert ran.err.startswith("corebraid: ")
    for part in parts:
        assert part in ran.err, ran.err
