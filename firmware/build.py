#!/usr/bin/env python3
"""Build every firmware image with gcc: firmware/src/<name>.c -> firmware/x86_64/<name>.elf.

    python firmware/build.py [--out DIR] [NAME ...]

Without --out the committed images are replaced and firmware/digests.json (SHA-256 of each) is written.
With --out only DIR is written, which leaves the committed images as they are. The build is
deterministic for one version of gcc and binutils; another version may lay out other bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
IMAGES = HERE / "x86_64"
DIGESTS = HERE / "digests.json"

COMPILE = (
    "-std=gnu11 -O2 -Wall -Wextra -Werror -ffreestanding -fno-builtin -fno-stack-protector -mno-red-zone "
    "-fno-pic -mno-avx -fcf-protection=none -fno-asynchronous-unwind-tables -fno-ident "
    "-ffunction-sections -fdata-sections"
).split()
LINK = (
    "-no-pie -static -nostdlib -Wl,--build-id=none -Wl,--gc-sections -Wl,-z,noexecstack "
    "-Wl,-z,separate-code -Wl,-z,max-page-size=4096 -Wl,--no-warn-rwx-segments"
).split()


def programs() -> list[str]:
    """Names of all firmware programs, sorted."""
    return sorted(source.stem for source in (HERE / "src").glob("*.c"))


def gcc(*arguments: str) -> None:
    """Run gcc in firmware/, so that no path of this machine gets into an image."""
    subprocess.run(["gcc", f"-ffile-prefix-map={HERE}=firmware", *arguments], cwd=HERE, check=True)


def build_library(folder: Path) -> list[str]:
    """Compile lib/ into `folder`; returns the object files in link order."""
    objects = []
    for source in sorted((HERE / "lib").glob("*.[cS]")):
        target = folder / f"lib_{source.stem}.o"
        gcc(*COMPILE, "-Iinclude", "-Ilib", "-c", f"lib/{source.name}", "-o", str(target))
        objects.append(str(target))
    return objects


def build_program(name: str, library: list[str], folder: Path, out: Path) -> None:
    """Compile src/<name>.c and link it to out/<name>.elf."""
    target = folder / f"{name}.o"
    gcc(*COMPILE, "-Iinclude", "-Ilib", "-c", f"src/{name}.c", "-o", str(target))
    gcc(*LINK, "-Wl,-T,lib/image.ld", str(target), *library, "-o", str(out / f"{name}.elf"))


def write_digests() -> None:
    """Record the SHA-256 of every committed image."""
    digests = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in IMAGES.glob("*.elf")}
    DIGESTS.write_text(json.dumps(digests, indent=2, sort_keys=True) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the firmware images with gcc.")
    parser.add_argument("--out", type=Path, help="write the images here and leave the committed ones alone")
    parser.add_argument("names", nargs="*", help="programs to build (default: all)")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(programs()))
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(programs())}")
    out = (options.out or IMAGES).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        library = build_library(Path(scratch))
        for name in options.names or programs():
            build_program(name, library, Path(scratch), out)
    if options.out is None:
        write_digests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
