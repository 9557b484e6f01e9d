"""Instruction sets as data: tables, decoding, and the exception tree that every layer raises from."""
