"""Who runs next, and for how long: random slices, PCT, chaos, and the words that they watch.

Start at `scheduler.py`.
"""
