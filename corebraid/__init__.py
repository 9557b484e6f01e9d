"""corebraid: record every core alone; braid them back together.

The Python interface, loaded on first use: `record`, `open_recording`, `replay`, `order`, `check_order`,
`trace`.
"""

from __future__ import annotations

__version__ = "0.1.0"

# Not that of `typing`: whatever is loaded before the command line answers Ctrl-C can end in a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corebraid.api import check_order, open_recording, order, record, replay, trace

__all__ = ["__version__", "check_order", "open_recording", "order", "record", "replay", "trace"]


def __getattr__(name: str) -> Any:
    """PEP 562: the interface needs an emulator and compiled kernels, which importing a name must not."""
    if name not in __all__:
        raise AttributeError(f"module 'corebraid' has no attribute {name!r}")
    from corebraid.base.kernel_cache import use_kernel_cache

    use_kernel_cache()
    from corebraid import api

    return getattr(api, name)
