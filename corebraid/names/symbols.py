"""Names of addresses: the symbol table of a program, as sorted arrays."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, overload

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.wording import Phrase, shown
from corebraid.names.demangling import demangled
from corebraid.names.sections import sections_of

#: What pyelftools raises on damaged input, besides its own exception.
ELF_DAMAGE = (
    ELFError, ValueError, KeyError, IndexError, TypeError, AssertionError, OverflowError, AttributeError,
)  # fmt: skip
#: Types of symbols (ELF specification, symbol table): STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC.
_NOTYPE, _OBJECT, _FUNCTION, _INDIRECT = 0, 1, 2, 10
#: Sections that a symbol is not in: SHN_UNDEF, SHN_ABS.
_ABSENT = (0, 0xFFF1)
#: An entry of a symbol table of 64 bits, little-endian.
_ENTRY = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
#: Bytes of a name, and of all those of a table: what is beyond has none.
_LONGEST_NAME, _MOST_BYTES = 4096, 1 << 26
_PAST_THE_LAST = 1 << 64


class Symbol(NamedTuple):
    """A name for `size` bytes from `address` on."""

    address: int
    size: int
    name: str


class ShownNames(Sequence[str]):
    """Names of symbols as they are shown: those of C++ and Rust as they stand in the source."""

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        self._symbols = symbols

    def __len__(self) -> int:
        return len(self._symbols)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return ShownNames(self._symbols[index])
        return demangled(self._symbols[index].name)


class Symbols:
    """Symbols by address. Where several hold an address, the one that begins last names it.

    A symbol without a size reaches to the next one, unless it is a label inside a sized symbol, which
    names nothing. areas: names for what no symbol names; `named` looks for them last. address: uint64[n],
    names: the n names. Between start[k] and start[k + 1] (uint64[m]) the symbol holder[k] (int64[m], -1 for
    none) names every address.
    """

    def __init__(self, symbols: Iterable[Symbol], areas: Iterable[Symbol] = ()) -> None:
        known = with_sizes(symbols)
        self._areas = frozenset(areas)
        self._symbols = sorted({*known, *self._areas}, key=_by_address)
        self.names: Sequence[str] = ShownNames(self._symbols)
        self.address: NDArray[np.uint64] = np.array([s.address for s in self._symbols], np.uint64)
        changes = _changes(self._symbols)
        self.start: NDArray[np.uint64] = np.array(list(changes), np.uint64)
        self.holder: NDArray[np.int64] = np.array(list(changes.values()), np.int64)

    @classmethod
    def of_elf(cls, raw: bytes, more: Iterable[Symbol] = ()) -> Symbols:
        """The functions and objects of an ELF file, and `more`; a file without a table has none."""
        return cls([*read_symbols(raw), *more])

    def find(self, addresses: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """(index int64[n], -1 where there is none; offset uint64[n] into the symbol) of each address."""
        if not self.names:
            return np.full(len(addresses), -1, np.int64), np.zeros(len(addresses), np.uint64)
        at = np.searchsorted(self.start, addresses, side="right").astype(np.int64) - 1
        index = np.where(at < 0, -1, self.holder[np.maximum(at, 0)])
        offset = np.where(index < 0, np.uint64(0), addresses - self.address[np.maximum(index, 0)])
        return index, offset

    def name(self, address: int) -> str:
        """'symbol+0x12', 'symbol' at its start, or '' where there is none."""
        index, offset = self.find(np.array([address], np.uint64))
        return "" if index[0] < 0 else with_offset(self.names[index[0]], int(offset[0]))

    def named(self, name: str) -> Symbol | None:
        """The symbol called `name`, as it is shown or as the file has it; else the one of a library, which is
        called LIBRARY!name.

        Raises UsageError, which lists them, if there are several at different addresses.
        """
        found = self._called(name, lambda symbol: symbol.name)
        if found is None and not name[:1].isdigit():
            found = self._called(name, lambda symbol: demangled(symbol.name))
        return found

    def size(self, index: int) -> int:
        """Bytes of the symbol with this index."""
        return self._symbols[index].size

    def clones(self, name: str) -> list[Symbol]:
        """What compilers split off from a function and clone of it: 'name.cold', 'name.constprop.0'. Raises
        UsageError for one that there is several times."""
        begin = f"{name}."
        names = {one.name for one in self._symbols if one.name.startswith(begin)}
        return [found for one in sorted(names) if (found := self.named(one)) is not None]

    def _called(self, name: str, name_of: Callable[[Symbol], str]) -> Symbol | None:
        areas: list[Symbol] = []
        here: dict[int, Symbol] = {}
        elsewhere: dict[int, Symbol] = {}
        for symbol in self._symbols:
            other = name_of(symbol)
            if other == name:
                if symbol in self._areas:
                    areas.append(symbol)
                else:
                    here.setdefault(symbol.address, symbol)
            elif other.endswith(f"!{name}") and other.partition("!")[2] == name != "":
                elsewhere.setdefault(symbol.address, symbol)
        found = list((here or elsewhere).values())
        if len(found) > 1:
            raise several("several symbols of that name", [(s.name, s.address) for s in found], name)
        return next(iter([*found, *areas]), None)


#: Of what a name may mean, so many are listed.
_MOST_LISTED = 8


def several(what: str, found: Sequence[tuple[str, int]], asked: str) -> UsageError:
    """The error of a name that means more than one thing. found: what each is called, and its address."""
    listed = ", ".join(f"{name} ({address:#x})" for name, address in found[:_MOST_LISTED])
    more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
    return UsageError(
        what, expected=Phrase(f"one of {listed}{more}"), found=shown(asked), remedy="give the address of one"
    )


def objects_of_elf(raw: bytes) -> list[Symbol]:
    """The objects (variables) of an ELF file that have a size, by address, the longest first."""
    return sorted({symbol for symbol in read_symbols(raw, (_OBJECT,)) if symbol.size}, key=_by_address)


def printable(raw: bytes) -> str:
    """A name from a file as text that does no harm to a terminal."""
    text = raw.decode("utf-8", "replace")
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def with_offset(name: str, offset: int) -> str:
    """A symbol's name with the offset into it, unless that is 0."""
    return f"{name}+{offset:#x}" if offset else name


