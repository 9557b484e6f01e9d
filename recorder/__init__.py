"""Recording and replay: files on disk, evidence, isolated replay, capture.

Bottom up: `files`, `evidence`, `replay`, `capture`. Start at `capture/firmware.py` and `replay/core.py`;
docs/format.md has the bytes.
"""
