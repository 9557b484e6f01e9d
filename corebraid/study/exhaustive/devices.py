"""What of the devices an access to a register uses: which accesses commute, by conservative classes.

A register that is not known here, and one that sets off what happens by itself later, is a doubt: when that
happens is not tried.
"""

from __future__ import annotations

from corebraid.base.memory import DEVICE_BASE
from corebraid.base.rows.event import READ
from corebraid.study.exhaustive.tasks import Uses
from emu.devices import registers as at
from emu.devices.mailbox import MAIL_END, MAIL_FIRST
from emu.devices.one_sided import (
    RMA_GET,
    RMA_LENGTH,
    RMA_LOCAL,
    RMA_OUTSTANDING,
    RMA_PUT,
    RMA_REMOTE,
    SEGMENT_BASE,
    SEGMENT_LENGTH,
)
from recorder.files.collectors import Rows

#: What no core changes.
_CONSTANT = frozenset(map(int, (at.CORE_ID, at.CORE_COUNT)))
#: The core's own: others neither see it nor change it, as long as nobody is interrupted, and no put or get
#: was started.
_OWN = frozenset(
    map(
        int,
        (
            at.CYCLES, at.INT_HANDLER, at.INT_CAUSE, RMA_LOCAL, RMA_REMOTE, RMA_LENGTH, RMA_OUTSTANDING,
            SEGMENT_BASE, SEGMENT_LENGTH,
        ),
    )
)  # fmt: skip
#: Parts of devices that all cores share: whether an access changes what another one finds.
_SHARED = {
    int(register): (name, changes)
    for register, name, changes in (
        (at.CONSOLE_TX, "console", True),
        (at.CONSOLE_RX, "input", True),
        (at.RANDOM, "random", True),
        # Of those that stop the machine at once the first one counts.
        (at.POWER_OFF, "power", True),
        (at.DMA_SRC, "dma", True),
        (at.DMA_DST, "dma", True),
        (at.DMA_LEN, "dma", True),
        (at.DMA_STATUS, "dma", False),
    )
}
_DOUBTS = {
    int(at.TIMER_PERIOD): "a timer was set: when it interrupts a core was not tried",
    int(at.IPI_SEND): "a core was interrupted by another: when it takes that was not tried",
    int(at.DMA_START): "memory was copied by DMA: when each word is copied was not tried",
    int(RMA_PUT): "a put was started: when each word is moved was not tried",
    int(RMA_GET): "a get was started: when each word is moved was not tried",
}
_MAIL = "cores send each other mail: when it arrives was not tried"


def uses_of_devices(rows: Rows) -> Uses:
    """What uncached accesses (EVENT[n]) have used."""
    uses = Uses()
    for address, kind in rows[["addr", "kind"]].tolist():
        _add(uses, address - DEVICE_BASE, writes=kind != READ)
    return uses


def _add(uses: Uses, register: int, *, writes: bool) -> None:
    if register in _CONSTANT:
        return
    uses.quiet = False
    uses.timed = uses.timed or register == int(at.CYCLES)
    if register in _OWN:
        return
    if register in _SHARED:
        name, changes = _SHARED[register]
        key = (name,)
        uses.keys[key] = uses.keys.get(key, False) or changes
    elif register in _DOUBTS:
        if writes:
            uses.doubt = _DOUBTS[register]
    elif int(MAIL_FIRST) <= register < int(MAIL_END):
        uses.doubt = _MAIL
    else:
        uses.doubt = f"a device register was used that is not known here: offset {register:#x}"
