"""The campaign of hostile input: whatever a recording, a moment or a guest is, each command ends as it
should.

    python -m bench.hostile KIND [--cases N] [--seed S] [--jobs J] [--only CASE] [--json]

`__main__.py` has the kinds. A kind makes cases out of a seed and a number, and nothing else, and judges them;
`campaign.py` runs and counts them (`tally.py`); `judging.py` says how a command may end. Recordings are taken
apart and put together again by `sample.py`, which makes all checksums right, and changed by the
`mutate_*.py`. `fork_server.py` has the processes, `fork_child.py` what one of them does.
"""
