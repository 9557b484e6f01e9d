"""Recordings that several tests of the command line look at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli_factory import record, run


@pytest.fixture(scope="session")
def uts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of uts on 3 cores, ordered."""
    path = tmp_path_factory.mktemp("uts") / "uts"
    assert record(path, "uts", "--cores", 3, "--strata", "cycles:10000").code == 0
    assert run("order", path).code == 0
    return path


@pytest.fixture
def copy_of_uts(uts: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(uts, tmp_path / "copy"))


@pytest.fixture(scope="session")
def fig1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of fig1 on 2 cores, ordered; the kernels for that are compiled."""
    path = tmp_path_factory.mktemp("fig1") / "rec"
    assert record(path, "fig1", "--cores", 2).code == 0
    assert run("order", path).code == 0
    return path


@pytest.fixture
def copy_of_fig1(fig1: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(fig1, tmp_path / "copy"))
