"""How large guest memory and its parts are. Light: the command line needs it."""

#: Bytes in a page. Guest memory is whole pages.
PAGE_BYTES = 4096
#: Bytes of a Linux guest's address space. Memory of ours is only used where the guest uses its own.
ADDRESS_SPACE = 1 << 36
#: Where the page of device registers is; the memory of firmware ends there at the latest.
DEVICE_BASE = 0xF0000000
