"""The coherent bus: lines and who has them (MESI), caches, store buffers, agents that read and write.

Start at `lines.py`; `losses.py` and `sync_points.py` are what it notes beside misses.
"""
