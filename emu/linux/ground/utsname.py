"""What the kernel says of itself: the texts of uname(2) and /proc."""

from __future__ import annotations

#: What uname tells besides the machine (utsname(2)).
RELEASE, VERSION, HOST = "6.1.0-corebraid", "#1 SMP corebraid", "guest"
