# SPDX-License-Identifier: Apache-2.0
"""Declarations as PyTorch says them, for those that it has a natural form of: what somebody would write who knows it."""

import declaration_cases

try:
    import torch
    from torch.nn import functional as F
except ImportError:  # 5 GB, which ./dev does not install
    torch = F = None


def edge(image, width):
    return F.pad(image[None], (width,) * 4, mode="replicate")[0]


def box_blur_edges(I):
    E = edge(I, 1)
    X = E[:, :-2] + E[:, 1:-1] + E[:, 2:]
    return (X[:-2] + X[1:-1] + X[2:]) / 9


def unsharp(I):
    weights = torch.tensor([0.03599398, 0.10934005, 0.21296534, 0.26596152, 0.21296534, 0.10934005, 0.03599398])
    gray = 0.299 * I[0] + 0.587 * I[1] + 0.114 * I[2]
    down = F.conv2d(edge(gray, 3)[None, None], weights[None, None, :, None])
    blurred = F.conv2d(down, weights[None, None, None])[0, 0]
    return (2 * gray - blurred) / gray * I


def harris(I):
    red, green, blue = I[:, 16:-16, 32:-32]
    gray = (0.299 * red + 0.587 * green + 0.114 * blue)[None, None]
    across = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 12
    X, Y = F.conv2d(gray, torch.stack([across, across.T])[:, None])[0]
    A, B, C = F.avg_pool2d(torch.stack([X * X, Y * Y, X * Y]), 3, 1, divisor_override=1)
    return A * B - C * C - 0.04 * (A + B) ** 2


def max_window(I, reach):
    """The same in rows and in columns: less work than a square window."""
    size, inside = 2 * reach + 1, I[None, None]
    return F.max_pool2d(F.max_pool2d(inside, (size, 1), 1, (reach, 0)), (1, size), 1, (0, reach))[0, 0]


def convolution_last(I, W, B):
    images = I.permute(0, 3, 1, 2)
    weights = W.permute(3, 0, 1, 2).contiguous(memory_format=torch.channels_last)
    return F.relu(F.conv2d(images, weights, B)).permute(0, 2, 3, 1)


def separable_convolution(I, W, P, B):
    depthwise = F.conv2d(I.permute(0, 3, 1, 2), W.permute(2, 0, 1)[:, None], padding=1, groups=31)
    return F.relu(F.conv2d(depthwise, P.T[:, :, None, None], B)).permute(0, 2, 3, 1)


def heat_step(U):
    return 0.6 * U[1:-1, 1:-1] + 0.1 * (U[:-2, 1:-1] + U[2:, 1:-1] + U[1:-1, :-2] + U[1:-1, 2:])


def heat_4_steps(U):
    for _ in range(4):
        U = heat_step(U)
    return U


def heat_3d(U):
    c = slice(1, -1)
    return 0.4 * U[c, c, c] + 0.1 * (U[:-2, c, c] + U[2:, c, c] + U[c, :-2, c] + U[c, 2:, c] + U[c, c, :-2] + U[c, c, 2:])


def wave(U, P):
    c = U[1:-1, 1:-1]
    return 2 * c - P[1:-1, 1:-1] + 0.2 * (U[:-2, 1:-1] + U[2:, 1:-1] + U[1:-1, :-2] + U[1:-1, 2:] - 4 * c)


def bodies(P, m):
    D = P[:, None, :] - P[:, :, None]
    return torch.einsum("cij,ij->ci", D, torch.rsqrt((D * D).sum(0) + 0.01) ** 3 * m)


def upwind(U, A):
    u, a = U[:, 1:-1], A[:, 1:-1]
    return u - 0.2 * (a.clamp(min=0) * (u - U[:, :-2]) + a.clamp(max=0) * (U[:, 2:] - u))


def shortest_paths(D):
    E = D.clone()
    for k in range(len(E)):
        torch.minimum(E, E[:, k, None] + E[k], out=E)
    return E


def fourier(X):
    spectrum = torch.fft.fft(X)
    return spectrum.real, -spectrum.imag


def norm_gradient(X, g, dY):
    mean, scale = X.mean(1, keepdim=True), torch.rsqrt(X.var(1, correction=0, keepdim=True) + 1e-5)
    dX, dg, _ = torch.ops.aten.native_layer_norm_backward(dY, X, [X.shape[1]], mean, scale, g, None, [True, True, False])
    return dX, dg


def pool_gradient(X, dY):
    M = F.max_pool2d(X, 2)
    return torch.where(X == M.repeat_interleave(2, 1).repeat_interleave(2, 2), dY.repeat_interleave(2, 1).repeat_interleave(2, 2), 0)


def cross_entropy(X, t):
    return torch.softmax(X, 1) - F.one_hot(t, X.shape[1])


