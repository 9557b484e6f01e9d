"""What the guest's root is made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bind:
    """A host file or directory that the guest sees at `guest`, an absolute path.

    Without `writable` the guest may change it all the same, but the changes stay in its private layer.
    """

    host: Path
    guest: str
    writable: bool = False


@dataclass(frozen=True)
class RootSpec:
    """binds: in the order given, later ones over earlier ones. links: (path, target) of symbolic links that
    are made where nothing is. cwd: where the guest starts, a guest path.

    keep_writes: where the private layer is written at the end, None: nowhere. system: the host's libraries
    and shared data are visible. private_limit: bytes that the private layer may hold.
    """

    binds: tuple[Bind, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    cwd: str = "/"
    keep_writes: Path | None = None
    system: bool = True
    private_limit: int = 1 << 30
