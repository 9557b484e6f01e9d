"""Code blocks of the guest: how many instructions they have, where each begins, which are plain.

Start at `blocks.py`.
"""
