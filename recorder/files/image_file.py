"""Images of guest memory: the pages that are not all zero (docs/format.md, section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from corebraid.base.errors import FormatError
from corebraid.base.memory import PAGE_BYTES
from recorder.files.frame import DamageError, FileFacts, FileHeader, FrameHeader, FrameWriter, iter_frames
from recorder.files.one_step import in_one_step

#: Pages in a frame: 256 KiB and their addresses.
PAGES_PER_FRAME = 64
_ADDRESS = np.dtype("<u8")
_SCAN_PAGES = 4096


def nonzero_pages(
    memory: npt.NDArray[np.uint8], base: int = 0, pages: npt.NDArray[np.int64] | None = None
) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
    """The pages of `memory` (uint8[n * 4096]) that are not all zero, with their addresses from `base` on.

    pages: numbers of those to look at, ascending; all others are zero.
    """
    if pages is not None:
        for number in pages.tolist():
            page = memory[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]
            if page.any():
                yield base + number * PAGE_BYTES, page
        return
    every = memory.reshape(-1, PAGE_BYTES)
    for start in range(0, len(every), _SCAN_PAGES):
        for index in np.flatnonzero(every[start : start + _SCAN_PAGES].any(axis=1)):
            number = start + int(index)
            yield base + number * PAGE_BYTES, every[number]


def write_image(
    path: Path, header: FileHeader, pages: Iterable[tuple[int, npt.NDArray[np.uint8]]]
) -> FileFacts:
    """Write the image file `path`: whole or, if the process is killed, not at all.

    pages: (address, uint8[4096]), addresses strictly ascending and multiples of 4096; pages that are all
    zero are left out. Returns the facts for the manifest. Raises FormatError.
    """
    kept = ((address, page) for address, page in pages if page.any())
    last = -PAGE_BYTES
    with in_one_step(path) as partial, closing(FrameWriter(partial, header)) as writer:
        while batch := list(islice(kept, PAGES_PER_FRAME)):
            for address, page in batch:
                if address % PAGE_BYTES or address < last + PAGE_BYTES or page.shape != (PAGE_BYTES,):
                    what = "pages of an image must be whole, aligned and ascending"
                    raise FormatError(what, found=hex(address), where=str(path))
                last = address
            addresses = np.array([address for address, _ in batch], dtype=_ADDRESS)
            raw = addresses.tobytes() + b"".join(page.tobytes() for _, page in batch)
            writer.append(raw, len(batch), batch[0][0], last)
    return writer.facts()


def _addresses(path: Path, frame: FrameHeader, raw: bytes, last: int, memory: int) -> list[int]:
    """The page addresses of a frame, checked; `last` is the page before them (-4096: none)."""
    if len(raw) != frame.records * (_ADDRESS.itemsize + PAGE_BYTES):
        expected = f"{frame.records} pages with their addresses"
        raise DamageError(
            path, frame.offset, "bytes in a frame of pages", expected=expected, found=f"{len(raw)} bytes"
        )
    addresses: list[int] = np.frombuffer(raw, dtype=_ADDRESS, count=frame.records).tolist()
    for address in addresses:
        if address % PAGE_BYTES or not last + PAGE_BYTES <= address <= memory - PAGE_BYTES:
            expected = (
                f"a multiple of {PAGE_BYTES} from {max(0, last + PAGE_BYTES):#x} to {memory - PAGE_BYTES:#x}"
            )
            raise DamageError(path, frame.offset, "page address", expected=expected, found=hex(address))
        last = address
    if addresses[0] != frame.first or addresses[-1] != frame.last:
        raise DamageError(path, frame.offset, "a frame of pages is not in the range it declares")
    return addresses


def read_image(path: Path, header: FileHeader, memory: int) -> Iterator[tuple[int, bytes]]:
    """The pages of an image in ascending order: (address, 4096 bytes).

    header: what the file header must say. memory: bytes of guest memory, inside which pages must lie.
    Raises FormatError.
    """
    return pages_of(path, header, memory, lambda frame: True)


def pages_of(
    path: Path, header: FileHeader, memory: int, wanted: Callable[[FrameHeader], bool]
) -> Iterator[tuple[int, bytes]]:
    """The same of the frames that are wanted."""
    last = -PAGE_BYTES
    for frame, raw in iter_frames(path, header, wanted=wanted):
        addresses = _addresses(path, frame, raw, last, memory)
        last = addresses[-1]
        data = len(addresses) * _ADDRESS.itemsize
        for index, address in enumerate(addresses):
            at = data + index * PAGE_BYTES
            yield address, raw[at : at + PAGE_BYTES]


def load_into(path: Path, header: FileHeader, memory: npt.NDArray[np.uint8]) -> None:
    """Copy the pages of an image into `memory` (uint8[bytes of guest memory], zero before).

    Raises FormatError, also when a page lies outside `memory`.
    """
    for address, page in read_image(path, header, len(memory)):
        memory[address : address + PAGE_BYTES] = np.frombuffer(page, dtype=np.uint8)
