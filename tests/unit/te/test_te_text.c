/* The language for declarations: what it says, how it prints, and every way in which a text is refused. */
#include "unit/te_text_check.h"

/* Prints as given, and what was printed prints the same. */
static void prints_as(const char *text, const char *expected) {
  char *first = te_text_print(text);
  assert_string_equal(first, expected);
  char *second = te_text_print(first);
  assert_string_equal(second, first);
  free(first);
  free(second);
}

static void says_everything(void **state) {
  prints_as(
      "kernel gemm_bias_relu(A: f32[M, K], B: f32[K, N], b: f32[N]) -> C: f32[M, N] {\n"
      "  P[i, j] = sum(k: K) A[i, k] * B[k, j]\n"
      "  C[i, j] = max(P[i, j] + b[j], 0)\n"
      "}\n",
      "kernel gemm_bias_relu[M, K, N](A: f32[M, K], B: f32[K, N], b: f32[N]) -> C: f32[M, N] {\n"
      "  P: f32[i: M, j: N] = sum(k: K) A[i, k]*B[k, j]\n"
      "  C: f32[i: M, j: N] = max(P[i, j] + b[j], 0.0f32)\n"
      "}\n");
  /* extents found from strided and shifted use, a reduction inside of an expression */
  prints_as(
      "kernel conv(X: f32[C, H, 32], F: f32[O, C, 3, 3], b: f32[O]) -> Y: f32[O, H - 2, 15] {\n"
      "  P[o, y, x] = sum(c, r, s) X[c, y + r, 2*x + s] * F[o, c, r, s]\n"
      "  Y[o, y, x] = b[o] + (sum(t: 1) P[o, y, x])\n"
      "}\n",
      "kernel conv[C, H, O](X: f32[C, H, 32], F: f32[O, C, 3, 3], b: f32[O]) -> Y: f32[O, H - 2, 15] {\n"
      "  P: f32[o: O, y: H - 2, x: 15] = sum(c: C, r: 3, s: 3) X[c, y + r, x*2 + s]*F[o, c, r, s]\n"
      "  Y.sum: f32[o: O, y: H - 2, x: 15] = sum(t: 1) P[o, y, x]\n"
      "  Y: f32[o: O, y: H - 2, x: 15] = b[o] + Y.sum[o, y, x]\n"
      "}\n");
}

static void pads_and_clamps(void **state) {
  prints_as(
      "kernel blur(X: f32[N]) -> Y: f32[N] {\n"
      "  Y[i] = (pad(X[i - 1], 0) + X[i] + pad(X[i + 1], 0)) / 3 + X[clamp(i + 7, 0, N - 1)]\n"
      "}\n",
      "kernel blur[N](X: f32[N]) -> Y: f32[N] {\n"
      "  Y: f32[i: N] = (select(0 < i, X[i - 1], 0.0f32) + X[i] + select(i < N - 1, X[i + 1], 0.0f32))/3.0f32 + "
      "X[min(N - 1, i + 7)]\n"
      "}\n");
}

/* Beyond the edges of a tensor: no remainder where a position turns once at most, one where it may go on and on, and
 * nothing at all where it is inside. */
static void finds_elements_inside(void **state) {
  prints_as(
      "kernel near(X: f32[N, 8]) -> (A: f32[N, 8], B: f32[N, 8], C: f32[N, 8], D: f32[N, 8]) {\n"
      "  A[i, j] = repeat(X[i - 1, j + 2])\n"
      "  B[i, j] = mirror(X[i - 1, j + 2]) + mirror(X[i - 2, j])\n"
      "  C[i, j] = reflect(X[i, j - 3])\n"
      "  D[i, j] = wrap(X[i + 1, j - 1]) + wrap(X[i - 2, j])\n"
      "}\n",
      "kernel near[N](X: f32[N, 8]) -> (A: f32[N, 8], B: f32[N, 8], C: f32[N, 8], D: f32[N, 8]) {\n"
      "  A: f32[i: N, j: 8] = X[max(0, i - 1), min(7, j + 2)]\n"
      "  B: f32[i: N, j: 8] = X[max(i - 1, -i), min(j + 2, -j + 13)] + X[min(N*2 - (i - 2)%(N*2) - 1, (i - 2)%(N*2)), "
      "j]\n"
      "  C: f32[i: N, j: 8] = X[i, max(j - 3, -j + 3)]\n"
      "  D: f32[i: N, j: 8] = X[select(i < N - 1, i + 1, -N + i + 1), (j + 7)%8] + X[(i - 2)%N, j]\n"
      "}\n");
  prints_as(
      "function mirror(x) = x + 1\n"
      "kernel own(X: f32[N]) -> A: f32[N] { A[i] = mirror(X[i]) }\n",
      "kernel own[N](X: f32[N]) -> A: f32[N] {\n"
      "  A: f32[i: N] = X[i] + 1.0f32\n"
      "}\n");
}

/* Where tensors lie and are computed stays in the text; whoever calls the kernel knows nothing of its memory. */
static void keeps_memory_and_hints(void **state) {
  prints_as(
      "kernel f(A: f32[M, N] strides [1, lda]) -> C: f32[M, N] strides [2 * ldc, 2] {\n"
      "  inline P[i, j] = A[i, j] + 1  store Q[i, j] = exp(P[i, j])  C[i, j] = Q[i, j] * P[i, j]\n"
      "}\n",
      "kernel f[M, N, lda, ldc](A: f32[M, N] strides [1, lda]) -> C: f32[M, N] strides [ldc*2, 2] {\n"
      "  inline P: f32[i: M, j: N] = A[i, j] + 1.0f32\n"
      "  store Q: f32[i: M, j: N] = exp(P[i, j])\n"
      "  C: f32[i: M, j: N] = Q[i, j]*P[i, j]\n"
      "}\n");
  prints_as(
      "kernel g(X: f32[N] strides [s], V: f32[N]) -> (Y: f32[N] over X, W: f32[N] over V) {\n"
      "  store S[i] = scan(i) X[0] then S[i - 1] + X[i]  Y[i] = S[i] + V[i]  W[i] = S[i] - V[i]\n"
      "}\n",
      "kernel g[N, s](X: f32[N] strides [s], V: f32[N]) -> (Y: f32[N] over X, W: f32[N] over V) {\n"
      "  store S: f32[i: N] = scan(i) X[0] then S[i - 1] + X[i]\n"
      "  Y: f32[i: N] = S[i] + V[i]\n"
      "  W: f32[i: N] = S[i] - V[i]\n"
      "}\n");
  prints_as(
      "kernel inner(X: f32[N] strides [s]) -> Y: f32[N] over X { Y[i] = X[i] + 1 }\n"
      "kernel outer(X: f32[M]) -> Y: f32[M] { Y = inner(X) }\n",
      "kernel outer[M](X: f32[M]) -> Y: f32[M] {\n"
      "  Y: f32[i: M] = X[i] + 1.0f32\n"
      "}\n");
  /* `store`, `inline`, `strides` and `over` are names as before where nothing else can be meant. */
  prints_as(
      "kernel f(over: f32[N], strides: f32[N]) -> inline: f32[N] { store[i] = over[i] inline[i] = store[i] + "
      "strides[i] "
      "}\n",
      "kernel f[N](over: f32[N], strides: f32[N]) -> inline: f32[N] {\n"
      "  store: f32[i: N] = over[i]\n"
      "  inline: f32[i: N] = store[i] + strides[i]\n"
      "}\n");
}

/* Names of values: their reductions are computed once, their literals take the type of what they meet. */
static void lets_name_values(void **state) {
  prints_as(
      "kernel soft(X: f32[M, N]) -> Y: f32[M, N] {\n"
      "  Y[i, j] = let m = max(k: N) X[i, k], e = exp(X[i, j] - m) in e / (sum(k: N) exp(X[i, k] - m))\n"
      "}\n",
      "kernel soft[M, N](X: f32[M, N]) -> Y: f32[M, N] {\n"
      "  Y.max: f32[i: M] = max(k: N) X[i, k]\n"
      "  Y.sum: f32[i: M] = sum(k: N) exp(X[i, k] - Y.max[i])\n"
      "  Y: f32[i: M, j: N] = exp(X[i, j] - Y.max[i])/Y.sum[i]\n"
      "}\n");
  /* Of a kernel, also in extents; extents follow from use through names. */
  prints_as(
      "kernel lets(X: f32[2*N], s: f32) -> (Y: f32[N], Z: f32[N / 2], T: f32) {\n"
      "  let h = N / 2  let third = 1 / 3\n"
      "  let wide: i64 = 2\n"
      "  let mean = (sum(k: 2*N) X[k]) / f32(2 * N)\n"
      "  Y[i] = let a = X[2*i], b = X[2*i + 1] in third * (a + b) * s - mean\n"
      "  Z[i: h] = let j = wide * i + 1, q = 2 in q * X[j]\n"
      "  P[i] = let j = 2*i + 1, k = j + 1 in X[k]\n"
      "  T = let v = 3 in sum(k) P[k] * v\n"
      "}\n",
      "kernel lets[N](X: f32[N*2], s: f32[]) -> (Y: f32[N], Z: f32[N/2], T: f32[]) {\n"
      "  mean.sum: f32[] = sum(k: N*2) X[k]\n"
      "  Y: f32[i: N] = 0.33333334f32*(X[i*2] + X[i*2 + 1])*s[] - mean.sum[]/f32(N*2)\n"
      "  Z: f32[i: N/2] = 2.0f32*X[i*2 + 1]\n"
      "  P: f32[i: N - 1] = X[i*2 + 2]\n"
      "  T: f32[] = sum(k: N - 1) P[k]*3.0f32\n"
      "}\n");
  prints_as(
      "kernel f(X: f32[4]) -> Y: f32[4] { let q = 2f32 extern e(X) -> Y: f32[4] { for i in [0, +4) { Y[i] = X[i] * q } "
      "} "
      "}\n",
      "kernel f(X: f32[4]) -> Y: f32[4] {\n"
      "  extern e(X) -> Y: f32[4] {\n    for i in [0, +4) {\n      Y[i] = X[i]*2.0f32\n    }\n  }\n"
      "}\n");
}

