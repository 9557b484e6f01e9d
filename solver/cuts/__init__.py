"""The exact search over cuts: depth first, with undo, a memo of dead cuts and stubborn sets.

Start at `search.py`.
"""
