"""Memory of the guest, for helpers that access it: the emulator's own loads and stores.

caller: address in the generated code, from which the emulator knows the instruction should one fail.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import MODE, at
from emu.native.state import PAGE_SHIFT
from emu.native.unicorn import peek32

_ADDRESS, _INT = types.uint64, types.int32
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
_probe = types.ExternalFunction(
    "probe_access_x86_64", _ADDRESS(_ADDRESS, _ADDRESS, _INT, _INT, _INT, _ADDRESS)
)
#: Of `probe_access`: no byte is to be accessed yet; a load, a store. How the emulator numbers what may be
#: accessed by programs and by kernels; the privilege level of programs, and where a state has it.
_NO_BYTES, _LOAD, _STORE, _OF_PROGRAM, _OF_KERNEL = (np.int32(number) for number in (0, 0, 1, 1, 2))
_LEVEL, _ONE = np.uint32(3), np.uint64(1)


@njit
def _try(env, address, access, caller):
    """An access to the page of an address fails now if it may not be made."""
    index = _OF_PROGRAM if peek32(at(env, MODE)) & _LEVEL == _LEVEL else _OF_KERNEL
    _probe(env, address, _NO_BYTES, access, index, caller)


@njit
def _try_pages(env, address, n_bytes, access, caller):
    last = address + n_bytes - _ONE
    if address >> PAGE_SHIFT != last >> PAGE_SHIFT:
        _try(env, address, access, caller)
        _try(env, last >> PAGE_SHIFT << PAGE_SHIFT, access, caller)


@njit
def try_store(env, address, n_bytes, caller):
    """What is to store n_bytes, at least one, by more than one store fails now if it may not: a processor
    stores all of an operand or nothing."""
    _try_pages(env, address, n_bytes, _STORE, caller)


@njit
def try_load(env, address, n_bytes, caller):
    """The same of loads: a processor takes all of an operand or nothing."""
    _try_pages(env, address, n_bytes, _LOAD, caller)


@njit
def try_stack(env, address, caller):
    """A store to the page of an address, which is none of what is stored, fails now if it may not be made."""
    _try(env, address, _STORE, caller)


@njit
def store_ten_bytes(env, address, number, caller):
    """A number of the x87, (low, high)."""
    try_store(env, address, np.uint64(10), caller)
    store_quad(env, address, number[0], caller)
    store_word(env, address + np.uint64(8), np.uint32(number[1]), caller)


@njit
def load_ten_bytes(env, address, caller):
    """The same, loaded."""
    low = load_quad(env, address, caller)
    return low, np.uint64(load_word(env, address + np.uint64(8), caller))
