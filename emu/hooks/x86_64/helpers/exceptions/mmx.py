"""MMX instructions on the x87's registers (SDM volume 1, 9.2.1, 9.5.1 and 9.6).

They wait for exceptions that are due, and set the 16 bits above a register that they write.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.exceptions.x87_exceptions import begin
from emu.hooks.x86_64.helpers.sse import packed
from emu.hooks.x86_64.helpers.sse.packed import OF_STATE, OF_TWO, OF_TWO_BY, PACKED
from emu.native.functions import Native
from emu.native.unicorn import poke16

_UPPER_BITS, _EIGHT = np.uint16(0xFFFF), np.uint64(8)


@njit
def enter_mmx(env, caller):
    """An MMX instruction begins. caller: address in the generated code, from which the emulator knows the
    instruction. What it changes is changed later (`entering_mmx`)."""
    begin(env, caller)


@njit
def _emms(env, caller):
    begin(env, caller)
    packed.emms(env)


def _of_two(name: str) -> Any:
    """Of those that the emulator does not take for MMX instructions."""
    before = PACKED[name][0]

    @njit
    def ours(env, first, second, caller):
        begin(env, caller)
        before(env, first, second)
        poke16(first + _EIGHT, _UPPER_BITS)

    return ours


def _of_two_by(name: str) -> Any:
    before = PACKED[name][0]

    @njit
    def ours(env, first, second, immediate, caller):
        begin(env, caller)
        before(env, first, second, immediate)
        poke16(first + _EIGHT, _UPPER_BITS)

    return ours


def _kernel(name: str, signature: Any) -> Any:
    return _of_two(name) if signature == OF_TWO else _of_two_by(name)


_KERNELS = {
    "helper_enter_mmx": (enter_mmx, OF_STATE),
    "helper_emms": (_emms, OF_STATE),
    **{
        name: (_kernel(name, signature), signature)
        for name, (_, signature) in PACKED.items()
        if name.endswith("_mmx") and signature in (OF_TWO, OF_TWO_BY)
    },
}
#: Ours by the emulator's names.
MMX = {
    name: Native(kernel, signature, True, 2, Native(*PACKED[name]))
    for name, (kernel, signature) in _KERNELS.items()
}
