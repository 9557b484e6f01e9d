"""corebraid: record every core alone; braid them back together.

The Python interface, loaded on first use, is a function for each command: docs/python.md.
"""

from __future__ import annotations

__version__ = "0.1.0"

# Not that of `typing`: whatever is loaded before the command line answers Ctrl-C can end in a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corebraid.api.check import check
    from corebraid.api.checkpoint import checkpoint
    from corebraid.api.evidence import linkage, one_slice, opr, rpc, slices
    from corebraid.api.hunt import hunt
    from corebraid.api.info import info, open_recording
    from corebraid.api.order import OrderProgress, check_order, order
    from corebraid.api.pairs import pairs, witness
    from corebraid.api.races import races
    from corebraid.api.record import record
    from corebraid.api.replay import replay, replay_all
    from corebraid.api.trace import trace
    from corebraid.api.verify import crosscheck, verify
    from corebraid.api.writes import history, who_wrote
    from corebraid.base.errors import CorebraidError

#: Names of the interface, and the module of each in `corebraid`.
_PLACES = {
    "CorebraidError": "base.errors",
    "OrderProgress": "api.order",
    "check": "api.check",
    "check_order": "api.order",
    "checkpoint": "api.checkpoint",
    "crosscheck": "api.verify",
    "history": "api.writes",
    "hunt": "api.hunt",
    "info": "api.info",
    "linkage": "api.evidence",
    "one_slice": "api.evidence",
    "open_recording": "api.info",
    "opr": "api.evidence",
    "order": "api.order",
    "pairs": "api.pairs",
    "races": "api.races",
    "record": "api.record",
    "replay": "api.replay",
    "replay_all": "api.replay",
    "rpc": "api.evidence",
    "slices": "api.evidence",
    "trace": "api.trace",
    "verify": "api.verify",
    "who_wrote": "api.writes",
    "witness": "api.pairs",
}

__all__ = [
    "CorebraidError",
    "OrderProgress",
    "__version__",
    "check",
    "check_order",
    "checkpoint",
    "crosscheck",
    "history",
    "hunt",
    "info",
    "linkage",
    "one_slice",
    "open_recording",
    "opr",
    "order",
    "pairs",
    "races",
    "record",
    "replay",
    "replay_all",
    "rpc",
    "slices",
    "trace",
    "verify",
    "who_wrote",
    "witness",
]


def __getattr__(name: str) -> Any:
    """PEP 562: most of the interface needs an emulator and compiled kernels, which importing a name must
    not."""
    if name not in _PLACES:
        raise AttributeError(f"module 'corebraid' has no attribute {name!r}")
    from importlib import import_module

    from corebraid.base.kernel_cache import use_kernel_cache

    use_kernel_cache()
    return getattr(import_module(f"corebraid.{_PLACES[name]}"), name)
