#!/usr/bin/env python3
"""Derives the polynomials of src/codegen/math_tables.h (needs mpmath).

Each is the minimax polynomial of a function under a weight (Remez's exchange on a fine Chebyshev grid). The leading
coefficients are rounded to the working type one after another, and the rest is fitted again, so that the rounding of large
coefficients is made up for by small ones. Run: tools/minimax.py | clang-format-19 > src/codegen/math_tables.h
"""
import struct
import sys

from mpmath import mp, mpf, matrix, lu_solve, pi, cos, exp, expm1, log, sin, atan, asin, erf, erfc, sqrt, floor, ldexp, inf

mp.dps = 50


def round_f64(x):
    return mpf(float(x))


def round_f32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def fit(xs, fs, ws, powers):
    """Minimax sum(c[k] x^powers[k]) of values fs with weights ws on the grid xs."""
    n = len(powers)
    reference = [round((i + 0.5) * (len(xs) - 1) / (n + 1)) for i in range(n + 1)]
    table = [[x**p for p in powers] for x in xs]
    for _ in range(60):
        a, b = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for row, i in enumerate(reference):
            for k in range(n):
                a[row, k] = table[i][k]
            a[row, n] = (-1) ** row / ws[i]
            b[row] = fs[i]
        solution = lu_solve(a, b)
        c, level = [solution[k] for k in range(n)], abs(solution[n])
        errors = [w * (f - sum(t * ck for t, ck in zip(row, c))) for f, w, row in zip(fs, ws, table)]
        extremes = []  # one index per run of equal sign
        for i, e in enumerate(errors):
            if extremes and (errors[extremes[-1]] > 0) == (e > 0):
                if abs(e) > abs(errors[extremes[-1]]):
                    extremes[-1] = i
            else:
                extremes.append(i)
        while len(extremes) > n + 1:
            extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
        worst = max(abs(e) for e in errors)
        if len(extremes) < n + 1 or worst <= level * mpf("1.001"):
            return c, worst
        reference = extremes
    return c, worst


def derive(name, f, low, high, count, round_to, weight=lambda x, fx: 1 / abs(fx), exact=4, points=400):
    low, high = mpf(low), mpf(high)
    xs = [(low + high) / 2 - (high - low) / 2 * cos(pi * (i + mpf("0.5")) / points) for i in range(points)]
    fs = [f(x) for x in xs]
    ws = [weight(x, fx) for x, fx in zip(xs, fs)]
    fixed = []
    for k in range(min(exact, count) + 1):
        rest = [fx - sum(c * x**i for i, c in enumerate(fixed)) for x, fx in zip(xs, fs)]
        c, worst = fit(xs, rest, ws, list(range(len(fixed), count)))
        if k < min(exact, count - 1):
            fixed.append(round_to(c[0]))
        else:
            break
    coefficients = fixed + [round_to(ck) for ck in c]
    error = max(w * abs(fx - sum(ck * x**i for i, ck in enumerate(coefficients))) for x, fx, w in zip(xs, fs, ws))
    print(f"/* error 2^{float(log(error, 2)):.1f} on [{float(low):.6g}, {float(high):.6g}] */")
    print(f"static const double {name}[] = {{")
    for i in range(0, count, 4):
        print("    " + ", ".join(float(c).hex() for c in coefficients[i:i + 4]) + ",")
    print("};")


def series(f, terms, small):
    """f away from 0; near 0, where f loses digits, its power series."""
    return lambda x: sum(t * x**i for i, t in enumerate(terms)) if abs(x) < small else f(x)


def factorial_series(start, step, sign, n=12):
    return [sign**i / mp.factorial(start + step * i) for i in range(n)]


def parts(value, *bits):
    """value as a sum of pieces of so many significant bits, the last one rounded to f64."""
    out = []
    for b in bits:
        scale = b - 1 - int(floor(log(abs(value), 2)))
        piece = ldexp(floor(ldexp(value, scale)), -scale)
        out.append(piece)
        value -= piece
    return [float(p).hex() for p in out + [round_f64(value)]]


