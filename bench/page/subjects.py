"""The programs of the page, and how they are recorded."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

from bench.linux_programs import OURS, tool
from bench.programs import image


@dataclass(frozen=True)
class Subject:
    """A program on some cores. command: of Linux, argv; of firmware, the image. bus: "page" or "mesi"."""

    name: str
    command: tuple[str, ...]
    cores: int = 4
    bus: str = "page"
    linux: bool = True

    @property
    def recorded_as(self) -> list[str]:
        """The arguments of `corebraid record`, but for where to."""
        program = ["--", *self.command] if self.linux else list(self.command)
        return ["--cores", str(self.cores), "--seed", "1", "--bus", self.bus, *program]

    def on(self, *, cores: int = 0, bus: str = "") -> Subject:
        """The same on other cores or another bus."""
        return replace(self, cores=cores or self.cores, bus=bus or self.bus)


def firmware(name: str, cores: int = 4, size: str = "large") -> Subject:
    """One of firmware's programs. size: "", "medium" or "large" (`bench.programs.image`)."""
    return Subject(name, (str(image(name, size)),), cores, linux=False)


def rays(side: int) -> Subject:
    """A picture of side * side points: four threads, mostly private data, and a mutex for each row."""
    return Subject(f"rays {side}", (str(OURS / "ray_tracer"), str(side), str(side)))


def make_text(folder: Path, kilobytes: int) -> Path:
    """Words, the same each time."""
    draw, path = random.Random("page"), folder / "text"
    words = [bytes(draw.choices(b"etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(3000)]
    path.write_bytes(b" ".join(draw.choices(words, k=kilobytes * 160)))
    return path


def compressors(text: Path) -> list[Subject]:
    """Those of threads that are installed."""
    found = []
    for name, *options in (
        ("xz", "-T4", "--block-size=50000", "-3", "-c"),
        ("zstd", "-q", "-T4", "-9", "-c"),
        ("pigz", "-p", "4", "-n", "-c"),
        ("lbzip2", "-n", "4", "-c"),
        ("pixz", "-p", "4", "-t"),
    ):
        if program := tool(name):
            # pixz reads standard input unless it is told both files.
            last = (str(text), "/dev/null") if name == "pixz" else (str(text),)
            found.append(Subject(name, (program, *options, *last)))
    return found
