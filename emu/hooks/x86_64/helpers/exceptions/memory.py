"""Memory of the guest, for helpers that access it: the emulator's own loads and stores.

caller: address in the generated code, from which the emulator knows the instruction should one fail.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

_ADDRESS = types.uint64
store_quad = types.ExternalFunction(
    "cpu_stq_data_ra_x86_64", types.void(_ADDRESS, _ADDRESS, types.uint64, _ADDRESS)
)
store_long = types.ExternalFunction(
    "cpu_stl_data_ra_x86_64", types.void(_ADDRESS, _ADDRESS, types.uint32, _ADDRESS)
)
store_word = types.ExternalFunction(
    "cpu_stw_data_ra_x86_64", types.void(_ADDRESS, _ADDRESS, types.uint32, _ADDRESS)
)
load_quad = types.ExternalFunction("cpu_ldq_data_ra_x86_64", types.uint64(_ADDRESS, _ADDRESS, _ADDRESS))
load_long = types.ExternalFunction("cpu_ldl_data_ra_x86_64", types.uint32(_ADDRESS, _ADDRESS, _ADDRESS))
load_word = types.ExternalFunction("cpu_lduw_data_ra_x86_64", types.uint32(_ADDRESS, _ADDRESS, _ADDRESS))


@njit
def store_ten_bytes(env, address, number, caller):
    """A number of the x87, (low, high)."""
    store_quad(env, address, number[0], caller)
    store_word(env, address + np.uint64(8), np.uint32(number[1]), caller)


@njit
def load_ten_bytes(env, address, caller):
    """The same, loaded."""
    low = load_quad(env, address, caller)
    return low, np.uint64(load_word(env, address + np.uint64(8), caller))