/* What pads the terms of a reduction is a tensor of its own, where its margin is known. */
static void pads_before_reducing(void **state) {
  prints_as(
      "kernel conv(X: f32[C, 2*H, 30], F: f32[O, C, 3, 3]) -> Y: f32[O, H, 30] {\n"
      "  Y[o, y: H, x: 30] = sum(c, r: 3, s: 3) pad(X[c, 2*y + r - 1, x + s - 1], 0) * F[o, c, r, s]\n"
      "}\n",
      "kernel conv[C, H, O](X: f32[C, H*2, 30], F: f32[O, C, 3, 3]) -> Y: f32[O, H, 30] {\n"
      "  Y.pad: f32[p0: C, p1: H*2 + 1, p2: 32] = select(0 < p1 && 0 < p2 && p2 < 31, X[p0, p1 - 1, p2 - 1], 0.0f32)\n"
      "  Y: f32[o: O, y: H, x: 30] = sum(c: C, r: 3, s: 3) Y.pad[c, y*2 + r, x + s]*F[o, c, r, s]\n"
      "}\n");
  /* A margin that depends on a dimension, a value that is no number, indices from data: in place. */
  prints_as(
      "kernel near(X: f32[N], e: f32, I: i64[N]) -> (A: f32[N], B: f32[N], C: f32[N]) {\n"
      "  A[i] = sum(k: N) pad(X[i + k], 0)\n"
      "  B[i] = sum(k: 3) pad(X[i + k - 1], e)\n"
      "  C[i: N] = sum(k: 3) pad(X[I[i] + k], 0)\n"
      "}\n",
      "kernel near[N](X: f32[N], e: f32[], I: i64[N]) -> (A: f32[N], B: f32[N], C: f32[N]) {\n"
      "  A: f32[i: N] = sum(k: N) select(i + k < N, X[i + k], 0.0f32)\n"
      "  B: f32[i: N] = sum(k: 3) select(0 < i + k && i + k < N + 1, X[i + k - 1], e[])\n"
      "  C: f32[i: N] = sum(k: 3) select(0 <= k + I[i] && k + I[i] < N, X[k + I[i]], 0.0f32)\n"
      "}\n");
}

/* What nothing shows to be inside is moved to the nearest element. */
static void indices_stay_inside(void **state) {
  prints_as(
      "kernel f(T: f32[N, 8], I: i64[M], J: i32[M]) -> B: f32[M] {\n"
      "  B[i] = T[I[i], i64(J[i])] + T[clamp(I[i], 0, N - 1), 1]\n"
      "}\n",
      "kernel f[N, M](T: f32[N, 8], I: i64[M], J: i32[M]) -> B: f32[M] {\n"
      "  B: f32[i: M] = T[min(N - 1, max(0, I[i])), min(7, max(0, i64(J[i])))] + T[min(N - 1, max(0, I[i])), 1]\n"
      "}\n");
  /* Under conditions that say enough they stay as they are, whatever the condition looks like. */
  prints_as(
      "kernel f(T: f32[N], I: i64[M], X: f32[M]) -> B: f32[M] {\n"
      "  P[i] = select(0 <= I[i] && I[i] < N, T[I[i]], 0) + select(i < 1, 0, X[i - 1])\n"
      "  Q[i: M] = select(!(i < 3 || i >= M - 2), X[i - 3] + X[i + 2], 0)\n"
      "  B[i] = P[i] + Q[i] + select(i > 0 && X[i - 1] > 0, 1, 0)\n"
      "}\n",
      "kernel f[N, M](T: f32[N], I: i64[M], X: f32[M]) -> B: f32[M] {\n"
      "  P: f32[i: M] = select(0 <= I[i] && I[i] < N, T[I[i]], 0.0f32) + select(i < 1, 0.0f32, X[i - 1])\n"
      "  Q: f32[i: M] = select(i < 3 || M < i + 3, 0.0f32, X[i - 3] + X[i + 2])\n"
      "  B: f32[i: M] = P[i] + Q[i] + select(0 < i && 0.0f32 < X[i - 1], 1.0f32, 0.0f32)\n"
      "}\n");
  /* Under those that say too little, and where nothing can be said. */
  prints_as(
      "kernel f(X: f32[M]) -> B: f32[M] {\n"
      "  B[i] = select(i > 0, X[i - 2], X[i + 1]) + X[i % 3]\n"
      "}\n",
      "kernel f[M](X: f32[M]) -> B: f32[M] {\n"
      "  B: f32[i: M] = select(0 < i, X[max(0, i - 2)], X[min(M - 1, i + 1)]) + X[min(M - 1, i%3)]\n"
      "}\n");
}

/* Who writes "unchecked" vouches for them; where nothing would be moved the word is dropped. */
static void unchecked_indices_stay_as_they_are(void **state) {
  prints_as("unchecked kernel f(T: f32[N], I: i64[M]) -> B: f32[M] { B[i] = T[I[i]] }",
            "unchecked kernel f[N, M](T: f32[N], I: i64[M]) -> B: f32[M] {\n  B: f32[i: M] = T[I[i]]\n}\n");
  prints_as("unchecked kernel f[N >= 0, M](T: f32[N], I: i64[M]) -> B: f32[M] { B[i] = T[I[i]] }",
            "unchecked kernel f[N >= 0, M](T: f32[N], I: i64[M]) -> B: f32[M] {\n  B: f32[i: M] = T[I[i]]\n}\n");
  prints_as("unchecked kernel f(T: f32[N]) -> B: f32[N] { B[i] = T[i] }",
            "kernel f[N](T: f32[N]) -> B: f32[N] {\n  B: f32[i: N] = T[i]\n}\n");
  prints_as(
      "unchecked kernel g(T: f32[N], I: i64[M]) -> B: f32[M] { B[i] = T[I[i]] }\n"
      "kernel f(T: f32[N], I: i64[M]) -> C: f32[M] { C = g(T, I) }\n",
      "kernel f[N, M](T: f32[N], I: i64[M]) -> C: f32[M] {\n  C: f32[i: M] = T[min(N - 1, max(0, I[i]))]\n}\n");
}

static void empty_tensors_read_back(void **state) {
  prints_as(
      "kernel f[>= 0, M](A: f32[0, M], X: f32[M]) -> (B: f32[M], C: f32[0]) {\n"
      "  B[i] = X[i] + sum(k: 0) A[k, i]\n"
      "  C[k] = A[k, 0]\n"
      "}\n",
      "kernel f[M, >= 0](A: f32[0, M], X: f32[M]) -> (B: f32[M], C: f32[0]) {\n"
      "  B.sum: f32[i: M] = sum(k: 0) A[k, i]\n"
      "  B: f32[i: M] = X[i] + B.sum[i]\n"
      "  C: f32[k: 0] = A[k, 0]\n"
      "}\n");
  prints_as("\xef\xbb\xbfkernel f[N >= 0](A: f32[N]) -> B: f32[N] { B[i] = A[i] }",
            "kernel f[N >= 0](A: f32[N]) -> B: f32[N] {\n  B: f32[i: N] = A[i]\n}\n");
}

static void reduces(void **state) {
  prints_as(
      "kernel best(X: f32[M, 8]) -> (v: f32[M], at: i32[M], least: i64[M]) {\n"
      "  v[i], at[i] = argmax(k) X[i, k]\n"
      "  least[i] = argmin_last(k) X[i, k]\n"
      "}\n",
      "kernel best[M](X: f32[M, 8]) -> (v: f32[M], at: i32[M], least: i64[M]) {\n"
      "  v: f32[i: M], at: i32[i] = argmax(k: 8) (X[i, k], i32(k))\n"
      "  least.value: f32[i: M], least: i64[i] = argmin_last(k: 8) (X[i, k], k)\n"
      "}\n");
  prints_as(
      "combiner moments((n: f64, m: f64, q: f64), (k: f64, b: f64, r: f64)) =\n"
      "  (n + k, m + b, q + r) from (0, 0, 0)\n"
      "combiner in_order last(a: i32, b: i32) = b from -1\n"
      "kernel stats(X: f64[N], I: i32[N]) -> (count: f64, total: f64, squares: f64, z: i32) {\n"
      "  count, total, squares = moments(i: N) (1, X[i], X[i] * X[i])\n"
      "  z = last(i) I[i]\n"
      "}\n",
      "kernel stats[N](X: f64[N], I: i32[N]) -> (count: f64[], total: f64[], squares: f64[], z: i32[]) {\n"
      "  combiner combine0((n: f64, m: f64, q: f64), (k: f64, b: f64, r: f64)) = (n + k, m + b, q + r) from "
      "(0.0, 0.0, 0.0)\n"
      "  count: f64[], total: f64[], squares: f64[] = combine0(i: N) (1.0, X[i], X[i]*X[i])\n"
      "  combiner in_order combine1(a: i32, b: i32) = b from -1i32\n"
      "  z: i32[] = combine1(i: N) I[i]\n"
      "}\n");
  prints_as(
      "kernel logic(X: bool[4], Y: u8[4]) -> (a: bool, b: u8, c: u8) {\n"
      "  a = any(i) X[i]\n  b = prod(i) Y[i] | 1\n  c = all(i) Y[i]\n}\n",
      "kernel logic(X: bool[4], Y: u8[4]) -> (a: bool[], b: u8[], c: u8[]) {\n"
      "  a: bool[] = any(i: 4) X[i]\n  b: u8[] = prod(i: 4) Y[i] | 1u8\n  c: u8[] = all(i: 4) Y[i]\n}\n");
}

static void scans(void **state) {
  prints_as(
      "kernel run(X: f32[T, D], n: i64) -> (S: f32[T, D], f: i64[T]) {\n"
      "  S[t, j] = scan(t) X[0, j] then S[t - 1, j] * 0.5 + X[t, j]\n"
      "  f[t] = scan(t, 2) n then f[t - 1] + f[t - 2]\n"
      "}\n",
      "kernel run[T, D](X: f32[T, D], n: i64[]) -> (S: f32[T, D], f: i64[T]) {\n"
      "  S: f32[t: T, j: D] = scan(t) X[0, j] then S[t - 1, j]*0.5f32 + X[t, j]\n"
      "  f: i64[t: T] = scan(t, 2) n[] then f[t - 2] + f[t - 1]\n"
      "}\n");
  prints_as(
      "kernel two(X: f32[T]) -> (a: f32[T], b: f32[T]) {\n"
      "  a[t], b[t] = scan(t) (X[t], 1) then (a[t - 1] + b[t - 1], a[t - 1])\n"
      "}\n",
      "kernel two[T](X: f32[T]) -> (a: f32[T], b: f32[T]) {\n"
      "  a: f32[t: T], b: f32[t] = scan(t) (X[t], 1.0f32) then (a[t - 1] + b[t - 1], a[t - 1])\n"
      "}\n");
  prints_as(
      "kernel back(X: f32[T, D]) -> (S: f32[T, D], R: f32[T, D]) {\n"
      "  S[t, j] = scan(-t) X[T - 1, j] then S[t + 1, j] * 0.5 + X[t, j]\n"
      "  R[t, j] = scan(-j, 2) 1 then R[t, j + 1] - R[t, j + 2] + X[t, j + 2]\n"
      "}\n",
      "kernel back[T, D](X: f32[T, D]) -> (S: f32[T, D], R: f32[T, D]) {\n"
      "  S: f32[t: T, j: D] = scan(-t) X[T - 1, j] then S[t + 1, j]*0.5f32 + X[t, j]\n"
      "  R: f32[t: T, j: D] = scan(-j, 2) 1.0f32 then R[t, j + 1] - R[t, j + 2] + X[t, j + 2]\n"
      "}\n");
}

