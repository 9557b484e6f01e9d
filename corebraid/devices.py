"""Names of device registers (firmware/include/machine.h), as symbols."""

from __future__ import annotations

from corebraid.symbols import Symbol
from emu import device_kernels, one_sided

_REGISTERS = (
    "CONSOLE_TX", "CONSOLE_RX", "POWER_OFF", "CORE_ID", "CORE_COUNT", "CYCLES", "RANDOM", "TIMER_PERIOD",
    "INT_HANDLER", "INT_CAUSE", "IPI_SEND", "DMA_SRC", "DMA_DST", "DMA_LEN", "DMA_START", "DMA_STATUS",
)  # fmt: skip
_ONE_SIDED = (
    "RMA_LOCAL", "RMA_REMOTE", "RMA_LENGTH", "RMA_PUT", "RMA_GET", "RMA_OUTSTANDING", "SEGMENT_BASE",
    "SEGMENT_LENGTH",
)  # fmt: skip
_BYTES = 8


def device_symbols() -> tuple[Symbol, ...]:
    """One symbol for each register of the device page."""
    return tuple(
        Symbol(device_kernels.DEVICE_BASE + int(getattr(module, name)), _BYTES, name)
        for module, names in ((device_kernels, _REGISTERS), (one_sided, _ONE_SIDED))
        for name in names
    )
