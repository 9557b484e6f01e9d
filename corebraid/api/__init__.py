"""The Python interface: what the commands do, as functions, which the commands call too.

`corebraid` gives their names, each loaded on first use. Start at `record.py` and `order.py`.
"""
