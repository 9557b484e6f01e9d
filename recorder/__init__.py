"""Log format, writer and reader; capture; isolated replay; trace extraction; divergence report."""
