"""Guest memory as it was when a recording ended, read where it is asked for."""

from __future__ import annotations

from corebraid.base.memory import PAGE_BYTES
from recorder.files.frame import FINAL_IMAGE, FrameHeader
from recorder.files.image_file import pages_of
from recorder.files.reader import Recording

#: Pages that are kept.
_MOST_PAGES = 1 << 14


class FinalMemory:
    """Of a complete recording. Pages are read, some at a time, when bytes of them are asked for."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._pages: dict[int, bytes] = {}

    def read(self, address: int, size: int) -> bytes | None:
        """`size` bytes from `address` on; None where the image lacks a page, which was not mapped, or held
        zeros alone. Raises FormatError."""
        found = b""
        while size > 0:
            inside = address % PAGE_BYTES
            page = self._page(address - inside)
            if page is None:
                return None
            piece = page[inside : inside + size]
            found, address, size = found + piece, address + len(piece), size - len(piece)
        return found

    def _page(self, address: int) -> bytes | None:
        if address not in self._pages:
            if len(self._pages) > _MOST_PAGES:
                self._pages.clear()
            recording = self._recording
            path = recording.checked(recording.image_path("final"))

            def wanted(frame: FrameHeader) -> bool:
                return frame.first <= address <= frame.last

            memory = recording.manifest.memory
            if 0 <= address < memory:
                self._pages.update(pages_of(path, recording.header(FINAL_IMAGE), memory, wanted))
            self._pages.setdefault(address, b"")
        return self._pages[address] or None
