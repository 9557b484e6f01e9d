"""Hooks on single instructions, placed where one has been decoded and removed where another has come."""

from __future__ import annotations

from unicorn import unicorn_const as uc

from emu.hooks.native_isa import NativeIsa
from emu.native.unicorn import add_hook, delete_hook
from isa.decoded import Block


class PlacedHooks:
    """The hooks of one core. handle: its engine. row: address of its `CORE` row. fence, privileged, illegal:
    native hooks for instructions that empty the store buffer, under TSO; for privileged ones; for what is
    none, though the emulator might run it."""

    def __init__(self, handle: int, row: int, native: NativeIsa) -> None:
        self._handle, self._row, self._pair = handle, row, native.pair
        self._pairs: dict[int, int] = {}
        self._placed: dict[tuple[int, object], int] = {}
        self.fence: object = None
        self.privileged: object = None
        self.illegal: object = None

    def place(self, address: int, block: Block) -> list[int]:
        """Place what the block at `address` needs. Returns where: what is translated there is to be
        forgotten."""
        changed = []
        for offset in block.pairs:
            if address + offset not in self._pairs:
                self._pairs[address + offset] = self._add(address + offset, self._pair)
            changed.append(address + offset)
        for offsets, hook in (
            (block.fences, self.fence),
            (block.privileged, self.privileged),
            (block.illegal, self.illegal),
            (block.reserved if self.privileged else (), self.illegal),
        ):
            for offset in offsets if hook else ():
                place = address + offset, hook
                if place not in self._placed:
                    self._placed[place] = self._add(*place)
                    changed.append(address + offset)
        return changed

    def _add(self, address: int, hook: object) -> int:
        return add_hook(self._handle, uc.UC_HOOK_CODE, hook, self._row, at=address)

    def remove_pair(self, address: int) -> None:
        """Nothing of `Block.pairs` stands at `address` any more."""
        delete_hook(self._handle, self._pairs.pop(address))

    def refused_at(self, address: int) -> bool:
        """Whether a hook stops the core at `address`."""
        return any((address, hook) in self._placed for hook in (self.privileged, self.illegal))

    def remove_wrong(self, address: int, block: Block) -> bool:
        """Remove hooks that stop the core before an instruction that a program may run, or that is refused
        for another reason: `block` begins at `address` now. Returns whether there were any."""
        right = {self.privileged} if 0 in block.privileged else set[object]()
        right |= {self.illegal} if 0 in (*block.illegal, *block.reserved) else set()
        here = [(address, hook) for hook in (self.privileged, self.illegal) if hook not in right]
        wrong = [place for place in here if place in self._placed]
        for place in wrong:
            delete_hook(self._handle, self._placed.pop(place))
        return bool(wrong)
