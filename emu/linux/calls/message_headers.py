"""Messages in guest memory: struct msghdr and its control data (sendmsg(2), recvmsg(2), cmsg(3), unix(7))."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from emu.linux.calls.arguments import MOST_BUFFERS, buffers
from emu.linux.files.open_file import OpenFile
from emu.linux.ground.failure import Errno
from emu.linux.ground.words import as_int
from emu.linux.sockets.addresses import AF_UNIX, Address
from emu.linux.sockets.inbox import Received
from emu.linux.sockets.options import SO_PASSCRED, SOL_SOCKET
from emu.linux.sockets.socket import Socket
from emu.linux.tasks.task import Task
from emu.linux.waiting.readiness import release
from isa.layout import Layout

#: struct msghdr of every 64-bit ISA.
MSGHDR = Layout(
    56,
    {
        "name": (0, 8),
        "name_length": (8, 4),
        "vector": (16, 8),
        "count": (24, 8),
        "control": (32, 8),
        "control_length": (40, 8),
        "flags": (48, 4),
    },
)
_HEADER = 16
_SCM_RIGHTS, _SCM_CREDENTIALS = 1, 2
#: SCM_MAX_FD, and net.core.optmem_max.
_MOST_FILES, _MOST_CONTROL = 253, 131_072
MSG_CTRUNC, MSG_TRUNC, MSG_CMSG_CLOEXEC = 8, 0x20, 0x40000000


@dataclass(frozen=True)
class Header:
    """A msghdr. address: its own. vector: (address, bytes) of each buffer."""

    address: int
    name: int
    name_length: int
    vector: list[tuple[int, int]]
    control: int
    control_length: int


def read_header(task: Task, address: int) -> Header:
    """The msghdr at an address. Errno: EFAULT, EMSGSIZE (too many buffers), EINVAL."""
    fields = MSGHDR.unpack(task.process.memory.read(address, MSGHDR.size))
    if fields["count"] > MOST_BUFFERS:
        raise Errno(errno.EMSGSIZE)
    return Header(
        address,
        fields["name"],
        fields["name_length"],
        buffers(task, fields["vector"], fields["count"]),
        fields["control"],
        fields["control_length"],
    )


def gather(task: Task, vector: list[tuple[int, int]]) -> bytes:
    """The bytes of all buffers, which the caller has found to be few."""
    return b"".join(task.process.memory.read(address, n) for address, n in vector if n)


def scatter(task: Task, vector: list[tuple[int, int]], data: bytes) -> None:
    """Fill the buffers with `data`, as far as it goes."""
    at = 0
    for address, n in vector:
        piece = data[at : at + n]
        if piece:
            task.process.memory.write(address, piece)
        at += len(piece)


def storable(task: Task, vector: list[tuple[int, int]]) -> int:
    """Bytes of the buffers before the first that the guest may not write."""
    done = 0
    for address, n in vector:
        reached = task.process.memory.reachable(address, n, True) if n else 0
        done += reached
        if reached < n:
            break
    return done


def files_sent(task: Task, socket: Socket, header: Header) -> tuple[OpenFile, ...]:
    """The open files in a message's control data. Errno: EBADF, EINVAL, EPERM, ENOBUFS."""
    if not header.control_length or not header.control:
        return ()
    if header.control_length > _MOST_CONTROL:
        raise Errno(errno.ENOBUFS)
    raw = task.process.memory.read(header.control, header.control_length)
    files: list[OpenFile] = []
    at = 0
    while at + _HEADER <= len(raw):
        size = int.from_bytes(raw[at : at + 8], "little")
        level, kind = (as_int(int.from_bytes(raw[at + i : at + i + 4], "little")) for i in (8, 12))
        if not _HEADER <= size <= len(raw) - at:
            raise Errno(errno.EINVAL)
        body = raw[at + _HEADER : at + size]
        if level == SOL_SOCKET and socket.family == AF_UNIX:
            files += _one_sent(task, kind, body)
        at += (size + 7) & ~7
    if len(files) > _MOST_FILES:
        raise Errno(errno.EINVAL)
    return tuple(files)


def _one_sent(task: Task, kind: int, body: bytes) -> list[OpenFile]:
    numbers = [as_int(int.from_bytes(body[i : i + 4], "little")) for i in range(0, len(body) & ~3, 4)]
    if kind == _SCM_RIGHTS:
        return [task.process.descriptors.get(fd) for fd in numbers]
    if kind != _SCM_CREDENTIALS or len(body) != 12:
        raise Errno(errno.EINVAL)
    if tuple(numbers) != (task.process.pid, *task.process.ids):
        raise Errno(errno.EPERM)
    return []


def write_source(task: Task, source: Address | None, address: int, room: int, length_at: int) -> None:
    """Tell who sent it; a length of 0 stands for nobody with a name. Errno(EINVAL): negative room."""
    if not address:
        return
    raw = source.pack() if source is not None else b""
    if as_int(room) < 0:
        raise Errno(errno.EINVAL)
    if raw[: as_int(room)]:
        task.process.memory.write(address, raw[: as_int(room)])
    task.process.memory.write_number(length_at, 4, len(raw))


def write_control(task: Task, socket: Socket, header: Header, received: Received, flags: int) -> None:
    """Write control data and the header's fields; files that came get descriptors here, or are lost."""
    control, out = bytearray(), flags & MSG_CMSG_CLOEXEC
    room = header.control_length if header.control else 0
    if socket.options.flag(SOL_SOCKET, SO_PASSCRED) and socket.family == AF_UNIX and received.data:
        numbers = received.credentials or (0, 65_534, 65_534)
        body = b"".join((n & 0xFFFFFFFF).to_bytes(4, "little") for n in numbers)
        if _HEADER + len(body) <= room:
            control += _record(_SCM_CREDENTIALS, body, room)
        else:
            out |= MSG_CTRUNC
    if received.files:
        numbers_given = _give(task, received.files, (room - len(control) - _HEADER) // 4, flags)
        if len(numbers_given) < len(received.files):
            out |= MSG_CTRUNC
        if numbers_given:
            body = b"".join(fd.to_bytes(4, "little") for fd in numbers_given)
            control += _record(_SCM_RIGHTS, body, room - len(control))
    if received.length > len(received.data):
        out |= MSG_TRUNC
    memory = task.process.memory
    if control:
        memory.write(header.control, bytes(control))
    memory.write_number(header.address + MSGHDR.fields["control_length"][0], 8, len(control))
    memory.write_number(header.address + MSGHDR.fields["flags"][0], 4, out)


def _record(kind: int, body: bytes, room: int) -> bytes:
    """One control message with its padding, which may be cut off at the end."""
    size = _HEADER + len(body)
    head = size.to_bytes(8, "little") + SOL_SOCKET.to_bytes(4, "little") + kind.to_bytes(4, "little")
    return (head + body + bytes(-size % 8))[:room]


def _give(task: Task, files: tuple[OpenFile, ...], most: int, flags: int) -> list[int]:
    """Descriptors for as many files as there is room for; all are then released."""
    numbers: list[int] = []
    try:
        for file in files[: max(0, most)]:
            numbers.append(task.process.descriptors.add(file, cloexec=bool(flags & MSG_CMSG_CLOEXEC)))
    except Errno:
        pass
    release(files)
    return numbers
