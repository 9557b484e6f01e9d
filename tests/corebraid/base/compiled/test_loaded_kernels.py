"""Kernels that an earlier process compiled are loaded without Numba, and do what Numba's do."""

from __future__ import annotations

import marshal
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cli_factory import ROOT

_MODULE = ROOT / "tests" / "factories" / "compiled_kernels.py"


def run(
    cache: Path, *words: str, more: Mapping[str, str] | None = None, module: Path = _MODULE
) -> tuple[list[str], bool]:
    """What the kernels gave, and whether Numba was imported."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    places = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": f"{ROOT}{os.pathsep}{module.parent}"}
    command = [sys.executable, "-c", "import compiled_kernels; compiled_kernels.main()", *words]
    said = subprocess.run(
        command, env={**kept, **places, **(more or {})}, check=True, capture_output=True, text=True
    )
    *results, imported = said.stdout.splitlines()
    return results, imported == "True"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which one process has left its kernels."""
    folder = tmp_path_factory.mktemp("kernels") / "cache"
    assert run(folder)[1]
    return folder


@pytest.fixture
def own(cache: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(cache, tmp_path / "cache"))


def files(cache: Path) -> list[Path]:
    return sorted(path for path in (cache / "loaded").rglob("*") if path.is_file())


EXPECTED = [
    "10", "20", "6.0",
    "(array([0, 2, 4]), Pair(left=4, right=2.5), 3, True, None)",
    "[(2, 7), (1, 1)]", "False", "4", "2", "166", "15",
]  # fmt: skip
"""What the kernels give, by their text."""


def test_loaded_kernels_do_what_compiled_ones_do(cache: Path, tmp_path: Path) -> None:
    assert run(tmp_path / "cache") == (EXPECTED, True)
    assert run(cache) == (EXPECTED, False)


def test_numba_does_the_rest(cache: Path) -> None:
    """An argument that is left out, one by name; what a kernel raises."""
    results, imported = run(cache, "every way")
    assert imported
    assert results == [*EXPECTED, "True", "False", "('odd', 3)", "('odd', 3)", "(False, ('odd', 3))"]


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _of_another(data: bytes) -> bytes:
    (kernel, key), *rest = marshal.loads(data)
    return marshal.dumps(((kernel + "x", key), *rest))


def _with_unknown_symbol(data: bytes) -> bytes:
    said, entry, environments, image = marshal.loads(data)
    code, n, symbols, inside, outside = marshal.loads(image)
    image = marshal.dumps((code, n, symbols, inside, [*outside, (0, "no such function", 0)]))
    return marshal.dumps((said, entry, environments, image))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("damage", [_cut, _of_another, _with_unknown_symbol, lambda _: b""])
def test_what_cannot_be_used_is_made_again(damage: Callable[[bytes], bytes], own: Path) -> None:
    for file in files(own):
        file.write_bytes(damage(file.read_bytes()))
    assert run(own) == (EXPECTED, True)
    assert run(own) == (EXPECTED, False)


def test_kernels_of_another_source_are_not_used(own: Path) -> None:
    """Also of a module outside the packages."""
    module = own.parent / _MODULE.name
    module.write_text(_MODULE.read_text())
    run(own, module=module)
    assert run(own, module=module) == (EXPECTED, False)
    # Longer, too: within a second, that is how Python itself notices.
    module.write_text(_MODULE.read_text().replace("numbers * 2", "numbers * 3") + "# another\n")
    results, imported = run(own, module=module)
    assert imported
    assert results == [one.replace("0, 2, 4", "0, 3, 6") for one in EXPECTED]


def test_what_numba_is_told_counts(own: Path) -> None:
    """Code that checks bounds is other code; nothing is compiled, and kept, where Numba is not to compile."""
    checked = {"NUMBA_BOUNDSCHECK": "1"}
    assert run(own, more=checked) == (EXPECTED, True)
    assert run(own, more=checked) == (EXPECTED, False)
    assert run(own) == (EXPECTED, False)


def test_nothing_is_kept_where_nothing_can_be(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "loaded").write_text("a file")
    for _ in range(2):
        assert run(tmp_path / "cache") == (EXPECTED, True)