static void steps_of_scans(void **state) {
  prints_as(
      "kernel rnn(X: f32[T, D], V: f32[H, D], W: f32[H, H]) -> h: f32[T, H] {\n"
      "  h[t, i] = scan(t) 0 then tanh((sum(d) V[i, d] * X[t, d]) + sum(k) W[i, k] * h[t - 1, k])\n"
      "}\n",
      "kernel rnn[T, D, H](X: f32[T, D], V: f32[H, D], W: f32[H, H]) -> h: f32[T, H] {\n"
      "  h.sum: f32[t: T, i: H] = sum(d: D) V[i, d]*X[t, d]\n"
      "  h: f32[t: T, i: H] = scan(t) 0.0f32 then\n"
      "    let h.sum_1: f32[i_1: H] = sum(k: H) W[i_1, k]*h[t - 1, k]\n"
      "    in tanh(h.sum[t, i] + h.sum_1[i])\n"
      "}\n");
  prints_as(
      "kernel gate(X: f32[T, H], W: f32[H, H]) -> (c: f32[T, H], h: f32[T, H]) {\n"
      "  c[t, i], h[t, i] = scan(-t, 2) let z = X[t, i] in (z, 0) then\n"
      "    let r[k: H] = exp(X[t, k] + sum(j) W[k, j] * h[t + 1, j]), (v[m: H], p[m]) = argmax(k) (r[k] * W[k, m], "
      "k),\n"
      "        s = r[i] * sum(k) W[i, k] * r[k]\n"
      "    in (s + v[i], select(p[i] > 0, s, c[t + 2, i]))\n"
      "}\n",
      "kernel gate[T, H](X: f32[T, H], W: f32[H, H]) -> (c: f32[T, H], h: f32[T, H]) {\n"
      "  c: f32[t: T, i: H], h: f32[t, i] = scan(-t, 2) (X[t, i], 0.0f32) then\n"
      "    let r.sum: f32[k: H] = sum(j: H) W[k, j]*h[t + 1, j],\n"
      "    r: f32[k: H] = exp(X[t, k] + r.sum[k]),\n"
      "    (v: f32[m: H], p: i64[m]) = argmax(k: H) (r[k]*W[k, m], k),\n"
      "    c.sum: f32[i_1: H] = sum(k: H) W[i_1, k]*r[k]\n"
      "    in (r[i]*c.sum[i] + v[i], select(0 < p[i], r[i]*c.sum[i], c[t + 2, i]))\n"
      "}\n");
  prints_as("kernel catalan() -> C: i64[9] { C[n] = scan(n) 1 then sum(s: n) C[s] * C[n - 1 - s] }",
            "kernel catalan() -> C: i64[9] {\n"
            "  C: i64[n: 9] = scan(n) 1 then\n"
            "    let C.sum: i64[] = sum(s: n) C[s]*C[n - s - 1]\n"
            "    in C.sum[]\n"
            "}\n");
  prints_as("kernel all(X: i64[T]) -> R: i64[T] { R[t] = scan(t, 0) X[t] + sum(s: t) R[s] }",
            "kernel all[T](X: i64[T]) -> R: i64[T] {\n"
            "  R: i64[t: T] = scan(t, 0)\n"
            "    let R.sum: i64[] = sum(s: t) R[s]\n"
            "    in X[t] + R.sum[]\n"
            "}\n");
  /* From a start that may be beyond the end; what is later, up to the end. */
  prints_as("kernel since(X: i64[T]) -> R: i64[T] { R[t] = scan(t, 2) X[t] then sum(s: 1 .. t) R[s] }",
            "kernel since[T](X: i64[T]) -> R: i64[T] {\n"
            "  R: i64[t: T] = scan(t, 2) X[t] then\n"
            "    let R.sum: i64[] = sum(s: max(0, t - 1)) R[s + 1]\n"
            "    in R.sum[]\n"
            "}\n");
  prints_as("kernel back(U: i64[T, T]) -> R: i64[T] { R[t] = scan(-t, 0) 1 - sum(s: t + 1 .. T) U[t, s] * R[s] }",
            "kernel back[T](U: i64[T, T]) -> R: i64[T] {\n"
            "  R: i64[t: T] = scan(-t, 0)\n"
            "    let R.sum: i64[] = sum(s: T - t - 1) U[t, t + s + 1]*R[t + s + 1]\n"
            "    in -R.sum[] + 1\n"
            "}\n");
  /* A padded tensor that may have no elements is none. */
  prints_as("kernel sums(X: f32[N]) -> Y: f32[N] { Y[i] = sum(k: i) pad(X[k - 1], 0) }",
            "kernel sums[N](X: f32[N]) -> Y: f32[N] {\n"
            "  Y: f32[i: N] = sum(k: i) select(0 < k, X[k - 1], 0.0f32)\n"
            "}\n");
}

static void accumulations(void **state) {
  prints_as("kernel count(X: u8[M, N]) -> H: i32[256] { H[b] = sum(i, j) 1 into [i64(X[i, j])] }",
            "kernel count[M, N](X: u8[M, N]) -> H: i32[256] {\n"
            "  H: i32[b: 256] = sum(i: M, j: N) 1i32 into [i64(X[i, j])]\n"
            "}\n");
  /* Whole rows, onto what is there already; a row that the terms read is inside where they are evaluated. */
  prints_as(
      "kernel add(I: i64[N], X: f32[N, D], G: f32[V, D]) -> E: f32[V, D] {\n"
      "  E[v, d] = sum(n) X[n, d] * G[I[n], d] into [I[n], d] from G[v, d]\n"
      "}",
      "kernel add[N, D, V](I: i64[N], X: f32[N, D], G: f32[V, D]) -> E: f32[V, D] {\n"
      "  E: f32[v: V, d: D] = sum(n: N) X[n, d]*G[I[n], d] into [I[n], d] from G[v, d]\n"
      "}\n");
  /* Any combiner, several tensors; an index that is read is moved inside. */
  prints_as(
      "kernel best(S: i64[N], J: i64[N], X: f32[N], B: f32[M]) -> b: f32[M], at: i64[M] {\n"
      "  b[s], at[s] = argmax(i) (X[i], i) into [S[J[i]]] from (B[s], -1)\n"
      "}",
      "kernel best[N, M](S: i64[N], J: i64[N], X: f32[N], B: f32[M]) -> (b: f32[M], at: i64[M]) {\n"
      "  b: f32[s: M], at: i64[s] = argmax(i: N) (X[i], i) into [S[min(N - 1, max(0, J[i]))]] from (B[s], -1)\n"
      "}\n");
  /* A tensor may have the name nevertheless. */
  prints_as(
      "kernel f(X: f32[N, K]) -> C: f32[N] {\n"
      "  S[i: N] = sum(k) X[i, k]\n"
      "  into[i: N] = S[i] + 1\n"
      "  C[i] = into[i]\n"
      "}",
      "kernel f[N, K](X: f32[N, K]) -> C: f32[N] {\n"
      "  S: f32[i: N] = sum(k: K) X[i, k]\n"
      "  into: f32[i: N] = S[i] + 1.0f32\n"
      "  C: f32[i: N] = into[i]\n"
      "}\n");
}

/* Bounds that depend on the element and on data. */
static void ragged_reductions(void **state) {
  prints_as(
      "unchecked kernel rows(start: i64[N + 1], C: i64[Z], V: f32[Z], x: f32[N]) -> y: f32[N] {\n"
      "  y[i] = sum(k: start[i] .. start[i + 1]) V[k] * x[C[k]]\n"
      "}",
      "unchecked kernel rows[N, Z](start: i64[N + 1], C: i64[Z], V: f32[Z], x: f32[N]) -> y: f32[N] {\n"
      "  y: f32[i: N] = sum(k: max(0, -start[i] + start[i + 1])) V[k + start[i]]*x[C[k + start[i]]]\n"
      "}\n");
  prints_as("kernel solve(L: f32[9, 9], x: f32[9]) -> y: f32[9] { y[i] = x[i] - sum(k: i) L[i, k] * x[k] }",
            "kernel solve(L: f32[9, 9], x: f32[9]) -> y: f32[9] {\n"
            "  y.sum: f32[i: 9] = sum(k: i) L[i, k]*x[k]\n"
            "  y: f32[i: 9] = x[i] - y.sum[i]\n"
            "}\n");
  prints_as("kernel middle(x: f32[N]) -> y: f32 { y = sum(k: 2 .. N) x[k] }",
            "kernel middle[N](x: f32[N]) -> y: f32[] {\n"
            "  y: f32[] = sum(k: N - 2) x[k + 2]\n"
            "}\n");
  /* Both at once; what bounds read is moved inside, too. */
  prints_as(
      "kernel columns(start: i64[M], row: i64[Z], V: f32[Z]) -> y: f32[9] {\n"
      "  y[r] = sum(i: M, k: start[i] .. start[row[i]]) V[k] into [row[k]]\n"
      "}",
      "kernel columns[M, Z](start: i64[M], row: i64[Z], V: f32[Z]) -> y: f32[9] {\n"
      "  y: f32[r: 9] = sum(i: M, k: max(0, -start[i] + start[min(M - 1, max(0, row[i]))])) "
      "V[min(Z - 1, max(0, k + start[i]))] into [row[min(Z - 1, max(0, k + start[i]))]]\n"
      "}\n");
}

static void calls(void **state) {
  prints_as(
      "const SLOPE = 0.01 // of negative values\n"
      "const WIDE: i64 = 2 * 4\n"
      "function leaky(x, a) = select(x < 0, a * x, x)\n"
      "kernel dense(X: f32[K], W: f32[N, K]) -> Y: f32[N] {\n"
      "  S[n] = sum(k) X[k] * W[n, k]\n"
      "  Y[n] = leaky(S[n], SLOPE)\n"
      "}\n"
      "kernel pairs[N >= 2](X: f32[2*N]) -> (A: f32[N], B: f32[N]) { A[i] = X[2*i]  B[i] = X[2*i + 1] }\n"
      "kernel net(X: f32[WIDE], W: f32[5, WIDE], V: f32[4, 5]) -> (Y: f32[2], Z: f32[2]) {\n"
      "  Y, Z = pairs[N = 2](dense(dense(X, W), V))\n"
      "}\n",
      "kernel net(X: f32[8], W: f32[5, 8], V: f32[4, 5]) -> (Y: f32[2], Z: f32[2]) {\n"
      "  Y.dense.dense.S: f32[n: 5] = sum(k: 8) X[k]*W[n, k]\n"
      "  Y.dense.dense: f32[n: 5] = select(Y.dense.dense.S[n] < 0.0f32, 0.01f32*Y.dense.dense.S[n], "
      "Y.dense.dense.S[n])\n"
      "  Y.dense.S: f32[n: 4] = sum(k: 5) Y.dense.dense[k]*V[n, k]\n"
      "  Y.dense: f32[n: 4] = select(Y.dense.S[n] < 0.0f32, 0.01f32*Y.dense.S[n], Y.dense.S[n])\n"
      "  Y: f32[i: 2] = Y.dense[i*2]\n"
      "  Z: f32[i: 2] = Y.dense[i*2 + 1]\n"
      "}\n");
}

