"""What has no snapshot."""

from __future__ import annotations


class UnsavableError(Exception):
    """Something of a machine cannot be kept as it is. what: in words."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
