/* SPDX-License-Identifier: Apache-2.0 */
/* Those applications whose loops are short; the others have Halide for a reference. */
#include "plain.h"

enum { H = 1535, W = 2559 };

static long row(long y) { return clamped(y, 0, H - 1); }
static long column(long x) { return clamped(x, 0, W - 1); }
static float gray(const float *pixel, long plane) {
  return 0.299f * pixel[0] + 0.587f * pixel[plane] + 0.114f * pixel[2 * plane];
}
static float *new_image(long rows, long columns) { return malloc(sizeof(float) * (size_t)(rows * columns)); }

void box_blur(const uint16_t *restrict I, uint16_t *restrict O) {
  uint16_t *X = malloc(sizeof(uint16_t[H + 2][W]));
  FOR (y, H + 2)
    FOR (x, W) {
      const uint16_t *i = I + y * (W + 2) + x;
      X[y * W + x] = (uint16_t)((uint16_t)(i[0] + i[1] + i[2]) / 3);
    }
  FOR (i, H * W) O[i] = (uint16_t)((uint16_t)(X[i] + X[i + W] + X[i + 2 * W]) / 3);
  free(X);
}
void box_blur_edges(const float *restrict I, float *restrict O) {
  float *X = new_image(H, W);
  FOR (y, H)
    FOR (x, W) X[y * W + x] = I[y * W + column(x - 1)] + I[y * W + x] + I[y * W + column(x + 1)];
  FOR (y, H)
    FOR (x, W) O[y * W + x] = (X[row(y - 1) * W + x] + X[y * W + x] + X[row(y + 1) * W + x]) * (1 / 9.0f);
  free(X);
}
void unsharp(const float *restrict I, float *restrict O) {
  static const float weights[] = {0.03599398f, 0.10934005f, 0.21296534f, 0.26596152f,
                                  0.21296534f, 0.10934005f, 0.03599398f};
  float *G = new_image(H, W), *V = new_image(H, W);
  FOR (i, H * W) G[i] = gray(I + i, H * W);
  FOR (y, H)
    FOR (x, W) {
      float sum = 0;
      FOR (r, 7) sum += weights[r] * G[row(y + r - 3) * W + x];
      V[y * W + x] = sum;
    }
  FOR (y, H)
    FOR (x, W) {
      float sum = 0, g = G[y * W + x];
      FOR (q, 7) sum += weights[q] * V[y * W + column(x + q - 3)];
      FOR (c, 3) O[(c * H + y) * W + x] = (2 * g - sum) / g * I[(c * H + y) * W + x];
    }
  free(G);
  free(V);
}
void harris(const float *restrict I, float *restrict O) {
  enum { C = W + 4, D = W + 2 };
  float *G = new_image(H + 4, C), *X = new_image(H + 2, D), *Y = new_image(H + 2, D);
  FOR (y, H + 4)
    FOR (x, C) G[y * C + x] = gray(I + (y + 16) * (W + 68) + x + 32, (H + 36) * (W + 68));
  FOR (y, H + 2)
    FOR (x, D) {
      const float *a = G + y * C + x, *b = a + C, *c = b + C;
      Y[y * D + x] = (c[0] - a[0] + 2 * (c[1] - a[1]) + c[2] - a[2]) * (1 / 12.0f);
      X[y * D + x] = (a[2] - a[0] + 2 * (b[2] - b[0]) + c[2] - c[0]) * (1 / 12.0f);
    }
  FOR (y, H)
    FOR (x, W) {
      float xx = 0, yy = 0, xy = 0;
      FOR (r, 3)
        FOR (q, 3) {
          float h = X[(y + r) * D + x + q], v = Y[(y + r) * D + x + q];
          xx += h * h, yy += v * v, xy += h * v;
        }
      O[y * W + x] = xx * yy - xy * xy - 0.04f * (xx + yy) * (xx + yy);
    }
  free(G);
  free(X);
  free(Y);
}
static void stencils(const uint16_t *restrict I, uint16_t *restrict O, long steps) {
  long rows = H + 4 * steps, columns = W + 4 * steps;
  uint16_t *from = malloc((size_t)(rows * columns) * sizeof(uint16_t)),
           *to = malloc((size_t)(rows * columns) * sizeof(uint16_t));
  FOR (y, rows)
    FOR (x, columns) from[y * columns + x] = I[row(y - 2 * steps) * W + column(x - 2 * steps)];
  for (; steps > 0; steps--) {
    rows -= 4, columns -= 4;
    FOR (y, rows)
      FOR (x, columns) {
        uint16_t sum = 0;
        FOR (r, 5)
          FOR (q, 5) sum = (uint16_t)(sum + from[(y + r) * (columns + 4) + x + q] * (r + 1) * (q + 1));
        to[y * columns + x] = sum;
      }
    uint16_t *free_now = from;
    from = to, to = free_now;
  }
  memcpy(O, from, sizeof(uint16_t[H][W]));
  free(from);
  free(to);
}
void stencil_chain_8(const uint16_t *restrict I, uint16_t *restrict O) { stencils(I, O, 8); }
void stencil_chain_32(const uint16_t *restrict I, uint16_t *restrict O) { stencils(I, O, 32); }
void stencil_sums_8(const uint16_t *restrict I, uint16_t *restrict O) { stencils(I, O, 8); }

