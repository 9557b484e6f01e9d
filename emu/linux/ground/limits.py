"""Resource limits: which there are, what a process begins with, and how /proc shows them (getrlimit(2))."""

from __future__ import annotations

from dataclasses import dataclass, field

UNLIMITED = (1 << 64) - 1
#: Numbers of those that this kernel enforces, or goes by (asm-generic/resource.h).
RLIMIT_STACK, RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_SIGPENDING = 3, 6, 7, 11


@dataclass(frozen=True)
class Resource:
    """A resource that is limited. unit: as /proc/PID/limits has it. soft, hard: at first."""

    name: str
    unit: str
    soft: int = UNLIMITED
    hard: int = UNLIMITED


#: By RLIMIT_* number.
RESOURCES = (
    Resource("cpu time", "seconds"),
    Resource("file size", "bytes"),
    Resource("data size", "bytes"),
    Resource("stack size", "bytes", 8 << 20),
    Resource("core file size", "bytes", 0),
    Resource("resident set", "bytes"),
    Resource("processes", "processes", 4096, 4096),
    Resource("open files", "files", 1024, 4096),
    Resource("locked memory", "bytes", 8 << 20, 8 << 20),
    Resource("address space", "bytes"),
    Resource("file locks", "locks"),
    Resource("pending signals", "signals", 32_000, 32_000),
    Resource("msgqueue size", "bytes", 819_200, 819_200),
    Resource("nice priority", "", 0, 0),
    Resource("realtime priority", "", 0, 0),
    Resource("realtime timeout", "us"),
)


@dataclass
class Limits:
    """The limits of a process as they are now, by RLIMIT_* number."""

    soft: list[int] = field(default_factory=lambda: [one.soft for one in RESOURCES])
    hard: list[int] = field(default_factory=lambda: [one.hard for one in RESOURCES])

    def text(self) -> str:
        """The text of /proc/PID/limits."""
        head = f"{'Limit':<25} {'Soft Limit':<20} {'Hard Limit':<20} {'Units':<10}\n"
        rows = zip(RESOURCES, self.soft, self.hard, strict=True)
        return head + "".join(
            f"{f'Max {one.name}':<25} {_shown(soft):<20} {_shown(hard):<20} {one.unit:<10}\n"
            for one, soft, hard in rows
        )


def _shown(limit: int) -> str:
    return "unlimited" if limit == UNLIMITED else str(limit)
