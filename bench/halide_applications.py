# SPDX-License-Identifier: Apache-2.0
"""The kernels of bench/declarations/applications.te as pipelines of Halide, and a compiler of them.

usage: halide_applications.py KERNEL SCHEDULER PREFIX TASK

writes PREFIX.a and PREFIX.h, with a function KERNEL of Halide's buffers. SCHEDULER is adams2019, mullapudi2016 or expert,
which is a schedule by hand, in the way of Halide's own. TASK is JSON: the parameters as bench_declarations.py reads them,
and the threads to schedule for. A library's answer does not depend on its schedule; only the scheduler's choice does, so
an application is written once. Halide's dimensions are the other way round: the innermost first.
"""

import json
import math
import sys
from pathlib import Path

import halide as hl

x, y, c, k, n, z = (hl.Var(name) for name in ("x", "y", "c", "k", "n", "z"))
x_in, y_in, x_out, k_out = (hl.Var(name) for name in ("x_in", "y_in", "x_out", "k_out"))
GRAY = (0.299, 0.587, 0.114)
LANES = hl.get_host_target().natural_vector_size(hl.Float(32))
TYPES = {"f32": hl.Float(32), "u16": hl.UInt(16), "u8": hl.UInt(8)}


class Image(hl.ImageParam):
    """A parameter, dense and of a known size; `sizes` is as bench_declarations.py reads it, outermost first."""

    def __init__(self, name, sizes, kind):
        super().__init__(TYPES[kind], len(sizes), name)
        self.sizes = sizes
        fix_sizes(self, sizes)


def fix_sizes(buffer, sizes):
    stride = 1
    for i, size in enumerate(reversed(sizes)):
        buffer.dim(i).set_bounds(0, size).set_stride(stride)
        buffer.dim(i).set_estimate(0, size)
        stride *= size


def func(name, axes, value):
    """A stage that is `value` at `axes`."""
    result = hl.Func(name)
    result[axes] = value
    return result


def reduction(name, axes, start, term, combine=lambda a, b: a + b):
    result = func(name, axes, start)
    result[axes] = combine(result[axes], term)
    return result


def bounds_of(image, across, down):
    """For boundary conditions: all that is outside along two of the dimensions."""
    return [(0, size) if i in (across, down) else (hl.Expr(), hl.Expr()) for i, size in enumerate(reversed(image.sizes))]


def edges(image):
    """The image with its edge repeated to all sides."""
    return hl.BoundaryConditions.repeat_edge(image, bounds_of(image, 0, 1))


def gray_of(image, across=0, down=0):
    return sum(weight * image[x + across, y + down, channel] for channel, weight in enumerate(GRAY))


def clamp(value, low, high):
    return hl.max(hl.min(value, high), low)


def mux(index, values):
    """The first value where the index is 0, the second where it is 1, and so on."""
    result = values[-1]
    for i in reversed(range(len(values) - 1)):
        result = hl.select(index == i, values[i], result)
    return result


