"""C structures of a Linux interface: where their fields are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """A C structure: its size, and (offset, size in bytes) of every field that is used."""

    size: int
    fields: dict[str, tuple[int, int]]

    def pack(self, **values: int) -> bytes:
        """The structure's bytes; fields that are not named are 0."""
        raw = bytearray(self.size)
        for name, value in values.items():
            offset, size = self.fields[name]
            raw[offset : offset + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        return bytes(raw)

    def unpack(self, raw: bytes) -> dict[str, int]:
        """Every field as an unsigned number."""
        return {
            name: int.from_bytes(raw[offset : offset + size], "little")
            for name, (offset, size) in self.fields.items()
        }
