"""What evidence streams tell: linkages, slices, a replayed group, a second execution.

`linkage.py` is the plainest.
"""
