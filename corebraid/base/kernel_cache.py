"""Where compiled kernels are kept between runs.

Numba's own cache looks only at the file that defines a kernel, not at the kernels that it calls, so an
edited or upgraded package could run stale code. `corebraid.base.kernel_locator` makes it look at all of them.
It is one installation's. What it has made is for all that have the same sources (`corebraid.base.compiled`).
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_LOCATOR = "corebraid.base.kernel_locator.ImportClosureLocator"
_OURS, _ONE_INSTALLATION, _EVERYBODY = "corebraid", "kernels-", "kernels"


def use_kernel_cache() -> Path | None:
    """Point Numba at the cache of this installation; call before numba is imported.

    Returns the directory, None when NUMBA_CACHE_DIR was set already (it is left alone) or no cache can
    be kept. XDG_CACHE_HOME is honoured.
    """
    os.environ.setdefault("NUMBA_CACHE_LOCATOR_CLASSES", _LOCATOR)
    if "NUMBA_CACHE_DIR" in os.environ:
        return None
    here = hashlib.blake2b(os.fsencode(Path(__file__).resolve()), digest_size=6).hexdigest()
    directory = cache_home() / f"{_ONE_INSTALLATION}{here}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        del os.environ["NUMBA_CACHE_LOCATOR_CLASSES"]
        return None
    os.environ["NUMBA_CACHE_DIR"] = str(directory)
    return directory


def cache_home() -> Path:
    """What corebraid keeps for a user between runs; it need not be there. XDG_CACHE_HOME is honoured."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / _OURS


def code_folder(cache: Path) -> Path:
    """Where what Numba has made is kept to be loaded without it. cache: Numba's. Beside that of an
    installation, for all of them; below one that somebody has chosen."""
    if cache.parent.name == _OURS and cache.name.startswith(_ONE_INSTALLATION):
        return cache.parent / _EVERYBODY
    return cache / "loaded"
