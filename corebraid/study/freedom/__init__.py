"""What an order leaves open, for people and as facts: which pairs of accesses could have come the other way
round (`pair_lists.py`), and how many orders there are (`counting.py`)."""
