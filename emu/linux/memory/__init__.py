"""The address space: mappings, and the guest's memory through the bus.

Start at `address_space.py`.
"""