static void expressions(void **state) {
  prints_as(
      "kernel e(A: f32[N], B: i32[N], C: f16[N]) -> (X: f32[N], Y: i32[N], Z: f16[N], W: bool[N]) {\n"
      "  X[i] = select(0 <= B[i] < 5 && !is_nan(A[i]), exp(-A[i]), f32(-inf)) + pow(2, A[i]) + f32(1/3) + 1e-5\n"
      "  Y[i] = (B[i] << 2 ^ -1) & i32(A[i]) % 7\n"
      "  Z[i] = f16(f32(C[i]) * 0.1) + 2.5\n"
      "  W[i] = bitcast(i32, A[i]) != B[i] || true\n"
      "}\n",
      "kernel e[N](A: f32[N], B: i32[N], C: f16[N]) -> (X: f32[N], Y: i32[N], Z: f16[N], W: bool[N]) {\n"
      "  X: f32[i: N] = select(0i32 <= B[i] && B[i] < 5i32 && !is_nan(A[i]), exp(neg(A[i])), f32(-inf)) + "
      "pow(2.0f32, A[i]) + 0.0f32 + 1e-05f32\n"
      "  Y: i32[i: N] = (B[i] << 2i32 ^ -1i32) & i32(A[i])%7i32\n"
      "  Z: f16[i: N] = f16(f32(C[i])*0.1f32) + 2.5f16\n"
      "  W: bool[i: N] = true\n"
      "}\n");
}

static void externs(void **state) {
  prints_as(
      "kernel x[N >= 0](A: f32[N]) -> V: f32[N] {\n"
      "  extern fill(A) -> V: f32[N], W: i64[2] {\n"
      "    for i in [0, +N) {\n      V[i] = A[i]\n    }\n    W[0] = N\n"
      "  }\n"
      "}\n",
      "kernel x[N >= 0](A: f32[N]) -> V: f32[N] {\n"
      "  extern fill(A) -> V: f32[N], W: i64[2] {\n"
      "    for i in [0, +N) {\n      V[i] = A[i]\n    }\n    W[0] = N\n"
      "  }\n"
      "}\n");
  /* Dimensions that have a value, here one of a kernel that is called, and constants of the file. */
  prints_as(
      "const LAST = 4\n"
      "kernel x(A: f32[N]) -> V: f32[N] { extern fill(A) -> V: f32[N] { for i in [0, +N) { V[i] = A[LAST] } } }\n"
      "kernel y(A: f32[8]) -> W: f32[8] { W = x(A) }\n",
      "kernel y(A: f32[8]) -> W: f32[8] {\n"
      "  extern W.fill(A) -> W: f32[8] {\n"
      "    for i in [0, +8) {\n      W[i] = A[4]\n    }\n"
      "  }\n"
      "}\n");
}

static void extents_follow(void **state) {
  /* Through several stages, shifted where reads begin elsewhere than at 0, and over open dimensions. */
  prints_as(
      "kernel pyramid(X: f32[H, W]) -> Y: f32[H / 4 - 4, W] {\n"
      "  B[y: ?, x: W] = pad(X[y - 1, x], 0) + pad(X[y, x], 0)\n"
      "  D[y: ?, x] = (B[2*y, x] + B[2*y + 1, x]) / 2\n"
      "  E[y: ?, x] = D[2*y - 1, x] + D[2*y + 2, x]\n"
      "  Y[y, x] = E[y - 1, x] + E[y + 1, x]\n"
      "}\n",
      "kernel pyramid[H, W](X: f32[H, W]) -> Y: f32[H/4 - 4, W] {\n"
      "  B: f32[y: H/4*4 - 4, x: W] = select(6 < y, X[y - 7, x], 0.0f32) + select(5 < y, X[y - 6, x], 0.0f32)\n"
      "  D: f32[y: H/4*2 - 2, x: W] = (B[y*2, x] + B[y*2 + 1, x])/2.0f32\n"
      "  E: f32[y: H/4 - 2, x: W] = D[y*2, x] + D[y*2 + 3, x]\n"
      "  Y: f32[y: H/4 - 4, x: W] = E[y, x] + E[y + 2, x]\n"
      "}\n");
  /* Several readers, reads in reductions, below names and functions, under conditions, and at positions of data. */
  prints_as(
      "function third(a, b, c) = (a + b + c) / 3\n"
      "kernel f(X: f32[N], Z: f32[M], I: u8[N]) -> (Y: f32[N], V: f32[M]) {\n"
      "  P[i: ?] = f32(i) * 2\n"
      "  T[v: ?] = f32(v) * 0.5\n"
      "  Y[i] = third(P[i + 1], X[i], let p = T[i64(I[i])] in p * p)\n"
      "  V[i] = select(i > 2, sum(k: 3) P[i - k], Z[i])\n"
      "}\n",
      "kernel f[N, M](X: f32[N], Z: f32[M], I: u8[N]) -> (Y: f32[N], V: f32[M]) {\n"
      "  P: f32[i: max(N, M - 1) + 3] = f32(i - 2)*2.0f32\n"
      "  T: f32[v: 256] = f32(v)*0.5f32\n"
      "  Y: f32[i: N] = (P[i + 3] + X[i] + T[i64(I[i])]*T[i64(I[i])])/3.0f32\n"
      "  V.sum: f32[i: M] = sum(k: 3) P[i - k + 2]\n"
      "  V: f32[i: M] = select(2 < i, V.sum[i], Z[i])\n"
      "}\n");
  /* In kernels that are called, each time anew; of scans, of accumulations and of several tensors. */
  prints_as(
      "kernel g(A: f32[N]) -> B: f32[N - 2] { Q[i: ?] = A[i] B[i] = Q[i + 2] + Q[i] }\n"
      "kernel f(X: f32[N]) -> Y: f32[N - 4] { P = g(X)  R = g[N = N - 2](P) Y[i] = R[i] }\n",
      "kernel f[N](X: f32[N]) -> Y: f32[N - 4] {\n"
      "  P.Q: f32[i: N] = X[i]\n"
      "  P: f32[i: N - 2] = P.Q[i + 2] + P.Q[i]\n"
      "  R.Q: f32[i: N - 2] = P[i]\n"
      "  R: f32[i: N - 4] = R.Q[i + 2] + R.Q[i]\n"
      "  Y: f32[i: N - 4] = R[i]\n"
      "}\n");
  prints_as(
      "kernel f[N >= 0](X: f32[N], U: u8[N]) -> (Y: f32[N], Z: i64[16]) {\n"
      "  S[t: N, x: ?] = scan(t) 1f32 then S[t - 1, x] + 1\n"
      "  H[b: ?] = sum(n) 1 into [i64(U[n]) / 4 - 8]\n"
      "  v[i: ?], k[i] = argmax(j: 4) (f32(j - i), j)\n"
      "  Y[i] = S[i, i - 3] + v[i + 5] + f32(k[i - 1])\n"
      "  Z[i] = H[i - 4]\n"
      "}\n",
      "kernel f[N >= 0](X: f32[N], U: u8[N]) -> (Y: f32[N], Z: i64[16]) {\n"
      "  S: f32[t: N, x: N] = scan(t) 1.0f32 then S[t - 1, x] + 1.0f32\n"
      "  H: i64[b: 16] = sum(n: N) 1 into [i64(U[n])/4 - 4]\n"
      "  v: f32[i: N + 6], k: i64[i] = argmax(j: 4) (f32(-i + j + 1), j)\n"
      "  Y: f32[i: N] = S[i, i] + v[i + 6] + f32(k[i])\n"
      "  Z: i64[i: 16] = H[i]\n"
      "}\n");
}

