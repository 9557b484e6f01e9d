"""Stores of SSE instructions that the emulator makes in parts, tried before the first."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.exceptions.memory import try_store
from emu.native.functions import Native
from emu.native.unicorn import peek8

_ADDRESS = types.uint64
_MASKED = types.void(_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS)
_OF_ADDRESS = _ADDRESS(_ADDRESS, _ADDRESS, _ADDRESS)
_CHOSEN, _SIXTEEN, _ONE = np.uint8(0x80), np.uint64(16), np.uint64(1)


@njit
def _before_masked_store(env, value, mask, address, caller, n_bytes):
    """`maskmovdqu`, `maskmovq`: from the first byte that is chosen to the last."""
    first, end = np.uint64(n_bytes), np.uint64(0)
    for k in range(n_bytes):
        if peek8(mask + np.uint64(k)) & _CHOSEN != 0:
            first, end = min(first, np.uint64(k)), np.uint64(k) + _ONE
    if first < end:
        try_store(env, address + first, end - first, caller)


@njit
def _try_sixteen(env, address, _, caller):
    """Called before the two stores of an instruction that stores 16 bytes, wherever they lie. Its name is
    that of a helper whose instruction (`bndldx`) no processor of ours has."""
    try_store(env, address, _SIXTEEN, caller)
    return address


#: Ours by the emulator's names.
TRIED_STORES = {
    f"helper_maskmov_{registers}": Native(
        _before_masked_store, _MASKED, caller=True, prelude=True, constants=(n_bytes,)
    )
    for registers, n_bytes in (("xmm", 16), ("mmx", 8))
}
TRY_SIXTEEN = {"helper_bndldx64": Native(_try_sixteen, _OF_ADDRESS, caller=True)}
