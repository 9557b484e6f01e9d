"""What CPUID tells a Linux guest: exactly what is emulated right. Source: Intel SDM volume 2, CPUID.

Left out although the emulator has it: XSAVE (no state beyond SSE exists), RDRAND, and everything that is
encoded with VEX.
"""

from __future__ import annotations

#: Leaf 1, ecx: SSE3, PCLMULQDQ, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT, AES.
_MORE_FEATURES = sum(1 << bit for bit in (0, 1, 9, 13, 19, 20, 23, 25))
#: Leaf 1, edx: x87 to SSE2 and what any 64-bit processor has.
FEATURES = 0x078BFBFD
_VENDOR = (0x756E6547, 0x6C65746E, 0x49656E69)
_BRAND = b"corebraid emulated x86-64 processor".ljust(48, b"\0")

Row = tuple[int, int, int, int, int, int]


def _brand(leaf: int) -> Row:
    part = _BRAND[16 * (leaf - 0x80000002) :][:16]
    a, b, c, d = (int.from_bytes(part[k : k + 4], "little") for k in range(0, 16, 4))
    return (leaf, 0, a, b, c, d)


#: (leaf, subleaf, eax, ebx, ecx, edx); a leaf that is missing answers 0. A recording that does not say what
#: was answered had this: whoever changes it keeps it for them.
CPUID: tuple[Row, ...] = (
    (0, 0, 7, *_VENDOR),
    (1, 0, 0x206A1, 0x800, _MORE_FEATURES, FEATURES),
    (2, 0, 0x1, 0, 0, 0x2C307D),
    (4, 0, 0x121, 0x1C0003F, 0x3F, 0x1),
    (4, 1, 0x122, 0x1C0003F, 0x3F, 0x1),
    (4, 2, 0x143, 0x3C0003F, 0xFFF, 0x1),
    (4, 3, 0x163, 0x3C0003F, 0x3FFF, 0x6),
    (7, 0, 0, 0, 0, 0),
    (0x80000000, 0, 0x80000008, *_VENDOR),
    # LAHF; SYSCALL, no-execute pages, RDTSCP, 64-bit mode.
    (0x80000001, 0, 0x206A1, 0, 0x1, 0x28100800),
    *(_brand(0x80000002 + k) for k in range(3)),
    # The second-level cache, as in leaf 4: lines of 64 bytes, 16 ways, 4096 KB.
    (0x80000006, 0, 0, 0, 0x10008040, 0),
    # The timestamp counter never stops.
    (0x80000007, 0, 0, 0, 0, 0x100),
    (0x80000008, 0, 0x3028, 0, 0, 0),
)

#: Of one processor in /proc/cpuinfo (Linux's arch/x86/kernel/cpu/proc.c), consistent with `CPUID`.
CPU_LINES = (
    "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 42\n"
    f"model name\t: {_BRAND.rstrip(bytes(1)).decode()}\nstepping\t: 1\ncpu MHz\t\t: 3200.000\n"
    "cache size\t: 16384 KB\nfpu\t\t: yes\nfpu_exception\t: yes\ncpuid level\t: 7\nwp\t\t: yes\n"
    "flags\t\t: fpu de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse "
    "sse2 ss syscall nx rdtscp lm constant_tsc nonstop_tsc pni pclmulqdq ssse3 "
    "cx16 sse4_1 sse4_2 popcnt aes lahf_lm\n"
    "bogomips\t: 6400.00\nclflush size\t: 64\ncache_alignment\t: 64\n"
    "address sizes\t: 40 bits physical, 48 bits virtual\n"
)
