"""Regions by satisfiability modulo theories (MICRO 2009, section 4.3), with z3 in a process of its own.

Start at `engine.py`.
"""