TORCH = {
    "box_blur_edges": box_blur_edges, "unsharp": unsharp, "harris": harris, "max_window_11": lambda I: max_window(I, 5),
    "max_window_53": lambda I: max_window(I, 26), "convolution_last": convolution_last,
    "convolution_first": lambda I, W, B: F.relu(F.conv2d(I, W, B)), "matrix_product": lambda A, B: A @ B,
    "separable_convolution": separable_convolution,
    "product_nn": lambda A, B: A @ B, "product_nt": lambda A, B: A @ B.T, "product_tn": lambda A, B: A.T @ B,
    "product_tt": lambda A, B: A.T @ B.T, "product_turned": lambda A, B: (A @ B).T, "product_f64": lambda A, B: A @ B,
    "product_batch_last": lambda A, B: torch.einsum("ikb,kjb->ijb", A, B), "product_three": lambda A, w, B: (A * w) @ B,
    "product_complex": lambda Ar, Ai, Br, Bi: (Ar @ Br - Ai @ Bi, Ar @ Bi + Ai @ Br),
    "min_plus": lambda A, B: torch.stack([(row[:, None] + B).amin(0) for row in A]),
    "max_times": lambda A, B: torch.stack([(row[:, None] * B).amax(0) for row in A]),
    "distances": lambda A, B: torch.cdist(A, B, p=1), "triangular": lambda L, B: torch.tril(L) @ B,
    "rank_one": lambda x, y, A: torch.addr(A, x, y), "vector_rows": lambda A, x: A @ x, "vector_columns": lambda A, x: x @ A,
    "quadratic": lambda A, x, y: x @ A @ y, "kronecker": lambda A, B: torch.kron(A, B),
    "experts": lambda X, W, e: torch.bmm(X[:, None], W[e])[:, 0],
    "blur_clamped": box_blur_edges,
    "window_11": lambda I, W: F.conv2d(I[None, None], W[None, None])[0, 0],
    "gamma_table": lambda I, T: T[I.long()], "half_size": lambda I: F.avg_pool2d(I[None], 2)[0],
    "brightness": lambda I, b: (I.int() + b).clamp(0, 255).byte(),
    "turn": lambda X: X.T, "turn_u8": lambda X: X.T, "turn_middle": lambda X: X.permute(2, 1, 0),
    "mirror": lambda X: X.flip(1), "quarter_turn": lambda X: torch.rot90(X, -1),
    "roll": lambda X: torch.roll(X, (-17, -29), (0, 1)), "weave": lambda A, B: torch.stack([A, B], 1).reshape(-1),
    "pixel_shuffle": lambda X: F.pixel_shuffle(X, 3), "lower_triangle": lambda X: torch.tril(X),
    "band": lambda X: torch.triu(torch.tril(X, 3), -3), "frame": lambda X: F.pad(X, (7,) * 4, value=1),
    "reflect": lambda X: F.pad(X[None], (7,) * 4, mode="reflect")[0], "join": lambda A, B: torch.cat([A, B], 1),
    "heat_3d": heat_3d, "heat_4_steps": heat_4_steps, "wave": wave, "bodies": bodies, "upwind": upwind,
    "smooth_exp": lambda X: F.avg_pool2d(torch.exp(torch.sin(X))[None], 3, 1, divisor_override=1)[0],
    "running_sum": lambda X: X.cumsum(0), "running_rows": lambda X: X.cumsum(1), "running_columns": lambda X: X.cumsum(0),
    "running_max": lambda X: X.cummax(1).values, "integral_image": lambda X: X.cumsum(1).cumsum(0),
    "shortest_paths": shortest_paths,
    "sum_all": lambda X: X.sum(), "sum_first": lambda X: X.sum(0), "sum_middle": lambda X: X.sum(1),
    "sum_ends": lambda X: X.sum((0, 2)), "mean_channels_first": lambda X: X.mean(0), "argmax_columns": lambda X: X.argmax(0),
    "argmax_rows": lambda X: X.argmax(1), "variance_columns": lambda X: X.var(0, correction=0),
    "softmax_columns": lambda X: torch.softmax(X, 0), "count_equal": lambda A, B: (A == B).sum(1),
    "any_row": lambda X: (X > 0.9999).any(1), "sum_below": lambda X: torch.tril(X).sum(1),
    "cosine": lambda A, B: F.cosine_similarity(A, B), "fir": lambda X, h: F.conv1d(X[None], h[None, None])[0],
    "decimate": lambda X, h: F.conv1d(X[None], h[None, None], stride=4)[0, :100000], "fourier": fourier,
    "autocorrelation": lambda X: F.conv1d(X[None], X[None, None, :4000])[0],
    "haar": lambda X: ((X[::2] + X[1::2]) * 0.70710678, (X[::2] - X[1::2]) * 0.70710678),
    "histogram": lambda X: torch.bincount(X, minlength=256).int(), "embedding": lambda E, I: F.embedding_bag(I, E, mode="sum"),
    "sparse_rows": lambda V, C, x: (V * x[C]).sum(1),
    "requantise": lambda X, s: (X * s).round().clamp(-128, 127).to(torch.int8),
    "add_saturated": lambda A, B: (A.int() + B).clamp(-32768, 32767).short(),
    "dense_weights": lambda X, dY: X.T @ dY, "dense_input": lambda dY, W: dY @ W.T, "bias": lambda dY: dY.sum(0),
    "convolution_weights": lambda X, dY: torch.nn.grad.conv2d_weight(X, (24, 16, 3, 3), dY),
    "convolution_input": lambda dY, W: torch.nn.grad.conv2d_input((4, 16, 66, 66), W, dY),
    "strided_input": lambda dY, W: F.conv_transpose2d(dY, W, stride=2)[:, :, 1:, 1:],
    "upsample": lambda X, h: F.conv_transpose1d(X[None], h[None, None], stride=3)[0, :300009],
    "transposed_convolution": lambda X, W: F.conv_transpose2d(X[None], W, stride=2)[0, :, 3:135, 3:131],
    "relu_gradient": lambda X, dY: torch.where(X > 0, dY, 0),
    "gelu_gradient": lambda X, dY: torch.ops.aten.gelu_backward(dY, X),
    "softmax_gradient": lambda Y, dY: torch._softmax_backward_data(dY, Y, 1, Y.dtype), "norm_gradient": norm_gradient,
    "pool_gradient": pool_gradient, "cross_entropy": cross_entropy,
    "embedding_gradient": lambda I, dY: torch.zeros(503, 67).index_add_(0, I, dY),
}
