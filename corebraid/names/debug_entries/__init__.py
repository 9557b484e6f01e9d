"""Entries of `.debug_info`: functions, calls that were compiled into their callers, variables, types.

Start at `scopes.py`.
"""
