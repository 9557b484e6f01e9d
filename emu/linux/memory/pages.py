"""Pages: where they begin, and what may be done with them."""

from __future__ import annotations

from corebraid.base.memory import PAGE_BYTES
from emu.native.state import RIGHT_READ


def page_floor(address: int) -> int:
    """The beginning of its page."""
    return address & -PAGE_BYTES


def page_ceiling(address: int) -> int:
    """The beginning of the next page, unless it is one."""
    return (address + PAGE_BYTES - 1) & -PAGE_BYTES


def effective(rights: int) -> int:
    """Rights as x86-64 page tables give them: what can be written or executed can be read."""
    return rights | RIGHT_READ if rights else 0
