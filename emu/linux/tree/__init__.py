"""The tree of directories that a guest sees: what is bound where, and which changes are kept.

Start at `filesystem.py`.
"""
