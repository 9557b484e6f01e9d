"""Hunts that look at what their runs have seen, so that later ones try what none has.

Start at `planning.py`.
"""
