"""Traces for others: text, JSON lines, Parquet, axe."""
