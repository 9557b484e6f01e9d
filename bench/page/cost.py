"""What a command costs: processor seconds, seconds, and the most memory that one of its processes had.

A process begins with the memory of the one that started it counted as its own (`ru_maxrss` survives
`execve`), so it is started by a small one: this file, run by itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic


@dataclass(frozen=True)
class Cost:
    """cpu, wall: seconds. memory: bytes, of its largest process. why: why it says nothing, or ""."""

    cpu: float = 0.0
    wall: float = 0.0
    memory: int = 0
    why: str = ""


def cost_of(
    command: Sequence[str],
    limit: float = 600.0,
    environment: Mapping[str, str] | None = None,
    output: Path | None = None,
) -> Cost:
    """Run a command without input. limit: seconds, after which it is killed with its children. environment:
    its own, as here unless given. output: what it prints goes there."""
    starter = [sys.executable, "-I", "-S", __file__, repr(limit), str(output or os.devnull), *command]
    ran = subprocess.run(starter, stdout=subprocess.PIPE, env=environment, check=True)
    cpu, wall, memory, status = json.loads(ran.stdout)
    killed = status == -signal.SIGKILL and wall >= limit
    return Cost(cpu, wall, memory, f"> {limit:g} s" if killed else f"exit {status}" if status else "")


def _start(limit: float, output: str, command: Sequence[str]) -> tuple[float, float, int, int]:
    began = monotonic()
    with open(os.devnull, "r+b") as nothing, open(output, "wb") as out:
        process = subprocess.Popen(command, stdin=nothing, stdout=out, stderr=nothing, start_new_session=True)
        killer = threading.Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
        killer.start()
        _, status, used = os.wait4(process.pid, 0)
        killer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime
    return cpu, monotonic() - began, used.ru_maxrss << 10, process.returncode


if __name__ == "__main__":
    print(json.dumps(_start(float(sys.argv[1]), sys.argv[2], sys.argv[3:])))
