"""Unicorn as native code sees it, and a core as one row of plain numbers that Python and hooks share.

Start at `state.py`.
"""
