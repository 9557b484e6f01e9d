"""Where a helper of ours finds whether it is wanted: to engines of before the corrections it is not."""

from __future__ import annotations

from typing import Any

from emu.hooks.x86_64.helpers.state import REVISION, SSE_STATUS
from emu.native.functions import Unless

#: What unicorn adds to QEMU's names for this processor.
SUFFIX = "_x86_64"


def unless(name: str, signature: Any, byte: int = REVISION) -> Unless:
    """Of ours in the place of `name`. Helpers are handed the processor's state first; arithmetic the modes of
    SSE, which are in it, last. byte: of the state, the one that says it."""
    if name.startswith("float"):
        return Unless(name + SUFFIX, len(signature.args) - 1, byte - SSE_STATUS)
    return Unless(name + SUFFIX, 0, byte)
