"""Which region is worked on next, when several processes do: the last stage first, the first region first.

The streams are extracted first of all, since everything waits for them; a region is sifted as soon as
every stream is past it.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterator

from corebraid.base.errors import CorebraidError, OrderError
from corebraid.base.wording import Option, Phrase
from solver.check.seams import Seam
from solver.passes.answers import Options, answer, runs_of
from solver.passes.cluster import WORKER_DIED, Cluster
from solver.passes.ledger import Ledger
from solver.passes.partial import Partial
from solver.passes.pool import DIED, DONE, FAILED, News, Pool
from solver.passes.quiet import quiet_answers
from solver.passes.results import Answer
from solver.passes.stages import Sifted, Walks, sift_region
from solver.passes.trace_spool import TraceSpool
from solver.regions.problem import Problem, Verdict, no_order
from solver.regions.region import Region
from solver.regions.traces import Traces
from solver.sifting.words import WordTable

#: Stages of a region, and the extraction of a stream. A task is (stage, number).
_EXTRACT, _SIFT, _SOLVE, _WALK = "extract", "sift", "solve", "walk"
_URGENCY = {_EXTRACT: 0, _WALK: 1, _SOLVE: 2, _SIFT: 3}
#: How often a task is tried whose process was killed.
_TRIES = 2
#: How often a cluster is asked whether it is still there.
_LOOK_S = 1.0
#: Regions that may be sifted ahead of those that wait for solving, so that what is between stays small.
_AHEAD = 256

Task = tuple[str, int]


def _sift(region: Region, words: WordTable, walks: Walks) -> Iterator[Sifted | Seam]:
    """Sift a region; if it leaves nothing to solve, walk it too while its rows are at hand."""
    sifted = sift_region(region, words)
    yield sifted
    if sifted.problem.n_ops == 0:
        yield walks.walk(region, *runs_of(sifted.problem, no_order()))


class Schedule:
    """Orders `traces` with `jobs` processes; the solving is done by the cluster at an address, if given."""

    def __init__(
        self,
        traces: Traces,
        ledger: Ledger,
        options: Options,
        partial: Partial | None,
        cluster: str,
        jobs: int,
        show: Callable[[], None],
    ) -> None:
        self._ledger, self._options, self._partial, self._show = ledger, options, partial, show
        self._cluster: Cluster | None = None
        self._spool = TraceSpool(traces)
        spool, words, walks = self._spool, WordTable(), Walks(traces)
        self._pool = Pool(
            # Each stream and each region is at most one task at a time.
            min(jobs, spool.n_sources + ledger.n),
            {
                _EXTRACT: spool.extract,
                _SIFT: lambda region, borders: _sift(spool.region(region, borders), words, walks),
                _SOLVE: lambda problem: iter([answer(problem, options)]),
                _WALK: lambda region, borders, *runs: iter(
                    [walks.walk(spool.region(region, borders), *runs)]
                ),
            },
        )
        self._n_sources = self._spool.n_sources
        self._ready: list[tuple[int, int, str]] = []
        #: Regions to be composed; None is a quiet one.
        self._sifted: dict[int, Sifted | None] = {}
        self._walked_early: dict[int, Seam] = {}
        self._for_cluster: deque[int] = deque()
        self._told: Counter[int] = Counter()
        self._tries: Counter[Task] = Counter()
        self._next_sift = 0
        self._reused: set[int] = set()
        #: The first error in the order in which one process would meet them: (region, stage, stream).
        self._error: tuple[tuple[int, int, int], CorebraidError] | None = None
        self._failed_streams: set[int] = set()

        # Connected only now: the workers should not inherit its threads' locks.
        if cluster:
            try:
                self._cluster = Cluster(cluster, options)
            except BaseException:
                self.close()
                raise

    def run(self) -> None:
        """All regions to their end. Raises what one process would raise: the first region's error."""
        for stream in range(self._n_sources):
            self._add(_EXTRACT, stream)
        while True:
            self._find_regions()
            self._raise_if_first()
            if self._ledger.complete:
                return
            self._dispatch()
            if self._cluster is None:
                self._take_all(self._pool.news())
                continue
            self._take_all(self._pool.news(self._cluster.signals, _LOOK_S))
            for region, got in self._cluster.finished():
                self._answered(region, got)

    def close(self) -> None:
        """End all processes, leave the cluster and give the disk space back."""
        if self._cluster:
            self._cluster.close()
        self._pool.close()
        self._spool.close()

    def _add(self, stage: str, number: int) -> None:
        heapq.heappush(self._ready, (_URGENCY[stage], number, stage))

    def _dispatch(self) -> None:
        while self._cluster and self._for_cluster and self._cluster.room:
            self._cluster.submit(self._ledger.problem(self._for_cluster.popleft()))
        while self._ready and self._pool.idle:
            _, number, stage = heapq.heappop(self._ready)
            self._start(stage, number)

    def _find_regions(self) -> None:
        """Make those regions ready that all streams are past, as long as solving keeps up."""
        while self._next_sift < (end := self._sift_end()):
            for here in range(self._next_sift, end):
                if self._spool.is_quiet(here):
                    self._sifted[here] = None
                else:
                    self._add(_SIFT, here)
            self._next_sift = end
            # Quiet regions wait for nobody, and nobody may be at work who would report.
            self._compose()

    def _sift_end(self) -> int:
        last = self._error[0][0] if self._error else self._ledger.n
        told = (self._spool.complete(source) for source in range(self._n_sources))
        return min(last, self._ledger.n, self._ledger.answered + _AHEAD, *told)

    def _start(self, stage: str, number: int) -> None:
        task, pool, ledger = (stage, number), self._pool, self._ledger
        self._tries[task] += 1
        if stage == _EXTRACT:
            self._told[number] = 0
            pool.start(task, stage, number)
        elif stage == _SIFT:
            pool.start(task, stage, number, self._spool.borders(number))
        elif stage == _SOLVE:
            pool.start(task, stage, ledger.problem(number))
        else:
            pool.start(task, stage, number, self._spool.borders(number), *ledger.runs(number))

    def _take_all(self, all_news: list[News]) -> None:
        for news in all_news:
            self._take(news)

    def _take(self, news: News) -> None:
        stage, number = news.key
        if news.what == DIED:
            self._died(stage, number)
        elif news.what == FAILED:
            self._failed(stage, number, news.value)
        elif news.what != DONE:
            self._part(stage, number, news.value)

    def _part(self, stage: str, number: int, value: object) -> None:
        if stage == _EXTRACT:
            assert isinstance(value, list)
            # After a second start, what was told before is told again.
            known = self._spool.complete(number) - self._told[number]
            self._told[number] += len(value)
            self._spool.learn(number, value[max(known, 0) :])
        elif isinstance(value, Sifted):
            self._sifted[number] = value
            self._compose()
        elif isinstance(value, Answer):
            self._answered(number, value)
        elif isinstance(value, Seam) and stage == _SIFT and number >= self._ledger.composed:
            self._walked_early[number] = value
        elif isinstance(value, Seam):
            self._ledger.walked(value)

    def _compose(self) -> None:
        while (region := self._ledger.composed) in self._sifted:
            sifted = self._sifted.pop(region)
            if sifted is None:
                self._pass_quiet(region)
                continue
            try:
                problem = self._ledger.compose(self._region(region), sifted)
            except CorebraidError as error:
                self._note_error((region, 2, 0), error)
                return
            self._solve(problem)

    def _pass_quiet(self, first: int) -> None:
        """The run of quiet regions that begins with this one, as far as it is known."""
        end = first + 1
        while end in self._sifted and self._sifted[end] is None:
            del self._sifted[end]
            end += 1
        quiet = self._spool.quiet(first, end)
        self._ledger.compose_quiet(quiet)
        for region, got in quiet_answers(quiet, self._options):
            self._ledger.answer(region, got)
        self._show()

    def _region(self, number: int) -> Region:
        return self._spool.region(number, self._spool.borders(number))

    def _solve(self, problem: Problem) -> None:
        kept = self._partial.find(problem) if self._partial is not None and problem.n_ops else None
        if kept is not None:
            self._reused.add(problem.region)
            self._settle(problem.region, kept)
        elif problem.n_ops == 0:
            self._ledger.answer(problem.region, answer(problem, self._options))
            if problem.region in self._walked_early:
                self._ledger.walked(self._walked_early.pop(problem.region))
            self._show()
        elif self._cluster:
            self._for_cluster.append(problem.region)
        else:
            self._add(_SOLVE, problem.region)

    def _answered(self, region: int, got: Answer) -> None:
        if self._partial is not None:
            self._partial.add(self._ledger.problem(region), got)
        self._settle(region, got)

    def _settle(self, region: int, got: Answer) -> None:
        if self._ledger.answer(region, got):
            self._add(_WALK, region)
        self._show()

    def _died(self, stage: str, number: int) -> None:
        if self._tries[stage, number] < _TRIES:
            self._add(stage, number)
        elif stage == _SOLVE:
            self._settle(number, Answer(Verdict.UNDECIDED, "", 0.0, WORKER_DIED, no_order(), no_order()))
        else:
            raise CorebraidError(
                f"a process was killed twice while it worked on {'stream' if stage == _EXTRACT else 'region'}"
                f" {number} ({stage})",
                remedy=Phrase("try again with fewer ", Option("jobs"), ", or with more memory"),
            )

    def _failed(self, stage: str, number: int, error: CorebraidError) -> None:
        if stage == _EXTRACT:
            self._failed_streams.add(number)
            self._note_error((self._spool.complete(number), 0, number), error)
        elif stage == _SIFT:
            walked = number in self._sifted or number < self._ledger.composed
            self._note_error((number, 3 if walked else 1, 0), error)
        elif stage == _WALK and number in self._reused and isinstance(error, OrderError):
            self._reused.discard(number)
            self._ledger.take_back(number)
            self._add(_SOLVE, number)
        else:
            raise error

    def _note_error(self, at: tuple[int, int, int], error: CorebraidError) -> None:
        if self._error is None or at < self._error[0]:
            self._error = (at, error)

    def _raise_if_first(self) -> None:
        """Raise the error found once no earlier one can be: the regions before it are composed, and the
        streams are past it."""
        if self._error is None:
            return
        (region, rank, _), error = self._error
        past = all(
            stream in self._failed_streams or self._spool.complete(stream) > region
            for stream in range(self._n_sources)
        )
        if past and self._ledger.composed >= region + (rank == 3):
            raise error
