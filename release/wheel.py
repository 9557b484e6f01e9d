"""`python -m release.wheel`: a wheel in dist/ that brings its kernels, compiled for any x86-64 processor.

Who installs it, with the same versions of Python, NumPy and Numba, does not wait for them at the first run.
With others they are compiled as ever (`corebraid.base.compiled.store`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from corebraid.base.compiled import store
from release.training import train

_ROOT = Path(__file__).resolve().parents[1]
#: What is made here and belongs to no wheel.
MADE = (
    ".git", ".venv", "build", "dist", "demo", "out", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis",
    ".numba_cache",
)  # fmt: skip


def compiled(folder: Path) -> Path:
    """All kernels, compiled for any processor, in a folder below this one."""
    cache = folder / "cache"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment |= store.ANY_PROCESSOR | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(_ROOT)}
    failed = train(
        [sys.executable, "-m", "corebraid"],
        environment,
        lambda done, of: print(f"compiling: {done} of {of}", file=sys.stderr, flush=True),
    )
    if failed:
        sys.exit("\n".join(["not everything could be run:", *failed]))
    # A command that tells Numba more (to simulate a GPU) has a folder of its own, of the same code.
    made = folder / "made"
    made.mkdir()
    for path in (cache / "loaded").rglob("*"):
        if path.is_file():
            shutil.copy(path, made)
    return made


def build(made: Path, folder: Path, dist: Path) -> Path:
    """The wheel of this tree, with these kernels. folder: for work. dist: where the wheel goes."""
    tree = folder / "tree"
    shutil.copytree(_ROOT, tree, ignore=shutil.ignore_patterns(*MADE))
    built = tree / store.BUILT.relative_to(_ROOT) / store.built_name()
    shutil.copytree(made, built)
    options = ("--no-deps", "--no-build-isolation", "--no-cache-dir", "--disable-pip-version-check", "-q")
    words = [sys.executable, "-m", "pip", "wheel", ".", *options, "-w", str(dist)]
    subprocess.run(words, cwd=tree, check=True)
    return max(dist.glob("corebraid-*.whl"), key=lambda path: path.stat().st_mtime)


def main() -> None:
    """Make it, and say what it holds."""
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="corebraid-wheel-") as folder:
        wheel = build(compiled(Path(folder)), Path(folder), _ROOT / "dist")
    with zipfile.ZipFile(wheel) as archive:
        kernels = sum("/built/" in name for name in archive.namelist())
    print(f"{wheel.relative_to(_ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB, {kernels} kernels")


if __name__ == "__main__":
    main()
