"""Runs command lines of corebraid one after the other in one process, which loads it and its kernels once.

Started by path with the interpreter and PYTHONPATH of the version that it is to run; each line on standard
input is a JSON array, the arguments of one `corebraid ARGUMENTS...`; each answer a line with a JSON object:
`code`, and `out` and `err`, what it printed.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile


def run(arguments: list[str]) -> dict[str, object]:
    """The exit code and what was printed, also by native code."""
    sys.argv = ["corebraid", *arguments]
    code: object = 0
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            runpy.run_module("corebraid", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            code = end.code or 0
        except Exception as error:
            code = repr(error)
        sys.stdout.flush()
        sys.stderr.flush()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return {"code": code, "out": texts[0], "err": texts[1]}


def main() -> None:
    """Answer every line until there are no more."""
    asked, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for line in asked:
        answers.write(json.dumps(run(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
