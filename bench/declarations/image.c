/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

void blur_clamped(const float *restrict I, float *restrict O) {
  float *X = malloc(sizeof(float[1079][1919]));
  FOR (y, 1079)
    FOR (x, 1919)
      X[y * 1919 + x] = I[y * 1919 + clamped(x - 1, 0, 1918)] + I[y * 1919 + x] + I[y * 1919 + clamped(x + 1, 0, 1918)];
  FOR (y, 1079)
    FOR (x, 1919)
      O[y * 1919 + x] =
          (X[clamped(y - 1, 0, 1078) * 1919 + x] + X[y * 1919 + x] + X[clamped(y + 1, 0, 1078) * 1919 + x]) / 9;
  free(X);
}
void sobel(const float *restrict I, float *restrict O) {
  FOR (y, 1077)
    FOR (x, 1917) {
      const float *a = I + y * 1919 + x, *b = a + 1919, *c = b + 1919;
      float h = a[2] - a[0] + 2 * (b[2] - b[0]) + c[2] - c[0], v = c[0] - a[0] + 2 * (c[1] - a[1]) + c[2] - a[2];
      O[y * 1917 + x] = sqrtf(h * h + v * v);
    }
}
void window_11(const float *restrict I, const float *restrict F, float *restrict O) {
  FOR (y, 511)
    FOR (x, 757) {
      float s = 0;
      FOR (r, 11)
        FOR (q, 11) s += I[(y + r) * 767 + x + q] * F[r * 11 + q];
      O[y * 757 + x] = s;
    }
}
void dilate_u8(const uint8_t *restrict I, uint8_t *restrict O) {
  FOR (y, 1073)
    FOR (x, 1913) {
      uint8_t m = 0;
      FOR (r, 7)
        FOR (q, 7) m = m > I[(y + r) * 1919 + x + q] ? m : I[(y + r) * 1919 + x + q];
      O[y * 1913 + x] = m;
    }
}
static uint8_t low(uint8_t a, uint8_t b) { return a < b ? a : b; }
static uint8_t high(uint8_t a, uint8_t b) { return a > b ? a : b; }
void median_5(const uint8_t *restrict I, uint8_t *restrict O) {
  FOR (y, 1077)
    FOR (x, 1917) {
      const uint8_t *i = I + y * 1919 + x, *m = i + 1919, *l = m + 1919;
      uint8_t a = high(low(i[1], m[0]), low(m[2], l[1])), b = low(high(i[1], m[0]), high(m[2], l[1]));
      O[y * 1917 + x] = high(low(a, b), low(high(a, b), m[1]));
    }
}
void bilateral_5(const float *restrict I, float *restrict O) {
  FOR (y, 397)
    FOR (x, 597) {
      float w = 0, s = 0, m = I[(y + 2) * 601 + x + 2];
      FOR (r, 5)
        FOR (q, 5) {
          float v = I[(y + r) * 601 + x + q], e = expf(-50 * (v - m) * (v - m));
          w += e;
          s += v * e;
        }
      O[y * 597 + x] = s / w;
    }
}
void gray_u8(const uint8_t *restrict I, uint8_t *restrict O) {
  FOR (i, 1079 * 1919) O[i] = (uint8_t)((77 * I[3 * i] + 150 * I[3 * i + 1] + 29 * I[3 * i + 2] + 128) >> 8);
}
void gamma_table(const uint8_t *restrict I, const uint8_t *restrict T, uint8_t *restrict O) {
  FOR (i, 1079 * 1919) O[i] = T[I[i]];
}
void half_size(const float *restrict I, float *restrict O) {
  FOR (y, 539)
    FOR (x, 959) {
      const float *a = I + 2 * y * 1918 + 2 * x;
      O[y * 959 + x] = (a[0] + a[1] + a[1918] + a[1919]) / 4;
    }
}
void twice_size(const float *restrict I, float *restrict O) {
  float *V = malloc(sizeof(float[1078][960]));
  FOR (y, 1078)
    FOR (x, 960) V[y * 960 + x] = y % 2 == 0 ? I[y / 2 * 960 + x] : (I[y / 2 * 960 + x] + I[(y / 2 + 1) * 960 + x]) / 2;
  FOR (y, 1078)
    FOR (x, 1918) O[y * 1918 + x] = x % 2 == 0 ? V[y * 960 + x / 2] : (V[y * 960 + x / 2] + V[y * 960 + x / 2 + 1]) / 2;
  free(V);
}
void brightness(const uint8_t *restrict I, int32_t b, uint8_t *restrict O) {
  FOR (i, 1079 * 1919) O[i] = (uint8_t)clamped(I[i] + b, 0, 255);
}
void warp(const float *restrict I, const float *restrict m, float *restrict O) {
  FOR (y, 541)
    FOR (x, 961) {
      float u = m[0] * (float)x + m[1] * (float)y + m[2], v = m[3] * (float)x + m[4] * (float)y + m[5];
      O[y * 961 + x] = I[clamped((long)v, 0, 540) * 961 + clamped((long)u, 0, 960)];
    }
}
