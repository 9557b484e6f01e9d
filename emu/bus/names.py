"""Buses that a machine can have: the exact model of lines, and rights to whole pages."""

MESI, PAGE = "mesi", "page"
BUSES = MESI, PAGE
