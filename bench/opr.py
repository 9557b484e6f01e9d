"""OPR on our programs: its Table 2 (overhead, shadow memory, log size by size of the group), and what the
paper does not give: how good its inference is, by exact and by relaxed clocks, against the sealed truth."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from bench.linkage_baselines import Counter
from bench.programs import image
from bench.report import Column, Table, publish
from corebraid.study.opr_score import Score, score
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Capture, RecordOptions
from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.opr.codec import Encoder
from recorder.evidence.opr.collector import OprCollector
from recorder.evidence.opr.log import read_opr
from recorder.files.collectors import Guest, Rows
from recorder.files.reader import Recording
from solver.evidence.opr.inference import replay_group

CORES, GROUPS = 64, (2, 4, 8, 16)
PROGRAMS = (
    "pgas_cg", "pgas_ep", "pgas_is", "pgas_guppie", "pgas_laplace", "pgas_mcop", "pgas_fib", "pgas_queens",
    "pgas_uts", "uts",
)  # fmt: skip
#: The paper's Table 2: overhead for groups of 2, 4, 8 and 16, shadow memory, largest log.
PAPER = {
    "pgas_cg": ("5.79x 5.84x 5.93x 6.16x", "7.51 MB", "16.9 GB"),
    "pgas_ep": ("5.79x 3.98x 3.97x 4.03x", "0.13 MB", "0.12 MB"),
    "pgas_is": ("1.39x 1.44x 1.51x 1.57x", "13.08 MB", "13 MB"),
    "pgas_guppie": ("4.49x 4.67x 4.74x 4.89x", "64 MB", "519 MB"),
    "pgas_laplace": ("8.55x 12.84x 14.76x 13.14x", "0.52 MB", "0.15 MB"),
    "pgas_mcop": ("0.24x 0.52x 0.31x 0.29x", "86.05 MB", "121 MB"),
    "pgas_fib": ("0.98x 0.99x 0.98x 1.14x", "0.26 MB", "1.31 MB"),
    "pgas_queens": ("12.2x 12.8x 12.9x 13.4x", "0.28 MB", "85 MB"),
    "pgas_uts": ("25.4x 25.3x 26.0x 26.4x", "40 MB", "204 MB"),
}
#: Slices of a waiting core would otherwise be most of what a program of 64 cores does.
_SLICE, _STRATA = 300, StrataPolicy(cycles=100_000)


def members(group: int, cores: int) -> str:
    """A group spread over the cores, as the paper takes cores of different nodes."""
    return ",".join(str(k * cores // group) for k in range(group))


def _options(cores: int, rset: str = "") -> RecordOptions:
    return RecordOptions(
        cores=cores,
        seed=1,
        longest_slice=_SLICE,
        strata=_STRATA,
        evidence=("opr",) if rset else (),
        evidence_options={"rset": rset} if rset else {},
    )


class Watching:
    """A collector that is made once the machine is there. It writes nowhere."""

    def __init__(self) -> None:
        self.inner: OprCollector | None = None

    def begin(self, capture: Capture, options: RecordOptions, rset: str) -> None:
        """Make it."""
        machine = capture.machine
        guest = Guest(options.cores, options.cache.line, options.seed, machine.home, (), machine.executable())
        self.inner = OprCollector(guest, Counter(), rset)

    def take(self, stream: int, rows: Rows) -> None:
        """See `Collector`."""
        assert self.inner is not None
        self.inner.take(stream, rows)

    def stratum(self) -> None:
        """Nothing."""

    def flush(self) -> None:
        """See `Collector`."""
        assert self.inner is not None
        self.inner.flush()

    def finish(self) -> None:
        """Nothing."""


def shadow_bytes(program: Path, cores: int, rset: str, folder: Path) -> int:
    """The largest shadow memory of a member, at the end of a run."""
    watching, options = Watching(), _options(cores)
    capture = Capture(program, folder, X86_64, options, lambda _: None, (watching,))
    watching.begin(capture, options, rset)
    with capture.writer:
        capture.run()
    assert watching.inner is not None
    return max(watching.inner.shadow_bytes)


def seconds(program: Path, cores: int, rset: str, folder: Path, rounds: int) -> float:
    """Processor time of a recording, the shortest of some rounds. The last one stays in `folder`."""
    times = []
    for number in range(rounds):
        path = folder if number == rounds - 1 else folder.with_name(f"{folder.name}-{number}")
        capture = Capture(program, path, X86_64, _options(cores, rset), lambda _: None)
        began = time.process_time()
        with capture.writer:
            capture.run()
        times.append(time.process_time() - began)
        # Machines of 64 cores are large: none of them waits for the collector.
        del capture
        gc.collect()
    return min(times)


def largest_log(recording: Recording) -> int:
    """Bytes of the stream that the busiest member needs, before compression."""
    log, sizes = read_opr(recording), []
    for member in range(len(log.members)):
        rows = log.rows[log.rows["member"] == member]
        encoder, start, total = Encoder(len(log.members), 1 << 20, recording.manifest.memory), 0, 0
        while start < len(rows):
            start, payload = encoder.encode_some(rows, start)
            total += len(payload)
        sizes.append(total)
    return max(sizes)


def looks(recording: Recording) -> tuple[float, float]:
    """Accesses of the members for an instruction, and new values for a thousand accesses."""
    result = replay_group(recording)
    accesses = sum(member.accesses for member in result.members)
    instructions = sum(member.instructions for member in result.members)
    return accesses / instructions, 1000 * len(result.communications) / accesses


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
        yield Path(folder)


def _cost_table(cores: int, groups: tuple[int, ...]) -> Table:
    columns = [Column("program"), Column("M instructions", ".2f"), Column("plain, s", ".2f")]
    columns += [Column(f"group {group}", ".2f") for group in groups]
    columns += [Column("shadow, KB", ",.0f"), Column("largest log, KB", ",.1f"), Column("stream, KB", ",.1f")]
    columns += [Column("looks an instruction", ".2f"), Column("logged a thousand looks", ".2f")]
    columns += [Column("paper: overhead (another thing)"), Column("shadow"), Column("log")]
    notes = [
        f"{cores} cores, groups spread over them; slices of at most {_SLICE} instructions",
        "group k: processor time of recording with the evidence, against that without: best of the rounds. "
        "Both times have an emulator that looks at every access, so ours cannot show the paper's overhead, "
        "which is over a program that runs natively; the two are not to be compared",
        "looks an instruction: a member's accesses, each of which a native recorder would look up in shadow "
        "memory; logged: those of a thousand whose value goes into the log. From these the cost of a native "
        "recorder follows: a look of k instructions makes a member slower by k times the looks",
        "shadow: the largest of a member; largest log: of a member, before compression; stream: the file; "
        f"all for the group of {groups[-1]}",
    ]
    return Table("opr-cost", "OPR: cost of recording (its Table 2)", columns, notes)


def _score_table() -> Table:
    columns = [Column("program"), Column("cores", "d"), Column("group", "d"), Column("clocks")]
    columns += [Column("new values", ",d"), Column("from members", ",d"), Column("said so", ",d")]
    columns += [Column("precision", ".1%"), Column("recall", ".1%"), Column("orders", ",d")]
    columns += [Column("given up", "d"), Column("replay, s", ".2f")]
    notes = [
        "of the new values that a member read (entries of the value logs): how many were written by another "
        "member, for how many the inference says so, and how often it is right",
        "every member's replay was bit-exact, with either clocks",
    ]
    return Table("opr-score", "OPR: who communicated with whom, against the sealed truth", columns, notes)


def _score_rows(table: Table, name: str, recording: Recording, group: int) -> None:
    for relaxed in (False, True):
        began = time.perf_counter()
        result = replay_group(recording, relaxed=relaxed)
        taken = time.perf_counter() - began
        found: Score = score(recording, result)
        table.add(
            name, recording.manifest.n_cores, group, "relaxed" if relaxed else "exact", found.values,
            found.within, found.claimed, found.precision, found.recall,
            sum(member.waits for member in result.members),
            sum(member.given_up for member in result.members), taken,
        )  # fmt: skip


def measure(
    programs: tuple[str, ...], cores: int, groups: tuple[int, ...], whole: int, rounds: int
) -> list[Table]:
    """The tables. whole: cores of the runs in which every core is a member."""
    cost, scores = _cost_table(cores, groups), _score_table()
    for name in programs:
        program = image(name)
        with _folder() as folder:
            plain = seconds(program, cores, "", folder / "plain", rounds)
            factors: list[float] = []
            for group in groups:
                path = folder / f"group-{group}"
                factors.append(seconds(program, cores, members(group, cores), path, rounds) / plain)
            last = Recording.open(folder / f"group-{groups[-1]}")
            shadow = shadow_bytes(program, cores, members(groups[-1], cores), folder / "shadow")
            cost.add(
                name, sum(last.manifest.instructions) / 1e6, plain, *factors, shadow / 1e3,
                largest_log(last) / 1e3, last.manifest.files["evidence-opr.log"].bytes / 1e3, *looks(last),
                *PAPER.get(name, ("", "", "")),
            )  # fmt: skip
            _score_rows(scores, name, last, groups[-1])
            seconds(program, whole, members(whole, whole), folder / "whole", 1)
            _score_rows(scores, name, Recording.open(folder / "whole"), whole)
    return [cost, scores]


def main(console: Console, rounds: int = 3) -> None:
    """Measure and publish."""
    publish("opr", measure(PROGRAMS, CORES, GROUPS, 8, rounds), console)
