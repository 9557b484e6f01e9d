"""JSON files in one canonical form that carry their own digest, so that any changed byte is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from recorder.files.json_fields import Fields, parse_object, wrong

HEX_256 = "[0-9a-f]{64}"


def canonical(fields: Mapping[str, object]) -> bytes:
    """The bytes of `fields` that digests are of."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode("ascii")


def seal(fields: Mapping[str, object]) -> bytes:
    """The one way to write `fields`, with a digest of them added."""
    digest = hashlib.sha256(canonical(fields)).hexdigest()
    return json.dumps({**fields, "digest": digest}, sort_keys=True, indent=1).encode("ascii") + b"\n"


def sealed_fields(data: bytes, path: Path, what: str, recording: bytes) -> Fields:
    """The fields of `data`, the bytes of the file `path`, whose digest is right and whose `id` is that of the
    recording. what: what the file should be, for the message. Raises FormatError."""
    values = parse_object(data, path)
    fields = Fields(values, path)
    fields.text("digest", HEX_256)
    check_seal(values, data, path, what)
    if (found := fields.text("id")) != recording.hex():
        raise fields.error("id", recording.hex(), found)
    return fields


def check_seal(values: Mapping[str, object], data: bytes, path: Path, what: str) -> None:
    """Raise FormatError unless `data`, the bytes of the file `path`, is how `values` are written.

    what: what the file should be, for the message.
    """
    try:
        sealed = seal({key: value for key, value in values.items() if key != "digest"})
    except RecursionError:
        raise wrong(path, f"not JSON of {what} (it is nested too deeply)") from None
    if sealed != data:
        raise wrong(path, "damaged: its bytes do not match its digest")