/* Each with its place. Q0, Qm, Qh and Q1 are fixed to 0, -3, the greatest number and 1. */
static const struct {
  const char *text, *message; /* behind "t.te:" */
} refused[] = {
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i] + C[i] }", "1:50: there is no tensor C here"},
    {"kernel f(Weight: f32[M]) -> B: f32[M] { B[i] = Wieght[i] }",
     "1:48: there is no tensor Wieght here; did you mean Weight?"},
    {"kernel f(A: f32[M]) -> B: f32[M] { P[j] = W[j]  B[i] = A[i] }", "1:43: there is no tensor W here"},
    {"const SCALE = 2\nkernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i] * scale }",
     "2:50: nothing here is called scale; did you mean SCALE?"},
    {"function gelu(x) = x\nkernel f(A: f32[M]) -> B: f32[M] { B[i] = glu(A[i]) }",
     "2:43: there is no operation, function or kernel called glu; did you mean gelu?"},
    /* What other languages have a word for. */
    {"kernel f(A: f32[8, 8]) -> B: f32[8] { B[i] = sum(j < i) A[i, j] }",
     "1:46: behind sum stand the axes that it runs over, names as in (k) or (k: n); what it leaves out is a select in "
     "its term"},
    {"kernel f(A: f32[8]) -> B: f32[8] { B[i] = relu(A[i]) }",
     "1:43: there is no operation, function or kernel called relu; it is written max(x, 0)"},
    {"kernel f(A: f32[8]) -> B: f32 { B = norm(i) A[i] }",
     "1:37: there is no reduction or combiner called norm; the reductions are sum, prod, max, min, any, all, argmax "
     "and "
     "argmin"},
    {"kernel f(A: f32[8]) -> B: f32[8] { B[i] = A[i] > 0 ? A[i] : 0 }",
     "1:52: a choice is written select(condition, a, b)"},
    {"kernel f(A: f32[8]) -> B: f32[8] { B[i] = A[i] ^ 2 }",
     "1:48: ^ does not take f32; a power is pow(x, y), a square x * x"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B = sort(A) }",
     "1:40: there is no operation, function or kernel called sort; did you mean sqrt?"},
    {"kernel f(A: f32[M, K]) -> B: f32[M] { B[i] = mean(k) A[i, k] / 2 }",
     "1:46: there is no reduction or combiner called mean; it is written sum(i: n) x[i] / n"},
    {"kernel f(A: f32[M, K]) -> B: f32[M] { B[i] = agrmax(k) A[i, k] }",
     "1:46: there is no reduction or combiner called agrmax; did you mean argmax?"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i] + c }", "1:50: nothing here is called c"},
    {"import \"a.te\"\nkernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i] }",
     "1:8: an import is of a file beside the one that it stands in, and this text stands in none"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { P[i: ?] = X[i]  Y[i] = P[i - 1] + P[i + 1] }",
     "1:48: index 0 of X goes down to -1, which is outside of the tensor; i runs from -1 up to N, as far as P is read; "
     "pad(...) or select guards it"},
    {"kernel f(X: i32[N]) -> Y: f32[N] { P[i: ?] = f32(i)  Y[i] = P[i64(X[i])] }",
     "1:63: it cannot be told which positions along i of P are read here, so its extent does not follow; state it: i: "
     "EXTENT"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { P[i: ?] = f32(i)  Y[i] = X[i] }",
     "1:38: nothing reads P, so the extent of i does not follow; state it: i: EXTENT"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { Y[i: ?] = X[i] }",
     "1:38: Y is an output, whose extents are stated there: write i without : ?"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { P[i: ?] = X[i]  Y[i] = pad(P[i], 0) }",
     "1:59: pad needs the edges of P, and the extent of i follows from what is read of P; state it: i: EXTENT"},
    {"kernel g(A: f32[N]) -> B: f32[N] { B[i] = A[i] }\n"
     "kernel f(X: f32[N]) -> Y: f32[N] { P[i: ?] = X[i]  Y = g(P) }",
     "2:58: all of the tensor is taken here, and the extent of i follows from what is read of P; state it: i: EXTENT"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = sum(k: ?) X[k] }",
     "1:50: only the extent of a tensor's axis can follow from what is read of it"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { S[t: ?] = scan(t) 1f32 then S[t - 1]  Y[i] = S[i] }",
     "1:38: the scan has its first values where t begins: state the extent, t: EXTENT"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { S[t: N, x: ?] = scan(t) 1f32 then S[t - 1, x - 1]  Y[i] = S[i, i] }",
     "1:81: S reads itself at another position along x, whose extent follows from what is read of it; state it: x: "
     "EXTENT"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { P[i: ?] = f32(i)  Y[i] = P[i*70368744177664*2 + 1] + P[0] }",
     "1:38: P is read along i at a position beyond that of any tensor: 2^48 at most"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = let half = A[i] / 2, square = half * half in haf + square }",
     "1:88: nothing here is called haf; did you mean half?"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = (let half = A[i] / 2 in half) + haf }",
     "1:75: nothing here is called haf"},
    {"kernel f(A: f32[M]) -> B: f32[M] { let half = 0.5  B[i] = A[i] * haf }",
     "1:66: nothing here is called haf; did you mean half?"},
    {"kernel f(A: f32[M, K]) -> B: f32[M] { B[row] = sum(column) A[rwo, colunm] }",
     "1:62: nothing here is called rwo; did you mean row?"},
    {"kernel f(A: f32[M, K]) -> B: f32[M] { B[row] = sum(column) A[row, colunm] }",
     "1:67: nothing here is called colunm; did you mean column?"},
    {"kernel f(A: f32[M]) -> B: f64[M] { B[i] = A[i] }",
     "1:43: a value of type f32 for B, whose elements are f64; f64(...) converts"},
    {"kernel f(A: f32[M], I: i32[M]) -> B: f32[M] { B[i] = A[i] + I[i] }",
     "1:59: the operands of + are of type f32 and i32; f32(...) converts"},
    {"kernel f(A: f32[M], I: i32[M]) -> B: f32[M] { B[i] = A[I[i]] }",
     "1:56: an index is of type i64, not i32; i64(...) converts"},
    {"kernel f(A: i32[M]) -> B: i32[M] { B[i] = A[i] + 0.5 }", "1:50: 0.5 is no number of type i32"},
    {"kernel f(A: i8[M]) -> B: i8[M] { B[i] = A[i] + 200 }", "1:48: 200 does not fit into i8"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i] + 3.5e38 }",
     "1:50: 3.5e38 does not fit into f32; the infinite value is inf"},
    {"kernel f(A: f16[M]) -> B: f16[M] { B[i] = max(A[i], -65520) }",
     "1:54: -65520 does not fit into f16; the infinite value is -inf"},
    {"kernel f(A: f64[M]) -> B: f64[M] { B[i] = A[i] * 1e309 }",
     "1:50: 1e309 does not fit into f64; the infinite value is inf"},
    {"const A: bf16 = 3.4e38\nkernel f(X: f32[4]) -> Y: f32[4] { Y[i] = f32(A) }",
     "1:17: 3.4e38 does not fit into bf16; the infinite value is inf"},
    {"const A = 4294967296\nkernel f(X: f32[A*A+7]) -> Y: f32[4] { Y[i] = X[i] }", "2:18: * does not fit into i64"},
    {"kernel f(X: f32[4]) -> Y: f32[4] { Y[i] = X[(i*4611686018427387904)*4] }", "1:47: * does not fit into i64"},
    {"kernel f(X: f32[N*4294967296*4294967297]) -> Y: f32[4] { Y[i] = X[i] }", "1:29: * does not fit into i64"},
    {"kernel f(X: f32[4/0]) -> Y: f32[4] { Y[i] = X[i] }", "1:18: / by zero"},
    {"kernel f(X: i32[4]) -> Y: i32[4] { Y[i] = X[i] % 0 }", "1:48: % by zero"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = exp(A[i], 2) }", "1:43: exp takes 1 argument, not 2"},
    {"kernel f(A: i32[M]) -> B: i32[M] { B[i] = exp(A[i]) }", "1:43: exp does not take i32; f32(...) converts"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = select(A[i], 1, 0) }",
     "1:50: the condition of select is of type f32, not bool"},
    {"kernel f[M >= -5](A: f32[M]) -> B: f32[M] { B[i] = A[i] }",
     "1:16: expected the least value of a dimension, a whole number from 0 to 2^48"},
    {"kernel f[M >= 562949953421312](A: f32[M]) -> B: f32[M] { B[i] = A[i] }",
     "1:15: expected the least value of a dimension, a whole number from 0 to 2^48"},
    {"kernel f[>= 1](A: f32[4]) -> B: f32[4] { B[i] = A[i] }", "1:14: expected >= 0: extents may be 0"},
    {"kernel f(A: f32[M]) -> B: f32[N] { B[i] = A[i*1000000000000000] }",
     "1:46: an index has a number in it that is larger than any tensor: 2^48 at most"},
    {"kernel f(A: f32[M]) -> B: f32[N] { B[i] = A[select(i < 1, i - 1000000000000000, 0)] }",
     "1:45: an index has a number in it that is larger than any tensor: 2^48 at most"},
    {"kernel f[M, N >= 0](A: f32[N], I: i64[M]) -> B: f32[M] { B[i] = A[I[i]] }",
     "1:58: index 0 of A is not shown to be inside of the tensor, which may have no elements there to take "
     "instead"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) A[0] then select(t % 2 == 0, B[t - 2], 0) + B[t - 1] }",
     "1:36: index 0 of B is not shown to be inside of the tensor under the condition around it; let the scan "
     "start with more positions, as in scan(AXIS, 2)"},
    {"unchecked function f(x) = x", "1:11: expected 'kernel' behind unchecked, not 'function'"},
    {"kernel f(A: f32[M, 4]) -> B: f32[M] { B[i] = A[i] }", "1:46: A has 2 dimensions, not 1"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A }", "1:43: A has 1 dimension: write which element"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[2*i] = A[i] }",
     "1:38: the indices on the left are names: an element is given for every position"},
    {"kernel f(A: f32[M]) -> B: f32[M, 2] { B[i, 0] = A[i] }",
     "1:44: the indices on the left are names: an element is given for every position; what is different at one is "
     "select(i == 0, ..., ...), with a name i for the axis"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i] ** 2 }",
     "1:49: expected an expression, not *; a power is pow(x, y), a square x * x"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i + 1] = A[i] }",
     "1:40: the indices on the left are names: an element is given for every position"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i + 1] }",
     "1:47: index 0 of A goes up to M, and the tensor has M elements there; let i run up to M - 1 instead of M, or "
     "guard it by pad(...) or "
     "select"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i - 1] }",
     "1:47: index 0 of A goes down to -1, which is outside of the tensor; write i + 1 for i on the right and let i run "
     "up to M - 1 "
     "instead of M, or guard it by pad(...) or select"},
    {"kernel f(A: f32[W, H]) -> B: f32[W, H] { B[x, y] = (A[x, y] + A[x+1, y] + A[x+2, y]) / 3 }",
     "1:78: index 0 of A goes up to W + 1, and the tensor has W elements there; let x run up to W - 2 instead of W, or "
     "guard it by pad(...) or select"},
    {"kernel f(A: f32[2*N]) -> B: f32[N] { B[i] = A[2*i + 3] }",
     "1:51: index 0 of A goes up to N*2 + 1, and the tensor has N*2 elements there; let i run up to N - 1 instead of "
     "N, "
     "or guard it by pad(...) or select"},
    {"kernel f[N, K >= 2](A: f32[N], w: f32[K]) -> B: f32[N] { B[i] = sum(k: K) A[i + k] * w[k] }",
     "1:79: index 0 of A goes up to N + K - 2, and the tensor has N elements there; let i run up to N - K + 1 instead "
     "of N, or guard it by pad(...) or select"},
    {"kernel f(A: f32[2]) -> B: f32[2] { B[i] = A[i + 2*i] }",
     "1:47: index 0 of A goes up to 3, and the tensor has 2 elements there; let i run up to 1 instead of 2, or guard "
     "it "
     "by pad(...) or select"},
    {"kernel f(A: f32[4]) -> B: f32[4] { B[i] = A[i*i] }",
     "1:46: index 0 of A goes up to 9, and the tensor has 4 elements there; pad(...) or select guards it"},
    {"kernel f(A: f32[4]) -> B: f32[4] { B[i] = select(i < 2, A[i + 4], 0) }",
     "1:61: index 0 of A is i + 4, which is outside of the tensor everywhere: it has 4 elements there"},
    {"kernel f(A: f32[4]) -> B: f32[4] { B[i] = A[4] }",
     "1:45: index 0 of A is 4, which is outside of the tensor everywhere: it has 4 elements there"},
    {"kernel f(A: f32[M]) -> B: f32 { B = sum(k) A[0] }",
     "1:41: nothing says how far the axis k of the reduction runs; state it: k: EXTENT"},
    {"kernel f(A: f32[M]) -> B: f32 { P[i] = 1.0  B = sum(k) A[k] }",
     "1:35: nothing says how far the axis i of P runs; state it: i: EXTENT"},
    {"kernel f(A: f32[M], B: f32[N]) -> C: f32 { P[i] = A[i] * B[i]  C = sum(k) P[k] }",
     "1:46: the extent of i is M by A and N by B; state it: i: EXTENT"},
    {"kernel f(A: f32[0]) -> B: f32 { B = sum(k) A[k] }", "1:17: dimension 0 of A is 0; it must be at least 1"},
    {"kernel f(A: f32[-2]) -> B: f32 { B = sum(k) A[k] }", "1:18: dimension 0 of A is -2; it must be at least 1"},
    {"kernel f(A: f32[Q0]) -> B: f32 { B = sum(k) A[k] }", "1:17: the dimension Q0 is 0; it must be at least 1"},
    {"kernel f(A: f32[Qm]) -> B: f32 { B = sum(k) A[k] }", "1:17: the dimension Qm is -3; it must be at least 1"},
    {"kernel f(A: f32[Qh]) -> B: f32 { B = sum(k) A[k] }",
     "1:17: the dimension Qh is 9223372036854775807, more than memory can hold"},
    {"kernel f(A: f32[1000000000, 1000000000, 1000]) -> B: f32 { B = sum(k) A[k, 0, 0] }",
     "1:10: A has more elements than memory can hold"},
    /* 2^48 bytes and an element: what a kernel keeps of such sizes still adds up inside of an i64 */
    {"kernel f(A: f32[70368744177665]) -> B: f32 { B = sum(k) A[k] }",
     "1:10: A has more elements than memory can hold"},
    {"kernel f(A: f32[9999999999999999999]) -> B: f32 { B = sum(k) A[k] }",
     "1:17: 9999999999999999999 does not fit into i64"},
    {"kernel f(A: f32[Q1]) -> B: f32[Q1 - 1] { B[i] = A[i] }", "1:35: dimension 0 of B is 0; it must be at least 1"},
    {"kernel f(A: f32[M]) -> B: f32 { B = sum(k: M - M) A[k] }",
     "1:46: the extent of an axis is 0; it must be at least 1"},
    {"kernel f(A: f32[M], A: f32[N]) -> B: f32[M] { B[i] = A[i] }", "1:21: there is a parameter A already"},
    {"kernel f(A: f32[M]) -> A: f32[M] { A[i] = A[i] }", "1:24: there is a parameter A already"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i]  B[i] = A[i] }",
     "1:49: the name B is taken already: it is a tensor"},
    {"kernel f(A: f32[M]) -> B: f32[M] { A[i] = 1 }", "1:36: the name A is taken already: it is a tensor"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[M] = A[M] }",
     "1:38: the name M is taken already: it is an axis or a dimension"},
    {"kernel f(A: f32[M]) -> B: f32[M, M] { B[i, i] = A[i] }", "1:44: the axis i is named twice"},
    {"kernel f(A: f32[M]) -> M: f32[M] { M[i] = A[i] }", "1:24: M is a dimension and a parameter"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = sum(i: 3) A[i] }",
     "1:47: the name i is taken already: it is an axis or a dimension"},
    {"const N = 3\n"
     "const N = 4\n"
     "kernel f(A: f32[N]) -> B: f32[N] { B[i] = A[i] }",
     "2:7: the name N is taken already"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B = f(A) }", "1:40: the recursion has no end: f calls f"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B = g(A) }\n"
     "kernel g(A: f32[M]) -> B: f32[M] { B = h(A) }\n"
     "kernel h(A: f32[M]) -> B: f32[M] { B = f(A) }",
     "3:40: the recursion has no end: f calls g calls h calls f"},
    {"function f(x) = g(x) + 1\n"
     "function g(x) = f(x) * 2\n"
     "kernel k(A: f32[M]) -> B: f32[M] { B[i] = f(A[i]) }",
     "2:17: the recursion has no end: f calls g calls f"},
    {"const a = b\n"
     "const b = a\n"
     "kernel k(A: f32[M]) -> B: f32[M] { B[i] = A[i] + a }",
     "1:11: b is not a constant that stands before a"},
    {"kernel g(A: f32[M], B: f32[M]) -> C: f32[M] { C[i] = A[i] + B[i] }\n"
     "kernel f(A: f32[M], B: f32[N]) -> C: f32[M] { C = g(A, B) }",
     "2:56: B of g has the shape [M] here, not [N]"},
    {"kernel g(A: f32[M], B: f32[M]) -> C: f32[M] { C[i] = A[i] + B[i] }\n"
     "kernel f(A: f32[M], B: f32[N]) -> C: f32[M] { C = g(A) }",
     "2:51: g takes 2 tensors, not 1"},
    {"kernel g(A: f32[2*M]) -> C: f32[M] { C[i] = A[i] }\n"
     "kernel f(A: f32[M]) -> C: f32[M] { C = g(A) }",
     "2:40: the dimension M of g follows from no argument; write g[M = ...](...)"},
    {"kernel f(A: f32[M]) -> (B: f32[M], C: f32[M]) { B[i] = A[i] }", "1:36: the output C is never defined"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = B[i] }", "1:43: there is no tensor B here"},
    {"kernel f(X: i32[N]) -> H: i32[9] { H[b] = sum(i) 1 into [X[i]] }",
     "1:58: an index is of type i64, not i32; i64(...) converts"},
    {"kernel f(X: i64[N]) -> H: i32[9] { H[b] = sum(i) 1 into [Y[i]] }", "1:58: there is no tensor Y here"},
    {"kernel f(X: i64[N]) -> H: i32[9] { H[b] = sum(i) 1 into [X[i], 0] }",
     "1:52: into has 2 indices, and H 1 dimension"},
    {"kernel f(X: i64[N]) -> H: i32[9] { H[b] = sum(i) i32(b) into [X[i]] }",
     "1:50: this depends on the axis b, whose position into computes; keep it by writing b there"},
    {"kernel f(X: i64[N]) -> H: i32[9] { H[b] = sum(i) 1 into [X[i] + b] }",
     "1:63: this depends on the axis b, whose position into computes; keep it by writing b there"},
    {"kernel f(X: i64[N]) -> H: i32[9] { H[b] = 1 + sum(i) 1 into [X[i]] }",
     "1:56: into stands at the end of a statement, behind the reduction that is all of it"},
    {"kernel f(X: i64[N]) -> H: i32[9] { H[b] = sum(i) 1 into [X[i]] from (0, 1) }",
     "1:69: what the elements start from has 2 values; 1 is wanted here"},
    {"kernel f(X: i64[N]) -> H: i32[9] { H[b] = sum(i) 1 into [X[i]] from X[b] }",
     "1:69: a value of type i64 for H, whose elements are i32; i32(...) converts"},
    {"kernel f(X: i64[N]) -> H: i32[9] { H[b] = sum(i) 1 into [X[i] }", "1:63: expected ',' between indices, not '}'"},
    {"kernel f(n: i64[N], X: f32[N]) -> Y: f32[N] { Y[i: 0 .. N] = X[i] }", "1:54: axes of a tensor run from 0 on"},
    {"kernel f(n: i64[N], X: f32[N]) -> Y: f32[N] { Y[i] = sum(k: i..N) X[k] }",
     "1:61: nothing here is called i..N; names may have dots: write a space before .."},
    {"kernel f(n: i64[N], X: f32[N]) -> Y: f32[N] { Y[i] = sum(k: l, l: n[i]) X[l] }",
     "1:61: the bounds of k depend on l, which stands behind it: write l first"},
    {"kernel f(n: i32[N], X: f32[N]) -> Y: f32[N] { Y[i] = sum(k: n[i]) X[k] }",
     "1:61: the extent of an axis is of type i64, not i32; i64(...) converts"},
    {"kernel f(n: i64[N], X: f32[N, N]) -> Y: i64[N] { Y[i] = argmax(k: i, l: N) X[k, l] }",
     "1:57: argmax over k, whose bounds are not the same everywhere: state the index, as in argmax(...) (value, "
     "index)"},
    {"kernel f(n: i64[9], X: f32[9]) -> Y: f32[9] { Y[i] = sum(k: i + 2) X[k] }",
     "1:70: index 0 of X goes up to 9, and the tensor has 9 elements there; let k run up to i + 1 instead of i + 2, or "
     "guard it by pad(...) or select"},
    {"kernel f(X: f32[9]) -> Y: f32 { Y = sum(k: 4 .. 4) X[k] }",
     "1:49: the extent of an axis is 0; it must be at least 1"},
    {"kernel f(X: i64[N]) -> H: i32[9] { K[b] = sum(i) 1 into [X[i]]  H[b] = K[b] }",
     "1:38: nothing says how far the axis b of K runs; state it: b: EXTENT"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) A[t] then B[t] + 1 }",
     "1:61: a scan along t reads B at t, which is not shown to be earlier: write t - 1 or less"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) A[t] then B[t/2] + 1 }",
     "1:61: a scan along t reads B at t/2, which is not shown to be earlier: write t - 1 or less"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) A[t] then B[t - 2] + 1 }",
     "1:61: the scan reads B at position -1; start it with more positions: scan(t, DEPTH) first then ..."},
    {"kernel f(A: f32[1]) -> B: f32[1] { B[t] = scan(t, 2) A[0] then B[t - 2] + A[t] }",
     "1:48: the scan has 2 first positions, and its axis t has 1: no step would follow them; write a longer axis, or "
     "scan(t, DEPTH) with fewer"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(-t) A[t] then B[t - 1] + 1 }",
     "1:62: a scan backwards along t reads B at t - 1, which is not shown to be later: write t + 1 or more"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(-t) A[t] then B[t + 2] + 1 }",
     "1:62: the scan reads B at position M; start it with more positions: scan(-t, DEPTH) first then ..."},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(-t) A[t] then B[t + 1] + A[t + 2] }",
     "1:77: index 0 of A goes up to M, and the tensor has M elements there; pad(...) or select guards it"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(-t) A[0] then select(t % 2 == 0, B[t + 2], 0) + B[t + 1] }",
     "1:36: index 0 of B is not shown to be inside of the tensor under the condition around it; let the scan "
     "start with more positions, as in scan(AXIS, 2)"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(- 1) A[t] then B[t + 1] }",
     "1:50: expected a name for the axis of a scan, not '1'"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(u) A[t] then B[t - 1] + 1 }",
     "1:48: u is no axis of B, which the scan could run along"},
    {"kernel f(W: f32[H, H]) -> h: f32[T, H] { h[t, i] = scan(t) 0 then sum(k) W[i, k] * h[t, k] }",
     "1:84: a scan along t reads h at t, which is not shown to be earlier: write t - 1 or less"},
    {"kernel f(W: f32[T, T]) -> h: f32[T, T] { h[t, i] = scan(t) 0 then sum(k) W[i, k] * h[k, i] }",
     "1:84: a scan along t reads h at k, which is not shown to be earlier: write t - 1 or less"},
    {"kernel f(W: f32[H, H]) -> h: f32[T, H] { h[t, i] = scan(t) 0 then sum(k) W[i, k] * h[t - 2, k] }",
     "1:84: the scan reads h at position -1; start it with more positions: scan(t, DEPTH) first then ..."},
    {"kernel f() -> C: i64[N] { C[n] = scan(n) 1 then sum(s: n + 1) C[s] }",
     "1:63: a scan along n reads C at s, which is not shown to be earlier: write n - 1 or less"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) 0 then let r[k: M] = A[k] * B[t] in r[t] + B[t - 1] }",
     "1:79: a scan along t reads B at t, which is not shown to be earlier: write t - 1 or less"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) 0 then let r[t: M] = A[t] in r[t] + B[t - 1] }",
     "1:64: the name t is taken already: it is an axis or a dimension"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) 0 then let r[k] = A[k] in r[t + 1] + B[t - 1] }",
     "1:81: index 0 of r goes up to M, and the tensor has M elements there; pad(...) or select guards it"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) 0 then let r[k] = A[k] in r[t, 0] + B[t - 1] }",
     "1:77: r has 1 dimension, not 2"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) 0 then let r[k] = A[k] in r + B[t - 1] }",
     "1:77: r has 1 dimension: write which element"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) 0 then let r: f64[k] = A[k] in B[t - 1] }",
     "1:74: a value of type f32 for r, whose elements are f64; f64(...) converts"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) 0 then let B[k] = A[k] in B[t - 1] }",
     "1:62: the name B is taken already: it is a tensor"},
    {"kernel f(A: f32[M]) -> (B: f32[M], C: f32[M]) { B[t] = scan(t) 0 then let C[k] = A[k] in B[t - 1] }",
     "1:75: C is an output of the kernel: a tensor of a scan's steps is none"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) 0 then let r[k: 4] = sum(s) 1 into [s] in B[t - 1] }",
     "1:81: into has no place in the steps of a scan: each element takes its terms"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) 0 then let (r[k], s[k]) = A[k] in B[t - 1] }",
     "1:77: one value for 2 tensors: only reductions, scans and calls give several"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) 0 then let (r[k], s[l]) = A[k] in B[t - 1] }",
     "1:69: the tensors of one statement have the same axes"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = scan(t) 0 then let (r, s[l]) = A[k] in B[t - 1] }",
     "1:64: expected '[' before the axes of a tensor in a step, not ','"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[t] = let r[k] = A[k] in r[t] }",
     "1:47: r is a tensor, which only steps of a scan have for themselves: let stands right behind then, as in "
     "scan(t) first then let r[...] = ... in ..."},
    {"kernel f(X: f32[N, M]) -> Y: f32[N] { Y[i] = sum(k: i) X[i, k] * (sum(j) X[k, j]) }",
     "1:67: sum depends on k, whose bounds are not the same everywhere: define it as a tensor before"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i] + scan }",
     "1:50: 'scan' is a word of the language and no name for a tensor, axis or dimension"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = (A[i], 1) }", "1:43: several values where one is wanted"},
    {"kernel f(A: f32[M]) -> (B: f32[M], C: f32[M]) { B[i], C[i] = (A[i], 1) }",
     "1:62: one value for 2 tensors: only reductions, scans and calls give several"},
    {"kernel f(A: f32[M]) -> (B: f32, C: f32) { B, C = sum(i) A[i] }", "1:50: sum gives 1 value, not 2"},
    {"kernel f(A: bool[M]) -> B: bool { B = sum(i) A[i] }", "1:39: sum does not take bool"},
    {"combiner c(a: f32, b: f32) = a + b from (0, 1)\n"
     "kernel f(A: f32[M]) -> B: f32 { B = c(i) A[i] }",
     "1:41: the identity has 2 values; 1 is wanted here"},
    {"combiner c(a: f32, b: i32) = a from 0\n"
     "kernel f(A: f32[M]) -> B: f32 { B = c(i) A[i] }",
     "1:20: b is of type i32, its counterpart of f32"},
    {"kernel f(A: f32[M]) -> B: f32 { B = best(i: M) A[i] }",
     "1:37: there is no reduction or combiner called best; the reductions are sum, prod, max, min, any, all, argmax "
     "and "
     "argmin"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = g(A[i]) }", "1:43: there is no operation, function or kernel called g"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i: N] = A[i] }", "1:41: nothing here is called N"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i: i] = A[i] }", "1:41: nothing here is called i"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i, j] = A[i] }", "1:36: B has 1 dimension: name an axis for it, not 2"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i] @ 2 }", "1:48: '@' has no meaning here"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i] +", "1:49: expected an expression"},
    {"kernel f(A: f33[M]) -> B: f32[M] { B[i] = A[i] }", "1:13: expected a type, such as f32 or i64"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = A[i]",
     "1:47: expected '}' at the end of the kernel, not the end of the text"},
    {"kernel f[M](A: f32[M, N]) -> B: f32[M] { B[i] = A[i, 0] }",
     "1:23: N is neither among the dimensions that the kernel lists nor a constant"},
    {"kernel a.b(A: f32[M]) -> B: f32[M] { B[i] = A[i] }", "1:8: a kernel's name is a C identifier: no '.' in it"},
    {"const A = 1", "1:12: there is no kernel in this text"},
    {"kernel f(A: f32[A0]) -> B: f32[A0] { B[i] = 1 < A[i] }",
     "1:47: a value of type bool for B, whose elements are f32; f32(...) converts"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[sum] = max(A[sum]) }", "1:45: max takes 2 arguments, not 1"},
    {"kernel f(A: f32[M]) -> B: f32[M] { extern g(A) -> B: f32[M] { for i in [0, +M) { A[i] = B[i] } } }",
     "1:82: A may only be read here: an imperative stage writes the tensors behind its '->' and what it allocates"},
    {"kernel f(A: f32[M]) -> B: f32[M] { P[i] = A[i]  extern g(P) -> B: f32[M] { P[0] = A[0]  B[0] = 1.0f32 } }",
     "1:76: P may only be read here: an imperative stage writes the tensors behind its '->' and what it allocates"},
    {"kernel f(A: f32[M], C: f32[M]) -> B: f32[M] { extern g(A) -> B: f32[M] { B[0] = C[0] } }",
     "1:81: C is not among the tensors in parentheses, which an imperative stage reads"},
    {"kernel f(A: f32[M]) -> B: f32[M] { extern g(A) -> B: f32[M], C: i64[2] { B[0] = A[0] } }",
     "1:62: no statement of g writes C"},
    {"kernel f(A: f32[M]) -> B: f32[M] { extern g(A) -> B: f32[M] { let x: f32 = A[0] { } } }",
     "1:51: no statement of g writes B"},
    {"kernel f(A: f32[Q1]) -> B: f32[Q1] { extern g(A) -> B: f32[Q1] { B[0] = A[Q2] } }",
     "1:75: nothing here is called Q2"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = pad(A, 0) }",
     "1:47: pad takes an element of a tensor and what stands for those outside of it"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = mirror(A[i - 1] + 1) }",
     "1:59: mirror takes an element of a tensor, such as X[i - 1]"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = wrap(A[i - 1], 0) }", "1:43: wrap takes 1 argument, not 2"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = repeat(A[i - 1, 0]) }", "1:50: A has 1 dimension, not 2"},
    {"kernel f[M >= 0, N](A: f32[M]) -> B: f32[N] { B[i] = reflect(A[i]) }",
     "1:54: reflect finds an element inside, and A may have none along dimension 0"},
    {"kernel f(A: f32[M]) -> B: f32[M] { B[i] = miror(A[i - 1]) }",
     "1:43: there is no operation, function or kernel called miror; did you mean mirror?"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = let a = X[i] in b }", "1:59: nothing here is called b"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = let i = 2 in X[i] }",
     "1:47: the name i is taken already: it is an axis or a dimension"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = let a = X[i] }",
     "1:56: expected 'in' between the values of let and the expression that uses them, not '}'"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = let a = X[i] in a[0] }", "1:59: a is no tensor: it has no elements"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = let a: i32 = X[i] in a }",
     "1:56: a value of type f32 for a, whose elements are i32; i32(...) converts"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { let h = X[0] let h = 3 Y[i] = h }",
     "1:53: the name h is taken already: let gives it to a value"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { let i = 3 Y[i] = X[i] }",
     "1:48: the name i is taken already: let gives it to a value"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { let h = X Y[i] = h }", "1:44: X has 1 dimension: write which element"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = (let a = X[i] in a) + a }", "1:65: nothing here is called a"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { let t = (1, 2) Y[i] = X[i] }", "1:44: several values where one is wanted"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = let j = k in sum(k: 3) X[i] * f32(j) }",
     "1:51: nothing here is called k"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = let a = foo(i) in a }",
     "1:51: there is no operation, function or kernel called foo"},
    {"kernel f(X: f32[M, N] strides [1]) -> Y: f32[M] { Y[i] = X[i, 0] }",
     "1:23: X has 2 dimensions and 1 stride: as many as dimensions, in elements"},
    {"kernel f(X: f32[M, N] strides [-1, 1]) -> Y: f32[M] { Y[i] = X[i, 0] }",
     "1:33: stride 0 of X is -1; it must be at least 0, and no more than 2^48"},
    {"kernel f(X: f32[M, N]) -> Y: f32[M, 8] strides [4, 1] { Y[i, j] = X[i, 0] }",
     "1:27: elements of Y lie in one place by these strides, and they are written: each stride must be more than what "
     "the dimensions of smaller strides span"},
    {"kernel f(X: f32[M, N]) -> Y: f32[M, N] strides [0, 1] { Y[i, j] = X[i, j] }",
     "1:49: stride 0 of Y is 0; it must be at least 1, as elements are written, and no more than 2^48"},
    {"kernel f(X: f32[M, N] strides [0, 1]) -> Y: f32[M, N] over X { Y[i, j] = X[i, j] }",
     "1:42: stride 0 of X is 0; it must be at least 1, as elements are written, and no more than 2^48"},
    {"kernel f(X: f32[N]) -> Y: f32[N] over X strides [2] { Y[i] = X[i] }",
     "1:41: Y lies over X and has its strides: leave these out"},
    {"kernel f(X: f32[N]) -> Y: f32[N] strides [2] over X { Y[i] = X[i] }",
     "1:34: Y has strides and lies over an input, whose strides it takes: leave one out"},
    {"kernel f(X: f32[N] strides 4) -> Y: f32[N] { Y[i] = X[i] }", "1:28: expected '[' before the strides, not '4'"},
    {"kernel f(X: f32[N], Y: f32[N] over X) -> Z: f32[N] { Z[i] = X[i] }",
     "1:31: only an output is written over an input"},
    {"kernel f(X: f32[N]) -> Y: f32[N] over Z { Y[i] = X[i] }",
     "1:39: Z is no input of the kernel, whose memory Y could take"},
    {"kernel f(X: f32[M, N]) -> Y: f32[N, M] over X { Y[i, j] = X[j, i] }",
     "1:45: Y is f32[N, M] and X is f32[M, N]: one takes the memory of the other where both are the same"},
    {"kernel f(x: f32) -> y: f32 over x { y = x }", "1:33: x is a scalar, which is passed by value"},
    {"kernel f(X: f32[N]) -> (Y: f32[N] over X, Z: f32[N] over X) { Y[i] = X[i] Z[i] = X[i] }",
     "1:58: Y takes the memory of X already"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { store inline P[i] = X[i] Y[i] = P[i] }",
     "1:42: a stage has one hint: it is stored or inlined"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { inline Y[i] = X[i] }", "1:43: Y is an output of the kernel, which is stored"},
    {"kernel f(X: f32[N]) -> y: f32 { inline s = sum(i) X[i] y = s }",
     "1:40: s is a reduction, whose elements are computed once: inlined is what has a value for each element"},
    {"kernel f(X: f32[N]) -> y: f32 { inline S[i] = scan(i) X[0] then S[i - 1] + X[i] y = S[0] }",
     "1:40: S is a scan, whose elements are computed once: inlined is what has a value for each element"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { Y[i] = X[i] }\nkernel g(X: f32[N]) -> Z: f32[N] { store Y = f(X) Z[i] = Y[i] "
     "}",
     "2:46: a call has several statements: say `store` or `inline` of those in f"},
    {"kernel f(X: f32[N]) -> Y: f32[N] { inline A[i] = X[i] + 1\n extern e(A) -> Y: f32[N] { Y[0] = A[0] } }",
     "2:2: A is to be inlined, and an imperative stage takes all of it"},
};

/* One error; `expected` is what stands behind "t.te:". */
static void check_one_error(tn_status *status, const char *expected) {
  char whole[1024];
  snprintf(whole, sizeof(whole), "t.te:%s", expected);
  check_placed_error(status, whole);
}

static void refuses(void **state) {
  static const tn__te_dim_value dims[] = {{"Q0", 0}, {"Qm", -3}, {"Qh", INT64_MAX}, {"Q1", 1}};
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
    te_text_job j = {.text = refused[i].text, .dims = dims, .dim_count = 4};
    check_one_error(te_text_run(&j), refused[i].message);
  }
  te_text_job wide = {.text = "\xff\xfek"};
  check_fails(te_text_run(&wide), TN_INVALID_ARGUMENT, "t.te: the text is in UTF-16; save it as UTF-8");
}

