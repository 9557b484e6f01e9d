"""/proc: made here from what is known of the one process; nothing of the host's."""

from __future__ import annotations

import errno
import stat as modes
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from emu.linux.files.file_tree import FileTree
from emu.linux.files.nodes import PROC_DEVICE, Directory, Node
from emu.linux.files.open_file import OpenFile, Stat
from emu.linux.files.regular import OpenRegular
from emu.linux.ground.failure import Errno
from emu.linux.pseudo import proc_process, proc_system
from emu.linux.pseudo.builder import Builder
from emu.linux.pseudo.proc_facts import ProcFacts
from emu.linux.pseudo.proc_nodes import (
    GeneratedDirectory,
    GeneratedFile,
    JumpLink,
    SameFile,
    TextLink,
    generated_status,
)

if TYPE_CHECKING:
    import random

_GONE = " (deleted)"


class NodeMaker:
    """Makes synthetic nodes of one device, with fresh inode numbers and one time for all."""

    def __init__(self, builder: Builder, device: int, uid: int) -> None:
        self._builder, self._device, self._uid = builder, device, uid
        self._time = builder.now()

    def file(
        self,
        make: Callable[[], bytes],
        mode: int = 0o444,
        take: Callable[[bytes], None] | None = None,
    ) -> GeneratedFile:
        """A text."""
        return GeneratedFile(self._status(modes.S_IFREG | mode), make, take)

    def text(self, text: str) -> GeneratedFile:
        """A text that never changes."""
        data = text.encode()
        return self.file(lambda: data)

    def directory(
        self,
        find: Callable[[str], Node | None] | None = None,
        names: Callable[[], list[str]] | None = None,
    ) -> GeneratedDirectory:
        """A directory."""
        return GeneratedDirectory(self._status(modes.S_IFDIR | 0o555), find, names)

    def link(self, text: Callable[[], str]) -> TextLink:
        """A link that is resolved by name."""
        return TextLink(self._status(modes.S_IFLNK | 0o777), text)

    def jump(self, text: Callable[[], str], to: Callable[[], Node]) -> JumpLink:
        """A link that leads straight to a node."""
        return JumpLink(self._status(modes.S_IFLNK | 0o777), text, to)

    def put(self, top: GeneratedDirectory, path: str, node: Node) -> None:
        """Put a node below `top`, with the directories on the way."""
        *above, name = path.split("/")
        for part in above:
            below = top.lookup(part)
            if below is None:
                below = self.directory()
                top.put(part, below)
            assert isinstance(below, GeneratedDirectory)
            top = below
        top.put(name, node)

    def _status(self, mode: int) -> Stat:
        return generated_status(self._builder.inode(), mode, self._device, self._time, self._uid)


