"""What a program asks libraries for, by its table of dynamic symbols."""

from __future__ import annotations

import io
import re

from elftools.elf.elffile import ELFFile

from corebraid.names.sections import sections_of
from corebraid.names.symbols import ELF_DAMAGE, symbol_names

#: Functions of the C library that wait for a time, or until one at most.
_WAITS = re.compile(
    r"pthread_\w*(timed|clock)(wait|(rd|wr)?lock|join_np)|sem_(timed|clock)wait|(cnd|mtx)_timed(wait|lock)"
    r"|thrd_sleep|(u|nano|clock_nano)?sleep|p?poll|p?select|epoll_p?wait2?|sigtimedwait"
    r"|mq_timed(send|receive)|u?alarm|setitimer|timer_settime|timerfd_settime"
)
#: Symbols of a program that are looked at.
_MOST = 100_000


def may_time_out(raw: bytes) -> bool:
    """Whether an ELF file asks for a function that waits for a time, or until one at most. False also of one
    that cannot be read, or asks for nothing."""
    try:
        elf = ELFFile(io.BytesIO(raw))
        for section in sections_of(elf, "SHT_DYNSYM"):
            numbers = range(1, min(section["sh_size"] // (section["sh_entsize"] or 1), _MOST))
            names = symbol_names(raw, section, list(numbers))
            if any(_WAITS.fullmatch(name.partition("@")[0]) for name in names):
                return True
    except ELF_DAMAGE:
        return False
    return False
