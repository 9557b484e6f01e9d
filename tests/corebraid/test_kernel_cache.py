"""A cached kernel is used only while every file that it was compiled from is the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corebraid.base import import_closure

#: Modules of a package, each imported in a form of its own.
_MODULES = ("one", "two", "three", "four", "five", "inside")
_FORMS = """\
from emu.package import one
from emu.package import (
    two,  # the second
    three as third,
)
from emu.package import four as fourth
def g():
    from emu.package import f, five
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(import_closure, "_ROOT", tmp_path)
    for name, text in (
        ("emu/top.py", "from emu.middle import f\nimport numpy\n"),
        ("emu/middle.py", "def g():\n    from isa.bottom import h\n"),
        ("isa/bottom.py", "A = 1\n"),
        ("isa/apart.py", "B = 1\n"),
        ("emu/forms.py", _FORMS),
        ("emu/package/__init__.py", "from emu.package.inside import f\n"),
        *((f"emu/package/{name}.py", "C = 1\n") for name in _MODULES),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def digest(path: Path) -> str:
    for function in (import_closure._source, import_closure._imported, import_closure.import_closure_digest):
        function.cache_clear()
    return import_closure.import_closure_digest(path)


@pytest.mark.parametrize("name", ["emu/top.py", "emu/middle.py", "isa/bottom.py"])
def test_what_a_kernel_is_compiled_from_counts(root: Path, name: str) -> None:
    before = digest(root / "emu/top.py")
    assert digest(root / "emu/top.py") == before
    (root / name).write_text((root / name).read_text() + "# changed\n")
    assert digest(root / "emu/top.py") != before


@pytest.mark.parametrize("name", [*_MODULES, "__init__"])
def test_modules_count_however_they_are_imported(root: Path, name: str) -> None:
    before = digest(root / "emu/forms.py")
    file = root / "emu/package" / f"{name}.py"
    file.write_text(file.read_text() + "# changed\n")
    assert digest(root / "emu/forms.py") != before


def test_other_files_do_not_count(root: Path) -> None:
    before = digest(root / "emu/top.py")
    (root / "isa/apart.py").write_text("B = 2\n")
    assert digest(root / "emu/top.py") == before


def test_imports_of_the_real_packages_are_found() -> None:
    hooks = import_closure._ROOT / "emu" / "hooks" / "record.py"
    import_closure._imported.cache_clear()
    assert import_closure._ROOT / "emu" / "bus" / "lines.py" in import_closure._imported(hooks)


def test_kernels_of_other_sources_are_not_read_and_go_away(tmp_path: Path) -> None:
    """An index that cannot be read, as one with a class that has moved, must not matter."""
    module = tmp_path / "kernels.py"
    program = (
        "import os, sys\n"
        "sys.path.insert(0, os.environ['ROOT'])\n"
        "from corebraid.base.kernel_cache import use_kernel_cache\n"
        "use_kernel_cache()\n"
        "from numba import njit\n"
        "@njit(cache=True)\n"
        "def f(x):\n"
        "    return x + {}\n"
        "print(f(1), f.stats.cache_hits[next(iter(f.stats.cache_hits))] if f.stats.cache_hits else 0)\n"
    )
    environment = {
        **os.environ,
        "ROOT": str(import_closure._ROOT),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }

    def run(number: int) -> str:
        module.write_text(program.format(number))
        command = [sys.executable, str(module)]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    assert run(1) == "2 0\n"
    assert run(1) == "2 1\n"
    (index,) = (tmp_path / "cache").rglob("kernels.f-*.nbi")
    version = index.read_bytes()[:40]
    index.write_bytes(version + b"no pickle")
    assert run(5) == "6 0\n"
    assert not index.exists()
    assert run(5) == "6 1\n"
