"""Native hooks of a core: thin `@hook`s over kernels, for recording, replay, traces and evidence.

Start at `record.py`, then `replay.py`; `access.py` is what both do before an access, `fill.py` the page
table.
"""
