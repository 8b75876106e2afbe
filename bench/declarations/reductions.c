/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

void sum_all(const float *restrict X, float *restrict s) {
  float sum = 0;
  FOR (i, 1021 * 1031) sum += X[i];
  s[0] = sum;
}
void sum_first(const float *restrict X, float *restrict s) {
  FOR (j, 1031) {
    float sum = 0;
    FOR (i, 1021) sum += X[i * 1031 + j];
    s[j] = sum;
  }
}
void sum_middle(const float *restrict X, float *restrict s) {
  FOR (i, 61)
    FOR (k, 127) {
      float sum = 0;
      FOR (j, 131) sum += X[(i * 131 + j) * 127 + k];
      s[i * 127 + k] = sum;
    }
}
void sum_ends(const float *restrict X, float *restrict s) {
  FOR (j, 131) {
    float sum = 0;
    FOR (i, 61)
      FOR (k, 127) sum += X[(i * 131 + j) * 127 + k];
    s[j] = sum;
  }
}
void mean_channels_first(const float *restrict X, float *restrict Y) {
  FOR (i, 131 * 127) {
    float sum = 0;
    FOR (c, 64) sum += X[c * (131 * 127) + i];
    Y[i] = sum / 64;
  }
}
void argmax_columns(const float *restrict X, int64_t *restrict a) {
  FOR (j, 1031) {
    long best = 0;
    FOR (i, 1021)
      if (X[i * 1031 + j] > X[best * 1031 + j]) best = i;
    a[j] = best;
  }
}
void argmax_columns_u8(const uint8_t *restrict X, int64_t *restrict a) {
  uint8_t best[517];
  FOR (j, 517) best[j] = X[j], a[j] = 0;
  FOR (i, 501)
    FOR (j, 517)
      if (X[i * 517 + j] > best[j]) best[j] = X[i * 517 + j], a[j] = i;
}
void variance_rows(const float (*restrict X)[930], float *restrict v) {
  FOR (i, 257) {
    float m = 0, s = 0;
    FOR (j, 930) m += X[i][j];
    m /= 930;
    FOR (j, 930) s += (X[i][j] - m) * (X[i][j] - m);
    v[i] = s / 930;
  }
}

void zero_crossings(const float *restrict X, int64_t *restrict n) {
  int64_t count = 0;
  FOR (i, 100002) count += X[i] * X[i + 1] < 0;
  *n = count;
}

void nearest_centre(const float (*restrict X)[8], const float (*restrict C)[8], int64_t *restrict N) {
  FOR (i, 3001) {
    float least = INFINITY;
    int64_t at = 0;
    FOR (c, 20) {
      float s = 0;
      FOR (d, 8) s += (X[i][d] - C[c][d]) * (X[i][d] - C[c][d]);
      if (s < least) least = s, at = c;
    }
    N[i] = at;
  }
}

