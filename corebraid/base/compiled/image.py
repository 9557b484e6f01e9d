"""Machine code that was laid out once (`object_file`), read into memory without a linker."""

from __future__ import annotations

import ctypes
import marshal
import mmap
from collections.abc import Callable
from typing import NamedTuple


class Image(NamedTuple):
    """code: what is only read. data_bytes: of what is written, which begins as zeros and follows on a page of
    its own. symbols: places of those that are wanted by name.
    inside: where addresses of the image itself are to be put: (byte offset, of which byte offset). outside:
    where those of symbols of elsewhere are: (byte offset, symbol, what is added).
    """

    code: bytes
    data_bytes: int
    symbols: dict[str, int]
    inside: list[tuple[int, int]]
    outside: list[tuple[int, str, int]]

    def dumps(self) -> bytes:
        """As bytes, for `loads`."""
        return marshal.dumps(tuple(self))

    @classmethod
    def loads(cls, data: bytes) -> Image:
        """What `dumps` made. Raises ValueError, EOFError, TypeError."""
        return cls(*marshal.loads(data))


class Loaded:
    """An image in memory, which stays there while this object does. `address_of`: of a symbol of elsewhere;
    raises KeyError."""

    def __init__(self, image: Image, address_of: Callable[[str], int]) -> None:
        values = {name: address_of(name) for name in {name for _, name, _ in image.outside}}
        size = len(image.code) + image.data_bytes
        # What is written must not be shared with processes that are forked.
        self._memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory[: len(image.code)] = image.code
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        put = ctypes.c_uint64.from_address
        for place, target in image.inside:
            put(base + place).value = base + target
        for place, name, added in image.outside:
            put(base + place).value = values[name] + added
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if protect(base, len(image.code), mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), "mprotect")
        self._base, self._symbols = base, image.symbols

    def __getitem__(self, symbol: str) -> int:
        """The address of one of the image's own symbols. Raises KeyError."""
        return self._base + self._symbols[symbol]
