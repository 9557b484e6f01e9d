"""What kernels call is linked into them, and is not compiled for others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from numba.core.errors import NumbaError
from test_loaded_kernels import EXPECTED, run

from corebraid.base.compiled import Kernel, njit


@njit
def _inner(number):  # type: ignore[no-untyped-def]
    if number < 0:
        raise ValueError("negative", 1)
    return number + 1


@njit
def _outer(number):  # type: ignore[no-untyped-def]
    return 2 * _inner(number)


def test_nothing_is_made_that_python_calls() -> None:
    """Until Python calls it, which is another one's."""
    assert _outer(3) == 8
    (linked,) = _inner.linked.overloads.values()
    engine = linked.library.codegen._engine
    assert not _inner.dispatcher.overloads
    names = (linked.fndesc.llvm_cpython_wrapper_name, linked.fndesc.llvm_cfunc_wrapper_name)
    defined = {function.name for function in linked.library.get_defined_functions()}
    assert not defined & set(names)
    assert linked.fndesc.mangled_name in defined
    assert not engine.is_symbol_defined(names[0])
    assert _inner(3) == 4
    assert len(_inner.dispatcher.overloads) == 1
    with pytest.raises(ValueError, match="negative"):
        _outer(-1)


@njit
def _endless(number):  # type: ignore[no-untyped-def]
    return _endless(number - 1) if number else 0


@njit
def _calls_endless(number):  # type: ignore[no-untyped-def]
    return _endless(number)


@pytest.mark.parametrize("kernel", [_endless, _calls_endless])
def test_a_kernel_that_calls_itself_is_refused(kernel: Kernel) -> None:
    with pytest.raises(NumbaError, match="re-entrant"):
        kernel(3)


@pytest.fixture
def numbas(tmp_path: Path) -> Path:
    """Numba's cache alone, as a process has left it."""
    cache = tmp_path / "cache"
    run(cache)
    shutil.rmtree(cache / "loaded")
    return cache


def test_what_was_linked_is_kept(numbas: Path) -> None:
    """Beside what was made of the same function for Python, and is read by who links it again."""
    linked = sorted(numbas.rglob("linked-*"))
    assert {one.name.split(".")[1].split("-")[0] for one in linked} == {"total", "refused"}
    for one in set(numbas.rglob("*.nb?")) - set(linked):
        one.unlink()
    before = [one.stat().st_mtime_ns for one in linked]
    assert run(numbas) == (EXPECTED, True)
    assert [one.stat().st_mtime_ns for one in linked] == before
    assert sorted(numbas.rglob("linked-*")) == linked
