"""What an order leaves open: which pairs can stand either way, how many orders there are, why there is none.

Start at `freedom.py` and `graph.py`; docs/sure.md.
"""
