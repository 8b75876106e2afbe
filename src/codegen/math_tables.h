/* Written by tools/minimax.py; do not edit. */
#ifndef TENON_CODEGEN_MATH_TABLES_H
#define TENON_CODEGEN_MATH_TABLES_H

#include <stdint.h>

/* (exp(r) - 1 - r) / r^2 */
/* error 2^-26.1 on [-0.346608, 0.346608] */
static const double exp_f32[] = {
    0x1.fffffe0000000p-2, 0x1.5554aa0000000p-3, 0x1.55579e0000000p-5, 0x1.122c7a0000000p-7, 0x1.6ab2ba0000000p-10,
};
/* (exp(r) - 1 - r) / r^2 */
/* error 2^-59.6 on [-0.346608, 0.346608] */
static const double exp_f64[] = {
    0x1.0000000000000p-1,  0x1.5555555555559p-3,  0x1.555555555555ap-5,  0x1.111111110f70dp-7,
    0x1.6c16c16c14e61p-10, 0x1.a01a01af474a7p-13, 0x1.a01a01a098fcap-16, 0x1.71ddfaed2fd87p-19,
    0x1.27e50ba97e700p-22, 0x1.af58b61900ce0p-26, 0x1.1eefd47477f95p-29,
};
/* (exp(r) - 1 - r) / r^2 */
/* error 2^-37.5 on [-0.346608, 0.346608] */
static const double exp_narrow[] = {
    0x1.0000000017128p-1,  0x1.555555734f930p-3,  0x1.555554f382de7p-5,  0x1.1110b222c5049p-7,
    0x1.6c1766ac3635cp-10, 0x1.a16f62a219151p-13, 0x1.a003be1832c02p-16,
};
/* (2^r - 1) / r */
/* error 2^-26.2 on [-0.5005, 0.5005] */
static const double exp2_f32[] = {
    0x1.62e4300000000p-1, 0x1.ebfb940000000p-3,  0x1.c6af9e0000000p-5,
    0x1.3b68080000000p-7, 0x1.5ef49a0000000p-10, 0x1.17b37a0000000p-13,
};
/* (log(1 + f) - f + f^2 / 2) / f^3 */
/* error 2^-29.3 on [-0.292893, 0.414214] */
static const double log_f32[] = {
    0x1.5555480000000p-2,  -0x1.0000700000000p-2, 0x1.99a5400000000p-3,  -0x1.552f180000000p-3, 0x1.23036a0000000p-3,
    -0x1.0103da0000000p-3, 0x1.eff1140000000p-4,  -0x1.bf2ac40000000p-4, 0x1.b5a85c0000000p-5,
};
/* log((1 + s) / (1 - s)) = 2 s + s^3 L(s^2), less by one term for log_tail: L = 2/3 + z T(z) */
/* error 2^-58.5 on [0, 0.0294402] */
static const double log_f64[] = {
    0x1.5555555555592p-1, 0x1.999999997ff03p-2, 0x1.24924941e3486p-2, 0x1.c71c52124d028p-3,
    0x1.74663d698a461p-3, 0x1.39a1dab4ab963p-3, 0x1.2f045616ddac3p-3,
};
/* error 2^-36.6 on [0, 0.0294402] */
static const double log_narrow[] = {
    0x1.555554fd94a6dp-1,
    0x1.999a7a9b0ad92p-2,
    0x1.2438d32fc6a8ep-2,
    0x1.e2f717a9b4717p-3,
};
/* error 2^-72.5 on [0, 0.0294402] */
static const double log_tail_f64[] = {
    0x1.9999999999996p-2, 0x1.2492492492f51p-2, 0x1.c71c71c5968bep-3, 0x1.745d18295a4e4p-3,
    0x1.3b1364c7c8368p-3, 0x1.11206f7870d40p-3, 0x1.de3d628ec4d54p-4, 0x1.eac642cd8e349p-4,
};
/* sin(r) = r + r^3 S(r^2), cos(r) = 1 - r^2 / 2 + r^4 C(r^2) */
/* error 2^-28.0 on [0, 0.616974] */
static const double sin_f32[] = {
    -0x1.5555460000000p-3,
    0x1.11077c0000000p-7,
    -0x1.9955b60000000p-13,
};
/* error 2^-33.1 on [0, 0.616974] */
static const double cos_f32[] = {
    0x1.55554a0000000p-5,
    -0x1.6c0c1a0000000p-10,
    0x1.99e0ee0000000p-16,
};
/* sin(r) = r + r^3 S(r^2), cos(r) = 1 - r^2 / 2 + r^4 C(r^2) */
/* error 2^-58.0 on [0, 0.616974] */
static const double sin_f64[] = {
    -0x1.5555555555549p-3, 0x1.111111110f8a4p-7,   -0x1.a01a019c15b36p-13,
    0x1.71de357aab93cp-19, -0x1.ae5e6838d81dfp-26, 0x1.5d938377a2ab5p-33,
};
/* error 2^-64.2 on [0, 0.616974] */
static const double cos_f64[] = {
    0x1.555555555554cp-5,   -0x1.6c16c16c1521dp-10, 0x1.a01a019cbf0d3p-16,
    -0x1.27e4f81265067p-22, 0x1.1ee9f1104e864p-29,  -0x1.8fb109e1d3c92p-37,
};
/* sin(r) = r + r^3 S(r^2), cos(r) = 1 - r^2 / 2 + r^4 C(r^2) */
/* error 2^-37.6 on [0, 0.616974] */
static const double sin_narrow[] = {
    -0x1.5555554cb92efp-3,
    0x1.11110895c1444p-7,
    -0x1.a00f9d3523a57p-13,
    0x1.6cd83cdeef52dp-19,
};
/* error 2^-43.2 on [0, 0.616974] */
static const double cos_narrow[] = {
    0x1.5555554f4db73p-5,
    -0x1.6c16b8982e139p-10,
    0x1.a0111fbca9a6ep-16,
    -0x1.242abf710fb07p-22,
};
/* atan(u) = u + u^3 A(u^2) */
/* error 2^-63.8 on [0, 0.17159] */
static const double atan_f64[] = {
    -0x1.5555555555554p-2, 0x1.9999999999583p-3, -0x1.249249246f49fp-3, 0x1.c71c71b44eb1ap-4,
    -0x1.745d144e86d8cp-4, 0x1.3b1364c2bb481p-4, -0x1.110be898b0a9bp-4, 0x1.e1677fdd8d9c2p-5,
    -0x1.ab3a67278f5c3p-5, 0x1.6fde8a6602a34p-5, -0x1.0fc671689e721p-5, 0x1.e81125b23f4eep-7,
};
/* error 2^-35.4 on [0, 0.17159] */
static const double atan_narrow[] = {
    -0x1.555554c89a79fp-2, 0x1.99991a49c2036p-3,  -0x1.247f06ab85ee5p-3,
    0x1.c46805f10d0d9p-4,  -0x1.5b457c5877ef3p-4, 0x1.84f5fc6a0bd4ep-5,
};
/* asin(x) = x + x^3 A(x^2) */
/* error 2^-59.8 on [0, 0.25] */
static const double asin_f64[] = {
    0x1.5555555555578p-3, 0x1.333333332df22p-4,  0x1.6db6db722a81ap-5, 0x1.f1c71a8c074dbp-6, 0x1.6e8bdfd90cc25p-6,
    0x1.1c49df0f33cd6p-6, 0x1.ca2128f168464p-7,  0x1.75787bf69a2a2p-7, 0x1.6185343436dc2p-7, 0x1.e1b2d40f21ee5p-9,
    0x1.64e6375cd9ab6p-6, -0x1.59cda71ec52f6p-6, 0x1.0bd72b4c35e64p-5,
};
/* error 2^-35.8 on [0, 0.25] */
static const double asin_narrow[] = {
    0x1.5555560918bbfp-3, 0x1.3332a80932a73p-4, 0x1.6ddb2663edf9cp-5, 0x1.ed5398d4c0dffp-6,
    0x1.93589458f95e2p-6, 0x1.e9837470a62fdp-8, 0x1.1c33bc7c39b1cp-5,
};
/* tanh(x) = x + x^3 T(x^2), |x| <= 0.55 */
/* error 2^-29.8 on [0, 0.3025] */
static const double tanh_f32[] = {
    -0x1.55554c0000000p-2, 0x1.110d6a0000000p-3, -0x1.b931fc0000000p-5, 0x1.5982760000000p-6, -0x1.9c94900000000p-8,
};
/* erf(x) = x + x E(x^2), |x| <= 1 */
/* error 2^-56.3 on [0, 1] */
static const double erf_small_f64[] = {
    0x1.06eba8214db69p-3,  -0x1.812746b037a25p-2,  0x1.ce2f21a0458d9p-4,  -0x1.b82ce31354da7p-6,
    0x1.565bcd2c65e7fp-8,  -0x1.c02db933d6405p-11, 0x1.f9a3b96e80ca4p-14, -0x1.f4dcf3daab44ep-17,
    0x1.ba693ac49c28fp-20, -0x1.63923d2cda132p-23, 0x1.1329a3590da1fp-26, -0x1.c4f82f3ea11bap-30,
    0x1.3bfda43f4e4bep-33,
};
/* -log(erfc(x)) = 9/8 x + x E(x), 0 <= x <= 4 */
/* error 2^-27.8 on [0, 4] */
static const double erf_all_f32[] = {
    0x1.baea300000000p-9,   0x1.45f2fa0000000p-1,   0x1.a4fa0a0000000p-4,
    -0x1.39c4bc0000000p-6,  -0x1.5b97280000000p-13, 0x1.b6a50e0000000p-10,
    -0x1.4dc2a00000000p-11, 0x1.f2177c0000000p-14,  -0x1.3ae6960000000p-17,
};
/* erfc(x) exp(x^2) = E(t), t = (x - 2) / (x + 2), 1 <= x <= 6.5 */
/* error 2^-61.5 on [-0.333333, 0.529412] */
static const double erf_large_f64[] = {
    0x1.058671b52c776p-2,   -0x1.b57034efd3f71p-2,  0x1.eeea7dc8a7783p-3,   -0x1.437f0b68c3436p-4,
    0x1.e947159bb8eeep-9,   0x1.ca95ed7f8a5fap-8,   -0x1.bc25a5c35a8b7p-11, -0x1.016b9c32cb695p-10,
    0x1.6d46cd5cf0836p-15,  0x1.6def65789827bp-13,  0x1.da65dfd227da2p-16,  -0x1.e59cc395f0e7dp-16,
    -0x1.07a8e8e2aa22ap-15, -0x1.07bc548e6023ep-16, 0x1.47c6419230b15p-13,  0x1.99b980fd33136p-12,
    -0x1.fb65af7f53bbap-13, -0x1.c9caddd5cc429p-10, -0x1.a0be43661a746p-10,
};

