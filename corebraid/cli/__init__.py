"""The command line: options, text, progress and exit codes of the commands.

Start at `group.py`; each command is a file in `commands/`.
"""
