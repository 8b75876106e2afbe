/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

void turn(const float *restrict X, float *restrict Y) {
  FOR (j, 1031)
    FOR (i, 1021) Y[j * 1021 + i] = X[i * 1031 + j];
}
void turn_u8(const uint8_t *restrict X, uint8_t *restrict Y) {
  FOR (j, 1031)
    FOR (i, 1021) Y[j * 1021 + i] = X[i * 1031 + j];
}
void turn_middle(const float *restrict X, float *restrict Y) {
  FOR (k, 131)
    FOR (j, 67)
      FOR (i, 61) Y[(k * 67 + j) * 61 + i] = X[(i * 67 + j) * 131 + k];
}
void mirror(const float *restrict X, float *restrict Y) {
  FOR (i, 1021)
    FOR (j, 1031) Y[i * 1031 + j] = X[i * 1031 + 1030 - j];
}
void quarter_turn(const float *restrict X, float *restrict Y) {
  FOR (i, 1031)
    FOR (j, 1021) Y[i * 1021 + j] = X[(1020 - j) * 1031 + i];
}
void roll(const float *restrict X, float *restrict Y) {
  FOR (i, 1021)
    FOR (j, 1031) Y[i * 1031 + j] = X[(i + 17) % 1021 * 1031 + (j + 29) % 1031];
}
void weave(const float *restrict A, const float *restrict B, float *restrict Y) {
  FOR (i, 1000018) Y[i] = i % 2 == 0 ? A[i / 2] : B[i / 2];
}
void pixel_shuffle(const float *restrict X, float *restrict Y) {
  FOR (c, 4)
    FOR (y, 393)
      FOR (x, 381) Y[(c * 393 + y) * 381 + x] = X[((c * 9 + y % 3 * 3 + x % 3) * 131 + y / 3) * 127 + x / 3];
}
void lower_triangle(const float *restrict X, float *restrict Y) {
  FOR (i, 1021)
    FOR (j, 1021) Y[i * 1021 + j] = j <= i ? X[i * 1021 + j] : 0;
}
void band(const float *restrict X, float *restrict Y) {
  FOR (i, 1021)
    FOR (j, 1021) Y[i * 1021 + j] = i - 3 <= j && j <= i + 3 ? X[i * 1021 + j] : 0;
}
void frame(const float *restrict X, float *restrict Y) {
  FOR (i, 1035)
    FOR (j, 1045) Y[i * 1045 + j] = 7 <= i && i < 1028 && 7 <= j && j < 1038 ? X[(i - 7) * 1031 + j - 7] : 1;
}
void reflect(const float *restrict X, float *restrict Y) {
  FOR (i, 1035)
    FOR (j, 1045) Y[i * 1045 + j] = X[(1020 - labs(1020 - labs(i - 7))) * 1031 + 1030 - labs(1030 - labs(j - 7))];
}
void join(const float *restrict A, const float *restrict B, float *restrict Y) {
  FOR (i, 1021)
    FOR (j, 704) Y[i * 704 + j] = j < 301 ? A[i * 301 + j] : B[i * 403 + j - 301];
}
void transposed_convolution(const float *restrict X, const float *restrict W, float *restrict Y) {
  memset(Y, 0, sizeof(float[24][132][128]));
  FOR (o, 24)
    FOR (c, 16)
      FOR (i, 67)
        FOR (j, 65)
          FOR (r, 4)
            FOR (q, 4) {
              long y = 2 * i + r - 3, x = 2 * j + q - 3;
              if (0 <= y && y < 132 && 0 <= x && x < 128)
                Y[(o * 132 + y) * 128 + x] += X[(c * 67 + i) * 65 + j] * W[((c * 24 + o) * 4 + r) * 4 + q];
            }
}
void qkv_split(const float (*restrict X)[129][3][8][32], float (*restrict Q)[8][129][32],
               float (*restrict K)[8][32][129], float (*restrict V)[8][129][32]) {
  FOR (b, 2)
    FOR (h, 8)
      FOR (t, 129)
        FOR (d, 32) {
          Q[b][h][t][d] = X[b][t][0][h][d] * 0.17677669f;
          K[b][h][d][t] = X[b][t][1][h][d];
          V[b][h][t][d] = X[b][t][2][h][d];
        }
}
