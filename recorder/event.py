"""The event row, re-exported from where traced replay writes it natively (`emu/event.py`)."""

from emu.event import EVENT, FENCE, FETCH, GLUED, OWNED, READ, RMW, UNCACHED, WRITE, copy_rows, put_rows

__all__ = [
    "EVENT", "FENCE", "FETCH", "GLUED", "OWNED", "READ", "RMW", "UNCACHED", "WRITE", "copy_rows", "put_rows",
]  # fmt: skip
