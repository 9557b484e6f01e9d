"""The system calls, one file for each family (man section 2).

Start at `table.py`; a handler takes the task and its arguments.
"""