class ProcTree:
    """Builds /proc. Nodes of tasks and descriptors are made when they are first looked at, and kept."""

    def __init__(self, builder: Builder, filesystem: FileTree, facts: ProcFacts) -> None:
        self._filesystem, self._facts = filesystem, facts
        self._system = NodeMaker(builder, PROC_DEVICE, 0)
        self._own = NodeMaker(builder, PROC_DEVICE, 1000)
        self._tasks: dict[int, GeneratedDirectory] = {}
        self._processes: dict[int, GeneratedDirectory] = {}

    def build(self, source: random.Random) -> Directory:
        """The whole of it."""
        facts, system = self._facts, self._system
        top = system.directory(self._find_process, lambda: [str(facts.pid)])
        top.put("self", system.link(lambda: str(facts.pid)))
        top.put("thread-self", system.link(lambda: f"{facts.pid}/task/{facts.current_tid()}"))
        top.put("mounts", system.link(lambda: "self/mounts"))
        texts: dict[str, Callable[[ProcFacts], bytes]] = {
            "cpuinfo": proc_system.cpuinfo,
            "meminfo": proc_system.meminfo,
            "stat": proc_system.stat,
            "uptime": proc_system.uptime,
            "loadavg": proc_system.loadavg,
        }
        for name, make in texts.items():
            top.put(name, system.file(partial(make, facts)))
        for path, text in proc_system.CONSTANTS.items():
            system.put(top, path, system.text(text))
        system.put(top, "sys/kernel/random/uuid", system.file(proc_system.random_uuid(source)))
        top.fixed = True
        return top

    def _find_process(self, name: str) -> Node | None:
        tid = _number(name)
        if tid is None or tid not in {*self._facts.tids(), self._facts.pid}:
            return None
        if tid not in self._processes:
            self._processes[tid] = self._process(tid, thread=False)
        return self._processes[tid]

    def _find_task(self, name: str) -> Node | None:
        tid = _number(name)
        if tid is None or tid not in self._facts.tids():
            return None
        if tid not in self._tasks:
            self._tasks[tid] = self._process(tid, thread=True)
        return self._tasks[tid]

    def _process(self, tid: int, thread: bool) -> GeneratedDirectory:
        facts, own = self._facts, self._own
        directory = own.directory()
        texts: dict[str, Callable[[], bytes]] = {
            "status": lambda: proc_process.status(facts, tid),
            "stat": lambda: proc_process.stat(facts, tid, thread),
            "statm": lambda: proc_process.statm(facts),
            "maps": lambda: facts.maps().encode("utf-8", "surrogateescape"),
            "cmdline": lambda: b"".join(word + b"\0" for word in facts.arguments()),
            "environ": lambda: b"".join(word + b"\0" for word in facts.environment()),
            "auxv": facts.auxiliary_vector,
            "limits": lambda: facts.limits().encode(),
            "mounts": proc_process.mounts,
            "mountinfo": proc_process.mountinfo,
            "cgroup": lambda: b"0::/\n",
            "io": lambda: proc_process.io(facts),
            "oom_score": lambda: b"0\n",
            "oom_score_adj": lambda: b"0\n",
            "personality": lambda: b"00000000\n",
            "wchan": lambda: b"0",
        }
        for name, make in texts.items():
            directory.put(name, own.file(make))
        directory.put("comm", own.file(lambda: self._name(tid), 0o644, lambda data: self._rename(tid, data)))
        directory.put(
            "exe", own.jump(lambda: facts.executable, lambda: self._filesystem.lookup(facts.executable))
        )
        directory.put("cwd", own.jump(self._cwd, lambda: self._filesystem.cwd))
        directory.put("root", own.jump(lambda: "/", lambda: self._filesystem.root))
        directory.put("fd", self._descriptors())
        directory.put("fdinfo", self._descriptor_texts())
        if not thread:
            directory.put("task", own.directory(self._find_task, lambda: [str(tid) for tid in facts.tids()]))
        return directory

    def _cwd(self) -> str:
        directory = self._filesystem.cwd
        return directory.path() + (" (deleted)" if directory.removed else "")

    def _name(self, tid: int) -> bytes:
        return self._facts.task_name(tid).encode("utf-8", "surrogateescape") + b"\n"

    def _rename(self, tid: int, data: bytes) -> None:
        name = data.split(b"\0")[0].rstrip(b"\n")[:15]
        self._facts.rename_task(tid, name.decode("utf-8", "surrogateescape"))

    def _file(self, number: int) -> OpenFile | None:
        return dict(self._facts.descriptors()).get(number)

    def _need(self, number: int) -> OpenFile:
        file = self._file(number)
        if file is None:
            raise Errno(errno.ENOENT)
        return file

    def _descriptors(self) -> GeneratedDirectory:
        links: dict[int, Node] = {}

        def find(name: str) -> Node | None:
            number = _number(name)
            if number is None or self._file(number) is None:
                return None
            if number not in links:
                links[number] = self._own.jump(
                    lambda: _shown_name(self._need(number)), lambda: self._open_node(number)
                )
            return links[number]

        return self._own.directory(find, self._numbers)

    def _descriptor_texts(self) -> GeneratedDirectory:
        files: dict[int, Node] = {}

        def find(name: str) -> Node | None:
            number = _number(name)
            if number is None or self._file(number) is None:
                return None
            if number not in files:
                files[number] = self._own.file(lambda: proc_process.fdinfo(self._need(number)))
            return files[number]

        return self._own.directory(find, self._numbers)

    def _numbers(self) -> list[str]:
        return [str(number) for number, _ in self._facts.descriptors()]

    def _open_node(self, number: int) -> Node:
        file = self._need(number)
        node = getattr(file, "node", None)
        return node if isinstance(node, Node) else SameFile(file.stat(), file)


def _shown_name(file: OpenFile) -> str:
    """Its name, and whether that is gone."""
    gone = isinstance(file, OpenRegular) and not file.stat().links and not file.name.endswith(_GONE)
    return file.name + _GONE if gone else file.name


def _number(name: str) -> int | None:
    """A decimal number without leading zeros, as names in /proc are."""
    return (
        int(name) if name.isascii() and name.isdigit() and len(name) < 10 and str(int(name)) == name else None
    )


def add_proc(builder: Builder, filesystem: FileTree, facts: ProcFacts, source: random.Random) -> None:
    """Put /proc in place."""
    builder.put("/proc", ProcTree(builder, filesystem, facts).build(source))
