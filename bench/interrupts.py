"""The Ctrl-C campaign: `order` interrupted at random moments, once or twice, as by a terminal.

    python -m bench.interrupts [--runs 300] [--seed 0]

Whenever it comes: one line, exit code 130, no process left behind, and in the recording nothing but finished
regions; or the command had finished. Prints counts, and exits with 1 if anything else happened.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from recorder.files.manifest import ORDER_CERT

ROOT = Path(__file__).resolve().parent.parent
LINE = "corebraid: interrupted"
#: Environment variable by which processes of a run are found, whatever they have become.
_MARK = "COREBRAID_BENCH_RUN"
#: An order on its way to be `order.cert`.
_UNCHECKED = f"{ORDER_CERT}.unchecked"
#: From when on Ctrl-C is the command's, and no longer that of Python's own start.
_CODE = (
    "import os, sys\n"
    "from corebraid.__main__ import main\n"
    "from corebraid.base.interrupts import answer_interrupts\n"
    "answer_interrupts(); os.write(int(sys.argv.pop(1)), b'.'); main()"
)
_PAPER = ("--engine", "smt", "--encoding", "paper", "--region-timeout", "0.3")
#: Arguments of `order` by name; all kept regions are solved anew.
ORDERS = {
    "auto": (),
    "smt": ("--engine", "smt", "--jobs", "1"),
    "paper": (*_PAPER, "--jobs", "1"),
    "smt, 2 jobs": ("--engine", "smt", "--jobs", "2"),
    "paper, 2 jobs": (*_PAPER, "--jobs", "2"),
}
_GONE_S = 20.0
_MOST_BETWEEN_S = 0.05


@dataclass(frozen=True)
class Ended:
    """How a run ended. seconds: from the first moment at which Ctrl-C could come. left: process ids that were
    still there some seconds later."""

    code: int
    out: str
    err: str
    seconds: float
    left: list[int]

    @property
    def finished(self) -> bool:
        """Whether it ended as if nobody had interrupted it."""
        return self.code == 0 and LINE not in self.err

    @property
    def interrupted(self) -> bool:
        """Whether it ended as it should where it was interrupted."""
        return self.code == 130 and self.err.splitlines() == [LINE]


def run(arguments: tuple[object, ...], delays: tuple[float, ...], mark: str) -> Ended:
    """Run corebraid and press Ctrl-C after so many seconds, each from the one before."""
    ready, told = os.pipe()
    command = [sys.executable, "-c", _CODE, str(told), *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[told],
        env={**os.environ, "PYTHONPATH": str(ROOT), _MARK: mark}, start_new_session=True, text=True,
        preexec_fn=_heed_interrupts,
    )  # fmt: skip
    os.close(told)
    try:
        os.read(ready, 1)
        began = time.monotonic()
        for delay in delays:
            time.sleep(delay)
            _press(process)
        out, err = process.communicate(timeout=120)
        seconds = time.monotonic() - began
    finally:
        os.close(ready)
        process.kill()
    return Ended(process.returncode, out, err, seconds, _left(mark))


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _press(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)


def _left(mark: str) -> list[int]:
    until = time.monotonic() + _GONE_S
    while (left := marked(mark)) and time.monotonic() < until:
        time.sleep(0.02)
    return left


def marked(mark: str) -> list[int]:
    """Processes of this user that a run has left."""
    wanted, found = f"{_MARK}={mark}".encode(), []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def interrupted_orders(recording: Path, runs: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Interrupt orders of a recording, which has to be its own; (counts by what happened, failures).

    A second Ctrl-C leaves at once: it may leave an order that nobody has checked, which the next one removes.
    """
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    own = {path.name for path in recording.iterdir()} - {ORDER_CERT, "order.partial"}
    names = list(ORDERS)
    whole = {}
    for number in range(runs):
        name = names[number % len(names)]
        command = ("order", recording, "--fresh", *ORDERS[name])
        mark = f"{os.getpid()}-{seed}-{number}"
        if name not in whole:
            whole[name] = run(command, (), mark).seconds
        twice = rng.random() < 0.5
        delays = (rng.uniform(0, whole[name]), *((rng.uniform(0, _MOST_BETWEEN_S),) if twice else ()))
        ended = run(command, delays, mark)
        known = {ORDER_CERT, "order.partial", *({_UNCHECKED} if twice else ())}
        strange = {path.name for path in recording.iterdir()} - own - known
        (recording / _UNCHECKED).unlink(missing_ok=True)
        if (ended.finished or ended.interrupted) and not strange and not ended.left:
            counts["interrupted" if ended.interrupted else "finished before"] += 1
            continue
        counts["WRONG"] += 1
        failures.append(
            f"order {' '.join(ORDERS[name])}, Ctrl-C after {delays}: exit code {ended.code}, "
            f"files {strange}, processes {ended.left}, stderr:\n{ended.err}"
        )
    return counts, failures


def main() -> int:
    """Run the campaign; returns the exit status."""
    parser = argparse.ArgumentParser(description="Ctrl-C at random moments.")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="corebraid-interrupts-") as folder:
        recording = Path(folder) / "rec"
        image = ROOT / "firmware" / "x86_64" / "uts.elf"
        made = ("record", "-o", recording, "--cores", 4, "--strata", "cycles:10000", image)
        if run(made, (), "made").code:
            parser.error("the recording could not be made")
        counts, failures = interrupted_orders(recording, chosen.runs, chosen.seed)
    for failure in failures:
        print(failure, flush=True)
    print(", ".join(f"{count:,} {what}" for what, count in sorted(counts.items())))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
