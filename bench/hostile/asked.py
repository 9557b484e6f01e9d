"""The command lines that read a recording, with the options that change what they do."""

from __future__ import annotations

from bench.hostile.drawing import Draw
from bench.hostile.sample import Sample

#: Stands for the recording, and for a file that is not there yet.
REC, NEW = "REC", "NEW"
_SOON = ("--region-timeout", "1")
_ONE = ("--jobs", "1")
#: How often, command line.
_ANY: tuple[tuple[int, tuple[str, ...]], ...] = (
    (3, ("info", REC)),
    (3, ("info", REC, "--json")),
    (6, ("verify", REC, *_ONE)),
    (2, ("verify", REC, "--json", *_ONE)),
    (8, ("replay", REC, "--all", *_ONE)),
    (4, ("replay", REC, "--core", "0")),
    (3, ("replay", REC, "--core", "1", "--json")),
    (2, ("replay", REC, "--core", "0", "--from", "10", "--until", "200")),
    (3, ("replay", REC, "--core", "0", "--until", "5000")),
    (2, ("trace", REC, "--core", "0", "--from", "6000", "--limit", "20")),
    (2, ("trace", REC, "--core", "1", "--region", "2")),
    (1, ("checkpoint", REC, "--every", "1500", *_ONE)),
    (6, ("order", REC, *_SOON, *_ONE)),
    (2, ("order", REC, "--fresh", "--json", *_SOON, *_ONE)),
    (1, ("order", REC, "--jobs", "2", *_SOON)),
    (1, ("order", REC, "--engine", "cut", *_SOON, *_ONE)),
    (1, ("order", REC, "--constraints", "values", *_SOON, *_ONE)),
    (1, ("order", REC, "--constraints", "tenures", *_SOON, *_ONE)),
    (1, ("order", REC, "--count", "--count-budget", "2000", *_SOON, *_ONE)),
    (1, ("order", REC, "--choose", "fewest-switches", "--count-budget", "2000", *_SOON, *_ONE)),
    (4, ("check-order", REC)),
    (1, ("check-order", REC, "--json")),
    (3, ("trace", REC, "--core", "0", "--limit", "50")),
    (2, ("trace", REC, "--core", "dev", "--format", "jsonl")),
    (5, ("trace", REC, "--ordered", "--limit", "200")),
    (1, ("trace", REC, "--ordered", "--format", "jsonl")),
    (2, ("trace", REC, "--format", "axe")),
    (1, ("trace", REC, "--region", "1", "--kind", "W,RMW")),
    (1, ("trace", REC, "--core", "0", "-o", NEW)),
    (2, ("pairs", REC, "--summary", "--budget", "2000", *_SOON)),
    (1, ("pairs", REC, "--json", "--limit", "50", "--budget", "2000", *_SOON)),
    (3, ("crosscheck", REC, *_SOON)),
    (1, ("crosscheck", REC, "--json", *_SOON)),
)
_BY_EVIDENCE: dict[str, tuple[tuple[int, tuple[str, ...]], ...]] = {
    "linkage": (
        (3, ("linkage", REC)),
        (3, ("linkage", REC, "--replay")),
        (3, ("order", REC, "--engine", "linkage", *_SOON, *_ONE)),
    ),
    "slices": (
        (3, ("slices", REC, "--backend", "cut")),
        (3, ("order", REC, "--engine", "slices", *_SOON, *_ONE)),
    ),
    "opr": (
        (4, ("opr", REC)),
        (1, ("opr", REC, "--relaxed", "--list")),
        (1, ("opr", REC, "--json", "--score")),
        (2, ("order", REC, "--engine", "opr", *_SOON, *_ONE)),
    ),
    "rpc": ((4, ("rpc", REC)), (1, ("rpc", REC, "--free", "--json"))),
}


def evidence_of(sample: Sample) -> tuple[str, ...]:
    """The streams that the undamaged recording has."""
    return tuple(
        name.removeprefix("evidence-").removesuffix(".log")
        for name in sample.streams
        if name.startswith("evidence-")
    )


def command_lines(evidence: tuple[str, ...]) -> list[tuple[int, tuple[str, ...]]]:
    """(how often, arguments) of all that can be asked of a recording with this evidence."""
    return [*_ANY, *(row for name in evidence for row in _BY_EVIDENCE.get(name, ()))]


def draw_arguments(evidence: tuple[str, ...], draw: Draw) -> tuple[str, ...]:
    """A command line for a case."""
    lines = command_lines(evidence)
    return draw.choices([line for _, line in lines], [often for often, _ in lines])[0]
