"""Checkpoints held against what they stand for: memory against the log's digests, the rest against a
replay."""

from __future__ import annotations

from collections.abc import Iterator

from corebraid.base.rows.record import DIGEST, STRATUM
from emu.core.changed_pages import ChangedPages
from emu.core.fingerprint import Fingerprint
from emu.core.saved_pages import drop_pages, put_pages
from recorder.files.checkpoints import checkpoints, own_pages
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.core import CoreReplay, ReplayResult, isolated_core
from recorder.replay.start import checkpoint_damage, digest_of


def check_memory(recording: Recording, core: int) -> int:
    """Hold the memory of a core's checkpoints against the digests in its log, one after the other; how many
    there are. Of a recording whose recorder was killed, those that its log reaches. Raises FormatError."""
    found = checkpoints(recording, core)
    if not found:
        return 0
    # It only holds memory.
    manifest, holder = recording.manifest, isolated_core(recording, core).core
    pages = ChangedPages(holder)
    fingerprint = Fingerprint(holder, manifest.line, pages)
    digests, own = _digests(recording, core), own_pages(recording, core)
    stratum, count, expected = next(digests, (-1, 0, 0))
    for one in found:
        while stratum != -1 and stratum < one.stratum:
            stratum, count, expected = next(digests, (-1, 0, 0))
        if stratum == -1 and recording.killed:
            break
        if (stratum, count) != (one.stratum, one.count):
            raise checkpoint_damage(
                recording, core, one, f"the core's log has no stratum {one.stratum} there"
            )
        if one.whole:
            drop_pages(holder, pages.ever, manifest.line)
        for some in own(one):
            put_pages(holder, some, manifest.line)
        if fingerprint.update() != expected:
            raise checkpoint_damage(recording, core, one, "its memory is not what the core's log says")
    return len(found)


def _digests(recording: Recording, core: int) -> Iterator[tuple[int, int, int]]:
    """(stratum, instruction count, fingerprint of memory) of each stratum in a core's log."""
    mark = None
    for rows, blob in iter_core_records(recording, core):
        for row in rows[(rows["kind"] == STRATUM) | (rows["kind"] == DIGEST)]:
            if int(row["kind"]) == STRATUM:
                mark = row
            elif mark is not None:
                yield int(mark["value"]), int(mark["count"]), digest_of(recording, row, blob).fingerprint
                mark = None


class _Held(CoreReplay):
    """A replay that holds checkpoints against what it comes to."""

    def __init__(self, recording: Recording, core: int) -> None:
        super().__init__(recording, core)
        self._held = {one.stratum: one for one in checkpoints(recording, core)}

    def _cut(self, stratum: int) -> None:
        one = self._held.get(stratum)
        if one is not None and one.unlisted != self._core.core.unlisted():
            raise checkpoint_damage(self._recording, self._number, one, "its registers are not the replay's")


def replay_and_check(recording: Recording, core: int) -> ReplayResult:
    """Replay a core to its end, and hold the registers of its checkpoints, if it has any, against it. Raises
    Divergence, FormatError."""
    replay = _Held(recording, core)
    for _ in replay.run():
        pass
    return replay.result
