"""A guest that is ready to run: its process, its kernel, and what it was given."""

from __future__ import annotations

from dataclasses import dataclass

from emu.linux.kernel import Kernel
from emu.linux.memory.bus_memory import BusMemory
from emu.linux.tasks.facts import Facts
from emu.linux.tasks.process import Process
from emu.linux.tree.filesystem import Filesystem


@dataclass
class Guest:
    """process and kernel of one Linux program. memory: the process's, as the machine sees it.
    facts: what /proc tells; it must know who asks. filesystem: the process's, to be kept and closed at the
    end.
    """

    process: Process
    kernel: Kernel
    memory: BusMemory
    facts: Facts
    filesystem: Filesystem
