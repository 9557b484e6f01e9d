"""A system call's failure: the error number that the guest sees."""

from __future__ import annotations

import errno


class Errno(Exception):
    """Raised by whatever serves a system call; the dispatcher gives the guest -number."""

    def __init__(self, number: int) -> None:
        super().__init__(errno.errorcode.get(number, str(number)))
        self.number = number


class Unsupported(Exception):
    """Something that cannot be emulated: the run ends with what, and why, in words."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Interrupted(Exception):
    """A blocking call was broken off for a signal (signal(7)).

    restart: it begins anew after a handler with SA_RESTART, and after a signal without a handler; else it
    fails with EINTR. always: it begins anew after every handler.
    """

    def __init__(self, restart: bool = True, always: bool = False) -> None:
        super().__init__("interrupted")
        self.restart, self.always = restart, always


class Exit(Exception):
    """A task ends. whole: and all others with it. code: the exit status, 0 to 255."""

    def __init__(self, code: int, whole: bool) -> None:
        super().__init__(f"exit {code}")
        self.code, self.whole = code, whole
