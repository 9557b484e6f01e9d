"""Races: conflicting accesses that nothing in the program puts in order. Begin with `search.py`."""
