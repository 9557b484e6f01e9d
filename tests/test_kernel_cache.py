"""A cached kernel is used only while every file that it was compiled from is the same."""

from pathlib import Path

import pytest

from isa import kernel_locator


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kernel_locator, "_ROOT", tmp_path)
    for name, text in (
        ("emu/top.py", "from emu.middle import f\nimport numpy\n"),
        ("emu/middle.py", "def g():\n    from isa.bottom import h\n"),
        ("isa/bottom.py", "A = 1\n"),
        ("isa/apart.py", "B = 1\n"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def digest(path: Path) -> str:
    for function in (kernel_locator._source, kernel_locator._imported, kernel_locator.import_closure_digest):
        function.cache_clear()
    return kernel_locator.import_closure_digest(path)


@pytest.mark.parametrize("name", ["emu/top.py", "emu/middle.py", "isa/bottom.py"])
def test_what_a_kernel_is_compiled_from_counts(root: Path, name: str) -> None:
    before = digest(root / "emu/top.py")
    assert digest(root / "emu/top.py") == before
    (root / name).write_text((root / name).read_text() + "# changed\n")
    assert digest(root / "emu/top.py") != before


def test_other_files_do_not_count(root: Path) -> None:
    before = digest(root / "emu/top.py")
    (root / "isa/apart.py").write_text("B = 2\n")
    assert digest(root / "emu/top.py") == before


def test_imports_of_the_real_packages_are_found() -> None:
    hooks = kernel_locator._ROOT / "emu" / "record_hooks.py"
    kernel_locator._imported.cache_clear()
    assert kernel_locator._ROOT / "emu" / "bus.py" in kernel_locator._imported(hooks)