void argmax_rows(const float *restrict X, int64_t *restrict a) {
  FOR (i, 1021) {
    long best = 0;
    FOR (j, 1031)
      if (X[i * 1031 + j] > X[i * 1031 + best]) best = j;
    a[i] = best;
  }
}
void variance_columns(const float *restrict X, float *restrict v) {
  FOR (j, 1031) {
    float m = 0, s = 0;
    FOR (i, 1021) m += X[i * 1031 + j];
    m /= 1021;
    FOR (i, 1021) s += (X[i * 1031 + j] - m) * (X[i * 1031 + j] - m);
    v[j] = s / 1021;
  }
}
void softmax_columns(const float *restrict X, float *restrict Y) {
  FOR (j, 1031) {
    float m = -INFINITY, s = 0;
    FOR (i, 1021) m = fmaxf(m, X[i * 1031 + j]);
    FOR (i, 1021) s += expf(X[i * 1031 + j] - m);
    FOR (i, 1021) Y[i * 1031 + j] = expf(X[i * 1031 + j] - m) / s;
  }
}
void count_equal(const int32_t *restrict A, const int32_t *restrict B, int64_t *restrict n) {
  FOR (i, 1021) {
    long c = 0;
    FOR (j, 1031) c += A[i * 1031 + j] == B[i * 1031 + j];
    n[i] = c;
  }
}
void any_row(const float *restrict X, bool *restrict y) {
  FOR (i, 1021) {
    bool any = false;
    FOR (j, 1031) any |= X[i * 1031 + j] > 0.9999F;
    y[i] = any;
  }
}
void sum_below(const float *restrict X, float *restrict s) {
  FOR (i, 701) {
    float sum = 0;
    FOR (j, i + 1) sum += X[i * 701 + j];
    s[i] = sum;
  }
}
void cosine(const float *restrict A, const float *restrict B, float *restrict c) {
  FOR (i, 1021) {
    float d = 0, a = 0, b = 0;
    FOR (k, 131) {
      float x = A[i * 131 + k], y = B[i * 131 + k];
      d += x * y;
      a += x * x;
      b += y * y;
    }
    c[i] = d / sqrtf(a * b);
  }
}
void row_moments(const float *restrict X, float *restrict m, float *restrict v) {
  FOR (i, 1021) {
    float a = 0, b = 0;
    FOR (j, 259) {
      float x = X[i * 259 + j];
      a += x;
      b += x * x;
    }
    m[i] = a / 259;
    v[i] = b / 259 - m[i] * m[i];
  }
}
void range(const float *restrict X, float *restrict low, float *restrict high, float *restrict s) {
  float a = INFINITY, b = -INFINITY, c = 0;
  FOR (i, 1021 * 1031) {
    a = fminf(a, X[i]);
    b = fmaxf(b, X[i]);
    c += X[i];
  }
  *low = a;
  *high = b;
  *s = c;
}
void two_vectors(const float *restrict A, const float *restrict x, const float *restrict z, float *restrict y,
                 float *restrict w) {
  FOR (i, 1021) {
    float a = 0, b = 0;
    FOR (k, 1031) {
      a += A[i * 1031 + k] * x[k];
      b += A[i * 1031 + k] * z[k];
    }
    y[i] = a;
    w[i] = b;
  }
}
void pool_last(const float *restrict X, float *restrict Y) {
  FOR (y, 56)
    FOR (x, 57)
      FOR (c, 65) {
        float most = -INFINITY;
        FOR (r, 3)
          FOR (s, 3) most = fmaxf(most, X[((2 * y + r) * 115 + 2 * x + s) * 65 + c]);
        Y[(y * 57 + x) * 65 + c] = most;
      }
}
void pool_first(const float *restrict X, float *restrict Y) {
  FOR (c, 33)
    FOR (y, 56)
      FOR (x, 57) {
        float most = -INFINITY;
        FOR (r, 2)
          FOR (s, 2) most = fmaxf(most, X[(c * 113 + 2 * y + r) * 115 + 2 * x + s]);
        Y[(c * 56 + y) * 57 + x] = most;
      }
}
void rolling_max(const float *restrict X, float *restrict Y) {
  FOR (i, 200000) {
    float most = -INFINITY;
    FOR (k, 32) most = fmaxf(most, X[i + k]);
    Y[i] = most;
  }
}
void row_extrema(const float *restrict X, float *restrict low, float *restrict high) {
  FOR (i, 1021) {
    float least = INFINITY, most = -INFINITY;
    FOR (j, 1031) least = fminf(least, X[i * 1031 + j]), most = fmaxf(most, X[i * 1031 + j]);
    low[i] = least;
    high[i] = most;
  }
}
void between(const float *restrict X, const float *restrict L, const float *restrict H, float *restrict Y) {
  FOR (i, 1021)
    FOR (j, 131) Y[i * 131 + j] = fminf(fmaxf(X[i * 131 + j], L[j]), H[j]);
}
