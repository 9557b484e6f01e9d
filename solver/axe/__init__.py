"""Legality of plain-text memory traces under SC and TSO: old values unknown, initial values 0."""
