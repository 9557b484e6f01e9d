"""What a socket has received and nobody has read yet: bytes of a stream, or messages."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from emu.linux.files.open_file import OpenFile
from emu.linux.sockets.addresses import Address
from emu.linux.waiting.readiness import hold, release


class Sender(Protocol):
    """Who has sent a parcel."""

    def uncharge(self, n: int) -> None:
        """So much of its send buffer is free again."""


@dataclass
class Parcel:
    """What one send brought. files: open files that came with it (SCM_RIGHTS), held until they are taken.

    source: the sender's address. credentials: the sender's (pid, uid, gid). sender: whose send buffer it
    takes `charge` bytes of until it is read.
    """

    data: bytes
    source: Address | None = None
    files: tuple[OpenFile, ...] = ()
    credentials: tuple[int, int, int] | None = None
    sender: Sender | None = None
    charge: int = 0


@dataclass(frozen=True)
class Received:
    """What one receive got. length: of the whole message, of which `data` may be only the beginning.

    files: each with one reference held; the receiver gives it to a descriptor or releases it.
    """

    data: bytes
    length: int
    source: Address | None = None
    files: tuple[OpenFile, ...] = ()
    credentials: tuple[int, int, int] | None = None


#: What a receive gets at the end of a stream.
END = Received(b"", 0)


class Inbox:
    """Parcels in the order of their arrival. used: bytes in them."""

    def __init__(self) -> None:
        self._parcels: deque[Parcel] = deque()
        #: How much of the first one has been read.
        self._offset = 0
        self.used = 0

    def __bool__(self) -> bool:
        return bool(self._parcels)

    def __len__(self) -> int:
        return len(self._parcels)

    def put(self, parcel: Parcel) -> None:
        """It has arrived."""
        self._parcels.append(parcel)
        self.used += len(parcel.data)

    def first_length(self) -> int:
        """Bytes of the next message; 0 without one."""
        return len(self._parcels[0].data) if self._parcels else 0

    def storable(self, n: int, room: int) -> int:
        """How many of the next n bytes of a stream are read into a buffer of which `room` bytes are there:
        of each parcel all that is wanted, or nothing."""
        done, offset = 0, self._offset
        for parcel in self._parcels:
            length = min(len(parcel.data) - offset, n - done)
            if done + length > room:
                break
            done, offset = done + length, 0
        return done

    def take_bytes(self, n: int, peek: bool) -> Received:
        """At most n bytes of a stream. Bytes that came with files are not joined to bytes after them."""
        pieces: list[bytes] = []
        source = self._parcels[0].source if self._parcels else None
        credentials = self._parcels[0].credentials if self._parcels else None
        files: tuple[OpenFile, ...] = ()
        length, offset, whole = 0, self._offset, 0
        for parcel in self._parcels:
            piece = parcel.data[offset : offset + n - length]
            pieces.append(piece)
            length, offset = length + len(piece), offset + len(piece)
            files = parcel.files
            if offset < len(parcel.data):
                break
            whole, offset = whole + 1, 0
            if files or length == n:
                break
        if peek:
            hold(files)
        else:
            self._drop(whole, offset, length)
        return Received(b"".join(pieces), length, source, files, credentials)

    def _drop(self, parcels: int, offset: int, length: int) -> None:
        gone = [self._parcels.popleft() for _ in range(parcels)]
        self._offset = offset
        self.used -= length
        if offset:
            self._parcels[0].files = ()
        _uncharge(gone)

    def take_message(self, n: int, peek: bool) -> Received:
        """The next message, at most n bytes of it; the rest is lost."""
        parcel = self._parcels[0]
        if peek:
            hold(parcel.files)
        else:
            self._parcels.popleft()
            self.used -= len(parcel.data)
            _uncharge([parcel])
        return Received(parcel.data[:n], len(parcel.data), parcel.source, parcel.files, parcel.credentials)

    def clear(self) -> None:
        """Nobody will read it."""
        parcels = list(self._parcels)
        self._parcels.clear()
        self._offset = self.used = 0
        for parcel in parcels:
            release(parcel.files)
        _uncharge(parcels)


def _uncharge(parcels: list[Parcel]) -> None:
    for parcel in parcels:
        if parcel.sender is not None:
            parcel.sender.uncharge(parcel.charge)
