"""What is installed: the files of sdist and wheel, and that the README's first steps work with them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numba
import pytest
from cli_factory import ROOT

from corebraid.base.compiled import store
from release.wheel import MADE, build, compiled

NAMES = ("isa", "emu", "recorder", "solver", "corebraid", "firmware")
_BUILD = "import sys; from setuptools import build_meta as b; print(b.build_sdist(sys.argv[1]))"


def python(*words: object, cwd: Path) -> str:
    """Run this Python; what it says counts only if it fails."""
    ran = subprocess.run([sys.executable, *map(str, words)], cwd=cwd, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    shutil.copytree(ROOT, folder / "tree", ignore=shutil.ignore_patterns(*MADE))
    python("-c", _BUILD, folder, cwd=folder / "tree")
    (path,) = folder.glob("corebraid-*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, as an index would have it built."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    options = ("--no-deps", "--no-build-isolation", "--no-cache-dir", "--disable-pip-version-check", "-q")
    python("-m", "pip", "wheel", ".", *options, "-w", folder / "made", cwd=tree)
    (path,) = (folder / "made").glob("corebraid-*.whl")
    return path


def sources(*patterns: str) -> set[str]:
    """Files of this tree, by their paths below it."""
    found = (path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts}


def test_the_sdist_has_all_that_a_developer_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = sources(
        "*/**/*.py", "firmware/**/*", "docs/**/*", "tests/**/*", "Makefile", "*.md", "LICENSE", ".ci/*"
    )
    made = {path for path in wanted if path.startswith(("build/", "dist/", "demo/", "bench/out/", ".venv/"))}
    assert sorted(wanted - made - held) == []


def test_the_wheel_has_code_images_and_licence_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        assert {name.partition("/")[0] for name in held if ".dist-info" not in name} == set(NAMES)
        info = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
    assert f"{info}/licenses/LICENSE" in held
    assert {f"{name}/py.typed" for name in NAMES} <= held
    assert sorted(sources(*(f"{name}/**/*.py" for name in NAMES[:-1])) - held) == []
    assert (
        sorted(sources("firmware/**/*") - {"firmware/linux/build.py", "firmware/linux/demo.sh"} - held) == []
    )
    for line in (
        "Author: corebraid maintainers", "License-Expression: MIT", "Requires-Python: >=3.11",
        "Provides-Extra: parquet", "Classifier: Typing :: Typed",
    ):  # fmt: skip
        assert line in metadata.splitlines()
    assert "Requires-Dist: pyarrow" not in metadata.split("Provides-Extra: ")[0]


def run_steps(command: list[str], environment: dict[str, str], folder: Path) -> list[str]:
    """The first steps of the README; what they say on stderr."""
    said = []

    def run(*words: str) -> str:
        ran = subprocess.run(
            [*command, *words], cwd=folder, env=environment, capture_output=True, text=True, stdin=-3
        )
        assert ran.returncode == 0, (words, ran.stderr)
        said.append(ran.stderr)
        return ran.stdout

    assert run("example", "uts") == "uts.elf\nuts.c\n"
    steps = (ROOT / "README.md").read_text().split("## Five minutes")[1]
    assert "$ corebraid example uts\n" in steps
    recorded = next(line for line in steps.splitlines() if line.startswith("$ corebraid record"))
    assert run(*recorded.removeprefix("$ corebraid ").split()) == "uts: nodes 613\n"
    assert "bit-exact" in run("replay", "REC", "--core", "2")
    assert "all legal" in run("order", "REC")
    assert run("trace", "REC", "--ordered", "--limit", "3").count("\n") == 4
    assert "linux/mutexes" in run("example")
    return said


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that has the wheel, and this one's dependencies."""
    home = tmp_path_factory.mktemp("installed") / "env"
    python("-m", "venv", "--without-pip", home, cwd=home.parent)
    (packages,) = home.glob("lib/python3*/site-packages")
    # A path in it is only a path: the link to this tree that lies there is not followed.
    (packages / "dependencies.pth").write_text(f"{Path(numba.__file__).parent.parent}\n")
    into = ("--python", home / "bin" / "python", "install", "--no-deps", "-q", "--disable-pip-version-check")
    python("-m", "pip", *into, wheel, cwd=home.parent)
    return home / "bin" / "corebraid"


@pytest.mark.soak
def test_the_first_steps_of_the_readme_work_where_only_the_wheel_is(installed: Path, tmp_path: Path) -> None:
    """With kernels as `make wheel` brings them, here those of this processor, nothing is compiled at all."""
    (packages,) = installed.parents[1].glob("lib/python3*/site-packages")
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    run_steps([sys.executable, "-m", "corebraid"], {**os.environ, "PYTHONPATH": str(ROOT)}, tmp_path / "here")
    kept = store.store()
    assert kept is not None
    assert kept._folder is not None
    shutil.copytree(kept._folder, packages / store.BUILT.relative_to(ROOT) / store.built_name())
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "cache")
    assert "compiling" not in "".join(run_steps([str(installed)], environment, tmp_path / "there"))
    assert not list((tmp_path / "cache").rglob("*.nbc"))
    where = "import corebraid, firmware; print(corebraid.__file__, firmware.__file__)"
    ran = subprocess.run(
        [installed.with_name("python"), "-c", where],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.stdout.count(str(installed.parents[1] / "lib")) == 2, ran.stdout


def test_kernels_are_packed(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "0123456789abcdef0123").write_bytes(b"code")
    wheel = build(tmp_path / "made", tmp_path, tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        held = [name for name in archive.namelist() if "/built/" in name]
    folder = store.BUILT.relative_to(ROOT) / store.built_name()
    assert held == [f"{folder}/0123456789abcdef0123"]


@pytest.mark.soak
def test_a_wheel_brings_what_its_user_needs(tmp_path: Path) -> None:
    """`make wheel`, whole: what it holds was compiled for any processor, and runs on this one."""
    wheel = build(compiled(tmp_path), tmp_path, tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "packages")
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "packages"),
        "NUMBA_CACHE_DIR": str(tmp_path / "c"),
    }
    (tmp_path / "there").mkdir()
    said = run_steps([sys.executable, "-m", "corebraid"], environment, tmp_path / "there")
    assert "compiling" not in "".join(said)
