"""The guest's file system: the tree that it finds, and what becomes of it."""

from __future__ import annotations

import errno
import random
from typing import TYPE_CHECKING

from corebraid.base.errors import UsageError
from emu.linux.files.absent import AbsentPaths
from emu.linux.files.file_tree import FileTree
from emu.linux.files.nodes import Directory
from emu.linux.files.private_layer import PrivateLayer
from emu.linux.ground.clock import Clock
from emu.linux.ground.failure import Errno
from emu.linux.pseudo.dev import add_devices
from emu.linux.pseudo.proc import add_proc
from emu.linux.pseudo.sys import add_sys
from emu.linux.tree.keep_writes import check_target, keep
from emu.linux.tree.root_spec import RootSpec
from emu.linux.tree.tree_build import TreeBuilder

if TYPE_CHECKING:
    from emu.linux.pseudo.proc_facts import ProcFacts


class Filesystem(FileTree):
    """The tree that a specification asks for. Raises UsageError for one that cannot be met."""

    def __init__(self, specification: RootSpec, clock: Clock, random: random.Random) -> None:
        self._keep = specification.keep_writes
        check_target(self._keep)
        layer = PrivateLayer(clock, specification.private_limit)
        self._builder = TreeBuilder(layer)
        super().__init__(self._builder.build(specification), layer)
        self._random = random
        add_devices(self._builder, random)
        self.cwd = self._start(specification.cwd)

    def _start(self, path: str) -> Directory:
        """The first current directory, an empty one if there is nothing at `path`."""
        try:
            return self.walk(path).directory()
        except Errno as failure:
            if failure.number == errno.ENOENT:
                return self._builder.directory(path)
            what = f"the guest cannot start in this directory: {failure}"
            raise UsageError(what, where=path) from None

    def attach(self, facts: ProcFacts) -> None:
        """The process exists: /proc and /sys can tell of it, and from now on it is the guest that asks."""
        self.absent = AbsentPaths()
        add_proc(self._builder, self, facts, self._random)
        add_sys(self._builder, facts)

    def close(self) -> None:
        """Let go of all host files."""
        self._builder.close()

    def keep(self) -> None:
        """Write what the guest changed privately to where `keep_writes` says. Raises UsageError."""
        if self._keep is not None:
            keep(self.root, self._keep)
