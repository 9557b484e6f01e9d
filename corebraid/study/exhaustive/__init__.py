"""Every execution of a small program: partial-order reduction over runs that are forked from one machine.

Start at `explorer.py`.
"""
