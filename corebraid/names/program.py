"""The recorded program, for names, lines and disassembly: copies of its files, never guest memory."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from corebraid.base.errors import FormatError
from corebraid.names.data_names import DataNames
from corebraid.names.debug_files import DebugFiles
from corebraid.names.lines import Lines, LineTable, PlacedLines
from corebraid.names.placed_files import PlacedFiles, PlacedPart
from corebraid.names.symbols import Symbol, Symbols
from emu.board.elf import Image, Segment, load_image
from isa.decoder import decoder_of, fault_decoder_of
from isa.registry import frame_registers_of, isa_named, isa_of_machine
from isa.table import Isa
from recorder.files.frame import open_regular
from recorder.files.manifest import MOST_PROGRAM_BYTES, PROGRAM_ELF, Manifest

_WINDOW = 16
_WRITE, _EXECUTE = 2, 1
UNKNOWN, WRITTEN = "(unknown)", "(written at run time)"


@dataclass(frozen=True)
class GuestProgram:
    """image: None when the recording has no copy of its program. symbols: of code, data and devices. lines:
    of source. linux: whether it is a Linux program. lacks: files that are not there, in words. isa: of
    its code. files: whose code is where. data: the same of data.
    """

    image: Image | None
    symbols: Symbols
    lines: Lines = field(default_factory=Lines)
    linux: bool = False
    lacks: tuple[str, ...] = ()
    isa: Isa = field(default_factory=lambda: isa_of_machine(None))
    files: PlacedFiles = field(default_factory=PlacedFiles)
    data: PlacedFiles = field(default_factory=PlacedFiles)

    @classmethod
    def of(cls, recording: Path, manifest: Manifest, devices: tuple[Symbol, ...] = ()) -> GuestProgram:
        """The program of the recording in the directory `recording`, with the libraries of a Linux guest.

        devices: names of device registers. A recording without the copies has no names; a copy that is not
        what was recorded raises FormatError.
        """
        if manifest.linux:
            return cls._of_linux(recording, manifest)
        path, isa = recording / PROGRAM_ELF, isa_named(manifest.isa)
        if not path.exists():
            return cls(None, Symbols(devices), lacks=(PROGRAM_ELF,), isa=isa)
        with open_regular(path, MOST_PROGRAM_BYTES) as file:
            raw = file.read()
        if hashlib.sha256(raw).hexdigest() != manifest.program.sha256:
            raise FormatError(
                "not the program that was recorded",
                where=str(path),
                remedy="copy the recording again from its source",
            )
        image, _ = load_image(path, isa, manifest.memory)
        lines = Lines([PlacedLines(0, manifest.memory, 0, LineTable(raw, manifest.program.name))])
        name, symbols = manifest.program.name, Symbols.of_elf(raw, devices)
        parts = [(s.flags, PlacedPart(s.address, s.address + s.size, 0, name, raw)) for s in image.segments]
        files = PlacedFiles(part for flags, part in parts if flags & _EXECUTE)
        # An image may be one segment.
        return cls(image, symbols, lines, isa=isa, files=files, data=PlacedFiles(part for _, part in parts))

    @classmethod
    def _of_linux(cls, recording: Path, manifest: Manifest) -> GuestProgram:
        from corebraid.names.objects import linux_objects
        from recorder.files.objects import OBJECTS_INDEX

        found, isa = linux_objects(recording, manifest), isa_named(manifest.isa)
        if found is None:
            return cls(None, Symbols([]), linux=True, lacks=(OBJECTS_INDEX,), isa=isa)
        lacks = tuple(f"copy of {path}" for path in found.missing)
        return cls(found.image, found.symbols, found.lines, True, lacks, isa, found.files, found.data)

    @property
    def agents(self) -> str:
        """What the stream of the agents that are not cores is called."""
        return "kernel" if self.linux else "dev"

    @cached_property
    def debug_files(self) -> DebugFiles:
        """Debug information that is kept apart."""
        return DebugFiles()

    @cached_property
    def data_names(self) -> DataNames:
        """Names of data, with elements and members where the program tells types."""
        return DataNames(self.symbols, self.data, self.debug_files)

    @cached_property
    def _segments(self) -> tuple[list[int], list[Segment]]:
        segments = sorted(self.image.segments, key=lambda s: s.address) if self.image else []
        return [segment.address for segment in segments], segments

    def instruction(self, pc: int) -> str:
        """The instruction at `pc` as text; code that the guest may have changed is not guessed at."""
        starts, segments = self._segments
        index = bisect_right(starts, pc) - 1
        if index < 0 or pc >= segments[index].address + segments[index].size:
            return UNKNOWN
        segment = segments[index]
        if segment.flags & _WRITE and segment.flags & _EXECUTE:
            return WRITTEN
        at = pc - segment.address
        return self.disassemble(segment.data[at : at + _WINDOW], pc) if segment.flags & _EXECUTE else UNKNOWN

    def call_ends_at(self, pc: int) -> bool:
        """Whether the instruction right before `pc` is a call, in code that the guest could not change."""
        data, end = self._fixed_code(pc - 1)
        end += 1

        def is_call(size: int, cut: int) -> bool:
            found = fault_decoder_of(self.isa).branch(data[end - size : end - cut], pc - size)
            return found is not None and found.stack < 0

        # One that needs all of its bytes ends there.
        sizes = [size for size in frame_registers_of(self.isa).call_bytes if size <= end <= len(data)]
        return any(is_call(size, 0) and not is_call(size, 1) for size in sizes)

    def returns_at(self, pc: int) -> bool:
        """Whether the instruction at `pc` is a return, in code that the guest could not change."""
        data, at = self._fixed_code(pc)
        found = fault_decoder_of(self.isa).branch(data[at : at + _WINDOW], pc)
        return found is not None and found.stack > 0

    def _fixed_code(self, pc: int) -> tuple[bytes, int]:
        """The code of the segment that holds `pc`, and how far behind its begin that is; none where the guest
        could have changed it."""
        starts, segments = self._segments
        index = bisect_right(starts, pc) - 1
        if index < 0 or segments[index].flags & (_WRITE | _EXECUTE) != _EXECUTE:
            return b"", 0
        return segments[index].data, pc - segments[index].address

    def disassemble(self, code: bytes, pc: int) -> str:
        """Text of the instruction that starts `code`, or '(bad)'."""
        return decoder_of(self.isa).disassemble(code, pc)
