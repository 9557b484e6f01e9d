/* What CPUID offers is what there is: no AVX and nothing that needs it, no XGETBV; every other feature that it
 * claims is tried, with its result checked. Made for an emulator without AVX: on most hosts it finds AVX and
 * says so, with exit code 1. */
#include "guest.h"
#include <cpuid.h>
#include <setjmp.h>
#include <signal.h>
#include <elf.h>

static sigjmp_buf back;
static int wrong;

static void jump_back(int signal) {
    siglongjmp(back, signal);
}

/* Says `name` if it is not as it should be. */
static void verdict(const char *name, int right) {
    if (right)
        return;
    printf("cpuid_check: %s\n", name);
    wrong++;
}

/* If `claimed`, `code` must run without a signal, and `result` must hold then. */
#define WORKS(name, claimed, code, result)                                                                         \
    do {                                                                                                           \
        if (claimed) {                                                                                             \
            if (sigsetjmp(back, 1) == 0) {                                                                         \
                code;                                                                                              \
                verdict(name " is claimed and computes wrongly", result);                                          \
            } else {                                                                                               \
                verdict(name " is claimed and cannot be run", 0);                                                  \
            }                                                                                                      \
        }                                                                                                          \
    } while (0)

static void check_absent(unsigned c1, unsigned b7, unsigned c7, unsigned d7) {
    verdict("AVX is claimed", !(c1 & bit_AVX));
    verdict("OSXSAVE is claimed", !(c1 & bit_OSXSAVE));
    verdict("FMA is claimed", !(c1 & bit_FMA));
    verdict("F16C is claimed", !(c1 & bit_F16C));
    verdict("AVX2 is claimed", !(b7 & bit_AVX2));
    verdict("AVX-512 is claimed", !(b7 & (bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL)));
    verdict("VAES, GFNI or VPCLMULQDQ is claimed", !(c7 & (bit_VAES | bit_VPCLMULQDQ)));
    verdict("TSX is claimed", !(b7 & (bit_RTM | bit_HLE)));
    verdict("AMX is claimed", !(d7 & (1u << 22 | 1u << 24 | 1u << 25)));
    if (sigsetjmp(back, 1) == 0) {
        unsigned low, high;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        verdict("xgetbv runs and shows AVX state", (low & 4) == 0);
    }
}

/* cmpxchg16b of (1, 2) for (3, 4): 34. */
static unsigned long swap_pair(void) {
    static unsigned long pair[2] __attribute__((aligned(16))) = {1, 2};
    unsigned long low = 1, high = 2;
    __asm__ volatile("lock cmpxchg16b %0" : "+m"(pair), "+a"(low), "+d"(high) : "b"(3L), "c"(4L) : "cc");
    return pair[0] * 10 + pair[1];
}

