#!/usr/bin/env python3
"""Build every firmware image with gcc: firmware/src/<name>.c -> firmware/x86_64/<name>.elf.

    python firmware/build.py                      replaces the committed images and digests.json
    python firmware/build.py --out DIR [NAME ...] builds into DIR, leaves the committed images alone

The build is deterministic for one version of gcc and binutils; another version may lay out other bytes.
digests.json holds the SHA-256 of each image, and one of all sources, by which a test notices images that
are older than their sources.

Some programs are also built with larger constants (SCALED), into firmware/x86_64-<size>, for `bench`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
IMAGES = HERE / "x86_64"
DIGESTS = HERE / "digests.json"

COMPILE = shlex.split(
    "-std=gnu11 -O2 -Wall -Wextra -ffreestanding -fno-builtin -fno-stack-protector -mno-red-zone "
    "-fno-pic -mno-avx -fcf-protection=none -fno-asynchronous-unwind-tables -fno-ident "
    "-ffunction-sections -fdata-sections -fno-ipa-cp -fno-ipa-sra -fno-partial-inlining "
    "-Iinclude -Ilib"
)
LINK = shlex.split(
    "-no-pie -static -nostdlib -Wl,--build-id=none -Wl,--gc-sections -Wl,-z,noexecstack "
    "-Wl,-z,separate-code -Wl,-z,max-page-size=4096 -Wl,-T,lib/image.ld"
)

#: Constants of the larger builds. large: 60 to 190 million instructions on one core, for timing. medium: 10
#: to 40 million on 4 to 16 cores, for counting.
SCALED = {
    "large": {
        "laplace": {"SIDE": "258", "SWEEPS": "150", "SUM_BITS": "0x4118d1d0fc0eecaaUL"},
        "matmul": {"ORDER": "256", "CHECKSUM": "6928640"},
        "nqueens": {"QUEENS": "13", "SOLUTIONS": "73712"},
        "radix": {"KEYS": "(1 << 20)", "DIGIT_BITS": "8"},
        "uts": {
            "ROOT_CHILDREN": "3000", "CHILD_CHANCE": "249", "TREE_NODES": "555657", "STACK_NODES": "8192"
        },
    },
    "medium": {
        "laplace": {"SIDE": "130", "SWEEPS": "40", "SUM_BITS": "0x40f1ecfe44205f45UL"},
        "matmul": {"ORDER": "160", "CHECKSUM": "-9876099"},
        "nqueens": {"QUEENS": "12", "SOLUTIONS": "14200"},
        "radix": {"KEYS": "(1 << 17)", "DIGIT_BITS": "8"},
        "ring": {"ITEMS": "2000"},
        "uts": {
            "ROOT_CHILDREN": "1500", "CHILD_CHANCE": "248", "TREE_NODES": "124673", "STACK_NODES": "8192"
        },
    },
}  # fmt: skip


def programs() -> list[str]:
    """Names of all firmware programs, sorted."""
    return sorted(source.stem for source in (HERE / "src").glob("*.c"))


def gcc(*arguments: str) -> None:
    """Run gcc in firmware/, so that no path of this machine gets into an image."""
    subprocess.run(["gcc", f"-ffile-prefix-map={HERE}=firmware", *arguments], cwd=HERE, check=True)


def rwx_is_meant() -> list[str]:
    """The option by which ld does not warn of code that is written at run time, where ld has it (2.39)."""
    usage = subprocess.run(["gcc", "-Wl,--help"], capture_output=True, text=True, check=False).stdout
    return ["-Wl,--no-warn-rwx-segments"] if "--no-warn-rwx-segments" in usage else []


def build_library(folder: Path) -> list[str]:
    """Compile lib/ into `folder`; returns the object files in link order."""
    objects = []
    for source in sorted((HERE / "lib").glob("*.[cS]")):
        target = folder / f"lib_{source.stem}.o"
        gcc(*COMPILE, "-c", f"lib/{source.name}", "-o", str(target))
        objects.append(str(target))
    return objects


def build_program(name: str, library: list[str], folder: Path, out: Path, constants: dict[str, str]) -> None:
    """Compile src/<name>.c with `constants` in place of its own, and link it to out/<name>.elf."""
    target = folder / f"{name}.o"
    defines = [f"-D{constant}={value}" for constant, value in constants.items()]
    gcc(*COMPILE, *defines, "-c", f"src/{name}.c", "-o", str(target))
    gcc(*LINK, *rwx_is_meant(), str(target), *library, "-o", str(out / f"{name}.elf"))


def sources_digest() -> str:
    """SHA-256 over the name and content of everything that an image is made of."""
    digest = hashlib.sha256()
    inputs = [path for folder in ("include", "lib", "src") for path in (HERE / folder).iterdir()]
    for path in sorted([*inputs, Path(__file__).resolve()]):
        digest.update(f"{path.relative_to(HERE).as_posix()}\n{path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def scaled_images(size: str) -> Path:
    """The folder of the images of one of SCALED's sizes."""
    return HERE / f"x86_64-{size}"


def build_scaled(library: list[str], folder: Path) -> None:
    """Build the larger images."""
    for size, programs_of_size in SCALED.items():
        scaled_images(size).mkdir(exist_ok=True)
        for name, constants in programs_of_size.items():
            build_program(name, library, folder, scaled_images(size), constants)


def image_digest(folder: Path, name: str) -> str:
    """SHA-256 of a built image."""
    return hashlib.sha256((folder / f"{name}.elf").read_bytes()).hexdigest()


def write_digests() -> None:
    """Record the SHA-256 of every committed image and of the sources."""
    images = {name: image_digest(IMAGES, name) for name in programs()}
    scaled = {
        size: {name: image_digest(scaled_images(size), name) for name in constants}
        for size, constants in SCALED.items()
    }
    content = {"images": images, **scaled, "sources": sources_digest()}
    DIGESTS.write_text(json.dumps(content, indent=2) + "\n")


def parse_options() -> argparse.Namespace:
    """The command line; ends the program with status 2 when it makes no sense."""
    parser = argparse.ArgumentParser(description="Build the firmware images with gcc.")
    parser.add_argument("--out", type=Path, help="build into this folder, leave the committed images alone")
    parser.add_argument("names", nargs="*", help="programs to build, with --out (default: all)")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(programs()))
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(programs())}")
    if options.names and options.out is None:
        parser.error("the committed images are built all at once; give --out to build some of them")
    if shutil.which("gcc") is None:
        parser.error("gcc is not installed; the committed images in firmware/x86_64 need no build")
    return options


def main() -> int:
    """Build what the command line asks for; returns the exit status."""
    options = parse_options()
    out = (options.out or IMAGES).resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            library = build_library(Path(scratch))
            for name in options.names or programs():
                build_program(name, library, Path(scratch), out, {})
            if options.out is None:
                build_scaled(library, Path(scratch))
    except subprocess.CalledProcessError as failure:
        print(f"build.py: gcc failed with status {failure.returncode}; see above", file=sys.stderr)
        return 1
    if options.out is None:
        write_digests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
