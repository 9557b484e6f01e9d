"""Isolated replay: one core, from its own log alone, checked against every digest (MICRO 2009, 3.1-3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.rows.record import END, STRATUM
from corebraid.base.wording import Call, Option, Phrase, Text, another
from emu.core.changed_pages import ChangedPages
from emu.core.fingerprint import Fingerprint
from emu.core.isolated import IsolatedCore
from emu.core.saved_pages import put_pages, take_pages
from emu.core.surroundings import DEVICES, KERNEL
from recorder.files.digest import Digest
from recorder.files.manifest import is_ring
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.contested import Watched
from recorder.replay.driver import Piece, ReplayDriver
from recorder.replay.handovers import carried_at
from recorder.replay.holds import Carried, with_losses
from recorder.replay.start import Start, checkpoint_damage


@dataclass(frozen=True)
class ReplayResult:
    """A replay that matched. count: instructions. complete: the log's end was reached."""

    core: int
    count: int
    strata: int
    digests: int
    contexts: int
    complete: bool

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "core": self.core,
            "bit_exact": True,
            "complete": self.complete,
            "instructions": self.count,
            "strata": self.strata,
            "digests": self.digests,
            "contexts": self.contexts,
            "error": None,
        }


def isolated_core(
    recording: Recording, core: int, *, traced: bool = False, watched: Watched | None = None, region: int = 0
) -> IsolatedCore:
    """A core of a recording, before it has run. watched: pages whose accesses alone are traced; region: in
    which it begins."""
    manifest = recording.manifest
    return IsolatedCore(
        manifest.instruction_set,
        core,
        manifest.memory,
        manifest.line,
        traced=traced,
        watching=None if watched is None else watched.asked(region),
        store_buffer=manifest.store_buffer,
        surroundings=KERNEL if manifest.linux else DEVICES,
    )


