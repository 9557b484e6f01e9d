"""What the table of all systems is about: programs with threads, and recordings of them with all evidence."""

from __future__ import annotations

import gc
import random
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from bench.linux_means import spec_of
from bench.linux_programs import OURS, tool
from corebraid.base.memory import ADDRESS_SPACE
from emu.bus.names import MESI, PAGE
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64
from recorder.capture.linux import LinuxCapture
from recorder.capture.options import RecordOptions
from recorder.capture.strata_policy import STRATA_OF_PAGES, StrataPolicy
from recorder.files.evidence_names import LINKAGE, LOSSES, OPR, SLICES, settled
from recorder.files.reader import Recording

#: The kernels of firmware/linux after SPLASH-2, and one with deques, with the sizes that are measured.
KERNELS = {
    "fft": 64, "lu": 64, "radix_sort": 4096, "ocean": 48, "barnes": 96, "water": 64, "steal": 8,
}  # fmt: skip
#: Of these also runs with other numbers of threads.
OTHER_THREADS = {"ocean": (2, 8), "water": (2, 8), "steal": (2, 8)}
#: What a Linux program can be recorded with beside the cores' logs.
EVIDENCE = (LINKAGE, SLICES, OPR, LOSSES)
#: Regions are so long: the paper's formula is for small ones.
STRATA = StrataPolicy(cycles=20_000)
#: Of what is compressed. Blocks of pigz have 32 KiB at least; those of bzip2's relatives 100 KB, so that one
#: thread has it all, as with zstd.
_SHORT, _LONG = 20_000, 70_000


@dataclass(frozen=True)
class Subject:
    """A program to be recorded. command: argv, its path first. cores: as many as it has threads that work.
    why_not: why it cannot be run here; "" if it can."""

    name: str
    command: tuple[str, ...]
    cores: int
    why_not: str = ""


def kernel(name: str, threads: int, size: int | None = None) -> Subject:
    """One of `KERNELS`. size: that of `KERNELS` unless given."""
    told = str(KERNELS[name] if size is None else size)
    return Subject(name, (str(OURS / name), str(threads), told), threads)


def _write_text(path: Path, n_bytes: int) -> str:
    """Words in a random order, the same each time; the path."""
    source = random.Random("systems")
    words = [bytes(source.choices(b"etaoinshrdlu", k=source.randint(2, 9))) for _ in range(500)]
    path.write_bytes(b" ".join(source.choices(words, k=n_bytes // 3))[:n_bytes])
    return str(path)


def compressors(folder: Path) -> list[Subject]:
    """Debian's compressors that have threads, with blocks as small as they can be; also those that are not
    installed here. folder: for what they read."""
    short, long = _write_text(folder / "short", _SHORT), _write_text(folder / "long", _LONG)
    commands = {
        "xz -T4": ("xz", "-0", "-T4", "--block-size=5KiB", "-c", short),
        "pigz -p 4": ("pigz", "-1", "-p", "4", "-b", "32", "-n", "-c", long),
        "zstd -T4": ("zstd", "-q", "-1", "-T4", "-c", long),
        "lbzip2 -n 4": ("lbzip2", "-1", "-n", "4", "-c", short),
        "pbzip2 -p4": ("pbzip2", "-1", "-p4", "-b1", "-c", short),
    }
    found = []
    for name, (program, *options) in commands.items():
        path = tool(program)
        missing = "" if path else f"{program} is not installed (apt-get install {program})"
        found.append(Subject(name, (path or program, *options), 4, missing))
    return found


def subjects(folder: Path, chosen: tuple[str, ...] = ()) -> list[Subject]:
    """All, or those whose program (the first word of the name) is among `chosen`. folder: for input."""
    every = [kernel(name, 4) for name in KERNELS]
    every += [kernel(name, threads) for name, more in OTHER_THREADS.items() for threads in more]
    every += compressors(folder)
    return [one for one in every if not chosen or one.name.split()[0] in chosen]


@dataclass
class Recorded:
    """A recording made. seconds: processor time of the run. exit_code: the guest's, None if it has none."""

    path: Path
    seconds: float
    exit_code: int | None
    printed: bytes = field(repr=False, default=b"")

    @property
    def recording(self) -> Recording:
        """Opened anew."""
        return Recording.open(self.path)


def record(subject: Subject, place: Path, evidence: tuple[str, ...], bus: str = MESI) -> Recorded:
    """Record a subject into `place`. The same subject and bus give the same run, whatever the evidence."""
    options = RecordOptions(
        cores=subject.cores,
        seed=1,
        memory_bytes=ADDRESS_SPACE,
        bus=bus,
        strata=STRATA_OF_PAGES if bus == PAGE else STRATA,
        evidence=evidence,
        evidence_options=settled(evidence, {}, subject.cores),
    )
    printed = bytearray()
    capture = LinuxCapture(
        spec_of(list(subject.command)), place, X86_64, LINUX_X86_64, options, printed.extend, lambda _: None
    )
    began = time.process_time()
    with closing(capture), capture.writer:
        outcome = capture.run()
    seconds = time.process_time() - began
    del capture
    gc.collect()
    return Recorded(place, seconds, outcome.end.exit_code, bytes(printed))
