"""One core: its registers, memory and hooks, running slice by slice, recorded or alone.

Start at `core.py`; `recorded.py` is one on the bus, `isolated.py` one that is replayed.
"""