static void max_window(const float *restrict I, float *restrict O, long reach) {
  float *V = new_image(H, W);
  FOR (y, H)
    FOR (x, W) {
      float m = I[y * W + x];
      for (long r = -reach; r <= reach; r++) m = fmaxf(m, I[row(y + r) * W + x]);
      V[y * W + x] = m;
    }
  FOR (y, H)
    FOR (x, W) {
      float m = V[y * W + x];
      for (long q = -reach; q <= reach; q++) m = fmaxf(m, V[y * W + column(x + q)]);
      O[y * W + x] = m;
    }
  free(V);
}
void max_window_11(const float *restrict I, float *restrict O) { max_window(I, O, 5); }
void max_window_53(const float *restrict I, float *restrict O) { max_window(I, O, 26); }

static void iir_columns(const float *restrict X, float *restrict Y, long rows, long columns) {
  float *F = new_image(rows, columns);
  FOR (c, 3) {
    const float *plane = X + c * rows * columns;
    FOR (x, columns) F[x] = plane[x];
    for (long t = 1; t < rows; t++)
      FOR (x, columns) F[t * columns + x] = 0.9f * F[(t - 1) * columns + x] + 0.1f * plane[t * columns + x];
    for (long t = rows - 2; t >= 0; t--)
      FOR (x, columns) F[t * columns + x] = 0.9f * F[(t + 1) * columns + x] + 0.1f * F[t * columns + x];
    FOR (x, columns)
      FOR (y, rows) Y[(c * columns + x) * rows + y] = F[y * columns + x];
  }
  free(F);
}
void iir_blur(const float *restrict I, float *restrict O) {
  float *T = new_image(3 * W, H);
  iir_columns(I, T, H, W);
  iir_columns(T, O, W, H);
  free(T);
}
static uint8_t byte_of(float value) { return (uint8_t)fminf(fmaxf(value, 0), 255); }
void equalise(const uint8_t *restrict I, uint8_t *restrict O) {
  float *Y = new_image(H, W);
  int32_t counts[256] = {0};
  FOR (i, H * W) {
    Y[i] = 0.299f * I[i] + 0.587f * I[H * W + i] + 0.114f * I[2 * H * W + i];
    counts[byte_of(Y[i] + 0.5f)]++;
  }
  for (int b = 1; b < 256; b++) counts[b] += counts[b - 1];
  FOR (i, H * W) {
    float q = (float)counts[byte_of(Y[i] + 0.5f)] * (255.0f / (H * W));
    float r = (I[i] - Y[i]) * 0.713f, b = (I[2 * H * W + i] - Y[i]) * 0.564f;
    O[i] = byte_of(q + 1.403f * r);
    O[H * W + i] = byte_of(q - 0.714f * r - 0.344f * b);
    O[2 * H * W + i] = byte_of(q + 1.773f * b);
  }
  free(Y);
}
void equalise_sum(const uint8_t *restrict I, uint8_t *restrict O) { equalise(I, O); }

void convolution_last(const float *restrict I, const float *restrict F, const float *restrict B, float *restrict O) {
  FOR (n, 3)
    FOR (y, 79)
      FOR (x, 101) {
        float *o = O + ((n * 79 + y) * 101 + x) * 125;
        FOR (k, 125) o[k] = B[k];
        FOR (c, 127)
          FOR (r, 3)
            FOR (q, 3)
              FOR (k, 125) o[k] += F[((c * 3 + r) * 3 + q) * 125 + k] * I[((n * 81 + y + r) * 103 + x + q) * 127 + c];
        FOR (k, 125) o[k] = fmaxf(o[k], 0);
      }
}
void convolution_first(const float *restrict I, const float *restrict F, const float *restrict B, float *restrict O) {
  FOR (n, 2)
    FOR (k, 67)
      FOR (y, 79)
        FOR (x, 101) {
          float sum = B[k];
          FOR (c, 61)
            FOR (r, 3)
              FOR (q, 3) sum += F[((k * 61 + c) * 3 + r) * 3 + q] * I[((n * 61 + c) * 81 + y + r) * 103 + x + q];
          O[((n * 67 + k) * 79 + y) * 101 + x] = fmaxf(sum, 0);
        }
}
void matrix_product(const float *restrict A, const float *restrict B, float *restrict O) {
  memset(O, 0, sizeof(float[1021][1031]));
  FOR (i, 1021)
    FOR (k, 1019)
      FOR (j, 1031) O[i * 1031 + j] += A[i * 1019 + k] * B[k * 1031 + j];
}
void separable_convolution(const float *restrict I, const float *restrict F, const float *restrict P,
                           const float *restrict B, float *restrict O) {
  FOR (n, 3)
    FOR (y, 111)
      FOR (x, 113) {
        float depthwise[31] = {0}, *o = O + ((n * 111 + y) * 113 + x) * 17;
        FOR (r, 3)
          FOR (q, 3) {
            long i = y + r - 1, j = x + q - 1;
            if (i < 0 || i >= 111 || j < 0 || j >= 113) continue;
            FOR (c, 31) depthwise[c] += F[(r * 3 + q) * 31 + c] * I[((n * 111 + i) * 113 + j) * 31 + c];
          }
        FOR (k, 17) {
          float sum = B[k];
          FOR (c, 31) sum += P[c * 17 + k] * depthwise[c];
          o[k] = fmaxf(sum, 0);
        }
      }
}