/* All errors of a text, in its order, whoever finds them; what follows from another is not told. */
static void refuses_all_together(void **state) {
  te_text_job j = {.text =
                       "kernel one(A: f32[N], Z: f32[0]) -> (B: f32[N], C: f32[N], D: f32[N], E: f32[N]) {\n"
                       "  B = sort(A)\n"
                       "  C[i] = mean(k) A[k] * 2\n"
                       "\tD[i] = A[i] @ 3 // \xc3\xa4 \xff\n"
                       "  E[i] = B[i] + C[i] + Z[i]\n"
                       "  F[i] = A[i - 1] + A[i] + A[i + 2]\n"
                       "}\n"
                       "const EPS = 3 + \n"
                       "const WIDE = 4\n"
                       "kernel two(A: f32[N]) -> B: f32[N] { B[i] = A[i] + EPS }\n"
                       "kernel three(A: f32[N]) -> B: f32[N] { B[i] = expp(a[i]) }\n"
                       "kernel four(A: f32[N]) -> B: f32[N] { B = one(A, A) }\n"};
  check_fails(
      te_text_run(&j), TN_INVALID_ARGUMENT,
      "t.te:1:30: error: dimension 0 of Z is 0; it must be at least 1\n"
      "    1 | kernel one(A: f32[N], Z: f32[0]) -> (B: f32[N], C: f32[N], D: f32[N], E: f32[N]) {\n"
      "      |                              ^\n"
      "t.te:2:7: error: there is no operation, function or kernel called sort; did you mean sqrt?\n"
      "    2 |   B = sort(A)\n"
      "      |       ^\n"
      "t.te:3:10: error: there is no reduction or combiner called mean; it is written sum(i: n) x[i] / n\n"
      "    3 |   C[i] = mean(k) A[k] * 2\n"
      "      |          ^\n"
      "t.te:4:14: error: '@' has no meaning here\n"
      "    4 |  D[i] = A[i] @ 3 // \xc3\xa4 ?\n"
      "      |              ^\n"
      "t.te:6:14: error: index 0 of A goes down to -1, which is outside of the tensor; write i + 1 for i on the "
      "right and let i run up to N - 3 instead of N, or guard it by pad(...) or select\n"
      "    6 |   F[i] = A[i - 1] + A[i] + A[i + 2]\n"
      "      |              ^\n"
      "t.te:9:1: error: expected an expression\n"
      "    9 | const WIDE = 4\n"
      "      | ^\n"
      "t.te:11:47: error: there is no operation, function or kernel called expp; did you mean exp?\n"
      "   11 | kernel three(A: f32[N]) -> B: f32[N] { B[i] = expp(a[i]) }\n"
      "      |                                               ^");
}

