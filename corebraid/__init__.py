"""corebraid: record every core alone; braid them back together."""

__version__ = "0.1.0"
