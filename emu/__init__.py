"""The machine: cores over Unicorn, the coherent bus between them, devices, schedulers; and Linux on it.

Bottom up: `native`, `schedule`, `code`, `bus`, `devices`, `hooks`, `core`, `board`, `linux`. Start at
`native/state.py` (a core as one row of numbers), then `hooks/record.py` and `bus/lines.py`.
"""
