"""What deduction still has to look at: an operation when its clocks changed, or those of one that its rules
looked at; so that whatever follows from a change is found without looking at all the rest again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.kernels import inlined
from solver.deduction.facts import Facts

#: Indexes of `News.now`: the time; changes so far; the operation whose rules come next anyway, or -1; how
#: many `untold` there are; watchers made so far; the first one that is free again, or -1; how many those are.
TIME, CHANGES, AT_WORK, UNTOLD, MADE, FREE, FREED = range(7)
#: Operations that share an entry of `News.busy`.
BLOCK = 64
#: Room for watchers at first, for each part; it is not touched before it is used.
_WATCHERS = 8


class News(NamedTuple):
    """changed, seen: int64 (n_ops,), when an operation's clocks last changed, and when the rules were last
    applied to it. stirred: int64 (n_granules,), when the clocks of an operation on it last changed. now:
    int64 (7,), see TIME. done: uint8 per part, whether what it reads says no more. pending: uint8 (n_ops,),
    by rank (`Facts.order`), whether the rules have to be applied to an operation; busy: int32, how many such
    there are in each BLOCK. is_untold: uint8, untold: int32 (n_ops,), operations of whose changes the mirror
    image has not been told. woken: uint8 per part, whether what its rule looked at has changed. watched:
    int32 (n_ops,), the first watcher of an operation, -1 if none; watcher: int32 (n, 2), part and next
    watcher."""

    changed: NDArray[np.int64]
    seen: NDArray[np.int64]
    stirred: NDArray[np.int64]
    now: NDArray[np.int64]
    done: NDArray[np.uint8]
    pending: NDArray[np.uint8]
    busy: NDArray[np.int32]
    is_untold: NDArray[np.uint8]
    untold: NDArray[np.int32]
    woken: NDArray[np.uint8]
    watched: NDArray[np.int32]
    watcher: NDArray[np.int32]

    def copy(self) -> News:
        """One that goes on by itself."""
        return News(**{name: array.copy() for name, array in self._asdict().items()})

    def roomier(self) -> News:
        """The same with more room for watchers."""
        return self._replace(watcher=np.concatenate([self.watcher, np.empty_like(self.watcher)]))

    def forget_untold(self) -> None:
        """The mirror image knows all there is."""
        self.is_untold[self.untold[: self.now[UNTOLD]]] = 0
        self.now[UNTOLD] = 0


def all_is_news(facts: Facts) -> News:
    """Before anything is deduced."""
    n, m = len(facts.op_stream), len(facts.part_op)
    now = np.zeros(7, np.int64)
    now[[AT_WORK, FREE]] = -1
    now[UNTOLD] = n
    return News(
        changed=np.zeros(n, np.int64),
        seen=np.full(n, -1, np.int64),
        stirred=np.zeros(len(facts.any_start), np.int64),
        now=now,
        done=1 - facts.asked,
        pending=np.ones(n, np.uint8),
        busy=np.minimum(BLOCK, n - np.arange(0, n, BLOCK)).astype(np.int32),
        is_untold=np.ones(n, np.uint8),
        untold=np.arange(n, dtype=np.int32),
        woken=np.zeros(m, np.uint8),
        watched=np.full(n, -1, np.int32),
        watcher=np.empty((_WATCHERS * m + 1024, 2), np.int32),
    )


@inlined
def set_pending(op, f, news):  # type: ignore[no-untyped-def]
    """The rules have to be applied to an operation."""
    rank = f.rank[op]
    if news.pending[rank] == 0:
        news.pending[rank] = 1
        news.busy[rank // BLOCK] += 1


@inlined
def note(op, f, news):  # type: ignore[no-untyped-def]
    """The clocks of an operation have changed."""
    news.now[TIME] += 1
    news.now[CHANGES] += 1
    news.changed[op] = news.now[TIME]
    for p in range(f.part_ptr[op], f.part_ptr[op + 1]):
        news.stirred[f.granule[p]] = news.now[TIME]
    if op != news.now[AT_WORK]:
        set_pending(op, f, news)
    if news.is_untold[op] == 0:
        news.is_untold[op] = 1
        news.untold[news.now[UNTOLD]] = op
        news.now[UNTOLD] += 1
    at = news.watched[op]
    while at >= 0:
        p, following = news.watcher[at, 0], news.watcher[at, 1]
        if not news.done[p]:
            news.woken[p] = 1
            set_pending(f.part_op[p], f, news)
        news.watcher[at, 1] = news.now[FREE]
        news.now[FREE] = at
        news.now[FREED] += 1
        at = following
    news.watched[op] = -1


@inlined
def watch(op, p, news):  # type: ignore[no-untyped-def]
    """Let part p be looked at again when the clocks of an operation change. There must be `room`."""
    at = news.watched[op]
    if at >= 0 and news.watcher[at, 0] == p:
        return
    at = news.now[FREE]
    if at >= 0:
        news.now[FREE] = news.watcher[at, 1]
        news.now[FREED] -= 1
    else:
        at = news.now[MADE]
        news.now[MADE] += 1
    news.watcher[at, 0], news.watcher[at, 1] = p, news.watched[op]
    news.watched[op] = at


@inlined
def room(news):  # type: ignore[no-untyped-def]
    """How many watchers can still be made."""
    return news.watcher.shape[0] - news.now[MADE] + news.now[FREED]
