#!/usr/bin/env python3
"""Build the Linux guest programs with gcc: firmware/linux/<name>.c -> firmware/linux/x86_64/<name>.

    python firmware/linux/build.py                      replaces the committed programs and digests.json
    python firmware/linux/build.py --out DIR [NAME ...] builds into DIR, leaves the committed programs alone

Programs are dynamic and position-independent unless LINK says otherwise. Each bug_<x>.c is built twice: as it
stands, and with GOOD defined, without its bug, as good_<x>. digests.json holds the SHA-256 of each program,
and one of all sources, by which a test notices programs that are older than their sources. The build is
deterministic for one version of gcc, binutils and the C library.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "x86_64"
DIGESTS = HERE / "digests.json"
LIBRARY = "tls_module"

#: Baseline x86-64, so no AVX. Frame tables stay: cancellation unwinds by them.
COMPILE = shlex.split(
    "-std=gnu11 -O2 -g1 -gz=none -Wall -Wextra -pthread -march=x86-64 -mno-avx -fno-ident -Wl,--build-id=none"
)

#: Where linking differs from the default, a dynamic position-independent executable.
LINK = {
    "affinity": ["-no-pie"],
    "barriers": ["-no-pie"],
    "bug_cache": ["-pie", "-g"],
    "float_exceptions": ["-lm"],
    "float_math": ["-lm"],
    "good_cache": ["-pie", "-g"],
    "small_races": ["-static", "-no-pie", "-nostdlib", "-fno-stack-protector", "-s"],
    "runpath": [f"x86_64/{LIBRARY}.so", "-Wl,-rpath,$ORIGIN"],
    "static_hello": ["-static", "-no-pie", "-s"],
    "static_pie_threads": ["-static-pie", "-s"],
}

#: Twins whose name is not that of their bug.
TWIN_NAMES = {"bug_lost_update": "good_counter"}


@dataclass(frozen=True)
class Target:
    """One program: its source (without .c), and the preprocessor's definitions beyond its name."""

    source: str
    defines: tuple[str, ...] = ()


def targets() -> dict[str, Target]:
    """Every program by name, twins of bugs included, sorted."""
    found = {}
    for path in HERE.glob("*.c"):
        source = path.stem
        if source == LIBRARY:
            continue
        found[source] = Target(source)
        if source.startswith("bug_"):
            twin = TWIN_NAMES.get(source, "good_" + source.removeprefix("bug_"))
            found[twin] = Target(source, ("-DGOOD",))
    return dict(sorted(found.items()))


def gcc(*arguments: str) -> None:
    """Run gcc in firmware/linux, so that no path of this machine gets into a program."""
    subprocess.run(["gcc", f"-ffile-prefix-map={HERE}=firmware/linux", *arguments], cwd=HERE, check=True)


def build_library(out: Path) -> None:
    """The shared library that two programs load."""
    target = out / f"{LIBRARY}.so"
    gcc(*COMPILE, "-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}.so", f"{LIBRARY}.c", "-o", str(target))


def build_program(name: str, target: Target, out: Path) -> None:
    """Compile and link one program to out/<name>."""
    defines = [f'-DPROGRAM="{name}"', *target.defines]
    # The library is linked by the path that it has in `out`.
    link = [option.replace("x86_64/", f"{out}/") for option in LINK.get(name, ["-pie"])]
    pic = ["-fno-pie"] if "-no-pie" in link else ["-fPIE"]
    gcc(*COMPILE, *pic, *defines, f"{target.source}.c", "-o", str(out / name), *link)


def sources_digest() -> str:
    """SHA-256 over the name and content of everything that a program is made of."""
    digest = hashlib.sha256()
    for path in sorted([*HERE.glob("*.c"), *HERE.glob("*.h"), Path(__file__).resolve()]):
        digest.update(f"{path.name}\n{path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def write_digests() -> None:
    """Record the SHA-256 of every committed program and of the sources."""
    programs = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(PROGRAMS.iterdir())
    }
    DIGESTS.write_text(json.dumps({"programs": programs, "sources": sources_digest()}, indent=2) + "\n")


def parse_options() -> argparse.Namespace:
    """The command line; ends the program with status 2 when it makes no sense."""
    parser = argparse.ArgumentParser(description="Build the Linux guest programs with gcc.")
    parser.add_argument("--out", type=Path, help="build into this folder, leave the committed programs alone")
    parser.add_argument("names", nargs="*", help="programs to build, with --out (default: all)")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(targets()))
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(targets())}")
    if options.names and options.out is None:
        parser.error("the committed programs are built all at once; give --out to build some of them")
    if shutil.which("gcc") is None:
        parser.error("gcc is not installed; the committed programs in firmware/linux/x86_64 need no build")
    return options


def main() -> int:
    """Build what the command line asks for; returns the exit status."""
    options = parse_options()
    out = (options.out or PROGRAMS).resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        build_library(out)
        for name, target in targets().items():
            if not options.names or name in options.names:
                build_program(name, target, out)
    except subprocess.CalledProcessError as failure:
        print(f"build.py: gcc failed with status {failure.returncode}; see above", file=sys.stderr)
        return 1
    if options.out is None:
        write_digests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
