"""Where compiled kernels are kept between runs.

Numba's own cache looks only at the file that defines a kernel, not at the kernels that it calls, so an
edited or upgraded package could run stale code. The cache directory is therefore named by a digest of
every source file of the packages.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_PACKAGES = ("isa", "emu", "recorder", "solver", "corebraid")


def _sources_digest() -> str:
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.blake2b(digest_size=8)
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            facts = path.stat()
            digest.update(f"{path.relative_to(root)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def use_kernel_cache() -> Path | None:
    """Point Numba at this version's cache; call before numba is imported.

    Returns the directory, None when NUMBA_CACHE_DIR was set already (it is left alone) or no cache can
    be kept. XDG_CACHE_HOME is honoured.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = base / "corebraid" / f"kernels-{_sources_digest()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    os.environ["NUMBA_CACHE_DIR"] = str(directory)
    return directory
