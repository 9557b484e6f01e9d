"""Sockets inside the guest: Unix, TCP and UDP between its own threads, addresses, options.

Start at `socket.py`.
"""
