"""What threads wait at, named as the library calls it in which they wait. Start at `named.py`."""
