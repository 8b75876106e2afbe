/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

void dense_weights(const float *restrict X, const float *restrict dY, float *restrict dW) {
  FOR (k, 263)
    FOR (o, 251) {
      float s = 0;
      FOR (b, 257) s += X[b * 263 + k] * dY[b * 251 + o];
      dW[k * 251 + o] = s;
    }
}
void dense_input(const float *restrict dY, const float *restrict W, float *restrict dX) {
  FOR (b, 257)
    FOR (k, 263) {
      float s = 0;
      FOR (o, 251) s += dY[b * 251 + o] * W[k * 251 + o];
      dX[b * 263 + k] = s;
    }
}
void bias_of_images(const float (*restrict dY)[37][930], float *restrict db) {
  FOR (c, 37) {
    float s = 0;
    FOR (n, 8)
      FOR (p, 930) s += dY[n][c][p];
    db[c] = s;
  }
}
void causal_softmax_gradient(const float (*restrict P)[128][128], const float (*restrict dP)[128][128],
                             float (*restrict dS)[128][128]) {
  FOR (h, 8)
    FOR (i, 128) {
      float t = 0;
      FOR (j, i + 1) t += P[h][i][j] * dP[h][i][j];
      FOR (j, i + 1) dS[h][i][j] = P[h][i][j] * (dP[h][i][j] - t);
      for (long j = i + 1; j < 128; j++) dS[h][i][j] = 0;
    }
}
void bias(const float *restrict dY, float *restrict db) {
  FOR (o, 251) {
    float s = 0;
    FOR (b, 2057) s += dY[b * 251 + o];
    db[o] = s;
  }
}
void convolution_weights(const float *restrict X, const float *restrict dY, float *restrict dW) {
  FOR (o, 24)
    FOR (c, 16)
      FOR (r, 3)
        FOR (q, 3) {
          float s = 0;
          FOR (n, 4)
            FOR (y, 64)
              FOR (x, 64) s += X[((n * 16 + c) * 66 + y + r) * 66 + x + q] * dY[((n * 24 + o) * 64 + y) * 64 + x];
          dW[((o * 16 + c) * 3 + r) * 3 + q] = s;
        }
}
void convolution_input(const float *restrict dY, const float *restrict W, float *restrict dX) {
  memset(dX, 0, sizeof(float[4][16][66][66]));
  FOR (n, 4)
    FOR (c, 16)
      FOR (o, 24)
        FOR (y, 64)
          FOR (r, 3)
            FOR (q, 3)
              FOR (x, 64)
                dX[((n * 16 + c) * 66 + y + r) * 66 + x + q] +=
                    dY[((n * 24 + o) * 64 + y) * 64 + x] * W[((o * 16 + c) * 3 + r) * 3 + q];
}
void strided_input(const float *restrict dY, const float *restrict W, float *restrict dX) {
  memset(dX, 0, sizeof(float[4][16][66][66]));
  FOR (n, 4)
    FOR (c, 16)
      FOR (o, 24)
        FOR (i, 33)
          FOR (r, 3)
            FOR (q, 3)
              FOR (j, 33) {
                long y = 2 * i + r - 1, x = 2 * j + q - 1;
                if (0 <= y && 0 <= x && y < 66 && x < 66)
                  dX[((n * 16 + c) * 66 + y) * 66 + x] +=
                      dY[((n * 24 + o) * 33 + i) * 33 + j] * W[((o * 16 + c) * 3 + r) * 3 + q];
              }
}
void relu_gradient(const float *restrict X, const float *restrict dY, float *restrict dX) {
  FOR (i, 1021 * 1031) dX[i] = X[i] > 0 ? dY[i] : 0;
}
void gelu_gradient(const float *restrict X, const float *restrict dY, float *restrict dX) {
  FOR (i, 1021 * 1031)
    dX[i] = dY[i] * (0.5F * (1 + erff(X[i] * 0.70710678F)) + X[i] * 0.39894228F * expf(-0.5F * X[i] * X[i]));
}
void softmax_gradient(const float *restrict Y, const float *restrict dY, float *restrict dX) {
  FOR (i, 1021) {
    float s = 0;
    FOR (j, 259) s += Y[i * 259 + j] * dY[i * 259 + j];
    FOR (j, 259) dX[i * 259 + j] = Y[i * 259 + j] * (dY[i * 259 + j] - s);
  }
}
void norm_gradient(const float *restrict X, const float *restrict g, const float *restrict dY, float *restrict dX,
                   float *restrict dg) {
  memset(dg, 0, sizeof(float[259]));
  FOR (i, 1021) {
    const float *x = X + i * 259, *d = dY + i * 259;
    float m = 0, v = 0, a = 0, b = 0;
    FOR (j, 259) m += x[j];
    m /= 259;
    FOR (j, 259) v += (x[j] - m) * (x[j] - m);
    float r = 1 / sqrtf(v / 259 + 1e-5F);
    FOR (j, 259) {
      a += d[j] * g[j];
      b += d[j] * g[j] * (x[j] - m) * r;
    }
    a /= 259;
    b /= 259;
    FOR (j, 259) {
      dX[i * 259 + j] = r * (d[j] * g[j] - a - (x[j] - m) * r * b);
      dg[j] += d[j] * (x[j] - m) * r;
    }
  }
}
void pool_gradient(const float *restrict X, const float *restrict dY, float *restrict dX) {
  FOR (c, 16)
    FOR (y, 64)
      FOR (x, 63) {
        const float *i = X + (c * 128 + 2 * y) * 126 + 2 * x;
        float *o = dX + (c * 128 + 2 * y) * 126 + 2 * x, d = dY[(c * 64 + y) * 63 + x];
        float m = fmaxf(fmaxf(i[0], i[1]), fmaxf(i[126], i[127]));
        FOR (r, 2)
          FOR (q, 2) o[r * 126 + q] = i[r * 126 + q] == m ? d : 0;
      }
}
void cross_entropy(const float *restrict X, const int64_t *restrict t, float *restrict dX) {
  FOR (i, 1021) {
    const float *x = X + i * 259;
    float m = -INFINITY, s = 0;
    FOR (j, 259) m = fmaxf(m, x[j]);
    FOR (j, 259) s += expf(x[j] - m);
    FOR (j, 259) dX[i * 259 + j] = expf(x[j] - m) / s - (j == t[i] ? 1.0F : 0.0F);
  }
}
void embedding_gradient(const int64_t *restrict I, const float *restrict dY, float *restrict dE) {
  memset(dE, 0, sizeof(float[503][67]));
  FOR (b, 401)
    FOR (d, 67) dE[I[b] * 67 + d] += dY[b * 67 + d];
}
void adam(const float *restrict p, const float *restrict g, const float *restrict m, const float *restrict v,
          float *restrict P, float *restrict M, float *restrict V) {
  FOR (i, 300007) {
    float a = 0.9F * m[i] + 0.1F * g[i], b = 0.999F * v[i] + 0.001F * g[i] * g[i];
    M[i] = a;
    V[i] = b;
    P[i] = p[i] - 0.001F * a / sqrtf(b + 1e-8F);
  }
}
