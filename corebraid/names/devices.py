"""Names of device registers (firmware/include/machine.h), as symbols."""

from __future__ import annotations

from corebraid.base.memory import DEVICE_BASE
from corebraid.names.symbols import Symbol
from emu.devices import mailbox, one_sided, registers

_REGISTERS = (
    "CONSOLE_TX", "CONSOLE_RX", "POWER_OFF", "CORE_ID", "CORE_COUNT", "CYCLES", "RANDOM", "TIMER_PERIOD",
    "INT_HANDLER", "INT_CAUSE", "IPI_SEND", "DMA_SRC", "DMA_DST", "DMA_LEN", "DMA_START", "DMA_STATUS",
)  # fmt: skip
_MAIL = ("MAIL_ID", "MAIL_POST", "MAIL_ACCEPT", "MAIL_TAKE", "MAIL_AWAIT", "MAIL_FROM", "MAIL_TEST")
#: Registers of which there are four in a row, numbered from 0.
_MAIL_ROWS = ("MAIL_OUT", "MAIL_IN")
_ONE_SIDED = (
    "RMA_LOCAL", "RMA_REMOTE", "RMA_LENGTH", "RMA_PUT", "RMA_GET", "RMA_OUTSTANDING", "SEGMENT_BASE",
    "SEGMENT_LENGTH",
)  # fmt: skip
_BYTES = 8


def device_symbols() -> tuple[Symbol, ...]:
    """One symbol for each register of the device page."""
    modules = ((registers, _REGISTERS), (mailbox, _MAIL), (one_sided, _ONE_SIDED))
    offsets = {name: int(getattr(module, name)) for module, names in modules for name in names}
    for name in _MAIL_ROWS:
        first = int(getattr(mailbox, name))
        offsets |= {f"{name}{k}": first + _BYTES * k for k in range(4)}
    return tuple(Symbol(DEVICE_BASE + offset, _BYTES, name) for name, offset in offsets.items())