/* Constants as sums of pieces; the first have few bits, so that products with small integers are exact. */
static const double ln2_f32[] = {0x1.62e0000000000p-1, 0x1.0bfbe80000000p-15, 0x1.cf79abc9e3b3ap-40};
static const double ln2_f64[] = {0x1.62e42fefa2000p-1, 0x1.9ef35793c7673p-41, 0x1.f97b57a079a19p-103};
static const double half_pi_f32[] = {0x1.921fb40000000p+0, 0x1.4442d00000000p-24, 0x1.8469898cc5170p-48};
static const double half_pi[] = {0x1.921fb54400000p+0, 0x1.0b4611a600000p-34, 0x1.3198a2e037073p-69,
                                 0x1.129024e088a80p-123};
static const double pi_dd[] = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
static const double half_pi_dd[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
static const double quarter_pi_dd[] = {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55};
static const double two_thirds_dd[] = {0x1.5555555555555p-1, 0x1.5555555555555p-55};
/* 64 zero bits, then the binary digits of 2/pi. */
static const uint64_t two_over_pi[] = {
    UINT64_C(0x0000000000000000), UINT64_C(0xa2f9836e4e441529), UINT64_C(0xfc2757d1f534ddc0),
    UINT64_C(0xdb6295993c439041), UINT64_C(0xfe5163abdebbc561), UINT64_C(0xb7246e3a424dd2e0),
    UINT64_C(0x06492eea09d1921c), UINT64_C(0xfe1deb1cb129a73e), UINT64_C(0xe88235f52ebb4484),
    UINT64_C(0xe99c7026b45f7e41), UINT64_C(0x3991d639835339f4), UINT64_C(0x9c845f8bbdf9283b),
    UINT64_C(0x1ff897ffde05980f), UINT64_C(0xef2f118b5a0a6d1f), UINT64_C(0x6d367ecf27cb09b7),
    UINT64_C(0x4f463f669e5fea2d), UINT64_C(0x7527bac7ebe5f17b), UINT64_C(0x3d0739f78a5292ea),
    UINT64_C(0x6bfb5fb11f8d5d08), UINT64_C(0x56033046fc7b6bab), UINT64_C(0xf0cfbc209af4361d),
};

#endif
