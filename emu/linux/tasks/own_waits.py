"""Whether a program waits at a word by itself: by an instruction of its own, or by syscall(2), and not in a
library that waits for a purpose of its own."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

from elftools.elf.elffile import ELFFile
from elftools.elf.hash import GNUHashSection
from elftools.elf.sections import SymbolTableSection

from emu.board.elf import ELF_DAMAGE
from emu.linux.files.open_file import MappedFile
from emu.linux.memory.mappings import Mapping
from emu.linux.tasks.task import Task
from emu.native.state import RIGHT_EXECUTE

#: The longest file, and the most symbols, that are looked through.
_MOST_BYTES, _MOST_SYMBOLS = 64 << 20, 200_000
#: The C library's function that makes any system call, by its number.
ANY_CALL = "syscall"


#: (offset in the file, bytes, address as the file counts).
_Load = tuple[int, int, int]


class OwnWaits:
    """Tells it of tasks as they are now. mapped: what lies at an address."""

    def __init__(self, mapped: Callable[[int], Mapping | None]) -> None:
        self._mapped = mapped
        self._known: dict[object, tuple[list[_Load], list[tuple[int, int]]]] = {}

    def waits_by_itself(self, task: Task) -> bool:
        """Whether the program of a task that waits does so itself. Of a program without libraries that has no
        symbols this cannot be told; then not."""
        isa, space = task.process.isa, task.process.space
        pc = isa.read(task.registers, isa.program_counter)
        here = self._mapped(pc)
        if here is None or here.file is None:
            return True
        program = space.history[0].file
        if program is not None and here.file.key == program.key:
            code = (m.file.key for m in space.history if m.file is not None and m.rights & RIGHT_EXECUTE)
            if any(key != program.key for key in code):
                return True
        return self._in_function(here.file, pc - here.start + here.offset)

    def _in_function(self, file: MappedFile, offset: int) -> bool:
        """Whether the byte at an offset of an ELF file is part of that function."""
        if file.key not in self._known:
            self._known[file.key] = _read(file)
        loads, places = self._known[file.key]
        at = [offset - first + address for first, size, address in loads if first <= offset < first + size]
        return any(low <= place < low + size for place in at for low, size in places)


def _read(file: MappedFile) -> tuple[list[_Load], list[tuple[int, int]]]:
    """Segments, and (address, size) of the function; nothing of what is no ELF file, or too long."""
    if file.size() > _MOST_BYTES:
        return [], []
    try:
        elf = ELFFile(io.BytesIO(file.page(0, file.size())))
        segments = elf.iter_segments("PT_LOAD")
        return [(s["p_offset"], s["p_filesz"], s["p_vaddr"]) for s in segments], list(_places(elf))
    except (*ELF_DAMAGE, ZeroDivisionError):
        return [], []


def _places(elf: ELFFile) -> Iterator[tuple[int, int]]:
    """(address, size) of the function, by the table that the dynamic linker uses, or else by all symbols."""
    hashed = elf.get_section_by_name(".gnu.hash")
    symbol = hashed.get_symbol(ANY_CALL) if isinstance(hashed, GNUHashSection) else None
    if symbol is not None:
        yield symbol["st_value"], symbol["st_size"]
        return
    table = elf.get_section_by_name(".symtab")
    if isinstance(table, SymbolTableSection) and table.num_symbols() <= _MOST_SYMBOLS:
        for found in table.get_symbol_by_name(ANY_CALL) or ():
            yield found["st_value"], found["st_size"]
