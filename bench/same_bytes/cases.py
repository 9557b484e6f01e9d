"""What is recorded: every firmware image and some Linux programs, with seeds and options fixed here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

IMAGES, GUESTS = "x86_64", "linux/x86_64"


class BadInput(Exception):
    """What the command line asks for cannot be done."""


#: What `input_echo` reads.
STDIN = b"Two cores, one line;\nno tabs\there, and a tail longer than one block of 64 bytes: 0123456789\n"

_CORES = ("4", "3", "2", "4", "1")
_CACHES = ("unbounded", "1k:2:32", "4k:4:64", "unbounded", "2k:2:16")
_STRATA = ("cycles:4000", "downgrades:40", "cycles:2000", "downgrades:15")
_SCHEDULES = ("random", "pct:3", "chaos", "round-robin", "random", "pct:5")
_SLICES = ("200", "1000", "50")
_GROUPS = ("word", "line", "symbol")
_BUFFERS = ("16", "1", "4")
#: Instructions over all cores: policies that starve a core let another one spin for long.
_LIMIT = "400000"
#: Streams that a Linux program can have together, and all streams that know store buffers.
_OF_LINUX, _OF_TSO = "linkage,slices,opr,losses", "rpc,losses"
_EVIDENCE = ("linkage", "slices", "opr")
#: Ordered by each engine of its own, and recorded with each stream alone.
_SMALL = ("fig1", "fig2", "lightplay_fig1", "stride_fig2")
_ALONE = "fig2"
#: Verified too, and under SC cross-checked, which is where engines replay whole runs. `rpc_` programs are.
_VERIFIED = ("fig1", "uts", "pgas_fib", "dma_race", "timer", "mutexes", "pipes_poll")
#: Linux programs with their arguments, and those that are recorded under TSO too.
_LINUX = {
    "barriers": (), "condvars": (), "deadlock_sure": (), "dlopen_tls": (), "files": (), "futex_raw": (),
    "histogram": ("8",), "jit": (), "linear_regression": ("8",), "mutexes": (), "pipes_poll": (),
    "ray_tracer": ("8", "6"), "rwlock_table": ("8",), "signals": (), "sockets": (), "spinlocks": (),
    "static_pie_threads": (), "thread_local": (),
}  # fmt: skip
_LINUX_TSO = ("condvars", "mutexes", "pipes_poll", "ray_tracer", "signals", "static_pie_threads")
_QUICK = ("fig1", "fig2", "static_pie_threads")


@dataclass(frozen=True)
class Case:
    """One recording. program: below the firmware folder. options: of `record`. engines: of `order`.
    verified: `verify` it too. crossed: engines to `crosscheck` it by, none if empty."""

    name: str
    program: str
    options: tuple[str, ...]
    engines: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    verified: bool = False
    crossed: str = ""

    @property
    def short(self) -> str:
        """The program's name."""
        return Path(self.program).stem

    @property
    def command(self) -> str:
        """How it is recorded, for a reader."""
        return " ".join(("record", *self.options, self.program, *self.arguments))

    @property
    def linux(self) -> bool:
        """Whether it is a Linux program."""
        return self.program.startswith(GUESTS)


def all_cases(firmware: Path) -> list[Case]:
    """Every case, the longest first. firmware: the folder with the images."""
    images = sorted(path.stem for path in (firmware / IMAGES).glob("*.elf"))
    cases = [_linux(number, name, "sc") for number, name in enumerate(_LINUX)]
    cases += [_linux(number, name, "tso") for number, name in enumerate(_LINUX_TSO)]
    for number, name in enumerate(images):
        cases += [_image_sc(number, name), _image_tso(number, name)]
    return cases + _alone()


def chosen_cases(cases: list[Case], programs: list[str], quick: bool) -> list[Case]:
    """Those of the named programs, all if none is named; quick: few, and small ones.

    Raises BadInput for a name that no program has."""
    known = {case.short for case in cases}
    if unknown := [name for name in programs if name not in known]:
        raise BadInput(f"no such program: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    wanted = programs or (_QUICK if quick else known)
    return [case for case in cases if case.short in wanted and not (quick and case.name.endswith("alone"))]


def _image_sc(number: int, name: str) -> Case:
    options = (
        *_machine(number, "sc"),
        "--evidence", "all",
        "--group", _GROUPS[number % 3],
        *(("--slice-accesses", "8") if number % 4 == 1 else ()),
        *(("--rset", "0") if number % 5 == 2 else ()),
    )  # fmt: skip
    engines = ("auto", *_EVIDENCE, *(("cut", "smt") if name in _SMALL else ()))
    crossed = "auto,rpc" if name.startswith("rpc_") else "auto,opr" if name in _VERIFIED else ""
    return Case(f"{name} sc", f"{IMAGES}/{name}.elf", options, engines, (), crossed != "", crossed)


def _image_tso(number: int, name: str) -> Case:
    options = (
        *_machine(number + 2, "tso"), "--store-buffer", _BUFFERS[number % 3], "--evidence", _OF_TSO
    )  # fmt: skip
    engines = ("auto", *(("cut", "smt") if name in _SMALL else ()))
    return Case(f"{name} tso", f"{IMAGES}/{name}.elf", options, engines, verified=name in _VERIFIED)


def _linux(number: int, name: str, model: str) -> Case:
    evidence = _OF_LINUX if model == "sc" else "losses"
    options = (*_machine(number + 1, model), "--evidence", evidence, "--memory", "256m")
    engines = ("auto", *(_EVIDENCE if model == "sc" else ()))
    verified = name in _VERIFIED
    crossed = "auto,opr" if verified and model == "sc" else ""
    return Case(
        f"linux {name} {model}", f"{GUESTS}/{name}", options, engines, _LINUX[name], verified, crossed
    )


def _alone() -> list[Case]:
    """One image with each stream alone, and with none."""
    program = f"{IMAGES}/{_ALONE}.elf"
    return [
        Case(
            f"{_ALONE} sc, {stream} alone",
            program,
            ("--cores", "4", "--seed", "77", "--slice", "50", "--evidence", stream),
            ("auto", *((stream,) if stream in _EVIDENCE else ())),
        )
        for stream in (*_EVIDENCE, "rpc", "losses", "none")
    ]


def _machine(number: int, model: str) -> tuple[str, ...]:
    """Variations that take turns at different periods."""
    schedule = _SCHEDULES[number % len(_SCHEDULES)]
    slices = ("--slice", _SLICES[number % len(_SLICES)]) if schedule in ("random", "round-robin") else ()
    return (
        "--model", model,
        "--cores", _CORES[number % len(_CORES)],
        "--seed", str(1000 + number),
        "--cache", _CACHES[(number // 2) % len(_CACHES)],
        "--strata", _STRATA[number % len(_STRATA)],
        "--schedule", schedule, *slices,
        "--limit", _LIMIT,
    )  # fmt: skip
