"""`corebraid pairs`: which conflicting accesses had to come in this order, and which could have changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corebraid.base.errors import UsageError
from corebraid.cli import console
from corebraid.cli.options import constraints_option, count, positive, recording_argument

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from corebraid.cli.events import RegionEvents
    from corebraid.names.program import GuestProgram
    from corebraid.names.selection import Selection
    from recorder.files.reader import Recording
    from solver.freedom.freedom import Freedom, Limits
    from solver.freedom.pairs import Pairs
    from solver.regions.problem import Problem
    from solver.regions.region import Region

_NAMES = ("must", "may", "undecided")
_SIGNS = ("<", "<>", "?")


@click.command()
@recording_argument
@click.option("--region", type=count, metavar="N", help="Only the region after N strata.")
@click.option(
    "--addr",
    "addresses",
    metavar="A:B",
    help="Only pairs over bytes from A up to (not) B: 0x hexadecimal, decimal or symbols, as in 'trace'.",
)
@click.option("--only", "only", multiple=True, type=click.Choice(_NAMES), help="Only these; may be repeated.")
@click.option("--core", metavar="K", help="Only pairs with an event of this core, of 'dev' or of 'kernel'.")
@click.option("--limit", type=positive, metavar="N", help="Stop after N pairs.")
@click.option("--summary", is_flag=True, help="Only how many there are in each region.")
@click.option(
    "--witness",
    metavar="EVENT,EVENT",
    help="Only these two events: a legal order of their region for each direction that is possible.",
)
@click.option(
    "--budget",
    type=positive,
    metavar="CUTS",
    default="2000000",
    show_default=True,
    help="Most cuts to explore in a region; what is not settled by then is undecided.",
)
@click.option(
    "--region-timeout",
    type=click.FloatRange(min=0.001, max=1e9),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time for one region.",
)
@constraints_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: pairs, regions, the total.")
def command(
    recording: Path,
    region: int | None,
    addresses: str | None,
    only: tuple[str, ...],
    core: str | None,
    limit: int | None,
    summary: bool,
    witness: str | None,
    budget: int,
    region_timeout: float,
    constraints: str,
    as_json: bool,
) -> int:
    """Say of every two conflicting accesses of REC whether their order is certain.

    Two accesses of different cores conflict if they touch the same bytes in the same region and at least
    one of them changes them; a store of the value that is already there counts as a read. 'must' (A < B):
    A comes before B in every legal order. 'may' (A <> B): there are legal orders of both kinds, so nothing
    in the recording says which one ran. 'undecided' (A ? B): not settled within the budget.

    An EVENT is CORE:COUNT, the core ('dev' for devices) and the instruction count that 'corebraid trace'
    shows; CORE:COUNT.N is the access number N, from 0, of that instruction. A repeated identical read of
    one core is one event, named by its first.

    Exit code 0 also when pairs are undecided; 1 when a region has no legal order.

    \b
    Examples:
      corebraid pairs REC --summary
      corebraid pairs REC --only may --addr idle_cores
      corebraid pairs REC --witness 0:20375,2:20410
      corebraid order REC --choose before:0:20375,2:20410
    """
    console.announce_compilation()
    from corebraid.names.devices import device_symbols
    from corebraid.names.program import GuestProgram
    from corebraid.names.selection import AddressRange, Selection
    from recorder.files.reader import Recording
    from solver.freedom.freedom import Limits

    opened = Recording.open(recording)
    console.note_missing_order(opened.manifest)
    program = GuestProgram.of(opened.path, opened.manifest, device_symbols())
    limits = Limits(budget, region_timeout)
    if witness is not None:
        return _witness(opened, program, witness, limits, constraints, as_json)
    wanted = Selection(
        core=None if core is None else _stream(core, opened.manifest.n_cores),
        addresses=None if addresses is None else AddressRange.parse(addresses, program.symbols),
        region=region,
    )
    strata = opened.manifest.totals.get("strata")
    wanted.check(strata + 1 if isinstance(strata, int) else None)
    kinds = () if summary else only or _NAMES
    return _Listing(opened, program, wanted, kinds, limit, limits, constraints, as_json).run()


def _stream(core: str, n_cores: int) -> int:
    from corebraid.cli.events import parse_stream, streams

    stream = parse_stream(core, n_cores)
    if stream is None:
        raise UsageError(
            "no such core in this recording",
            expected=streams(n_cores),
            found=core,
            remedy="choose another --core",
        )
    return stream


_MUST = (
    "'must' says that the order is certain from what was read, not that a lock or a call made it so: the "
    "increments of a counter that races have no 'may' pair"
)


@dataclass
class _Listing:
    """The whole output, region by region."""

    recording: Recording
    program: GuestProgram
    wanted: Selection
    kinds: tuple[str, ...]
    limit: int | None
    limits: Limits
    constraints: str
    as_json: bool

    def run(self) -> int:
        from recorder.replay.traces import RecordingTraces
        from solver.freedom.count import ONE
        from solver.passes.unfiltered import iter_problems

        self._left = self.limit
        self._executions = ONE
        total: Counter[str] = Counter()
        illegal: list[int] = []
        last = self.wanted.region
        with console.progress("regions") as show:
            for region, problem in iter_problems(
                RecordingTraces(self.recording, constraints=self.constraints)
            ):
                if last is not None and region.index != last:
                    if region.index > last:
                        break
                    continue
                verdict, counts = self._region(region, problem)
                total.update(counts)
                if verdict == "illegal":
                    illegal.append(region.index)
                show(region.index + 1)
                if self._left == 0:
                    console.note(f"stopped after {self.limit:,} pairs (--limit)")
                    break
        self._say_total(total)
        if illegal:
            console.note(
                f"no legal order: region {', '.join(map(str, illegal[:10]))}; the recording is damaged"
            )
            return 1
        return 0

    def _region(self, region: Region, problem: Problem) -> tuple[str, dict[str, int]]:
        from solver.freedom.count import count_orders
        from solver.freedom.freedom import freedom_of
        from solver.freedom.pairs import tally

        if problem.n_ops == 0:
            return "legal", {}
        freedom = freedom_of(problem, self.limits)
        counts = {_NAMES[order]: n for order, n in tally(freedom).items()}
        if self.kinds:
            self._pairs(region, problem, freedom)
        facts: dict[str, object] = {
            "region": region.index,
            "verdict": freedom.verdict.value,
            "unfiltered": problem.n_ops,
            **counts,
        }
        different = ""
        if not self.kinds:
            executions = count_orders(problem, self.limits).executions
            self._executions = self._executions * executions
            facts["executions"] = executions.facts()
            different = f"; {executions.words}"
        if self.as_json:
            click.echo(json.dumps({"type": "region", **facts}))
        else:
            words = ", ".join(f"{counts[name]:,} {name}" for name in _NAMES)
            said = f"{freedom.verdict.value}, {problem.n_ops:,} events; {words}{different}"
            click.echo(f"region {region.index}: {said}")
        return freedom.verdict.value, counts

    def _pairs(self, region: Region, problem: Problem, freedom: Freedom) -> None:
        from corebraid.cli.events import RegionEvents
        from corebraid.names.places import Places
        from solver.freedom.pairs import Order, iter_pairs

        n_cores = self.recording.manifest.n_cores
        events = RegionEvents(region, problem, Places(self.program, n_cores), n_cores)
        only = frozenset(Order(_NAMES.index(kind)) for kind in self.kinds)
        for pairs in iter_pairs(freedom, only):
            for at in self._chosen(pairs, problem).tolist():
                if self._left == 0:
                    return
                self._pair(pairs, at, problem, events)
                self._left = None if self._left is None else self._left - 1

    def _chosen(self, pairs: Pairs, problem: Problem) -> NDArray[np.intp]:
        import numpy as np

        chosen = np.ones(len(pairs.first), bool)
        if self.wanted.core is not None:
            streams = problem.stream_core[problem.op_stream]
            chosen &= (streams[pairs.first] == self.wanted.core) | (streams[pairs.second] == self.wanted.core)
        if self.wanted.addresses is not None:
            low, high = np.uint64(self.wanted.addresses.low), self.wanted.addresses.high
            address = problem.address[pairs.granule]
            chosen &= address <= np.uint64(high - 1)
            chosen &= address + problem.size[pairs.granule].astype(np.uint64) > low
        return np.flatnonzero(chosen)

    def _pair(self, pairs: Pairs, at: int, problem: Problem, events: RegionEvents) -> None:
        from corebraid.cli.events import data_name

        first, second, order = int(pairs.first[at]), int(pairs.second[at]), int(pairs.order[at])
        granule = int(pairs.granule[at])
        address, size = int(problem.address[granule]), int(problem.size[granule])
        data = data_name(self.program, address)
        if self.as_json:
            facts = {
                "type": "pair", "region": problem.region, "order": _NAMES[order], "addr": f"{address:#x}",
                "size": size, "data": None if data == "-" else data, "first": events.facts(first),
                "second": events.facts(second),
            }  # fmt: skip
            click.echo(json.dumps(facts))
            return
        click.echo(
            f"{problem.region:>6} {_NAMES[order]:<9} {address:#010x} {data:<20} {events.text(first)} "
            f"{_SIGNS[order]:<2} {events.text(second)}".rstrip()
        )

    def _say_total(self, total: Counter[str]) -> None:
        from corebraid.cli.missing_order import missing_edges

        if self.as_json:
            missing = missing_edges(self.recording.manifest)
            facts = {"type": "total", **{name: total[name] for name in _NAMES}, "missing_edges": missing}
            if not self.kinds:
                facts["executions"] = self._executions.facts()
            click.echo(json.dumps(facts))
        else:
            different = "" if self.kinds else f"; {self._executions.words}"
            click.echo("all: " + ", ".join(f"{total[name]:,} {name}" for name in _NAMES) + different)
            if total["must"]:
                console.note(_MUST)
        if total["undecided"]:
            console.note("undecided pairs: try a larger --budget or --region-timeout")


def _witness(
    recording: Recording, program: GuestProgram, text: str, limits: Limits, constraints: str, as_json: bool
) -> int:
    """Print a legal order for each direction of a pair."""
    from corebraid.cli.events import EventName, RegionEvents, find_events
    from corebraid.names.places import Places
    from recorder.replay.traces import RecordingTraces
    from solver.freedom.freedom import Survey

    n_cores = recording.manifest.n_cores
    names = [EventName.parse(part, n_cores) for part in text.split(",")]
    if len(names) != 2:
        raise UsageError("not two events", found=repr(text), remedy="write --witness EVENT,EVENT")
    found = find_events(RecordingTraces(recording, constraints=constraints), names)
    problem = found[0].problem
    a, b = (event.op for event in found)
    if names[0].stream == names[1].stream:
        raise UsageError("two events of one core: program order says which is first", found=text)
    events = RegionEvents(found[0].region, problem, Places(program, n_cores), n_cores)
    survey = Survey(problem, limits)
    answers = [(x, y, *survey.witness(x, y)) for x, y in ((a, b), (b, a))]
    if as_json:
        console.facts(
            {
                "region": problem.region,
                "directions": [
                    {
                        "first": events.facts(x),
                        "second": events.facts(y),
                        "possible": order is not None if decided else None,
                        "order": None if order is None else [events.name(op) for op in order.tolist()],
                    }
                    for x, y, order, decided in answers
                ],
            }
        )
    else:
        for x, y, order, decided in answers:
            for line in _lines(events, x, y, None if order is None else order.tolist(), decided):
                click.echo(line)
    return int(all(decided and order is None for _, _, order, decided in answers))


def _lines(events: RegionEvents, x: int, y: int, order: list[int] | None, decided: bool) -> Iterator[str]:
    head = f"{events.name(x)} before {events.name(y)}"
    if order is None:
        yield f"{head}: {'in no legal order' if decided else 'undecided within the budget'}"
        return
    yield f"{head}: a legal order of the {len(order):,} unfiltered events of their region"
    for op in order:
        address = int(events.rows[op]["addr"])
        yield f"{'>' if op in (x, y) else ' '} {address:#010x} {events.text(op)}".rstrip()
