"""`cpuid`: the emulator's own, which is not to know where it was called from.

It asks hooks, and brings the processor's state up to date for them, by the place in the generated code from
which it was called: also what flags are to be worked out from, as that was when the instruction began. Where
a hook on the instruction itself was called meanwhile (under TSO `cpuid` waits for the store buffer), flags
have been worked out already, and what they were worked out from is no more. All else is up to date when it is
called; so it is called from here, which is no place in the generated code.
"""

from __future__ import annotations

from corebraid.base.compiled import njit, types
from emu.native.functions import Native, calling

_OF_STATE = types.void(types.uint64)
_identify = calling(_OF_STATE)


@njit
def _cpuid(env, own):
    _identify(own, (env,))


#: Ours by the emulator's names.
IDENTITY = {"helper_cpuid": Native(_cpuid, _OF_STATE, original=True)}
