/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

void fir(const float *restrict X, const float *restrict h, float *restrict Y) {
  FOR (i, 200000) {
    float s = 0;
    FOR (k, 64) s += X[i + k] * h[k];
    Y[i] = s;
  }
}
void fir_i16(const int16_t *restrict X, const int16_t *restrict h, int32_t *restrict Y) {
  FOR (i, 200000) {
    int32_t s = 0;
    FOR (k, 64) s += X[i + k] * h[k];
    Y[i] = s;
  }
}
void upsample(const float *restrict X, const float *restrict h, float *restrict Y) {
  FOR (i, 300009) {
    float s = 0;
    for (long k = i % 3; k < 48 && k <= i; k += 3) s += X[(i - k) / 3] * h[k];
    Y[i] = s;
  }
}
void decimate(const float *restrict X, const float *restrict h, float *restrict Y) {
  FOR (i, 100000) {
    float s = 0;
    FOR (k, 64) s += X[4 * i + k] * h[k];
    Y[i] = s;
  }
}
void fourier(const float *restrict X, float *restrict R, float *restrict M) {
  FOR (k, 511) {
    float r = 0, m = 0;
    FOR (n, 511) {
      float a = 6.2831853F * (float)(k * n % 511) / 511;
      r += X[n] * cosf(a);
      m += X[n] * sinf(a);
    }
    R[k] = r;
    M[k] = m;
  }
}
void autocorrelation(const float *restrict X, float *restrict A) {
  FOR (l, 128) {
    float s = 0;
    FOR (i, 4000) s += X[i] * X[i + l];
    A[l] = s;
  }
}
void haar(const float *restrict X, float *restrict L, float *restrict H) {
  FOR (i, 500001) {
    L[i] = (X[2 * i] + X[2 * i + 1]) * 0.70710678F;
    H[i] = (X[2 * i] - X[2 * i + 1]) * 0.70710678F;
  }
}
void histogram(const uint8_t *restrict X, int32_t *restrict H) {
  memset(H, 0, sizeof(int32_t[256]));
  FOR (i, 1000003) H[X[i]]++;
}
void embedding(const float *restrict E, const int64_t *restrict I, float *restrict Y) {
  FOR (b, 401)
    FOR (d, 67) {
      float s = 0;
      FOR (k, 13) s += E[I[b * 13 + k] * 67 + d];
      Y[b * 67 + d] = s;
    }
}
void sparse_rows(const float *restrict V, const int64_t *restrict C, const float *restrict x, float *restrict y) {
  FOR (i, 20011) {
    float s = 0;
    FOR (k, 9) s += V[i * 9 + k] * x[C[i * 9 + k]];
    y[i] = s;
  }
}
void product_i8(const int8_t *restrict A, const int8_t *restrict B, int32_t *restrict C) {
  memset(C, 0, sizeof(int32_t[253][512]));
  FOR (i, 253)
    FOR (k, 512)
      FOR (j, 512) C[i * 512 + j] += A[i * 512 + k] * B[k * 512 + j];
}
void convolution_u8(const uint8_t *restrict X, const int8_t *restrict W, int32_t *restrict Y) {
  memset(Y, 0, sizeof(int32_t[65][67][65]));
  FOR (y, 65)
    FOR (x, 67)
      FOR (r, 3)
        FOR (q, 3)
          FOR (c, 30)
            FOR (o, 65)
              Y[(y * 67 + x) * 65 + o] += X[((y + r) * 69 + x + q) * 30 + c] * W[((r * 3 + q) * 30 + c) * 65 + o];
}
void dot_u8(const uint8_t *restrict A, const int8_t *restrict B, int32_t *restrict C) {
  FOR (i, 253)
    FOR (j, 247) {
      int32_t s = 0;
      FOR (k, 261) s += A[i * 261 + k] * B[j * 261 + k];
      C[i * 247 + j] = s;
    }
}
void half_bytes(const float *restrict X, const uint8_t *restrict Q, const float *restrict s, float *restrict Y) {
  FOR (t, 7)
    FOR (o, 509) {
      float sum = 0;
      FOR (k, 512) {
        uint8_t q = k % 2 == 0 ? Q[o * 256 + k / 2] & 15 : Q[o * 256 + k / 2] >> 4;
        sum += X[t * 512 + k] * ((float)q - 8) * s[o * 16 + k / 32];
      }
      Y[t * 509 + o] = sum;
    }
}
void requantise(const int32_t *restrict X, const float *restrict s, int8_t *restrict Y) {
  FOR (i, 509)
    FOR (j, 1031) Y[i * 1031 + j] = (int8_t)fmaxf(-128, fminf(127, rintf((float)X[i * 1031 + j] * s[j])));
}
void add_saturated(const int16_t *restrict A, const int16_t *restrict B, int16_t *restrict Y) {
  FOR (i, 1000003) Y[i] = (int16_t)clamped(A[i] + B[i], -32768, 32767);
}
void population(const uint32_t *restrict X, uint8_t *restrict Y) {
  FOR (i, 1000003) {
    uint32_t a = X[i] - ((X[i] >> 1) & 0x55555555U), b = (a & 0x33333333U) + ((a >> 2) & 0x33333333U);
    Y[i] = (uint8_t)((((b + (b >> 4)) & 0x0f0f0f0fU) * 0x01010101U) >> 24);
  }
}
void histogram_floats(const float *restrict X, int32_t *restrict H) {
  memset(H, 0, sizeof(int32_t[256]));
  FOR (i, 1000003) {
    long b = (long)(X[i] * 128 + 128);
    if (b >= 0 && b < 256) H[b]++;
  }
}
void histogram_channels(const uint8_t *restrict X, int32_t *restrict H) {
  memset(H, 0, sizeof(int32_t[3][256]));
  FOR (i, 300001)
    FOR (c, 3) H[c * 256 + X[3 * i + c]]++;
}
