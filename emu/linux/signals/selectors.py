"""Selectors in a signal's frame: what a handler has put there, and what a processor refuses of it.

Sources: Linux's arch/x86/kernel/signal_64.c (restore_sigcontext, force_valid_ss) and entry/entry_64.S
(espfix64), Intel SDM volume 2, IRET.
"""

from __future__ import annotations

from collections.abc import Mapping

from emu.linux.ground.failure import Unsupported
from emu.linux.signals.info import Trap
from isa.abi_signals import SignalFrame


def refused_selectors(frame: SignalFrame, fields: Mapping[str, int], number: int) -> Trap | None:
    """What follows from those in a frame that is returned from; None if they are a program's.

    fields: the frame's, by name. number: the exception's. Raises Unsupported.
    """
    asked = {one.field: fields[one.field] | frame.privilege for one in frame.selectors}
    flags = frame.constants["uc_flags"]
    for one in frame.selectors:
        selector = asked[one.field]
        if selector == one.own or (one.strict and not fields["uc_flags"] & one.strict):
            continue
        if (what := dict(one.unsupported).get(selector)) is not None:
            raise Unsupported(what)
        if not one.strict:
            # As of what runs no 64-bit code.
            flags &= ~sum(other.strict for other in frame.selectors)
        error = 0 if selector & one.untold else selector & ~frame.privilege
        return Trap(number, error, shown=(*asked.items(), ("uc_flags", flags)))
    return None
