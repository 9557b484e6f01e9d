"""Which part of a variable bytes are: elements of arrays and members of structures, by its type (DWARF 5,
section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corebraid.names.debug_entries.entries import DebugEntries, Entry
from corebraid.names.symbols import with_offset

#: Types that say no more of what they hold than the type that they are made of.
_ALIASES = tuple(f"DW_TAG_{what}" for what in (
    "typedef", "const_type", "volatile_type", "restrict_type", "atomic_type", "packed_type",
))  # fmt: skip
_ATOMIC = "DW_TAG_atomic_type"
#: What names of the C++ library's atomic types begin with.
_ATOMIC_CLASSES = ("atomic<", "atomic_flag", "__atomic_base<")
_STRUCTURES, _UNION = ("DW_TAG_structure_type", "DW_TAG_class_type"), "DW_TAG_union_type"
_ARRAY, _RANGE = "DW_TAG_array_type", "DW_TAG_subrange_type"
_MEMBER, _BASE = "DW_TAG_member", "DW_TAG_inheritance"
#: Pointers, of which not all compilers say how long they are.
POINTERS, POINTER_BYTES = tuple(f"DW_TAG_{what}" for what in (
    "pointer_type", "reference_type", "rvalue_reference_type",
)), 8  # fmt: skip
#: Types in types, at most, and dimensions of an array.
_DEEPEST, _MOST_DIMENSIONS = 64, 16


class Types:
    """The types of a file. Every method raises one of `ENTRY_DAMAGE` where they are damaged."""

    def __init__(self, entries: DebugEntries) -> None:
        self._entries = entries

    def path(self, kind: Entry | None, offset: int) -> str | None:
        """What follows a variable's name for the byte at `offset` of it: '[3].next', '.lock+0x8'; None where
        that lies behind its end, or its type does not tell."""
        size = self.size(kind)
        if size is None or not 0 <= offset < size:
            return None
        text = ""
        for _ in range(_DEEPEST):
            kind = self.plain(kind)
            step = self._step(kind, offset) if kind is not None else None
            if step is None:
                break
            more, kind, offset = step
            text += more
        return with_offset(text, offset)

    def atomic(self, kind: Entry | None, offset: int) -> bool:
        """Whether the byte at `offset` of it is of something that is declared as atomic: `_Atomic` of C, or
        `std::atomic` and `std::atomic_flag` of C++."""
        for _ in range(_DEEPEST):
            for _ in range(_DEEPEST):
                if kind is None or kind.tag not in _ALIASES:
                    break
                if kind.tag == _ATOMIC:
                    return True
                kind = self.type_of(kind)
            if kind is None:
                return False
            if kind.tag in _STRUCTURES and self._entries.text(kind, "DW_AT_name").startswith(_ATOMIC_CLASSES):
                return True
            step = self._step(kind, offset)
            if step is None:
                return False
            _, kind, offset = step
        return False

    def place(self, kind: Entry | None, path: Sequence[str | int]) -> tuple[int, int] | None:
        """(offset, bytes) of a part of a variable; None where there is no such part. path: the name of a
        member or the index of an element, step by step; of an array of several dimensions the first will
        do."""
        start, rest = 0, list(path[:_DEEPEST])
        while rest:
            kind = self.plain(kind)
            if kind is None:
                return None
            if isinstance(step := rest[0], str):
                rest.pop(0)
                found = self._member(kind, step, _DEEPEST)
                if found is None:
                    return None
                offset, kind = found
                start += offset
                continue
            element = self._element(kind, rest)
            if element is None:
                return None
            offset, size, whole = element
            start += offset
            if not whole:
                return None if rest else (start, size)
            kind = self.type_of(kind)
        size_of = self.size(kind)
        return None if size_of is None else (start, size_of)

    def _element(self, kind: Entry, rest: list[str | int]) -> tuple[int, int, bool] | None:
        """(offset, bytes, whether it is one element and not a row of them) of what the indices that begin
        `rest`, and are taken from it, say of an array."""
        if kind.tag != _ARRAY:
            return None
        each, lengths = self.size(self.type_of(kind)), list(self._lengths(kind))
        offset, taken = 0, 0
        for length in lengths:
            index = rest[0] if rest and isinstance(rest[0], int) else 0
            if rest and isinstance(rest[0], int):
                taken += 1
                rest.pop(0)
            # Of an array that ends a structure the first dimension may not be told.
            if (length is not None and not 0 <= index < length) or (length is None and offset):
                return None
            offset = offset * (length or 1) + index
        below = 1
        for length in lengths[taken:]:
            below *= length or 1
        if not each or not taken:
            return None
        return offset * each, below * each, taken == len(lengths)

    def _member(self, kind: Entry, name: str, deepest: int) -> tuple[int, Entry | None] | None:
        """(offset, type) of a member of a structure or a union, also in what of it has no name."""
        if kind.tag not in (*_STRUCTURES, _UNION) or not deepest:
            return None
        for entry in self._entries.children(kind):
            at = self._place(entry) if entry.tag in (_MEMBER, _BASE) else None
            if at is None or "DW_AT_bit_size" in entry.attributes:
                continue
            own, inner = self._entries.text(entry, "DW_AT_name"), self.type_of(entry)
            if own == name:
                return at, inner
            plain = None if own else self.plain(inner)
            below = None if plain is None else self._member(plain, name, deepest - 1)
            if below is not None:
                return at + below[0], below[1]
        return None

    def type_of(self, entry: Entry) -> Entry | None:
        """The type of an entry; None: it has none, as what is void."""
        return next(
            (self._entries.referred(one, "DW_AT_type") for one in self._entries.origins(entry)
             if "DW_AT_type" in one.attributes), None
        )  # fmt: skip

    def plain(self, kind: Entry | None) -> Entry | None:
        """The type without other names for it, and without qualifiers."""
        for _ in range(_DEEPEST):
            if kind is None or kind.tag not in _ALIASES:
                break
            kind = self.type_of(kind)
        return kind

    def size(self, kind: Entry | None) -> int | None:
        """Bytes of a type; None where that is not said."""
        kind, count = self.plain(kind), 1
        for _ in range(_DEEPEST):
            if kind is None:
                return None
            found = self._entries.number(kind, "DW_AT_byte_size")
            if found is None and kind.tag in POINTERS:
                found = POINTER_BYTES
            if found is not None or kind.tag != _ARRAY:
                return None if found is None else found * count
            for length in self._lengths(kind):
                if length is None:
                    return None
                count *= length
            kind = self.plain(self.type_of(kind))
        return None

    def _step(self, kind: Entry, offset: int) -> tuple[str, Entry | None, int] | None:
        """(text, type of what is there, offset into it): one step into a type, None where it ends."""
        if kind.tag in _STRUCTURES:
            return self._into_structure(kind, offset)
        return self._into_array(kind, offset) if kind.tag == _ARRAY else None

    def _into_structure(self, kind: Entry, offset: int) -> tuple[str, Entry | None, int] | None:
        for entry in self._entries.children(kind):
            at = self._place(entry) if entry.tag in (_MEMBER, _BASE) else None
            inner = self.type_of(entry) if at is not None else None
            size = self.size(inner)
            if at is None or size is None or not at <= offset < at + size:
                continue
            name = self._entries.text(entry, "DW_AT_name")
            if _is_reserved(name) or self._is_open(entry, name, inner):
                return None
            return (f".{name}" if name else ""), inner, offset - at
        return None

    def _is_open(self, entry: Entry, name: str, inner: Entry | None) -> bool:
        """Whether there are others in the same bytes: members of an unnamed union, or of some bits."""
        plain = self.plain(inner)
        is_union = not name and plain is not None and plain.tag == _UNION
        return is_union or "DW_AT_bit_size" in entry.attributes

    def _place(self, entry: Entry) -> int | None:
        """Where a member is; None of one that all objects share, or that must be computed."""
        if "DW_AT_external" in entry.attributes or "DW_AT_declaration" in entry.attributes:
            return None
        bits = self._entries.number(entry, "DW_AT_data_bit_offset")
        if bits is not None:
            return bits // 8
        if "DW_AT_data_member_location" not in entry.attributes:
            return 0
        return self._entries.number(entry, "DW_AT_data_member_location")

    def _into_array(self, kind: Entry, offset: int) -> tuple[str, Entry | None, int] | None:
        inner = self.type_of(kind)
        size, lengths = self.size(inner), list(self._lengths(kind))
        if not size or not lengths:
            return None
        index, offset, text = *divmod(offset, size), ""
        for length in reversed(lengths[1:]):
            if not length:
                return None
            index, last = divmod(index, length)
            text = f"[{last}]{text}"
        return f"[{index}]{text}", inner, offset

    def _lengths(self, kind: Entry) -> Iterator[int | None]:
        """Of each dimension; None where it is not known."""
        ranges = [entry for entry in self._entries.children(kind) if entry.tag == _RANGE]
        for entry in ranges[:_MOST_DIMENSIONS]:
            count = self._entries.number(entry, "DW_AT_count")
            last = self._entries.number(entry, "DW_AT_upper_bound")
            yield count if count is not None else None if last is None else last + 1


def _is_reserved(name: str) -> bool:
    """Whether a name is the implementation's, not the program's (C11, 7.1.3): how it makes an atomic variable
    or a lock is nobody's business."""
    return name[:1] == "_" and (name[1:2] == "_" or name[1:2].isupper())
