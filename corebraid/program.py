"""The recorded program, for names and disassembly; from `program.elf`, never from guest memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from corebraid.symbols import Symbol, Symbols
from emu.elf import Image, load_image
from isa.decode import disassemble
from isa.errors import FormatError
from isa.registry import isa_named
from recorder.frame import open_regular
from recorder.manifest import PROGRAM_ELF, Manifest

_WINDOW = 16
_WRITE, _EXECUTE = 2, 1
UNKNOWN, WRITTEN = "(unknown)", "(written at run time)"


@dataclass(frozen=True)
class GuestProgram:
    """image: None when the recording has no copy of its program. symbols: of code, data and devices."""

    image: Image | None
    symbols: Symbols

    @classmethod
    def of(cls, recording: Path, manifest: Manifest, devices: tuple[Symbol, ...] = ()) -> GuestProgram:
        """The program of the recording in the directory `recording`.

        devices: names of device registers. A recording without the copy has no names; a copy that is not
        the recorded program raises FormatError.
        """
        path = recording / PROGRAM_ELF
        if not path.exists():
            return cls(None, Symbols(devices))
        with open_regular(path) as file:
            raw = file.read()
        if hashlib.sha256(raw).hexdigest() != manifest.program.sha256:
            raise FormatError(
                "not the program that was recorded",
                where=str(path),
                remedy="copy the recording again from its source",
            )
        image, _ = load_image(path, isa_named(manifest.isa), manifest.memory)
        return cls(image, Symbols.of_elf(raw, devices))

    def instruction(self, pc: int) -> str:
        """The instruction at `pc` as text; code that the guest may have changed is not guessed at."""
        for segment in self.image.segments if self.image else ():
            if not segment.address <= pc < segment.address + segment.size:
                continue
            if segment.flags & _WRITE and segment.flags & _EXECUTE:
                return WRITTEN
            at = pc - segment.address
            return disassemble(segment.data[at : at + _WINDOW], pc) if segment.flags & _EXECUTE else UNKNOWN
        return UNKNOWN
