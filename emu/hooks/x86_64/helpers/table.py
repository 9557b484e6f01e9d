"""Which helpers of the emulator are ours, and how they come to be."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import unicorn
from numpy.typing import NDArray

from corebraid.base.compiled import njit, types
from corebraid.base.errors import CorebraidError
from emu.hooks.x86_64.helpers.exceptions.mmx import MMX
from emu.hooks.x86_64.helpers.exceptions.x87_environment import OF_ADDRESS, before_fxrstor, before_fxsave
from emu.hooks.x86_64.helpers.identity import IDENTITY
from emu.hooks.x86_64.helpers.located import LOCATED
from emu.hooks.x86_64.helpers.segments import SEGMENTS_OF_PROGRAM
from emu.hooks.x86_64.helpers.sse.comparisons import COMPARISONS
from emu.hooks.x86_64.helpers.sse.floats import FLOATS
from emu.hooks.x86_64.helpers.sse.mxcsr import OF_STATE, load_mxcsr, update_mxcsr
from emu.hooks.x86_64.helpers.sse.packed import PACKED
from emu.hooks.x86_64.helpers.sse.redirected import REDIRECTED
from emu.hooks.x86_64.helpers.sse.strings import STRINGS
from emu.hooks.x86_64.helpers.sse.tried_stores import TRIED_STORES, TRY_SIXTEEN
from emu.hooks.x86_64.helpers.state import PROGRAM, REVISION
from emu.hooks.x86_64.helpers.translation.accesses import ACCESSES
from emu.hooks.x86_64.helpers.translation.bit_tests import BIT_TESTS
from emu.hooks.x86_64.helpers.translation.calls import CALLS
from emu.hooks.x86_64.helpers.translation.frames import FRAMES
from emu.hooks.x86_64.helpers.translation.rotations import ROTATIONS
from emu.hooks.x86_64.helpers.translation.settled_flags import SETTLED_FLAGS
from emu.hooks.x86_64.helpers.translation.translator import REWRITTEN
from emu.hooks.x86_64.helpers.translation.x87_translation import X87_TRANSLATION
from emu.hooks.x86_64.helpers.unless import SUFFIX, unless
from emu.hooks.x86_64.helpers.x87_signatures import X87_SIGNATURES
from emu.native.functions import Native, Unless, native_switches, native_table
from emu.native.interposition import Interposition
from emu.native.state import address_of

#: Those of the translator: they are told of no state of a processor, and ask themselves if they are wanted.
TRANSLATOR = {**REWRITTEN, **X87_TRANSLATION, **SETTLED_FLAGS, **BIT_TESTS}
#: By the name that QEMU gives them; unicorn adds one suffix for each processor that it has.
HELPERS = {
    **{name: Native(*one) for name, one in {**STRINGS, **PACKED}.items()},
    **FLOATS,
    **COMPARISONS,
    **REDIRECTED,
    "update_mxcsr_status": Native(update_mxcsr, OF_STATE),
    **MMX,
    "helper_ldmxcsr": Native(load_mxcsr, types.void(types.uint64, types.uint32), caller=True),
    **{name: Native(*one) for name, one in SEGMENTS_OF_PROGRAM.items()},
    **{name: Native(*one) for name, one in TRANSLATOR.items()},
    **IDENTITY,
    **TRY_SIXTEEN,
    **FRAMES,
    **TRIED_STORES,
    **ACCESSES,
    **CALLS,
    **ROTATIONS,
    **LOCATED,
    "helper_fxsave": Native(before_fxsave, OF_ADDRESS, caller=True, since=2, prelude=True),
    "helper_fxrstor": Native(before_fxrstor, OF_ADDRESS, caller=True, since=2, prelude=True),
}


def _unless(name: str, helper: Native) -> Unless | None:
    if name in TRANSLATOR or name in ACCESSES or name in CALLS or name in LOCATED:
        return None
    return unless(name, helper.signature, PROGRAM if name in SEGMENTS_OF_PROGRAM else REVISION)


#: Versions of unicorn that have their registers where `state.py` says.
_KNOWN = ("2.1.4",)
_put = native_table([(helper, _unless(name, helper)) for name, helper in HELPERS.items()])
_put_switches = native_switches(list(X87_SIGNATURES.values()))


@njit(cache=True)
def _put_addresses(place):
    _put(place)


@njit(cache=True)
def _put_x87_switches(place, targets):
    _put_switches(place, targets)


def _interposition(helpers: Iterable[str], addresses: NDArray[np.uint64]) -> Interposition:
    names = [name + SUFFIX for name in helpers]
    return Interposition(dict(zip(names, addresses.tolist(), strict=True)))


class Later:
    """Ours of the x87, once they are loaded: few programs use it, and it is four times as much code.

    What stands in their place goes on to the emulator's before: an engine knows a function only if it was
    there when the engine was made.
    """

    def __init__(self) -> None:
        switches, targets = np.zeros((2, len(X87_SIGNATURES)), np.uint64)
        _put_x87_switches(np.uint64(address_of(switches)), np.uint64(address_of(targets)))
        places = _interposition(X87_SIGNATURES, switches)
        self._targets = [ctypes.c_uint64.from_address(target) for target in targets.tolist()]
        self._go_on_to(places.originals)
        places.begin()
        self.loaded = False

    def _go_on_to(self, addresses: Iterable[int]) -> None:
        for target, address in zip(self._targets, addresses, strict=True):
            target.value = address

    def load(self) -> None:
        """From now on they are ours."""
        if not self.loaded:
            from emu.hooks.x86_64.helpers.x87_table import x87_addresses

            self._go_on_to(x87_addresses().tolist())
            self.loaded = True


@lru_cache(maxsize=1)
def corrected() -> Later:
    """Has ours called by every engine that is made from now on and says so (`REVISION`). Raises
    CorebraidError where the emulator is not one that can be corrected."""
    if unicorn.__version__ not in _KNOWN:
        raise CorebraidError(
            "an emulator whose insides are not known",
            expected=f"unicorn {' or '.join(_KNOWN)}",
            found=f"unicorn {unicorn.__version__}",
            remedy=f"install the one that corebraid asks for: pip install unicorn=={_KNOWN[-1]}",
        )
    addresses = np.zeros(len(HELPERS), np.uint64)
    _put_addresses(np.uint64(address_of(addresses)))
    _interposition(HELPERS, addresses).begin()
    return Later()
