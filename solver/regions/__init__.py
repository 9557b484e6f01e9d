"""What all of the solver talks about: traces, regions, problems, sync points, violations.

Start at `traces.py`, `region.py` and `problem.py`.
"""
