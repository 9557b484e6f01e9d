"""A digest: what a core must be at one instruction count. Registers whole, memory as a fingerprint.

Registers are kept, not hashed, so that a divergence can name the register and both values.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.table import Isa

_FINGERPRINT_BYTES = 8


@dataclass(frozen=True)
class Digest:
    """context: the registers as the ISA table lays them out. fingerprint: of memory, 64 bits."""

    context: bytes
    fingerprint: int

    def pack(self) -> bytes:
        """The blob of a DIGEST record."""
        return self.context + self.fingerprint.to_bytes(_FINGERPRINT_BYTES, "little")

    @classmethod
    def unpack(cls, blob: bytes, isa: Isa) -> Digest | None:
        """From a DIGEST record's blob; None when its size is not this ISA's."""
        if len(blob) != isa.context_bytes + _FINGERPRINT_BYTES:
            return None
        return cls(blob[:-_FINGERPRINT_BYTES], int.from_bytes(blob[-_FINGERPRINT_BYTES:], "little"))

    def differences(self, found: Digest, isa: Isa) -> list[tuple[str, str, str]]:
        """(what, expected, found) for each register, and for memory; empty when equal."""
        if self == found:
            return []
        rows = [
            (register.name, self._show(register.name, isa), found._show(register.name, isa))
            for register in isa.registers
            if isa.read(self.context, register.name) != isa.read(found.context, register.name)
        ]
        if self.fingerprint != found.fingerprint:
            rows.append(("memory", f"{self.fingerprint:#018x}", f"{found.fingerprint:#018x}"))
        return rows

    def _show(self, name: str, isa: Isa) -> str:
        return f"{isa.read(self.context, name):#x}"