static void check_leaf_1(unsigned c1, unsigned d1) {
    unsigned long value = 0;
    unsigned char low[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, out[16];
    verdict("SSE2, CX8, CMOV, FXSR or TSC is missing",
            (d1 & bit_SSE2) && (d1 & bit_CMPXCHG8B) && (d1 & bit_CMOV) && (d1 & bit_FXSAVE) && (d1 & 1u << 4));
    WORKS("SSSE3", c1 & bit_SSSE3,
          __asm__ volatile("movdqu %1, %%xmm1; palignr $4, %%xmm1, %%xmm1; movdqu %%xmm1, %0"
                           : "=m"(out) : "m"(low) : "xmm1"),
          out[0] == 5 && out[12] == 1 && out[15] == 4);
    WORKS("SSE4.1", c1 & bit_SSE4_1,
          __asm__ volatile("movdqu %1, %%xmm1; pextrd $2, %%xmm1, %k0" : "=r"(value) : "m"(low) : "xmm1"),
          value == 0x0c0b0a09);
    WORKS("SSE4.2", c1 & bit_SSE4_2, __asm__ volatile("crc32q %1, %0" : "=r"(value) : "r"(1L), "0"(0L)),
          value == 0x493c7d27);
    WORKS("POPCNT", c1 & bit_POPCNT, __asm__ volatile("popcnt %1, %0" : "=r"(value) : "r"(0xff0fL)), value == 12);
    WORKS("MOVBE", c1 & bit_MOVBE, __asm__ volatile("movbe %1, %0" : "=r"(value) : "m"(low)),
          value == 0x0102030405060708UL);
    WORKS("CX16", c1 & bit_CMPXCHG16B, value = swap_pair(), value == 34);
    WORKS("AES", c1 & bit_AES,
          __asm__ volatile("pxor %%xmm1, %%xmm1; pxor %%xmm2, %%xmm2; aesenc %%xmm1, %%xmm2; movdqu %%xmm2, %0"
                           : "=m"(out) :: "xmm1", "xmm2"),
          out[0] == 0x63 && out[15] == 0x63);
    WORKS("PCLMULQDQ", c1 & bit_PCLMUL,
          __asm__ volatile("movq %1, %%xmm1; pclmulqdq $0, %%xmm1, %%xmm1; movq %%xmm1, %0"
                           : "=r"(value) : "r"(0x10fL) : "xmm1"),
          value == 0x10055);
    WORKS("RDRAND", c1 & bit_RDRND, __asm__ volatile("rdrand %0" : "=r"(value)::"cc"), 1);
}

static void check_leaf_7(unsigned b7, unsigned c7) {
    unsigned long value = 0;
    unsigned char out[16];
    WORKS("FSGSBASE", b7 & 1, __asm__ volatile("rdfsbase %0" : "=r"(value)),
          value == (unsigned long)pthread_self());
    WORKS("BMI", b7 & bit_BMI, __asm__ volatile("andn %2, %1, %0" : "=r"(value) : "r"(0xf0L), "r"(0xffL) : "cc"),
          value == 0x0f);
    WORKS("BMI2", b7 & bit_BMI2, __asm__ volatile("pext %2, %1, %0" : "=r"(value) : "r"(0xabcdL), "r"(0xf0f0L)),
          value == 0xac);
    WORKS("ADX", b7 & bit_ADX, __asm__ volatile("clc; adcxq %1, %0" : "=r"(value) : "r"(5L), "0"(6L) : "cc"),
          value == 11);
    WORKS("RDSEED", b7 & bit_RDSEED, __asm__ volatile("rdseed %0" : "=r"(value)::"cc"), 1);
    WORKS("CLFLUSHOPT", b7 & bit_CLFLUSHOPT, __asm__ volatile("clflushopt %0" : "+m"(out)), 1);
    WORKS("CLWB", b7 & bit_CLWB, __asm__ volatile("clwb %0" : "+m"(out)), 1);
    WORKS("SHA", b7 & bit_SHA,
          __asm__ volatile("pxor %%xmm1, %%xmm1; pcmpeqd %%xmm2, %%xmm2; sha1nexte %%xmm1, %%xmm2; movdqu %%xmm2, %0"
                           : "=m"(out) :: "xmm1", "xmm2"),
          out[0] == 0 && out[15] == 0xff);
    WORKS("RDPID", c7 & bit_RDPID, __asm__ volatile("rdpid %0" : "=r"(value)), (value & 0xfff) < 1024);
}

static void check_extended(void) {
    unsigned a, b, c, d, most = __get_cpuid_max(0x80000000, NULL);
    unsigned long value = 0;
    if (most < 0x80000001)
        return;
    __cpuid(0x80000001, a, b, c, d);
    verdict("long mode or SYSCALL is missing", (d & bit_LM) && (d & 1u << 11));
    verdict("FMA4 or XOP is claimed", !(c & (bit_FMA4 | bit_XOP)));
    verdict("TBM is claimed", !(c & bit_TBM));
    verdict("3DNow! is claimed", !(d & (bit_3DNOW | bit_3DNOWP)));
    WORKS("LZCNT", c & bit_LZCNT, __asm__ volatile("lzcnt %1, %0" : "=r"(value) : "r"(255L) : "cc"), value == 56);
    WORKS("LAHF", c & bit_LAHF_LM, __asm__ volatile("stc; lahf" : "=a"(value)::"cc"), (value >> 8 & 1) == 1);
    WORKS("RDTSCP", d & 1u << 27, __asm__ volatile("rdtscp" : "=a"(value)::"rcx", "rdx"), 1);
    WORKS("PREFETCHW", c & bit_PRFCHW, __asm__ volatile("prefetchw %0" ::"m"(value)), 1);
}

/* What the kernel says, behind the environment; getauxval gives the C library's own word. */
static unsigned long hwcap(void) {
    char **end = environ;
    while (*end)
        end++;
    for (const Elf64_auxv_t *entry = (const Elf64_auxv_t *)(end + 1); entry->a_type != AT_NULL; entry++)
        if (entry->a_type == AT_HWCAP)
            return entry->a_un.a_val;
    return 0;
}

int main(void) {
    unsigned a, b, c, d, b7 = 0, c7 = 0, d7 = 0, most = __get_cpuid_max(0, NULL);
    CHECK(signal(SIGILL, jump_back) == SIG_DFL && signal(SIGSEGV, jump_back) == SIG_DFL && most >= 1);
    if (most >= 7)
        __cpuid_count(7, 0, a, b7, c7, d7);
    __cpuid(1, a, b, c, d);
    unsigned told = bit_CMPXCHG8B | bit_CMOV | bit_MMX | bit_FXSAVE | bit_SSE | bit_SSE2;
    verdict("AT_HWCAP is not CPUID's word", (hwcap() & told) == (d & told));
    check_absent(c, b7, c7, d7);
    check_leaf_1(c, d);
    check_leaf_7(b7, c7);
    check_extended();
    if (most >= 13) {
        __cpuid_count(13, 0, a, b, c, d);
        verdict("the state of AVX is claimed", (a & ~3u) == 0);
    }
    printf("cpuid_check: %d wrong\n", wrong);
    return wrong != 0;
}
