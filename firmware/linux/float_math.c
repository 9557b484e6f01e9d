/* Floating point to the last bit: SSE2 double and float, x87 long double, rounding modes, libm.
 * 4 threads compute the same, each in a rounding mode of its own. What libm returns may depend on the
 * processor (it has variants with FMA), so the results of libm are checked to 1 unit in the last place. */
#include "guest.h"
#include <fenv.h>
#include <float.h>
#include <math.h>

static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
static double sums[4];
static long double wide_sums[4];
static float narrow_sums[4];

static void *add_up(void *argument) {
    long self = (long)argument;
    volatile double sum = 0;
    volatile long double wide = 0;
    volatile float narrow = 0;
    CHECK(fesetround(modes[self]) == 0);
    for (int i = 1; i <= 200; i++) {
        sum += 1.0 / i;
        wide += 1.0L / i;
        narrow += 1.0F / i;
    }
    CHECK(fegetround() == modes[self]);
    sums[self] = sum;
    wide_sums[self] = wide;
    narrow_sums[self] = narrow;
    return NULL;
}

static int near(double found, double expected) {
    return found >= nextafter(expected, -INFINITY) && found <= nextafter(expected, INFINITY);
}

static void check_libm(void) {
    volatile double x = 0.7, big = 1e22;
    CHECK(near(sin(x), 0x1.49d6e694619b8p-1) && near(cos(x), 0x1.87996529f9d93p-1));
    CHECK(near(exp(x), 0x1.01c2a61268987p+1) && near(log(x), -0x1.6d3c324e13f50p-2));
    CHECK(near(sin(big), -0x1.b453ab76bf397p-1));
    volatile double tiny = DBL_MIN / 4; /* a denormal number */
    CHECK(tiny > 0 && tiny * 4 == DBL_MIN && fpclassify(tiny) == FP_SUBNORMAL);
    CHECK(sqrt(2 * x) == 0x1.2ee73dadc9b57p+0 && fabs(-x) == x && fma(x, x, -(x * x)) == 0x1.47ae147ae1480p-59);
    CHECK(floor(-x) == -1 && ceil(x) == 1 && rint(2.5 + x - x) == 2 && trunc(-2.5) == -2 && lrint(x) == 1);
    volatile long double wide = 0.7L;
    CHECK(sqrtl(wide) * sqrtl(wide) - wide < 1e-18L && isnan(sqrt(-x)) && pow(2, 10) == 1024);
}

int main(void) {
    run_threads(4, add_up);
    for (int i = 0; i < 4; i++)
        printf("float_math: %a %La %a\n", sums[i], wide_sums[i], (double)narrow_sums[i]);
    check_libm();
    printf("float_math: libm as it should be\n");
    return 0;
}
