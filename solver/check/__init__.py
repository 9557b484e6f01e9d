"""The certificate, and the independent checkers of an order: they share no code with sifting or engines.

Start at `certificate.py` and `seams.py`; `checker.py` is `check-order`.
"""
