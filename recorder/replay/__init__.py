"""Replay of one core from its own log, traced or not, compared with what was recorded.

Start at `core.py`; `member.py` replays from a value log, `pause.py` up to one instruction count, `traces.py`
is what the solver reads.
"""
