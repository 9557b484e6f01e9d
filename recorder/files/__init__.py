"""A recording on disk: frames, manifest, logs and images, written and read (docs/format.md).

Start at `frame.py`, then `writer.py` and `reader.py`; `collectors.py` is what an evidence stream is.
"""
