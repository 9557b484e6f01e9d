"""Legality of plain-text memory traces under SC and TSO: old values unknown, initial values 0.

Start at `decide.py`; docs/axe.md.
"""
