"""Making a recording: a machine runs, its rows are written, evidence is taken down.

Start at `firmware.py`, then `linux.py`.
"""
