"""User-mode Linux on emulated cores: what a kernel does for one multi-threaded process.

Start at `machine.py` (cores that run tasks) and `kernel.py` (serving a call); `boot.py` puts a guest
together. Bottom up: `ground`, `files`, `waiting`, `signals` and `sockets`, `memory`, `tasks`, `pseudo`,
`calls` and `tree`.
"""
