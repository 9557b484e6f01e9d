/* The flags of floating-point exceptions, of SSE2 (MXCSR) and of x87. */
#include "guest.h"
#include <fenv.h>
#include <float.h>
#include <math.h>

static void check_sse(void) {
    volatile double zero = 0, one = 1, huge = DBL_MAX, result;
    CHECK(feclearexcept(FE_ALL_EXCEPT) == 0);
    result = one / zero;
    CHECK(fetestexcept(FE_ALL_EXCEPT) == FE_DIVBYZERO && isinf(result));
    feclearexcept(FE_ALL_EXCEPT);
    result = zero / zero;
    CHECK(fetestexcept(FE_ALL_EXCEPT) == FE_INVALID && isnan(result));
    feclearexcept(FE_ALL_EXCEPT);
    result = huge * huge;
    CHECK(fetestexcept(FE_ALL_EXCEPT) == (FE_OVERFLOW | FE_INEXACT) && isinf(result));
}

static void check_x87(void) {
    volatile long double zero = 0, one = 1, result;
    CHECK(feclearexcept(FE_ALL_EXCEPT) == 0);
    result = one / zero;
    CHECK(fetestexcept(FE_ALL_EXCEPT) == FE_DIVBYZERO && isinf(result));
    feclearexcept(FE_ALL_EXCEPT);
    result = one / 3;
    CHECK(fetestexcept(FE_ALL_EXCEPT) == FE_INEXACT && result < one);
}

int main(void) {
    check_x87();
    printf("float_exceptions: x87\n");
    fflush(stdout);
    check_sse();
    printf("float_exceptions: SSE\n");
    return 0;
}