def main():
    print("/* Written by tools/minimax.py; do not edit. */")
    print("#ifndef TENON_CODEGEN_MATH_TABLES_H\n#define TENON_CODEGEN_LLVM_MATH_TABLES_H\n\n#include <stdint.h>\n")
    half_ln2 = log(2) / 2 * mpf("1.0001")
    e2 = series(lambda r: (exp(r) - 1 - r) / r**2, factorial_series(2, 1, 1), mpf("1e-3"))
    for suffix, count, rounding in (("f32", 5, round_f32), ("f64", 11, round_f64), ("narrow", 7, round_f64)):
        print(f"/* (exp(r) - 1 - r) / r^2 */")
        derive(f"exp_{suffix}", e2, -half_ln2, half_ln2, count, rounding, lambda x, fx: x**2 / abs(expm1(x)) if x else mpf(0))
    print("/* (2^r - 1) / r */")
    power = series(lambda r: expm1(r * log(2)) / r, [log(2) ** (i + 1) / mp.factorial(i + 1) for i in range(12)], mpf("1e-3"))
    derive("exp2_f32", power, mpf("-0.5005"), mpf("0.5005"), 6, round_f32, lambda r, _: abs(r) / 2 ** r)
    print("/* (log(1 + f) - f + f^2 / 2) / f^3 */")
    l3 = series(lambda f: (log(1 + f) - f + f**2 / 2) / f**3, [mpf((-1) ** i) / (i + 3) for i in range(24)], mpf("1e-2"))
    derive("log_f32", l3, sqrt(mpf(2)) / 2 - 1, sqrt(mpf(2)) - 1, 9, round_f32, lambda f, _: abs(f**3 / log(1 + f)))
    print("/* log((1 + s) / (1 - s)) = 2 s + s^3 L(s^2), less by one term for log_tail: L = 2/3 + z T(z) */")
    smax = ((sqrt(mpf(2)) - 1) / (sqrt(mpf(2)) + 1)) ** 2 * mpf("1.0001")
    atanh2 = lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) - 2 * sqrt(z)) / sqrt(z) ** 3
    derive("log_f64", series(atanh2, [mpf(2) / (2 * i + 3) for i in range(30)], mpf("1e-2")), 0, smax, 7, round_f64, lambda z, _: z if z else mpf(0))
    derive("log_narrow", series(atanh2, [mpf(2) / (2 * i + 3) for i in range(30)], mpf("1e-2")), 0, smax, 4, round_f64, lambda z, _: z if z else mpf(0))
    tail = lambda z: (atanh2(z) - mpf(2) / 3) / z
    derive("log_tail_f64", series(tail, [mpf(2) / (2 * i + 5) for i in range(30)], mpf("1e-2")), 0, smax, 8, round_f64, lambda z, _: z**2 if z else mpf(0))
    quarter = (pi / 4 * mpf("1.0001")) ** 2
    sin3 = series(lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, [-t for t in factorial_series(3, 2, -1)], mpf("1e-3"))
    cos4 = series(lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, factorial_series(4, 2, -1), mpf("1e-3"))
    for suffix, count, rounding in (("f32", 3, round_f32), ("f64", 6, round_f64), ("narrow", 4, round_f64)):
        print("/* sin(r) = r + r^3 S(r^2), cos(r) = 1 - r^2 / 2 + r^4 C(r^2) */")
        derive(f"sin_{suffix}", sin3, 0, quarter, count, rounding, lambda z, _: z)
        derive(f"cos_{suffix}", cos4, 0, quarter, count, rounding, lambda z, _: z**2)
    print("/* atan(u) = u + u^3 A(u^2) */")
    atan3 = series(lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, [-mpf((-1) ** i) / (2 * i + 3) for i in range(40)], mpf("1e-2"))
    derive("atan_f64", atan3, 0, (sqrt(mpf(2)) - 1) ** 2 * mpf("1.0001"), 12, round_f64, lambda z, _: z)
    derive("atan_narrow", atan3, 0, (sqrt(mpf(2)) - 1) ** 2 * mpf("1.0001"), 6, round_f64, lambda z, _: z)
    print("/* asin(x) = x + x^3 A(x^2) */")
    asin_terms = [mp.binomial(2 * i, i) / mpf(4) ** i / (2 * i + 1) for i in range(1, 40)]
    asin3 = series(lambda z: (asin(sqrt(z)) / sqrt(z) - 1) / z, asin_terms, mpf("1e-2"))
    derive("asin_f64", asin3, 0, mpf("0.25"), 13, round_f64, lambda z, _: z)
    derive("asin_narrow", asin3, 0, mpf("0.25"), 7, round_f64, lambda z, _: z)
    print("/* tanh(x) = x + x^3 T(x^2), |x| <= 0.55 */")
    tanh3 = series(lambda z: (mp.tanh(sqrt(z)) / sqrt(z) - 1) / z, [-mpf(1) / 3, mpf(2) / 15, -mpf(17) / 315, mpf(62) / 2835], mpf("1e-4"))
    derive("tanh_f32", tanh3, 0, mpf("0.55") ** 2, 5, round_f32, lambda z, _: z)
    print("/* erf(x) = x + x E(x^2), |x| <= 1 */")
    erf_terms = [2 / sqrt(pi) * mpf((-1) ** i) / (mp.factorial(i) * (2 * i + 1)) for i in range(16)]
    erf_terms[0] -= 1
    erf1 = series(lambda z: erf(sqrt(z)) / sqrt(z) - 1, erf_terms, mpf("1e-2"))
    near = lambda z, fx: 1 / (1 + fx)
    derive("erf_small_f64", erf1, 0, 1, 13, round_f64, near)
    print("/* -log(erfc(x)) = 9/8 x + x E(x), 0 <= x <= 4 */")
    erf_all = lambda x: -log(erfc(x)) / x - mpf(9) / 8 if x > mpf("1e-6") else 2 / sqrt(pi) - mpf(9) / 8 + 2 * x / pi
    derive("erf_all_f32", erf_all, 0, 4, 9, round_f32, lambda x, _: x * erfc(x) / erf(x), points=300)
    print("/* erfc(x) exp(x^2) = E(t), t = (x - 2) / (x + 2), 1 <= x <= 6.5 */")
    derive("erf_large_f64", lambda t: (lambda x: erfc(x) * exp(x * x))(2 * (1 + t) / (1 - t)), -mpf(1) / 3, mpf("4.5") / mpf("8.5"), 19, round_f64,
           lambda t, _: (lambda x: exp(-x * x))(2 * (1 + t) / (1 - t)))
    print("\n/* Constants as sums of pieces; the first have few bits, so that products with small integers are exact. */")
    for name, value, bits in (("ln2_f32", log(2), (12, 24)), ("ln2_f64", log(2), (40, 53)), ("half_pi_f32", pi / 2, (24, 24)), ("half_pi", pi / 2, (33, 33, 53)),
                              ("pi_dd", pi, (53,)), ("half_pi_dd", pi / 2, (53,)), ("quarter_pi_dd", pi / 4, (53,)), ("two_thirds_dd", mpf(2) / 3, (53,))):
        pieces = parts(value, *bits)
        print(f"static const double {name}[] = {{{', '.join(pieces)}}};")
    mp.prec = 1600
    print("/* 64 zero bits, then the binary digits of 2/pi. */")
    words = [0] + [int(floor(ldexp(2 / pi, 64 * (i + 1)))) % 2**64 for i in range(20)]
    print("static const uint64_t two_over_pi[] = {")
    for i in range(0, len(words), 3):
        print("    " + ", ".join(f"UINT64_C({w:#018x})" for w in words[i:i + 3]) + ",")
    print("};\n\n#endif")


if __name__ == "__main__":
    sys.exit(main())
