"""Guest programs: images, their sources, and what each must print. Data, read by `importlib.resources`.

`examples.json` describes those that `corebraid example` copies; `expected.py` says what each must do.
"""
