"""What a task waits for in a call: which files, and whether the world outside the guest could end the wait.

A guest is one process. Pipes, socket pairs, connections between its own sockets, event counters and timers
are its own: nobody else can ever write there, or set them. What somebody outside could do to the same
program on a machine of its own is to connect to a socket that listens, to send a message to one that has an
address, and to send a signal. Standard input never makes one wait: it ends where what was given ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from emu.linux.files.open_file import POLLIN, OpenFile
from emu.linux.ground.wait import Wait
from emu.linux.signals.signalfd import SignalFile
from emu.linux.sockets.addresses import text
from emu.linux.sockets.socket import Socket
from emu.linux.sockets.tcp import TcpSocket
from emu.linux.sockets.udp import UdpSocket
from emu.linux.sockets.unix import UnixDatagram
from emu.linux.tasks.task import Task
from emu.linux.waiting.epoll import Epoll
from emu.linux.waiting.eventfd import EventFile
from emu.linux.waiting.pipe import PipeReader, PipeWriter
from emu.linux.waiting.readiness import expand
from emu.linux.waiting.timerfd import TimerFile

#: Of many watched files, so many are told, those first that somebody outside could make ready.
_MOST_TOLD = 4

Asked = Sequence[tuple[OpenFile, int]]


def asked_of(wait: Wait) -> list[tuple[OpenFile, int]]:
    """The files that a wait is for, and for which POLL* bits of each."""
    return [(file, events) for file, events in wait.files if isinstance(file, OpenFile)]


def from_outside(wait: Wait) -> bool:
    """Whether somebody outside the guest could end it."""
    return wait.signal or any(reached(file, events) for file, events in asked_of(wait))


def reached(file: OpenFile, events: int) -> bool:
    """Whether somebody outside the guest could make one of these POLL* bits hold."""
    if not events & expand(POLLIN):
        return False
    if isinstance(file, Epoll):
        return any(reached(*one) for one in file.interests())
    if isinstance(file, SignalFile):
        return True
    if isinstance(file, UdpSocket):
        peers = file.network.udp.reachable(file.peer_host, file.peer_port) if file.peer_port else []
        return bool(file.port) and not peers
    if isinstance(file, UnixDatagram):
        return file.peer is None and file.has_address
    return isinstance(file, Socket) and file.listening


def described(task: Task, wait: Wait) -> str:
    """The files of a wait with their descriptors, '' if it is for none."""
    numbers: dict[OpenFile, int] = {}
    for number, file in task.process.descriptors.items():
        numbers.setdefault(file, number)
    return _listed(asked_of(wait), numbers)


def _listed(asked: Asked, numbers: dict[OpenFile, int]) -> str:
    ranked = sorted(asked, key=lambda one: not reached(*one))
    told = [_told(file, numbers) for file, _ in ranked[:_MOST_TOLD]]
    more = [f"{len(ranked) - _MOST_TOLD} more"] if len(ranked) > _MOST_TOLD else []
    return ", ".join([*told, *more])


def _told(file: OpenFile, numbers: dict[OpenFile, int]) -> str:
    number = numbers.get(file)
    descriptor = "a closed descriptor" if number is None else f"descriptor {number}"
    if isinstance(file, Epoll):
        watched = _listed(file.interests(), numbers)
        return f"{descriptor}: an epoll instance that watches {watched or 'nothing'}"
    return f"{descriptor}: {_kind(file)}"


def _kind(file: OpenFile) -> str:
    if isinstance(file, PipeReader | PipeWriter):
        return "an end of a pipe"
    if isinstance(file, EventFile):
        return "an eventfd"
    if isinstance(file, TimerFile):
        return "a timerfd that is not set"
    if isinstance(file, SignalFile):
        return "a signalfd"
    return _socket(file) if isinstance(file, Socket) else file.name


def _socket(socket: Socket) -> str:
    kind = (
        "a TCP socket" if isinstance(socket, TcpSocket)
        else "a UDP socket" if isinstance(socket, UdpSocket)
        else "a Unix socket"
    )  # fmt: skip
    if socket.listening:
        return f"{kind} that listens at {text(socket.local_address())}"
    if isinstance(socket, UdpSocket | UnixDatagram):
        at = f" at {text(socket.local_address())}" if socket.has_address else " without an address"
        connected = bool(socket.peer_port) if isinstance(socket, UdpSocket) else socket.peer is not None
        return f"{kind}{at}{', connected' if connected else ''}"
    return f"{kind}, whose other end is the guest's too"
