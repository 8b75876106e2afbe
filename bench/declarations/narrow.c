/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

void row_dots_u8(const uint8_t *restrict A, const int8_t *restrict B, int32_t *restrict s) {
  FOR (i, 509) {
    int32_t sum = 0;
    FOR (k, 1021) sum += A[i * 1021 + k] * B[i * 1021 + k];
    s[i] = sum;
  }
}
void row_dots_i16(const int16_t *restrict A, const int16_t *restrict B, int32_t *restrict s) {
  FOR (i, 509) {
    uint32_t sum = 0;
    FOR (k, 1021) sum += (uint32_t)(A[i * 1021 + k] * B[i * 1021 + k]);
    s[i] = (int32_t)sum;
  }
}
void vector_u8(const uint8_t *restrict A, const int8_t *restrict x, int32_t *restrict y) {
  FOR (i, 1021) {
    int32_t sum = 0;
    FOR (k, 1021) sum += A[i * 1021 + k] * x[k];
    y[i] = sum;
  }
}
void product_i16(const int16_t *restrict A, const int16_t *restrict B, int32_t *restrict C) {
  FOR (i, 251)
    FOR (j, 263) {
      uint32_t sum = 0;
      FOR (k, 257) sum += (uint32_t)(A[i * 257 + k] * B[j * 257 + k]);
      C[i * 263 + j] = (int32_t)sum;
    }
}
void distance_rows(const uint8_t *restrict A, const uint8_t *restrict B, int32_t *restrict s) {
  FOR (i, 1021) {
    int32_t sum = 0;
    FOR (k, 1021) sum += abs(A[i * 1021 + k] - B[i * 1021 + k]);
    s[i] = sum;
  }
}
void square_rows(const uint8_t *restrict A, const uint8_t *restrict B, int32_t *restrict s) {
  FOR (i, 1021) {
    int32_t sum = 0;
    FOR (k, 1021) {
      int32_t d = A[i * 1021 + k] - B[i * 1021 + k];
      sum += d * d;
    }
    s[i] = sum;
  }
}
void sum_u8(const uint8_t *restrict A, uint64_t *restrict s) {
  uint64_t sum = 0;
  FOR (k, 1000003) sum += A[k];
  *s = sum;
}
void hamming(const uint8_t *restrict A, const uint8_t *restrict B, int32_t *restrict s) {
  FOR (i, 509) {
    int32_t sum = 0;
    FOR (k, 1021) sum += __builtin_popcount(A[i * 1021 + k] ^ B[i * 1021 + k]);
    s[i] = sum;
  }
}
void count_true(const bool *restrict M, int32_t *restrict s) {
  FOR (i, 1021) {
    int32_t sum = 0;
    FOR (k, 1021) sum += M[i * 1021 + k];
    s[i] = sum;
  }
}
void swap_channels(const uint8_t *restrict I, uint8_t *restrict O) {
  FOR (y, 431)
    FOR (x, 513)
      FOR (c, 3) O[(y * 513 + x) * 3 + c] = I[(y * 513 + x) * 3 + 2 - c];
}
void join_channels(const uint8_t *restrict R, const uint8_t *restrict G, const uint8_t *restrict B,
                   const uint8_t *restrict A, uint8_t *restrict O) {
  FOR (i, 431 * 513) {
    O[4 * i] = R[i];
    O[4 * i + 1] = G[i];
    O[4 * i + 2] = B[i];
    O[4 * i + 3] = A[i];
  }
}
void unpack_nibbles(const uint8_t *restrict P, uint8_t *restrict O) {
  FOR (i, 200003) {
    O[2 * i] = P[i] & 15;
    O[2 * i + 1] = P[i] >> 4;
  }
}
void unpack_bits(const uint8_t *restrict P, uint8_t *restrict O) {
  FOR (i, 400168) O[i] = P[i / 8] >> (i % 8) & 1;
}
void to_unit(const uint8_t *restrict X, float *restrict Y) {
  FOR (i, 400009) Y[i] = X[i] / 255.0F;
}
void turn_channels(const uint8_t *restrict I, uint8_t *restrict O) {
  FOR (i, 431 * 513)
    FOR (c, 4) O[4 * i + c] = I[4 * i + (c + 1) % 4];
}
void palette(const uint8_t *restrict I, const uint8_t *restrict T, uint8_t *restrict O) {
  FOR (i, 431 * 513)
    FOR (c, 3) O[3 * i + c] = T[3 * I[i] + c];
}
