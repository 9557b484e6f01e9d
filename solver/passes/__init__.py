"""The pass over a recording's regions: in one process, in several, on a cluster, by several engines.

Start at `order.py`, then `answers.py` and `stages.py`.
"""
