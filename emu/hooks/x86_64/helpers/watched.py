"""Accesses to watched pages are told to a trace; all others are the emulator's own, at its own speed.

The emulator looks at each fill of its TLB whether a debugger watches the page (QEMU: watchpoints), and if so
takes the long way at every access to it. unicorn 2.1 has no debugger and says that nobody ever does; what
asks is ours here (`cpu_watchpoint_address_matches`), and so is what stands at the beginning of the long way
(`helper_le_ldq_mmu` and its like), where the address, the size and the bytes to be stored of an access are
known whole. No memory hook is needed, which would make every access of every block take the long way.

The long way's loads and stores are a function for each size for generated code, which has them from a table,
and another for helpers, which call it. An access that is not aligned is done in parts, for which the long way
calls the first ones itself, by words that are neither of that table nor of the others; they stay as they are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.trace import trace_access
from emu.hooks.watch import is_watched, watched_part
from emu.hooks.x86_64.helpers.state import PROCESSOR, WATCHER, at
from emu.hooks.x86_64.helpers.unless import SUFFIX, unless
from emu.native.functions import Native, native_table
from emu.native.interposition import FOR_CALLS, IN_TABLE, Interposition
from emu.native.registers import read_pc
from emu.native.state import address_of, core_at
from emu.native.unicorn import peek64

_ADDRESS, _INT = types.uint64, types.int32
_LOAD = types.uint64(_ADDRESS, _ADDRESS, types.uint32, _ADDRESS)
_STORE = types.void(_ADDRESS, _ADDRESS, types.uint64, types.uint32, _ADDRESS)
_MATCHES = _INT(_ADDRESS, _ADDRESS, _ADDRESS)
#: Watched for loads and for stores (QEMU: BP_MEM_ACCESS).
_BOTH, _NEITHER = np.int32(3), np.int32(0)
_NOBODY, _NO_CODE = np.uint64(0), np.uint64(0)


@njit
def _tell(env, is_write, address, size, value, caller):
    watcher = peek64(at(env, WATCHER))
    if watcher == _NOBODY:
        return
    core = core_at(watcher)
    place, part, skipped = watched_part(core, address, size)
    if part > 0:
        core.processor, core.unlocated = env - np.uint64(PROCESSOR), caller
        trace_access(core, read_pc(core), is_write, place, part, value >> np.uint64(8 * skipped))
        core.unlocated = _NO_CODE


@njit
def _before_load(env, address, operation, caller, size):
    _tell(env, False, address, size, np.uint64(0), caller)


@njit
def _before_store(env, address, value, operation, caller, size):
    _tell(env, True, address, size, value, caller)


@njit
def _is_watched_page(processor, address, n_bytes):
    """`cpu_watchpoint_address_matches`, of a page that is filled: the core learns which processor is its."""
    watcher = peek64(at(processor + np.uint64(PROCESSOR), WATCHER))
    if watcher == _NOBODY:
        return _NEITHER
    core = core_at(watcher)
    core.processor = processor
    if is_watched(core, address):
        return _BOTH
    return _NEITHER


def _prelude(kernel: Any, signature: Any, size: int) -> Native:
    return Native(kernel, signature, prelude=True, constants=(size,))


#: By the emulator's names. In its tables of what generated code calls; those of the other byte order are for
#: `movbe`, which no CPUID here offers:
_FROM_CODE = {
    f"helper_{name}_mmu": _prelude(_before_load, _LOAD, size)
    for name, size in {"ret_ldub": 1, "le_lduw": 2, "le_ldul": 4, "le_ldq": 8}.items()
} | {
    f"helper_{name}_mmu": _prelude(_before_store, _STORE, size)
    for name, size in {"ret_stb": 1, "le_stw": 2, "le_stl": 4, "le_stq": 8}.items()
}
#: Called by helpers:
_CALLED = {
    f"cpu_{name}_mmuidx_ra": _prelude(_before_load, _LOAD, size)
    for name, size in {"ldub": 1, "ldsb": 1, "lduw": 2, "ldsw": 2, "ldl": 4, "ldq": 8}.items()
} | {
    f"cpu_{name}_mmuidx_ra": _prelude(_before_store, _STORE, size)
    for name, size in {"stb": 1, "stw": 2, "stl": 4, "stq": 8}.items()
}
_CALLED["cpu_watchpoint_address_matches"] = Native(_is_watched_page, _MATCHES)
_ALL = {**_FROM_CODE, **_CALLED}
_put = native_table(
    [(native, unless(name, native.signature) if native.prelude else None) for name, native in _ALL.items()]
)


@njit(cache=True)
def _put_addresses(place):
    _put(place)


@lru_cache(maxsize=1)
def watching() -> None:
    """From now on engines whose state names a core (`WATCHER`) tell it of accesses to its watched pages.
    Raises CorebraidError where the emulator is not one that can be corrected."""
    addresses = np.zeros(len(_ALL), np.uint64)
    _put_addresses(np.uint64(address_of(addresses)))
    ours = dict(zip(_ALL, addresses.tolist(), strict=True))
    for names, use in ((_FROM_CODE, IN_TABLE), (_CALLED, FOR_CALLS)):
        Interposition({name + SUFFIX: ours[name] for name in names}, (use,)).begin()