static void refuses_many(void **state) {
  char text[4096], *at = text;
  at += sprintf(at, "kernel f(A: f32[N]) -> B: f32[N] {\n");
  for (int i = 0; i < 30; i++) at += sprintf(at, "  P%d[i] = Q%d[i]\n", i, i);
  sprintf(at, "  B[i] = A[i]\n}\n");
  te_text_job j = {.text = text};
  tn_status *status = te_text_run(&j);
  const char *message = tn_status_message(status);
  int errors = 0;
  for (const char *e = message; (e = strstr(e, ": error: ")) != NULL; e++) errors++;
  assert_int_equal(errors, 20);
  assert_string_equal(strrchr(message, '\n'), "\nt.te: more errors follow; these are 20");
  tn_status_free(status);
}

static tn_status *run_repeated(const char *before, const char *repeated, int count, const char *after) {
  size_t size = strlen(before) + strlen(repeated) * (size_t)count + strlen(after) + 1;
  char *text = malloc(size), *at = text;
  at += sprintf(at, "%s", before);
  for (int i = 0; i < count; i++) at += sprintf(at, "%s", repeated);
  sprintf(at, "%s", after);
  te_text_job j = {.text = text};
  tn_status *status = te_text_run(&j);
  free(text);
  return status;
}

static void bounds_work(void **state) {
  const char *head = "kernel f(A: f32[M]) -> B: f32[M] { B[i] = ";
  check_one_error(run_repeated(head, "(", 100000, "A[i] }"), "1:243: nested more than 200 levels deep");
  check_one_error(run_repeated(head, "A[i] + ", 100000, "A[i] }"), "1:2841: an expression of more than 400 levels");
  /* What follows an error is looked through for the next statement, near by. */
  tn_status_free(run_repeated("kernel f(A: f32[M]) -> B: f32[M] { @ ", "X[\n", 1000000, "}"));
  tn_status_free(run_repeated("kernel f(A: f32[M]) -> B: f32[M] { B[i] = ", "f(i) X[", 300000, "}"));
  /* Each function doubles the one before it; calls inside of calls make an expression deeper than any text. */
  char text[8192], *at = text;
  at += sprintf(at, "function g0(x) = x\n");
  for (int i = 1; i < 60; i++) at += sprintf(at, "function g%d(x) = g%d(x) + g%d(x * x)\n", i, i - 1, i - 1);
  sprintf(at, "kernel k(A: f32[M]) -> B: f32[M] { B[i] = g59(A[i]) }");
  te_text_job j = {.text = text};
  check_one_error(te_text_run(&j), "30:19: calls nested more than 32 levels deep");
  at = strstr(text, "g59(A");
  sprintf(at, "g25(A[i]) }");
  check_one_error(te_text_run(&j),
                  "9:24: an expression of more than 65536 operations once its functions and lets are expanded");
  /* So do names of values. */
  at = text;
  at += sprintf(at, "kernel f(A: f32[M]) -> B: f32[M] { B[i] = let a0 = A[i]");
  for (int i = 1; i < 60; i++) at += sprintf(at, ", a%d = a%d * a%d + 1", i, i - 1, i - 1);
  sprintf(at, " in a59 }");
  check_one_error(te_text_run(&j),
                  "1:312: an expression of more than 65536 operations once its functions and lets are expanded");
  memcpy(strstr(text, "A[i]"), "1   ", 4);
  check_one_error(te_text_run(&j), "1:81: the kernel is too large once its calls and lets are expanded");
  check_one_error(run_repeated(head, "let a = 1 in ", 100000, "A[i] }"), "1:1338: nested more than 200 levels deep");
  /* What a function's text has twice is shared, and would be printed each time. */
  check_one_error(run_repeated("function m(x) = min(x, 5 - x)\nkernel f(A: f32[M]) -> B: f32[M] { B[i] = A[", "m(", 40,
                               "i))))))))))))))))))))))))))))))))))))))))] }"),
                  "1:17: an expression of more than 65536 operations once its functions and lets are expanded");
  at = text;
  at += sprintf(at, "kernel k0(A: f32) -> B: f32 { B = A + 1 }\n");
  for (int i = 1; i < 20; i++)
    at += sprintf(at, "kernel k%d(A: f32) -> B: f32 { C = k%d(A) B = k%d(C) }\n", i, i - 1, i - 1);
  check_one_error(te_text_run(&j), "16:43: more than 16384 stages once calls are expanded");
}

