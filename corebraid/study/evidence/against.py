"""A replay from evidence that is not what was recorded: the evidence contradicts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from corebraid.base.errors import Contradiction, Divergence
from corebraid.base.wording import Option, Phrase


@contextmanager
def held_against_the_recording(evidence: str) -> Iterator[None]:
    """What diverges inside is told as what it is. evidence: its name. Raises Contradiction."""
    try:
        yield
    except Divergence as error:
        raise Contradiction(
            "the evidence contradicts the replay",
            found=Phrase(error.line),
            where=f"evidence {evidence}",
            remedy=Phrase("take another engine, or record again with ", Option("evidence", evidence)),
        ) from None
