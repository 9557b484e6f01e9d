"""Hooks on single instructions, placed where one has been decoded and removed where another has come."""

from __future__ import annotations

from unicorn import unicorn_const as uc

from emu.hooks.native_isa import NativeIsa
from emu.native.unicorn import add_hook, delete_hook
from isa.decoded import Block


class PlacedHooks:
    """The hooks of one core. handle: its engine. row: address of its `CORE` row. fence, privileged, illegal:
    native hooks for instructions that empty the store buffer, under TSO; for privileged ones; for what is
    none, though the emulator might run it. calls_wait: that for the store buffer also stands before system
    calls. call: a native hook before these."""

    def __init__(self, handle: int, row: int, native: NativeIsa) -> None:
        self._handle, self._row = handle, row
        self._pair, self._fence_gone = native.pair, native.fence_gone
        self._placed: dict[tuple[int, object], int] = {}
        self.fence: object = None
        self.call: object = None
        self.privileged: object = None
        self.illegal: object = None
        self.calls_wait = False

    def place(self, address: int, block: Block) -> list[int]:
        """Place what the block at `address` needs. Returns where: what is translated there is to be
        forgotten."""
        changed = []
        for offsets, hook in (
            (block.pairs, self._pair),
            (self._draining(block), self._fence_gone if self.fence else None),
            (self._draining(block), self.fence),
            (block.calls, self._fence_gone if self.call else None),
            (block.calls, self.call),
            (block.privileged, self.privileged),
            (block.illegal, self.illegal),
            (block.reserved if self.privileged else (), self.illegal),
        ):
            for offset in offsets if hook else ():
                place = address + offset, hook
                if place not in self._placed:
                    self._placed[place] = self._add(*place)
                    changed.append(address + offset)
        return [*changed, *(address + offset for offset in block.pairs)]

    def _draining(self, block: Block) -> tuple[int, ...]:
        """Byte offsets of what `fence` stands before."""
        return (*block.fences, *block.calls) if self.calls_wait else block.fences

    def _add(self, address: int, hook: object) -> int:
        return add_hook(self._handle, uc.UC_HOOK_CODE, hook, self._row, at=address)

    def refused_at(self, address: int) -> bool:
        """Whether a hook stops the core at `address`."""
        return any((address, hook) in self._placed for hook in (self.privileged, self.illegal))

    def remove_wrong(self, address: int, block: Block) -> bool:
        """Remove the hooks at `address` that were placed for what stands there no more: `block` begins there
        now. Returns whether there were any."""
        gone = (*self._draining(block), *(block.calls if self.call else ()))
        right = (
            (self._pair, block.pairs),
            (self._fence_gone, gone),
            (self.fence, self._draining(block)),
            (self.call, block.calls),
            (self.privileged, block.privileged),
            (self.illegal, (*block.illegal, *block.reserved)),
        )
        here = [(address, hook) for hook, offsets in right if 0 not in offsets]
        wrong = [place for place in here if place in self._placed]
        for place in wrong:
            delete_hook(self._handle, self._placed.pop(place))
        return bool(wrong)
