"""Ours of the x87, all of them; imported when a guest uses it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.exceptions.x87_computing import COMPUTING
from emu.hooks.x86_64.helpers.exceptions.x87_environment import BEFORE, ENVIRONMENT
from emu.hooks.x86_64.helpers.exceptions.x87_moving import MOVING
from emu.hooks.x86_64.helpers.unless import unless
from emu.hooks.x86_64.helpers.x87 import X87, X87_IN_MEMORY
from emu.hooks.x86_64.helpers.x87_signatures import X87_SIGNATURES
from emu.hooks.x86_64.helpers.x87_stack import STACK
from emu.native.functions import Native, native_table
from emu.native.state import address_of

_OF_BEFORE = {**X87, **X87_IN_MEMORY, **STACK}
_KERNELS = {**MOVING, **COMPUTING, **ENVIRONMENT}


def _before(name: str) -> Native | None:
    """What engines of revision 1 have."""
    kernel = _OF_BEFORE.get(name)
    return kernel and Native(kernel, X87_SIGNATURES[name], name in X87_IN_MEMORY)


def _native(name: str) -> Native:
    prelude = name in BEFORE
    kernel = BEFORE[name] if prelude else _KERNELS[name]
    return Native(kernel, X87_SIGNATURES[name], True, 2, _before(name), prelude)


#: In the order of `X87_SIGNATURES`.
X87_HELPERS = [_native(name) for name in X87_SIGNATURES]
_names = zip(X87_HELPERS, X87_SIGNATURES, strict=True)
_put = native_table([(helper, unless(name, helper.signature)) for helper, name in _names])


@njit(cache=True)
def _put_addresses(place):
    _put(place)


def x87_addresses() -> NDArray[np.uint64]:
    """Of the functions, uint64[len(X87_SIGNATURES)]."""
    addresses = np.zeros(len(X87_HELPERS), np.uint64)
    _put_addresses(np.uint64(address_of(addresses)))
    return addresses
