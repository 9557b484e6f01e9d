/* Runs an AVX instruction (vaddps %xmm1, %xmm2, %xmm0) without asking CPUID. An emulator without AVX must stop
 * and name the instruction; a wrong result (the legacy instruction's, xmm0 + xmm1) is exit code 1. */
#include "guest.h"

int main(void) {
    float left[4] = {1, 2, 3, 4}, right[4] = {10, 20, 30, 40}, sum[4] = {100, 100, 100, 100};
    printf("avx_try: before\n");
    fflush(stdout);
    __asm__ volatile("movups (%0), %%xmm1; movups (%1), %%xmm2; movups (%2), %%xmm0\n"
                     "vaddps %%xmm1, %%xmm2, %%xmm0\n"
                     "movups %%xmm0, (%2)"
                     :: "r"(left), "r"(right), "r"(sum)
                     : "xmm0", "xmm1", "xmm2", "memory");
    printf("avx_try: %g %g %g %g\n", sum[0], sum[1], sum[2], sum[3]);
    for (int i = 0; i < 4; i++)
        CHECK(sum[i] == left[i] + right[i]);
    return 0;
}
