"""The memory of checkpoints, held against the digests in the log."""

from __future__ import annotations

from collections.abc import Iterator

from corebraid.base.rows.record import DIGEST, STRATUM
from emu.core.changed_pages import ChangedPages
from emu.core.fingerprint import Fingerprint
from emu.core.saved_pages import drop_pages, put_pages
from recorder.files.checkpoints import checkpoints, own_pages
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.core import isolated_core
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
