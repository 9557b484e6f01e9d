"""How much of a run a recording has, in words: all of it, or what came last (`record --last`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recorder.files.manifest import Manifest


def _dropped(manifest: Manifest) -> int:
    """Instructions that came before what it has."""
    found = manifest.totals.get("dropped_instructions", 0)
    return found if isinstance(found, int) else 0


def kept_of(manifest: Manifest) -> str:
    """The instructions that a finished recording has, and of how many."""
    kept, dropped = sum(manifest.instructions), _dropped(manifest)
    return f"the last {kept:,} of {kept + dropped:,}" if dropped else f"{kept:,}"


def kept_text(manifest: Manifest) -> str:
    """What of the run a ring has, and what counts begin with."""
    if not _dropped(manifest):
        return "all of the run: it was shorter than --last"
    before = ", ".join(f"{int(count):,}" for count in str(manifest.totals["dropped_by_core"]).split(","))
    amount = f"{kept_of(manifest)} instructions" if manifest.complete else "the end of the run"
    return f"{amount}; before the first one, core by core: {before}"
