"""LightPlay: the order of a region from time slices with optimistic checkpoints (docs/lightplay.md).

Start at `engine.py`.
"""
