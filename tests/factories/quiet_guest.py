"""A guest that is quiet now and then: its cores write the same words, and between that count in registers."""

from __future__ import annotations

from pathlib import Path

from guest import DATA, Code, elf

#: Strata as close to each other as slices let them be.
STRATA = "cycles:200"


def quiet_elf(path: Path, rounds: int = 5, counted: int = 4000) -> Path:
    """An ELF file of it, for any number of cores. rounds: how often a core writes; counted: what it counts to
    in between."""
    code = Code()
    code.mov("r12", rounds).label("again")
    code.raw("f0 48 ff 04 25").raw(f"{DATA.to_bytes(4, 'little').hex()}")  # lock inc qword [DATA]
    code.load("rax", DATA + 8).add("rax", 1).store(DATA + 8, "rax")
    code.mov("rcx", counted).label("count").loop("rcx", "count")
    code.loop("r12", "again").split("first", "others")
    code.label("first").power_off(0).label("others").halt()
    return elf(path, code)
