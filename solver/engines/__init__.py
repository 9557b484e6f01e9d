"""Engines that order a region from values alone, and the pipeline `auto` of them.

Start at `decide.py`.
"""
