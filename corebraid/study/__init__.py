"""Facts found in recordings: suspects, patterns, deadlocks, last moments, runs that show a bug.

Start at `hunting.py` and `suspects.py`.
"""