class CoreReplay(ReplayDriver):
    """Replays one core of a recording from its own log.

    watched: of which pages accesses are traced, region by region; None: of all. start: where it begins, in
    place of the beginning; if `watched` is given, at one of its handovers. carried: what `carried_at` says of
    that, if somebody has asked. paged: it keeps track of which pages change. Without these only the manifest
    and `core-K.log` are read. Raises UsageError if there is no such core, FormatError where a checkpoint is
    not what the log says.
    """

    def __init__(
        self,
        recording: Recording,
        core: int,
        *,
        traced: bool = False,
        watched: Watched | None = None,
        stops: Sequence[int] = (),
        start: Start | None = None,
        carried: Carried | None = None,
        paged: bool = False,
    ) -> None:
        manifest = recording.manifest
        if not 0 <= core < manifest.n_cores:
            raise UsageError(
                "no such core in this recording",
                expected=f"0 to {manifest.n_cores - 1}",
                found=str(core),
                where=str(recording.path),
                remedy=another("core"),
            )
        region = 0 if start is None else start.state.strata
        isolated = isolated_core(recording, core, traced=traced, watched=watched, region=region)
        super().__init__(recording, core, manifest.instruction_set, isolated, stops)
        self._forgets = is_ring(manifest)
        self._pages = ChangedPages(isolated.core) if paged or self._forgets else None
        self._fingerprint = Fingerprint(isolated.core, manifest.line, self._pages)
        self._strata = self._digests = 0
        self._watched = watched
        self._watch(region)
        self._at_stratum, self._contexts_before = False, 0
        self._source = iter_core_records(recording, core) if start is None else start.pieces
        held = np.zeros(0, np.uint64)
        if watched is not None and len(watched.ever_by_holds):
            pages, behind = watched.ever_by_holds, None
            if start is not None:
                if carried is None:
                    carried = carried_at(recording, core, watched.strata, pages, [region])[region]
                held = np.intersect1d(carried.held, watched.by_holds_in(region))
                behind = carried, start.pieces
            self._source = with_losses(recording, core, watched.strata, pages, behind)
        if start is not None:
            self._begin(start)
        if self._core.watched is not None and len(held):
            self._core.watched.take_over(held)

    def _begin(self, start: Start) -> None:
        core, state, isolated = self._core.core, start.state, self._core
        wrong = ""
        if len(state.unlisted) != len(core.native.unlisted):
            wrong = f"it has {len(state.unlisted)} registers, of {len(core.native.unlisted)}"
        else:
            isolated.begin(state)
            for pages in start.pages:
                put_pages(core, pages, self._recording.manifest.line)
            if start.fingerprint is not None and self._fingerprint.update() != start.fingerprint:
                wrong = "its memory is not what the core's log says"
        if wrong and start.checkpoint is not None:
            raise checkpoint_damage(self._recording, self._number, start.checkpoint, wrong)
        self._strata, self._complete = state.strata, start.complete
        # The next context header is no first one.
        self._contexts = self._contexts_before = 1

    def stands(self) -> Start:
        """Where this replay stands, for another to go on from there: this one is over then. It must keep
        track of its pages."""
        assert self._pages is not None
        received = self._pages.received()
        core, line = self._core, self._recording.manifest.line
        piece = core.left_over()
        follow = chain([piece], self._source) if len(piece[0]) else self._source
        pages = take_pages(core.core, received, line)
        return Start(core.state(self._strata), pages, follow, complete=self._complete)

    def _received(self) -> NDArray[np.uint64]:
        assert self._pages is not None
        return self._pages.received()

    def _pieces(self) -> Iterator[Piece]:
        return self._source

    @property
    def result(self) -> ReplayResult:
        """How far the replay has come."""
        contexts = self._contexts - self._contexts_before
        return ReplayResult(
            self._number, self._core.count, self._strata, self._digests, contexts, self._complete
        )

    def _rest(self) -> Iterator[NDArray[np.void]]:
        self._core.empty_store_buffer()
        yield from self._taken()

    def _watch(self, region: int) -> None:
        if self._watched is not None and self._core.watched is not None:
            self._core.watched.watch(self._watched.pages(region))

    def _turn(self, region: int) -> None:
        """Spells of pages end where a region begins, and others begin."""
        if self._watched is None or self._core.watched is None:
            return
        spells, number = self._watched.spells, self._number
        for here, change, teller in (
            (spells.end == region, self._core.watched.close_spells, spells.closer),
            (spells.first == region, self._core.watched.open_spells, spells.opener),
        ):
            if here.any():
                change(spells.page[here], teller[here] == number, self._watched.words_in(region))

    def _before(self, kind: int) -> Iterator[NDArray[np.void]]:
        watched = self._core.watched
        if kind in (STRATUM, END) and self._watched is not None and watched is not None:
            if self._strata + 1 in self._watched.handovers:
                watched.hand_over(self._watched.ever, self._watched.by_holds_in(self._strata))
            else:
                watched.choose(self._watched.pages(self._strata + 1))
            while not watched.tell():
                yield from self._taken()
            if self._watched.turns(self._strata + 1, self._strata + 1):
                yield from self._taken()

    def _stratum(self, row: np.void) -> None:
        self._strata += 1
        self._watch(self._strata)
        self._at_stratum = True
        wrong = self._core.set_stratum(self._strata, int(row["addr"]), int(row["size"]))
        if wrong is not None:
            raise self._diverged(wrong)
        self._turn(self._strata)

    def _stood_still(self, strata: int) -> None:
        # What is watched where a core stands still was chosen when it began to (`Contested.of`).
        if self._watched is not None:
            for region in self._watched.turns(self._strata + 1, self._strata + strata):
                self._turn(region)
        self._strata += strata

    def _digest(self, expected: Digest) -> None:
        self._digests += 1
        self._compare(expected, self._fingerprint.update())
        if self._at_stratum:
            self._at_stratum = False
            self._cut(self._strata - 1)

    def _cut(self, stratum: int) -> None:
        """A stratum and its digest have been passed: a checkpoint may stand here."""

    def _interrupted(self) -> None:
        self._core.empty_store_buffer()

    def _remedy(self, count: int) -> Text:
        first, until = Option("first", max(0, count - 20)), Option("until", count + 1)
        options = (Option("core", self._number), first, until)
        return Phrase("look closer with: ", Call("trace", str(self._recording.path), options))


def replay_core(
    recording: Recording, core: int, progress: Callable[[int], None] | None = None
) -> ReplayResult:
    """Replay one core to its end without a trace. Raises Divergence, FormatError."""
    replay = CoreReplay(recording, core)
    for _ in replay.run(progress):
        pass
    return replay.result
