"""Decoding an evidence stream whole, whichever it is: what `verify` does to find damage."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.evidence import LINKAGE, LOSSES, OPR, RPC, SLICES
from recorder.reader import Recording, iter_evidence


def evidence_contents(recording: Recording, name: str) -> Iterable[object]:
    """The frames of the stream, decoded as its engine does. Raises FormatError."""
    if name == LINKAGE:
        from recorder.linkage_codec import iter_linkage

        return iter_linkage(recording)
    if name == RPC:
        from recorder.receipts import iter_receipts

        return iter_receipts(recording)
    if name == LOSSES:
        from recorder.losses import iter_all_losses

        return iter_all_losses(recording)
    if name == OPR:
        from recorder.opr_log import iter_opr

        return iter_opr(recording)
    if name == SLICES:
        from recorder.slice_log import iter_slices

        return iter_slices(recording)
    return iter_evidence(recording, name)
