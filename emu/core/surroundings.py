"""What surrounds a core besides memory: devices in its address space, or a kernel that answers its calls."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from corebraid.base.memory import DEVICE_BASE, PAGE_BYTES
from emu.core.core import Core
from emu.hooks.call import on_privileged
from emu.hooks.replay import on_replayed_device_read, on_replayed_device_write
from emu.native.state import address_of
from emu.native.unicorn import map_device_page
from isa.registry import linux_abi_of


class Surroundings(Protocol):
    """most_memory: bytes of memory that a core can have in them."""

    most_memory: int

    def surround(self, core: Core, page: NDArray[np.uint8], words: NDArray[np.uint64]) -> None:
        """Install what a core on the bus needs to meet them.

        page: uint8[PAGE_BYTES], the device registers as it sees them. words: uint64[CALL_WORDS], what its
        last system call was.
        """

    def surround_isolated(self, core: Core, rows: NDArray[Any]) -> None:
        """The same for one that replays: its log says what they answered. rows: CORE[1], its own."""


class Devices:
    """Registers in memory; system calls fail. What firmware meets."""

    most_memory = DEVICE_BASE

    def surround(self, core: Core, page: NDArray[np.uint8], words: NDArray[np.uint64]) -> None:
        """Map the page of registers."""
        core.row["devices"] = 1
        core.map_devices(page)
        core.add_instruction_hooks(core.native.unserved_calls)

    def surround_isolated(self, core: Core, rows: NDArray[Any]) -> None:
        """Map a page whose reads the log answers."""
        core.row["devices"] = 1
        read, write = on_replayed_device_read, on_replayed_device_write
        map_device_page(core.handle, DEVICE_BASE, PAGE_BYTES, read, write, address_of(rows))
        # The last one that it makes ends the log: the emulator would go on somewhere.
        core.add_instruction_hooks(core.native.unserved_calls)


class Kernel:
    """System calls, a processor that can be asked what it is, and no devices. What a Linux program meets; its
    memory is the address space.
    """

    most_memory = 1 << 40

    def surround(self, core: Core, page: NDArray[np.uint8], words: NDArray[np.uint64]) -> None:
        """Let calls, and what only a kernel may do, stop the core."""
        core.row["call_words"] = address_of(words)
        core.set_call_registers(linux_abi_of(core.isa))
        core.set_identity()
        core.run_programs()
        core.placed.privileged = on_privileged
        core.add_instruction_hooks(core.native.calls)

    def surround_isolated(self, core: Core, rows: NDArray[Any]) -> None:
        """Let the log answer calls."""
        core.set_call_registers(linux_abi_of(core.isa))
        core.set_identity()
        core.run_programs()
        core.add_instruction_hooks(core.native.replayed_calls)


DEVICES: Surroundings = Devices()
KERNEL: Surroundings = Kernel()
