/* The numbers behind elementary functions in f32: how arguments are reduced and the polynomials that follow. Every device
 * computes exp, log, tanh and the others by these, so that they agree as far as rounding lets them; the CPU's code is
 * device/cpu/isa/math.h, and tests/device/cpu/test_math.c holds the bounds.
 *
 * Polynomials are given lowest power first. All were fitted by exchange (least greatest error, weighted so that the error of
 * the result counts), then rounded to f32. In the table, "error" is the polynomial's own, before any rounding of f32.
 *
 *   function   argument, reduced                        formula                                     bound, in ulp
 *   exp        x = n ln 2 + r, |r| <= ln 2 / 2          2^n (1 + r + r^2 EXP(r))      error 2^-28   2
 *   exp2       x = n + r, |r| <= 1/2                    2^n e^(r ln 2)                              2
 *   expm1      as exp                                   2^n (r + r^2 EXP(r)) + (2^n - 1)            3
 *   tanh       m = expm1(2 |x|)                         m / (m + 2), sign of x                      4
 *   sigmoid    e = exp(-|x|)                            1 / (1 + e), or e / (1 + e) below 0         3
 *   log        x = 2^n m, sqrt(1/2) <= m < sqrt(2)      n ln 2 + f - f^2/2 + f^3 LOG(f), f = m - 1  2
 *                                                                                     error 2^-27
 *   log2       as log                                   n + log(m) / ln 2                           3
 *   log1p      as log, of 1 + x; what that sum loses is added to f                                  3
 *   softplus   e = exp(-|x|)                            max(x, 0) + log1p(e)                        3
 *   erf        u = x^2, |x| < ERF_SPLIT                 x + x ABOVE(u) / BELOW(u)     error 2^-31   3
 *              u = |x| beyond, to ERF_MOST              1 - ABOVE(u) / BELOW(u), sign of x
 *                                                                                     error 2^-24.2
 *   sin, cos   x = n pi/2 + r, |r| <= pi/4, in f64      r + r^3 SIN(r^2) or 1 - r^2/2 + r^4 COS(r^2)  2
 *   tan        as sin                                   sin / cos                                   4
 *   pow        in f64: s = (m - 1) / (m + 1)            2^(y (n + s LOG2(s^2)))       error 2^-44   2
 *              2^n e: z = n + r                         2^n POW2(r)                   error 2^-34
 */
#ifndef SINEW_STEP_MATH_H
#define SINEW_STEP_MATH_H

#include <stdint.h>

#define MATH_LOG2E          0x1.715476p+0f
#define MATH_LN2            0x1.62e430p-1f
#define MATH_LN2_HI         0x1.63p-1f /* short, so that its products with whole numbers are exact */
#define MATH_LN2_LO         (-0x1.bd0106p-13f)
#define MATH_SHIFT          0x1.8p23f /* adding it rounds to a whole number, which its low bits then hold */
#define MATH_SQRT_HALF_BITS 0x3f3504f3

/* Beyond these exp is 0 and infinite. */
#define MATH_EXP_LEAST (-104.0f)
#define MATH_EXP_MOST  89.0f
static const float math_exp[] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f, 0x1.1239e2p-7f,
                                 0x1.6a244ep-10f};

static const float math_log[] = {0x1.555554p-2f, -0x1.000228p-2f, 0x1.99a008p-3f, -0x1.547244p-3f,
                                 0x1.22da14p-3f, -0x1.0d8544p-3f, 0x1.055ba6p-3f, -0x1.38b608p-4f};

/* Polynomials of one length for both sides of the split, so that one evaluation with chosen coefficients serves both. */
#define MATH_ERF_SPLIT 1.5625f
#define MATH_ERF_MOST  3.92f /* beyond, erf is 1 */
static const float math_erf_near_above[] = {
    0x1.06eba8p-3f, -0x1.4b0322p-2f, -0x1.11a364p-5f, -0x1.52f7a8p-8f, 0, 0};
static const float math_erf_near_below[] = {1, 0x1.a5baa4p-2f, 0x1.147148p-4f, 0x1.3683e0p-8f,
                                            0x1.642b40p-15f};
static const float math_erf_far_above[] = {0x1.c8d0a6p-3f,  -0x1.397b18p-2f, 0x1.5a0050p-3f,
                                           -0x1.7fad18p-5f, 0x1.ab30acp-8f,  -0x1.7dd9bep-12f};
static const float math_erf_far_below[] = {1, -0x1.14ceccp+1f, 0x1.29232ep+1f, -0x1.181fb0p+0f,
                                           0x1.e1783ap-3f};

/* Reduction of angles in f64: pi/2 as a number of 33 bits, whose products with whole numbers up to 2^20 are exact, and the
 * rest. For larger angles it does not do. */
#define MATH_ANGLE_MOST  1e6f
#define MATH_TWO_OVER_PI 0x1.45f306dc9c883p-1
#define MATH_HALF_PI     0x1.921fb6p+0f
#define MATH_HALF_PI_HI  0x1.921fb544p+0
#define MATH_HALF_PI_LO  0x1.0b4611a626331p-34
static const float math_sin[] = {-0x1.555546p-3f, 0x1.110756p-7f, -0x1.994b44p-13f};
static const float math_cos[] = {0x1.555556p-5f, -0x1.6c16b8p-10f, 0x1.a01118p-16f,
                                 -0x1.242914p-22f};

/* The first bits of 2/pi, for angles of any size in whole numbers (devices without f64). */
static const uint32_t math_two_over_pi[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                            0xdb629599, 0x3c439041, 0xfe5163ab};
/* atan x = x + x^3 ATAN(x^2), |x| <= tan(pi/8); error 2^-28 */
#define MATH_TAN_EIGHTH 0x1.a8279ap-2f
static const float math_atan[] = {-0x1.55554ap-2f, 0x1.999196p-3f, -0x1.23b522p-3f, 0x1.b1ec30p-4f,
                                  -0x1.f1ed8ep-5f};
/* log2 m = s (LOG2_HI + LOG2_LO) + s^3 TAIL(s^2), s as for pow: in two floats where there is no f64; error 2^-32 */
#define MATH_LOG2_HI 0x1.715476p+1f
#define MATH_LOG2_LO 0x1.4ae0c0p-25f
static const float math_log2_tail[] = {0x1.ec709ep-1f, 0x1.277768p-1f, 0x1.a595d0p-2f,
                                       0x1.5c6cf8p-2f};

static const double math_log2[] = {0x1.71547652b8250p+1, 0x1.ec709dc53e07bp-1,
                                   0x1.2776c291793bbp-1, 0x1.a61a30221541dp-2,
                                   0x1.479520e9b322bp-2, 0x1.21b3cd17f30abp-2};
static const double math_pow2[] = {
    0x1.ffffffffa6e70p-1, 0x1.62e42fef6cbacp-1,  0x1.ebfbe0aa45270p-3,  0x1.c6b08e0725785p-5,
    0x1.3b29d885d9327p-7, 0x1.5d87157db6205p-10, 0x1.446ca3af27380p-13, 0x1.00f7d081fc4f5p-16};

#endif
