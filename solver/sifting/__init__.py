"""From a region's rows to the problem that is left of them, and from its order back to all rows.

Start at `strata.py` (regions), then `granules.py`, `filters.py` and `boundary.py`; `buffered_` files are
TSO's.
"""
