"""What orders of a recording of an earlier version do not know, for every output that shows one."""

from __future__ import annotations

from recorder.files.manifest import Manifest

_LINUX = (
    "a thread's accesses on different cores",
    "a system call, page fill, signal or exit and what its thread did before and does after it",
    "what one thread's call does to another thread",
)
_FIRMWARE = (
    "an interrupt's frame and the contexts before and after it",
    "the start of a transfer and what it does",
    "a message or an inter-core interrupt and its receipt",
)


def missing_edges(manifest: Manifest) -> list[str]:
    """Between what nothing in the recording's logs says the order, though it was certain in the run: empty
    for recordings of the present version."""
    if manifest.has_syncs:
        return []
    return list(_LINUX if manifest.linux else _FIRMWARE)


def missing_line(manifest: Manifest) -> str:
    """The same in a line, "" if nothing is missing."""
    missing = missing_edges(manifest)
    if not missing:
        return ""
    return (
        f"the recording is of format version {manifest.version}, which does not say the order between: "
        f"{'; '.join(missing)}; record again to have it kept"
    )
