"""Native hook before an instruction that waits until the store buffer is empty (SDM volume 3, 12.10), and
before system calls of a Linux program that runs step by step."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray
from emu.bus.commit import FORCED_DRAIN, commit_all, note_forced
from emu.code.blocks import position_of
from emu.hooks.access import stop_before
from emu.hooks.shared_access import end_is_due_at_device
from emu.native.state import CORE, STOP_MISPLACED, core_at, machine_at
from emu.native.unicorn import BLOCK_HOOK, hook, pointer

_ZERO = np.uint64(0)


@hook(BLOCK_HOOK)
def on_fence(handle, address, size, user):
    """All stores commit; a core that runs step by step stops, and goes on once they have."""
    core = core_at(user)
    if core.entered == _ZERO or core.stop_reason == np.uint64(STOP_MISPLACED):
        return
    machine = machine_at(core.machine)
    if core.buffered == _ZERO and machine.stepped == _ZERO:
        return
    count = core.count + position_of(core, address)
    if end_is_due_at_device(core, machine, count):
        stop_before(core, address, count)
        return
    if core.buffered != _ZERO:
        note_forced(machine, FORCED_DRAIN)
        cores = carray(pointer(core.cores), np.int64(core.n_cores), CORE)
        commit_all(core, cores, machine, count)