def _by_address(symbol: Symbol) -> tuple[int, int, str]:
    return symbol.address, -symbol.size, symbol.name


def with_sizes(symbols: Iterable[Symbol]) -> list[Symbol]:
    """Those of `symbols` that name something, each with a size, by address, the longest first."""
    every = sorted(set(symbols), key=_by_address)
    kept: list[Symbol] = []
    end = 0
    for symbol, after in zip(every, _addresses_after(every), strict=True):
        if symbol.size:
            kept.append(symbol)
            end = max(end, symbol.address + symbol.size)
        elif symbol.address >= end:
            size = 1 if after is None else after - symbol.address
            kept.append(Symbol(symbol.address, size, symbol.name))
            end = symbol.address + size
    return kept


def _addresses_after(symbols: list[Symbol]) -> list[int | None]:
    """The next greater address of each of `symbols`, which ascend; None after the last."""
    found: list[int | None] = []
    greater = None
    for number in range(len(symbols) - 1, -1, -1):
        if number + 1 < len(symbols) and symbols[number + 1].address > symbols[number].address:
            greater = symbols[number + 1].address
        found.append(greater)
    return found[::-1]


def _changes(symbols: list[Symbol]) -> dict[int, int]:
    """Address -> number of the symbol that names it and what follows (-1: none), ascending."""
    changes: dict[int, int] = {}
    open_ones: list[int] = []

    def end(number: int) -> int:
        return symbols[number].address + symbols[number].size

    def close(until: int) -> None:
        while open_ones and end(open_ones[-1]) <= until:
            at = end(open_ones.pop())
            while open_ones and end(open_ones[-1]) <= at:
                open_ones.pop()
            if at < _PAST_THE_LAST:
                changes[at] = open_ones[-1] if open_ones else -1

    for number, symbol in enumerate(symbols):
        close(symbol.address)
        open_ones.append(number)
        changes[symbol.address] = number
    close(_PAST_THE_LAST << 1)
    return changes


def read_symbols(
    raw: bytes, kinds: tuple[int, ...] = (_NOTYPE, _OBJECT, _FUNCTION, _INDIRECT)
) -> list[Symbol]:
    """The symbols of these types in .symtab, or in .dynsym where there is no other table, in their order.

    A file has one table of each kind at most (gABI, chapter 4): of more the first counts. Names are a
    convenience: a table that cannot be read names nothing.
    """
    try:
        tables = list(sections_of(ELFFile(io.BytesIO(raw)), "SHT_SYMTAB", "SHT_DYNSYM"))
        for kind in ("SHT_SYMTAB", "SHT_DYNSYM"):
            table = next((table for table in tables if table["sh_type"] == kind), None)
            if isinstance(table, SymbolTableSection) and (found := _rows(raw, table, kinds)):
                return found
    except ELF_DAMAGE:
        pass
    return []


def _entries(raw: bytes, table: SymbolTableSection) -> NDArray[np.void]:
    first = table["sh_offset"]
    data = raw[first : first + table["sh_size"]]
    return np.frombuffer(data[: len(data) - len(data) % _ENTRY.itemsize], _ENTRY)


def _names(raw: bytes, table: SymbolTableSection, places: list[int]) -> list[str]:
    """The names at `places` in the strings of a symbol table; '' where there is none."""
    strings = table.stringtable
    texts = raw[strings["sh_offset"] : strings["sh_offset"] + strings["sh_size"]]
    ends = [texts.find(b"\0", place, place + _LONGEST_NAME) for place in places]
    named, left = [], _MOST_BYTES
    for a, b in zip(places, ends, strict=True):
        left -= max(b - a, 0)
        named.append(printable(texts[a:b]) if a and b > a and left >= 0 else "")
    return named


def symbol_names(raw: bytes, table: object, numbers: list[int]) -> list[str]:
    """Names of the symbols `numbers` of a section `table` of pyelftools; '' for those that it lacks."""
    if not isinstance(table, SymbolTableSection):
        return [""] * len(numbers)
    names = _entries(raw, table)["name"]
    return _names(raw, table, [int(names[n]) if n < len(names) else 0 for n in numbers])


def _rows(raw: bytes, table: SymbolTableSection, kinds: tuple[int, ...]) -> list[Symbol]:
    rows = _entries(raw, table)
    rows = rows[np.isin(rows["info"] & 15, kinds) & ~np.isin(rows["section"], _ABSENT)]
    names = _names(raw, table, rows["name"].tolist())
    return [
        Symbol(address, min(size, _PAST_THE_LAST - address), name)
        for name, address, size in zip(names, rows["value"].tolist(), rows["size"].tolist(), strict=True)
        if name
    ]
