"""Who wrote bytes: in the recording's order (`in_order`, `history`), in any legal order (`possible`), and
what what was written was computed from (`flow`); `told` has the words."""
