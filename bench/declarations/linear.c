/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

void product_nn(const float *restrict A, const float *restrict B, float *restrict C) {
  FOR (i, 509)
    FOR (j, 517) {
      float s = 0;
      FOR (k, 523) s += A[i * 523 + k] * B[k * 517 + j];
      C[i * 517 + j] = s;
    }
}
void product_nt(const float *restrict A, const float *restrict B, float *restrict C) {
  FOR (i, 509)
    FOR (j, 517) {
      float s = 0;
      FOR (k, 523) s += A[i * 523 + k] * B[j * 523 + k];
      C[i * 517 + j] = s;
    }
}
void product_tn(const float *restrict A, const float *restrict B, float *restrict C) {
  FOR (i, 509)
    FOR (j, 517) {
      float s = 0;
      FOR (k, 523) s += A[k * 509 + i] * B[k * 517 + j];
      C[i * 517 + j] = s;
    }
}
void product_tt(const float *restrict A, const float *restrict B, float *restrict C) {
  FOR (i, 509)
    FOR (j, 517) {
      float s = 0;
      FOR (k, 523) s += A[k * 509 + i] * B[j * 523 + k];
      C[i * 517 + j] = s;
    }
}
void product_turned(const float *restrict A, const float *restrict B, float *restrict C) {
  FOR (j, 517)
    FOR (i, 509) {
      float s = 0;
      FOR (k, 523) s += A[i * 523 + k] * B[k * 517 + j];
      C[j * 509 + i] = s;
    }
}
void product_f64(const double *restrict A, const double *restrict B, double *restrict C) {
  FOR (i, 301)
    FOR (j, 311) {
      double s = 0;
      FOR (k, 307) s += A[i * 307 + k] * B[k * 311 + j];
      C[i * 311 + j] = s;
    }
}
void product_batch_last(const float *restrict A, const float *restrict B, float *restrict C) {
  FOR (i, 31)
    FOR (j, 29)
      FOR (b, 257) {
        float s = 0;
        FOR (k, 37) s += A[(i * 37 + k) * 257 + b] * B[(k * 29 + j) * 257 + b];
        C[(i * 29 + j) * 257 + b] = s;
      }
}
void product_three(const float *restrict A, const float *restrict w, const float *restrict B, float *restrict C) {
  FOR (i, 257)
    FOR (j, 251) {
      float s = 0;
      FOR (k, 263) s += A[i * 263 + k] * w[k] * B[k * 251 + j];
      C[i * 251 + j] = s;
    }
}
void product_complex(const float *restrict Ar, const float *restrict Ai, const float *restrict Br,
                     const float *restrict Bi, float *restrict Cr, float *restrict Ci) {
  FOR (i, 253)
    FOR (j, 247) {
      float r = 0, m = 0;
      FOR (k, 261) {
        r += Ar[i * 261 + k] * Br[k * 247 + j] - Ai[i * 261 + k] * Bi[k * 247 + j];
        m += Ar[i * 261 + k] * Bi[k * 247 + j] + Ai[i * 261 + k] * Br[k * 247 + j];
      }
      Cr[i * 247 + j] = r;
      Ci[i * 247 + j] = m;
    }
}
void min_plus(const float *restrict A, const float *restrict B, float *restrict C) {
  FOR (i, 253)
    FOR (j, 247) {
      float s = INFINITY;
      FOR (k, 261) s = fminf(s, A[i * 261 + k] + B[k * 247 + j]);
      C[i * 247 + j] = s;
    }
}
void max_times(const float *restrict A, const float *restrict B, float *restrict C) {
  FOR (i, 253)
    FOR (j, 247) {
      float s = -INFINITY;
      FOR (k, 261) s = fmaxf(s, A[i * 261 + k] * B[k * 247 + j]);
      C[i * 247 + j] = s;
    }
}
void distances(const float *restrict A, const float *restrict B, float *restrict C) {
  FOR (i, 253)
    FOR (j, 247) {
      float s = 0;
      FOR (k, 67) s += fabsf(A[i * 67 + k] - B[j * 67 + k]);
      C[i * 247 + j] = s;
    }
}
void triangular(const float *restrict L, const float *restrict B, float *restrict C) {
  FOR (i, 401)
    FOR (j, 397) {
      float s = 0;
      FOR (k, i + 1) s += L[i * 401 + k] * B[k * 397 + j];
      C[i * 397 + j] = s;
    }
}
void rank_one(const float *restrict x, const float *restrict y, const float *restrict A, float *restrict B) {
  FOR (i, 1021)
    FOR (j, 1031) B[i * 1031 + j] = A[i * 1031 + j] + x[i] * y[j];
}
void vector_rows(const float *restrict A, const float *restrict x, float *restrict y) {
  FOR (i, 1021) {
    float s = 0;
    FOR (j, 1031) s += A[i * 1031 + j] * x[j];
    y[i] = s;
  }
}
void vector_columns(const float *restrict A, const float *restrict x, float *restrict y) {
  FOR (j, 1031) {
    float s = 0;
    FOR (i, 1021) s += A[i * 1031 + j] * x[i];
    y[j] = s;
  }
}
void quadratic(const float *restrict A, const float *restrict x, const float *restrict y, float *restrict s) {
  float sum = 0;
  FOR (i, 1021)
    FOR (j, 1031) sum += x[i] * A[i * 1031 + j] * y[j];
  s[0] = sum;
}
void kronecker(const float *restrict A, const float *restrict B, float *restrict C) {
  FOR (i, 37 * 29)
    FOR (j, 41 * 31) C[i * (41 * 31) + j] = A[i / 29 * 41 + j / 31] * B[i % 29 * 31 + j % 31];
}
void experts(const float *restrict X, const float *restrict W, const int64_t *restrict e, float *restrict Y) {
  FOR (t, 61)
    FOR (o, 127) {
      float s = 0;
      FOR (k, 131) s += X[t * 131 + k] * W[(e[t] * 131 + k) * 127 + o];
      Y[t * 127 + o] = s;
    }
}