def box_blur(I):
    X = func("X", [x, y], (I[x, y] + I[x + 1, y] + I[x + 2, y]) // 3)
    O = func("O", [x, y], (X[x, y] + X[x, y + 1] + X[x, y + 2]) // 3)

    def expert():
        O.split(y, y, y_in, 8).vectorize(x, 4 * LANES)
        X.store_at(O, y).compute_at(O, y_in).vectorize(x, 4 * LANES)

    return O, expert


def box_blur_edges(I):
    E = edges(I)
    X = func("X", [x, y], E[x - 1, y] + E[x, y] + E[x + 1, y])
    return func("O", [x, y], (X[x, y - 1] + X[x, y] + X[x, y + 1]) * (1 / 9)), None


def unsharp(I):
    weights = [math.exp(-i * i / 4.5) / (math.sqrt(2 * math.pi) * 1.5) for i in range(4)]

    def gauss(at):
        return weights[0] * at(0) + sum(weights[i] * (at(-i) + at(i)) for i in (1, 2, 3))

    G = func("G", [x, y], gray_of(edges(I)))
    V = func("V", [x, y], gauss(lambda i: G[x, y + i]))
    B = func("B", [x, y], gauss(lambda i: V[x + i, y]))
    S = func("S", [x, y], (2.0 * G[x, y] - B[x, y]) / G[x, y])
    O = func("O", [x, y, c], S[x, y] * I[x, y, c])

    def expert():
        O.bound(c, 0, 3).reorder(c, x, y).split(y, y, y_in, 32).vectorize(x, 2 * LANES).unroll(c)
        G.store_at(O, y).compute_at(O, y_in).vectorize(x, 2 * LANES)
        V.compute_at(O, y_in).vectorize(x, 2 * LANES)
        S.compute_at(O, y_in).vectorize(x, 2 * LANES)

    return O, expert


def harris(I):
    def window(f):
        return sum(f[x + i, y + j] for j in range(3) for i in range(3))

    G = func("G", [x, y], gray_of(I, 32, 16))
    Y = func("Y", [x, y], (G[x, y + 2] - G[x, y] + 2 * (G[x + 1, y + 2] - G[x + 1, y]) + G[x + 2, y + 2] - G[x + 2, y]) * (1 / 12))
    X = func("X", [x, y], (G[x + 2, y] - G[x, y] + 2 * (G[x + 2, y + 1] - G[x, y + 1]) + G[x + 2, y + 2] - G[x, y + 2]) * (1 / 12))
    A, B, C = (func(name, [x, y], window(func(name * 2, [x, y], product)))
               for name, product in (("A", X[x, y] * X[x, y]), ("B", Y[x, y] * Y[x, y]), ("C", X[x, y] * Y[x, y])))
    trace = A[x, y] + B[x, y]
    O = func("O", [x, y], A[x, y] * B[x, y] - C[x, y] * C[x, y] - 0.04 * trace * trace)

    def expert():
        O.split(y, y, y_in, 32).vectorize(x, 2 * LANES)
        for stage in (G, X, Y):
            stage.store_at(O, y).compute_at(O, y_in).vectorize(x, 2 * LANES)

    return O, expert


def stencil_chain(I, steps):
    last = edges(I)
    for step in range(steps):
        last = func(f"S{step}", [x, y], sum(last[x + i, y + j] * ((i + 3) * (j + 3)) for j in range(-2, 3) for i in range(-2, 3)))
    return last, None


def stencil_sums_8(I):
    last = edges(I)
    for step in range(8):
        r = hl.RDom([(0, 5), (0, 5)])
        last = reduction(f"S{step}", [x, y], hl.u16(0), last[x + r.x - 2, y + r.y - 2] * hl.cast(hl.UInt(16), (r.x + 1) * (r.y + 1)))
    return last, None


def max_window(I, reach):
    r, q = hl.RDom([(-reach, 2 * reach + 1)]), hl.RDom([(-reach, 2 * reach + 1)])
    V = reduction("V", [x, y], hl.f32(-1e30), edges(I)[x, y + r], hl.max)
    M = reduction("M", [x, y], hl.f32(-1e30), V[x + q, y], hl.max)
    return func("O", [x, y], M[x, y]), None


def max_disc(I, reach=26):
    runs = [edges(I)]
    for i in range(5):
        runs.append(func(f"M{2 << i}", [x, y], hl.max(runs[i][x, y], runs[i][x, y + (1 << i)])))
    heights = [int(math.sqrt(reach * reach - i * i + 0.25)) for i in range(-reach, reach + 1)]
    columns = {}
    for height in sorted(set(heights)):
        power = int(math.log2(2 * height + 1))
        columns[height] = func(f"C{height}", [x, y], hl.max(runs[power][x, y - height], runs[power][x, y + height + 1 - (1 << power)]))
    result = columns[heights[0]][x - reach, y]
    for i, height in enumerate(heights[1:], 1 - reach):
        result = hl.max(result, columns[height][x + i, y])
    return func("O", [x, y], result), None


def iir_blur(I):
    def columns(source, width, height, name):
        back = hl.Func(name)
        r = hl.RDom([(1, height - 1)])
        row = height - 1 - r
        back[x, y, c] = hl.undef(hl.Float(32))
        back[x, 0, c] = source[x, 0, c]
        back[x, r, c] = 0.9 * back[x, r - 1, c] + 0.1 * source[x, r, c]
        back[x, row, c] = 0.9 * back[x, row + 1, c] + 0.1 * back[x, row, c]
        return func(f"{name}_turned", [x, y, c], back[y, x, c])

    _, height, width = I.sizes
    return columns(columns(I, width, height, "columns"), height, width, "rows"), None


def equalise(I):
    def pixel(channel):
        return hl.f32(I[x, y, channel])

    Y = func("Y", [x, y], sum(weight * pixel(channel) for channel, weight in enumerate(GRAY)))
    N = func("N", [x, y], hl.u8(clamp(Y[x, y] + 0.5, 0.0, 255.0)))
    _, height, width = I.sizes
    r, q = hl.RDom([(0, width), (0, height)]), hl.RDom([(1, 255)])
    T, C = hl.Func("T"), hl.Func("C")
    T[x] = 0
    T[hl.i32(N[r.x, r.y])] += 1
    C[x] = T[0]
    C[q.x] = C[q.x - 1] + T[q.x]
    Q = func("Q", [x, y], hl.f32(C[hl.i32(N[x, y])]) * (255.0 / (width * height)))
    R = func("R", [x, y], (pixel(0) - Y[x, y]) * 0.713)
    B = func("B", [x, y], (pixel(2) - Y[x, y]) * 0.564)
    values = [Q[x, y] + 1.403 * R[x, y], Q[x, y] - 0.714 * R[x, y] - 0.344 * B[x, y], Q[x, y] + 1.773 * B[x, y]]
    return func("O", [x, y, c], hl.u8(clamp(mux(c, values), 0.0, 255.0))), None


def bilateral_grid(I):
    def five(at):
        return at(-2) + at(-1) * 4.0 + at(0) * 6.0 + at(1) * 4.0 + at(2)

    def mix(a, b, t):
        return a + (b - a) * t

    V = func("V", [x, y], clamp(edges(I)[x, y], 0.0, 1.0))
    G = hl.Func("G")
    r = hl.RDom([(0, 8), (0, 8)])
    value = V[8 * x + r.x - 4, 8 * y + r.y - 4]
    G[z, x, y, c] = hl.f32(0.0)
    G[hl.clamp(hl.i32(value * 10.0 + 0.5), 0, 10), x, y, c] += hl.select(c == 0, value, hl.f32(1.0))
    Z = func("Z", [z, x, y, c], five(lambda i: hl.select((z + i >= 0) & (z + i < 11), G[hl.clamp(z + i, 0, 10), x, y, c], 0.0)))
    X = func("X", [z, x, y, c], five(lambda i: Z[z, x + i, y, c]))
    Y = func("Y", [z, x, y, c], five(lambda i: X[z, x, y + i, c]))
    depth = clamp(I[x, y], 0.0, 1.0) * 10.0
    cell = hl.clamp(hl.i32(depth), 0, 10)
    across, down = hl.f32(x % 8) / 8.0, hl.f32(y % 8) / 8.0

    def plane(z):
        rows = [mix(Y[z, x // 8, y // 8 + i, c], Y[z, x // 8 + 1, y // 8 + i, c], across) for i in (0, 1)]
        return mix(*rows, down)

    S = func("S", [x, y, c], mix(plane(cell), plane(cell + 1), depth - hl.f32(hl.i32(depth))))
    return func("O", [x, y], S[x, y, 0] / S[x, y, 1]), None


def nonlocal_means(I):
    E = edges(I)
    differences = (E[x, y, channel] - E[x + n, y + k, channel] for channel in range(3))
    D = func("D", [x, y, n, k], sum(value * value for value in differences))
    r, q = hl.RDom([(-3, 7)]), hl.RDom([(-3, 7)])
    V = reduction("V", [x, y, n, k], hl.f32(0.0), D[x, y + r, n, k])
    B = reduction("B", [x, y, n, k], hl.f32(0.0), V[x + q, y, n, k])
    W = func("W", [x, y, n, k], hl.exp(B[x, y, n, k] * (-1 / (0.12 * 0.12 * 49))))
    A = func("A", [x, y, c], hl.select(c < 3, E[x, y, hl.min(c, 2)], 1.0))
    s = hl.RDom([(-3, 7), (-3, 7)])
    S = reduction("S", [x, y, c], hl.f32(0.0), W[x, y, s.x, s.y] * A[x + s.x, y + s.y, c])
    return func("O", [x, y, c], clamp(S[x, y, c] / S[x, y, 3], 0.0, 1.0)), None


def interpolate(I, levels=6):
    E = edges(I)
    halved = [func("A", [x, y, c], hl.select(c < 3, E[x, y, c] * E[x, y, 3], E[x, y, 3]))]
    for level in range(1, levels):
        before = halved[-1]
        V = func(f"V{level}", [x, y, c], (before[2 * x - 1, y, c] + 2.0 * before[2 * x, y, c] + before[2 * x + 1, y, c]) * 0.25)
        halved.append(func(f"A{level}", [x, y, c], (V[x, 2 * y - 1, c] + 2.0 * V[x, 2 * y, c] + V[x, 2 * y + 1, c]) * 0.25))
    filled = halved[-1]
    for level in reversed(range(levels - 1)):
        V = func(f"X{level}", [x, y, c], (filled[x // 2, y, c] + filled[(x + 1) // 2, y, c]) * 0.5)
        U = func(f"U{level}", [x, y, c], (V[x, y // 2, c] + V[x, (y + 1) // 2, c]) * 0.5)
        filled = func(f"B{level}", [x, y, c], halved[level][x, y, c] + (1.0 - halved[level][x, y, 3]) * U[x, y, c])
    return func("O", [x, y, c], filled[x, y, c] / filled[x, y, 3]), None


def camera_pipe(I, L):
    def image(name, value):
        return func(name, [x, y], value)

    def average(a, b):
        return hl.i16((hl.i32(a) + hl.i32(b) + 1) // 2)

    def gap(a, b):
        return hl.max(a, b) - hl.min(a, b)

    def smoother(a, b, base=(0, 0), tint=None):
        """The average of the pair that differs less, or what the averages of `tint`'s pairs make of `base`."""
        one, other = (average(*a), average(*b)) if tint is None else (
            base - average(*tint[0]) + average(*a), base - average(*tint[1]) + average(*b))
        return hl.select(gap(*a) < gap(*b), one, other)

    def raw(across, down):
        return hl.i16(I[x + across + 34, y + down + 18])

    D = image("D", clamp(raw(0, 0), hl.i16(0), hl.max(hl.max(raw(-2, 0), raw(2, 0)), hl.max(raw(0, -2), raw(0, 2)))))
    GR, RR, BB, GB = (image(name, D[2 * x + i, 2 * y + j])
                      for name, i, j in (("GR", 0, 0), ("RR", 1, 0), ("BB", 0, 1), ("GB", 1, 1)))
    at = (x, y)
    G_R = image("G_R", smoother((GR[x + 1, y], GR[at]), (GB[x, y - 1], GB[at])))
    G_B = image("G_B", smoother((GB[x - 1, y], GB[at]), (GR[x, y + 1], GR[at])))

    def along(name, base, green, colour, i, j):
        return image(name, base[at] - average(green[at], green[x + i, y + j]) + average(colour[at], colour[x + i, y + j]))

    def across(name, base, green, colour, i, j):
        def pairs(f):
            return (f[at], f[x + i, y + j]), (f[x + i, y], f[x, y + j])

        return image(name, smoother(*pairs(colour), base[at], pairs(green)))

    R_GR, B_GR = along("R_GR", GR, G_R, RR, -1, 0), along("B_GR", GR, G_B, BB, 0, -1)
    R_GB, B_GB = along("R_GB", GB, G_R, RR, 0, 1), along("B_GB", GB, G_B, BB, 1, 0)
    R_B, B_R = across("R_B", G_B, G_R, RR, -1, 1), across("B_R", G_R, G_B, BB, 1, -1)

    def mosaic(name, *four):
        a, b, c, d = (f[x // 2, y // 2] for f in four)
        return image(name, hl.select(y % 2 == 0, hl.select(x % 2 == 0, a, b), hl.select(x % 2 == 0, c, d)))

    R, G, B = mosaic("R", R_GR, RR, R_B, R_GB), mosaic("G", GR, G_R, G_B, GB), mosaic("B", B_GR, B_R, BB, B_GB)
    rows = [(430, -120, -40, -20), (-60, 380, -50, -10), (-10, -130, 420, -30)]
    values = [(hl.i32(R[at]) * r + hl.i32(G[at]) * g + hl.i32(B[at]) * b + more) // 256 for r, g, b, more in rows]
    C = func("C", [x, y, c], hl.i16(mux(c, values)))
    return func("O", [x, y, c], L[hl.i32(clamp(C[x, y, c], hl.i16(0), hl.i16(1023)))]), None


def local_laplacian(I, levels=5, images=8):
    def halved(f, name, rest):
        def four(at):
            return (at(-1) + 3.0 * (at(0) + at(1)) + at(2)) * 0.125

        V = func(f"{name}_x", [x, y, *rest], four(lambda i: f[(2 * x + i, y, *rest)]))
        return func(name, [x, y, *rest], four(lambda i: V[(x, 2 * y + i, *rest)]))

    def doubled(f, name, rest):
        V = func(f"{name}_x", [x, y, *rest], 0.25 * f[(x // 2 - 1 + 2 * (x % 2), y, *rest)] + 0.75 * f[(x // 2, y, *rest)])
        return func(name, [x, y, *rest], 0.25 * V[(x, y // 2 - 1 + 2 * (y % 2), *rest)] + 0.75 * V[(x, y // 2, *rest)])

    G = func("G", [x, y], gray_of(edges(I)))
    steps = (images - 1) * 256
    distance = hl.f32(x) / 256.0
    T = func("T", [x], 0.125 * distance * hl.exp(-distance * distance / 2.0))
    brightness = hl.f32(k) / (images - 1.0)
    M = func("M", [x, y, k], G[x, y] - brightness + brightness + T[hl.clamp(hl.i32(G[x, y] * float(steps)), 0, steps) - 256 * k])
    all_images, image = [M], [G]
    for level in range(1, levels):
        all_images.append(halved(all_images[-1], f"M{level}", [k]))
        image.append(halved(image[-1], f"G{level}", []))
    result = None
    for level in reversed(range(levels)):
        details = all_images[level]
        if level < levels - 1:
            coarse = doubled(all_images[level + 1], f"U{level}", [k])
            details = func(f"D{level}", [x, y, k], details[x, y, k] - coarse[x, y, k])
        position = image[level][x, y] * (images - 1.0)
        index = hl.clamp(hl.i32(position), 0, images - 2)
        part = position - hl.f32(index)
        chosen = func(f"C{level}", [x, y], (1.0 - part) * details[x, y, index] + part * details[x, y, index + 1])
        below = result
        result = chosen if below is None else func(f"R{level}", [x, y], doubled(below, f"Y{level}", [])[x, y] + chosen[x, y])
    return func("O", [x, y, c], result[x, y] * (I[x, y, c] + 0.01) / (G[x, y] + 0.01)), None


def linear_blur(I):
    def linear(value):
        return hl.select(value <= 0.04045, value / 12.92, hl.pow((value + 0.055) / 1.055, 2.4))

    def encoded(value):
        return hl.select(value <= 0.0031308, value * 12.92, 1.055 * hl.pow(value, 1 / 2.4) - 0.055)

    E = func("E", [x, y, c], linear(edges(I)[x, y, c]))
    X = func("X", [x, y, c], E[x - 1, y, c] + E[x, y, c] + E[x + 1, y, c])
    return func("O", [x, y, c], encoded((X[x, y - 1, c] + X[x, y, c] + X[x, y + 1, c]) * (1 / 9))), None


def daubechies(I):
    E = edges(I)
    four = [E[2 * x + i, y] for i in (-1, 0, 1, 2)]
    bands = [(0.48296291, 0.83651630, 0.22414387, -0.12940952), (-0.12940952, -0.22414387, 0.83651630, -0.48296291)]
    return func("O", [x, y, c], mux(c, [sum(weight * value for weight, value in zip(band, four)) for band in bands])), None


def resize(I):
    def weights(name, axis):
        centre = (hl.f32(axis) + 0.5) * 0.6
        first = hl.i32(hl.ceil(centre - 2.49))
        t = hl.abs(hl.f32(first + k) + 0.5 - centre)
        cubic = func(name, [axis, k], hl.select(t < 1.0, (1.5 * t - 2.5) * t * t + 1.0,
                                                hl.select(t < 2.0, ((2.5 - 0.5 * t) * t - 4.0) * t + 2.0, 0.0)))
        total = func(f"{name}_sum", [axis], sum(cubic[axis, i] for i in range(4)))
        return first, func(f"{name}_part", [axis, k], cubic[axis, k] / total[axis])

    (down, by_row), (across, by_column) = weights("KY", y), weights("KX", x)
    r, q = hl.RDom([(0, 4)]), hl.RDom([(0, 4)])
    V = reduction("V", [x, y, c], hl.f32(0.0), by_row[y, r] * edges(I)[x, down + r, c])
    S = reduction("S", [x, y, c], hl.f32(0.0), by_column[x, q] * V[across + q, y, c])
    return func("O", [x, y, c], S[x, y, c]), None


def lens_blur(L, R, N, slices=32, focus=13, levels=8, samples=32, reach=10):
    _, height, width = L.sizes
    left, right = edges(L), edges(R)

    def inside(f, size_x, size_y):
        free = [(hl.Expr(), hl.Expr())] * (f.dimensions() - 2)
        return hl.BoundaryConditions.repeat_edge(f, [(0, size_x), (0, size_y), *free])

    def squared(value):
        return value * value

    differences = [hl.min(*(hl.absd(left[x, y, channel], right[x + 2 * z + i, y, channel]) for i in (0, 1))) for channel in range(3)]
    C = func("C", [x, y, z], sum(squared(hl.f32(value)) for value in differences))
    r, s = hl.RDom([(0, slices)]), hl.RDom([(0, slices)])
    S = reduction("S", [x, y], hl.f32(0.0), C[x, y, r])
    Q = reduction("Q", [x, y], hl.f32(0.0), squared(C[x, y, s]))
    confidence = Q[x, y] / slices - squared(S[x, y] / slices)
    pushed = [func("A", [x, y, z, c], hl.select(c == 0, C[x, y, z] * confidence, confidence))]
    sizes = [(width, height)]

    def eighths(at):
        return (at(-1) + 3.0 * (at(0) + at(1)) + at(2)) * 0.125

    for level in range(1, levels):
        before = inside(pushed[-1], *sizes[-1])
        V = func(f"V{level}", [x, y, z, c], eighths(lambda i: before[2 * x + i, y, z, c]))
        pushed.append(func(f"A{level}", [x, y, z, c], eighths(lambda i: V[x, 2 * y + i, z, c])))
        sizes.append(tuple(size // 2 for size in sizes[-1]))
    pulled = pushed[-1]
    for level in reversed(range(levels - 1)):
        below = inside(pulled, *sizes[level + 1])
        V = func(f"W{level}", [x, y, z, c], 0.25 * below[x // 2 - 1 + 2 * (x % 2), y, z, c] + 0.75 * below[x // 2, y, z, c])
        U = func(f"U{level}", [x, y, z, c], 0.25 * V[x, y // 2 - 1 + 2 * (y % 2), z, c] + 0.75 * V[x, y // 2, z, c])
        pulled = func(f"B{level}", [x, y, z, c], 0.5 * U[x, y, z, c] + 0.5 * pushed[level][x, y, z, c])
    cost = func("cost", [x, y, z], pulled[x, y, z, 0] / pulled[x, y, z, 1])
    K, t = hl.Func("K"), hl.RDom([(1, slices - 1)])
    K[x, y] = (0, cost[x, y, 0])
    nearer = cost[x, y, t] < K[x, y][1]
    K[x, y] = (hl.select(nearer, t, K[x, y][0]), hl.select(nearer, cost[x, y, t], K[x, y][1]))
    depth = func("depth", [x, y], K[x, y][0])
    radius = func("radius", [x, y], hl.f32(hl.abs(depth[x, y] - focus)) * 0.5)
    near, wide = inside(radius, width, height), inside(depth, width, height)
    across, down = hl.RDom([(-reach, 2 * reach + 1)]), hl.RDom([(-reach, 2 * reach + 1)])
    farthest_down = reduction("farthest_down", [x, y], hl.f32(0.0), near[x, y + down], hl.max)
    farthest = reduction("farthest", [x, y], hl.f32(0.0), farthest_down[x + across, y], hl.max)
    alpha = func("alpha", [x, y, c], hl.select(c < 3, hl.f32(left[x, y, hl.min(c, 2)]), 255.0))
    p = hl.RDom([(0, samples)])
    v, u = (hl.i32((N[x % 67, y % 61, p, i] - 0.5) * 2.0 * farthest[x, y]) for i in (0, 1))
    sample_x, sample_y = hl.clamp(x + hl.clamp(u, -reach, reach), 0, width - 1), hl.clamp(y + hl.clamp(v, -reach, reach), 0, height - 1)
    distance = hl.f32(u * u + v * v)
    mine, its = squared(radius[x, y]), squared(near[sample_x, sample_y])
    counts = (distance < its) & ((distance < mine) | (wide[sample_x, sample_y] < depth[x, y]))
    G = reduction("G", [x, y, c], alpha[x, y, c], hl.select(counts, 1.0, 0.0) * alpha[sample_x, sample_y, c])
    return func("O", [x, y, c], G[x, y, c] / G[x, y, 3]), None


def convolution_last(I, F, B):
    r = hl.RDom([(0, I.sizes[-1]), (0, 3), (0, 3)])
    P = reduction("P", [k, x, y, n], hl.f32(0.0), F[k, r.z, r.y, r.x] * I[r.x, x + r.z, y + r.y, n])
    O = func("O", [k, x, y, n], hl.max(P[k, x, y, n] + B[k], 0.0))

    def expert():
        vectors, pixels = (4, 5) if LANES == 16 else (3, 4)
        O.split(k, k_out, k, vectors * LANES).split(x, x_out, x, pixels).reorder(k, x, x_out, y, n, k_out)
        O.vectorize(k, LANES).unroll(k).unroll(x)
        P.compute_at(O, x_out).vectorize(k, LANES).unroll(k).unroll(x)
        P.update().reorder(k, x, r.x, r.y, r.z).vectorize(k, LANES).unroll(k).unroll(x)

    return O, expert


def convolution_first(I, F, B):
    r = hl.RDom([(0, I.sizes[1]), (0, 3), (0, 3)])
    P = reduction("P", [x, y, k, n], hl.f32(0.0), F[r.z, r.y, r.x, k] * I[x + r.z, y + r.y, r.x, n])
    return func("O", [x, y, k, n], hl.max(P[x, y, k, n] + B[k], 0.0)), None


def matrix_product(A, B):
    r = hl.RDom([(0, A.sizes[1])])
    P = reduction("P", [x, y], hl.f32(0.0), A[r, y] * B[x, r])
    O = func("O", [x, y], P[x, y])

    def expert():
        vectors, rows = (2, 12) if LANES == 16 else (3, 4)
        O.tile(x, y, x_in, y_in, vectors * LANES, rows).vectorize(x_in, LANES).unroll(x_in).unroll(y_in)
        P.compute_at(O, x).vectorize(x, LANES).unroll(x).unroll(y)
        P.update().reorder(x, y, r).vectorize(x, LANES).unroll(x).unroll(y)

    return O, expert


def separable_convolution(I, F, P, B):
    E = hl.BoundaryConditions.constant_exterior(I, hl.f32(0.0), bounds_of(I, 1, 2))
    r, q = hl.RDom([(0, 3), (0, 3)]), hl.RDom([(0, I.sizes[-1])])
    D = reduction("D", [c, x, y, n], hl.f32(0.0), F[c, r.x, r.y] * E[c, x + r.x - 1, y + r.y - 1, n])
    S = reduction("S", [k, x, y, n], hl.f32(0.0), P[k, q] * D[q, x, y, n])
    return func("O", [k, x, y, n], hl.max(S[k, x, y, n] + B[k], 0.0)), None


PIPELINES = {
    "box_blur": box_blur, "box_blur_edges": box_blur_edges, "unsharp": unsharp, "harris": harris,
    "stencil_chain_8": lambda I: stencil_chain(I, 8), "stencil_chain_32": lambda I: stencil_chain(I, 32),
    "stencil_sums_8": stencil_sums_8, "max_window_11": lambda I: max_window(I, 5),
    "max_window_53": lambda I: max_window(I, 26), "max_disc": max_disc, "iir_blur": iir_blur, "equalise": equalise,
    "equalise_sum": equalise, "bilateral_grid": bilateral_grid, "nonlocal_means": nonlocal_means,
    "interpolate": interpolate, "camera_pipe": camera_pipe, "local_laplacian": local_laplacian,
    "linear_blur": linear_blur, "daubechies": daubechies, "resize": resize, "lens_blur": lens_blur,
    "convolution_last": convolution_last, "convolution_first": convolution_first, "matrix_product": matrix_product,
    "separable_convolution": separable_convolution,
}
EXPERTS = ("box_blur", "unsharp", "harris", "convolution_last", "matrix_product")
# Mullapudi2016 plans for the cache that a core has for itself.
PARAMETERS = {"adams2019": ("Adams2019", {}),
              "mullapudi2016": ("Mullapudi2016", {"last_level_cache_size": "1048576", "balance": "40"})}


def main():
    kernel, scheduler, prefix, task = sys.argv[1:]
    task = json.loads(task)
    images = [Image(*parameter) for parameter in task["inputs"]]
    (_, sizes, _), = task["outputs"]
    result, expert = PIPELINES[kernel](*images)
    fix_sizes(result.output_buffer(), sizes)
    for axis, size in zip(result.args(), reversed(sizes)):
        result.set_estimate(axis, 0, size)
    pipeline, target = hl.Pipeline(result), hl.get_host_target()
    if scheduler == "expert":
        expert()
    else:
        hl.load_plugin(str(Path(hl.__file__).parent / "lib64" / f"libautoschedule_{scheduler}.so"))
        name, parameters = PARAMETERS[scheduler]
        pipeline.apply_autoscheduler(target, hl.AutoschedulerParams(name, parameters | {"parallelism": str(task["threads"])}))
    pipeline.compile_to_static_library(prefix, images, kernel, target)


if __name__ == "__main__":
    main()
