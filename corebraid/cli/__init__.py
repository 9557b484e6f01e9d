"""The command line: options, console, commands and exporters.

Start at `group.py`; each command is a file in `commands/`.
"""
