"""The smallest schedule: what a hunt has found, with the fewest preemptions that still make it fail.

Start at `reducing.py`.
"""
