"""What puts synthetic nodes into the guest's tree (`emu.linux.tree.tree_build.TreeBuilder`)."""

from __future__ import annotations

from typing import Protocol

from emu.linux.files.nodes import Node
from emu.linux.files.private_nodes import PrivateDirectory


class Builder(Protocol):
    """Puts nodes at guest paths."""

    def directory(self, path: str, mode: int = 0o755) -> PrivateDirectory:
        """The directory at a path, made if it is not there."""

    def put(self, path: str, node: Node) -> None:
        """Put a node at a path."""

    def inode(self) -> int:
        """A fresh inode number."""

    def now(self) -> int:
        """The time of nodes that are made now."""
