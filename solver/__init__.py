"""From the rows that each core replays to a legal order of all of them.

Bottom up: `regions`, then `tenures`, `sifting` and, apart from all engines, `check`; `cuts` and `smt`;
`deduction`, `engines`, `freedom` and `axe`; `passes`; `evidence`. Start at `passes/order.py`.
"""
