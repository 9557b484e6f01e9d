"""How traces leave: one file for each format, over the same columns."""