static void fix_dims(tn__te *te, void *user) { te_text_keep(te, user); }

static void fixes_dimensions(void **state) {
  static const tn__te_dim_value dims[] = {{"M", 4}, {"unused", 7}};
  char *text = NULL;
  te_text_job j = {.text = "kernel f(A: f32[M, N]) -> B: f32[2*M] { B[i] = A[i/2, 0] }",
                   .dims = dims,
                   .dim_count = 2,
                   .then = fix_dims,
                   .user = &text};
  check_ok(te_text_run(&j));
  assert_string_equal(text, "kernel f[N](A: f32[4, N]) -> B: f32[8] {\n  B: f32[i: 8] = A[i/2, 0]\n}\n");
  free(text);
  j.text = "kernel f(A: f32[M]) -> B: f32[M] { extern g(A) -> B: f32[M] { for i in [0, +M) { B[i] = A[M - 1] } } }";
  check_ok(te_text_run(&j));
  assert_string_equal(text,
                      "kernel f(A: f32[4]) -> B: f32[4] {\n"
                      "  extern g(A) -> B: f32[4] {\n    for i in [0, +4) {\n      B[i] = A[3]\n    }\n  }\n}\n");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(says_everything),
      cmocka_unit_test(pads_and_clamps),
      cmocka_unit_test(finds_elements_inside),
      cmocka_unit_test(keeps_memory_and_hints),
      cmocka_unit_test(lets_name_values),
      cmocka_unit_test(pads_before_reducing),
      cmocka_unit_test(indices_stay_inside),
      cmocka_unit_test(unchecked_indices_stay_as_they_are),
      cmocka_unit_test(empty_tensors_read_back),
      cmocka_unit_test(reduces),
      cmocka_unit_test(scans),
      cmocka_unit_test(steps_of_scans),
      cmocka_unit_test(accumulations),
      cmocka_unit_test(ragged_reductions),
      cmocka_unit_test(calls),
      cmocka_unit_test(expressions),
      cmocka_unit_test(externs),
      cmocka_unit_test(refuses),
      cmocka_unit_test(refuses_all_together),
      cmocka_unit_test(refuses_many),
      cmocka_unit_test(bounds_work),
      cmocka_unit_test(extents_follow),
      cmocka_unit_test(fixes_dimensions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
