/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

void cross_products(const float (*restrict A)[3], const float (*restrict B)[3], float (*restrict C)[3]) {
  FOR (n, 30011)
    FOR (i, 3) C[n][i] = A[n][(i + 1) % 3] * B[n][(i + 2) % 3] - A[n][(i + 2) % 3] * B[n][(i + 1) % 3];
}

void quaternion(const float (*restrict P)[4], const float (*restrict Q)[4], float (*restrict R)[4]) {
  FOR (n, 30011) {
    R[n][0] = P[n][0] * Q[n][0] - P[n][1] * Q[n][1] - P[n][2] * Q[n][2] - P[n][3] * Q[n][3];
    R[n][1] = P[n][0] * Q[n][1] + P[n][1] * Q[n][0] + P[n][2] * Q[n][3] - P[n][3] * Q[n][2];
    R[n][2] = P[n][0] * Q[n][2] - P[n][1] * Q[n][3] + P[n][2] * Q[n][0] + P[n][3] * Q[n][1];
    R[n][3] = P[n][0] * Q[n][3] + P[n][1] * Q[n][2] - P[n][2] * Q[n][1] + P[n][3] * Q[n][0];
  }
}

void complex_multiply(const float (*restrict A)[2], const float (*restrict B)[2], float (*restrict C)[2]) {
  FOR (n, 50021) {
    C[n][0] = A[n][0] * B[n][0] - A[n][1] * B[n][1];
    C[n][1] = A[n][0] * B[n][1] + A[n][1] * B[n][0];
  }
}

void fft_stage(const float *restrict R, const float *restrict I, const float *restrict c, const float *restrict s,
               float *restrict A, float *restrict B) {
  FOR (k, 32)
    FOR (j, 64) {
      long u = k * 128 + j, v = u + 64;
      float t = R[v] * c[j] - I[v] * s[j], w = R[v] * s[j] + I[v] * c[j];
      A[u] = R[u] + t;
      A[v] = R[u] - t;
      B[u] = I[u] + w;
      B[v] = I[u] - w;
    }
}

void fft_stage_2(const float (*restrict R)[2][2], const float (*restrict I)[2][2], const float *restrict c,
                 const float *restrict s, float (*restrict A)[2][2], float (*restrict B)[2][2]) {
  FOR (k, 8192)
    FOR (j, 2) {
      float t = R[k][1][j] * c[j] - I[k][1][j] * s[j], w = R[k][1][j] * s[j] + I[k][1][j] * c[j];
      A[k][0][j] = R[k][0][j] + t;
      A[k][1][j] = R[k][0][j] - t;
      B[k][0][j] = I[k][0][j] + w;
      B[k][1][j] = I[k][0][j] - w;
    }
}

void unit_vectors(const float (*restrict V)[3], float (*restrict N)[3]) {
  FOR (n, 30011) {
    float s = 1e-12f;
    FOR (c, 3) s += V[n][c] * V[n][c];
    s = 1 / sqrtf(s);
    FOR (c, 3) N[n][c] = V[n][c] * s;
  }
}

void softmax_pairs(const float (*restrict X)[2], float (*restrict Y)[2]) {
  FOR (i, 50021) {
    float m = -INFINITY, s = 0;
    FOR (j, 2) m = fmaxf(m, X[i][j]);
    FOR (j, 2) s += expf(X[i][j] - m);
    FOR (j, 2) Y[i][j] = expf(X[i][j] - m) / s;
  }
}

void alpha_blend(const uint8_t (*restrict A)[401][4], const uint8_t (*restrict B)[401][4],
                 uint8_t (*restrict O)[401][4]) {
  FOR (y, 301)
    FOR (x, 401)
      FOR (c, 4) O[y][x][c] = (A[y][x][c] * A[y][x][3] + B[y][x][c] * (255 - A[y][x][3]) + 127) / 255;
}

void color_matrix(const float (*restrict I)[401][3], const float (*restrict M)[3], const float *restrict b,
                  float (*restrict O)[401][3]) {
  FOR (y, 301)
    FOR (x, 401)
      FOR (c, 3) {
        float s = b[c];
        FOR (k, 3) s += M[c][k] * I[y][x][k];
        O[y][x][c] = s;
      }
}

void transform_points(const float (*restrict M)[4], const float (*restrict P)[3], float (*restrict Q)[3]) {
  FOR (n, 50021)
    FOR (i, 3) {
      float s = M[i][3];
      FOR (k, 3) s += M[i][k] * P[n][k];
      Q[n][i] = s;
    }
}

void spring_forces(const float (*restrict X)[3], const int64_t (*restrict E)[2], const float *restrict L,
                   float (*restrict F)[3]) {
  FOR (e, 8009) {
    const float *p = X[E[e][0]], *q = X[E[e][1]];
    float s = 1e-9f, d[3];
    FOR (c, 3) {
      d[c] = q[c] - p[c];
      s += d[c] * d[c];
    }
    float f = 1 - L[e] / sqrtf(s);
    FOR (c, 3) F[e][c] = d[c] * f;
  }
}

void sum_three_columns(const float (*restrict X)[3], float *restrict m) {
  float a[3] = {0};
  FOR (i, 20001)
    FOR (j, 3) a[j] += X[i][j];
  FOR (j, 3) m[j] = a[j];
}

void bounding_box(const float (*restrict P)[3], float *restrict low, float *restrict high) {
  float least[3] = {INFINITY, INFINITY, INFINITY}, greatest[3] = {-INFINITY, -INFINITY, -INFINITY};
  FOR (i, 50021)
    FOR (c, 3) {
      least[c] = P[i][c] < least[c] ? P[i][c] : least[c];
      greatest[c] = P[i][c] > greatest[c] ? P[i][c] : greatest[c];
    }
  FOR (c, 3) low[c] = least[c], high[c] = greatest[c];
}

void moments(const float (*restrict X)[3], float *restrict m, float *restrict v) {
  float a[3] = {0}, b[3] = {0};
  FOR (i, 100003)
    FOR (j, 3) a[j] += X[i][j];
  FOR (j, 3) m[j] = a[j] / 100003;
  FOR (i, 100003)
    FOR (j, 3) b[j] += (X[i][j] - m[j]) * (X[i][j] - m[j]);
  FOR (j, 3) v[j] = b[j] / 100003;
}

void second_moments(const float (*restrict X)[3], float (*restrict S)[3]) {
  float s[3][3] = {{0}};
  FOR (n, 10007)
    FOR (i, 3)
      FOR (j, 3) s[i][j] += X[n][i] * X[n][j];
  FOR (i, 3)
    FOR (j, 3) S[i][j] = s[i][j] / 10007;
}

void tall_gram(const float (*restrict A)[7], float (*restrict G)[7]) {
  FOR (i, 7)
    FOR (j, 7) G[i][j] = 0;
  FOR (n, 20011)
    FOR (i, 7)
      FOR (j, 7) G[i][j] += A[n][i] * A[n][j];
}

void batch_norm(const float (*restrict X)[129], float (*restrict Y)[129]) {
  float m[129] = {0}, v[129] = {0};
  FOR (i, 257)
    FOR (j, 129) m[j] += X[i][j];
  FOR (j, 129) m[j] /= 257;
  FOR (i, 257)
    FOR (j, 129) v[j] += (X[i][j] - m[j]) * (X[i][j] - m[j]);
  FOR (j, 129) v[j] = 1 / sqrtf(v[j] / 257 + 1e-5f);
  FOR (i, 257)
    FOR (j, 129) Y[i][j] = (X[i][j] - m[j]) * v[j];
}

void instance_norm(const float (*restrict X)[24][57][59], float (*restrict Y)[24][57][59]) {
  FOR (n, 2)
    FOR (c, 24) {
      float m = 0, v = 0;
      FOR (y, 57)
        FOR (x, 59) {
          m += X[n][c][y][x];
          v += X[n][c][y][x] * X[n][c][y][x];
        }
      m /= 57 * 59;
      v = v / (57 * 59) - m * m;
      float r = 1 / sqrtf(v + 1e-5f);
      FOR (y, 57)
        FOR (x, 59) Y[n][c][y][x] = (X[n][c][y][x] - m) * r;
    }
}

void gather_rows(const float (*restrict E)[67], const int32_t *restrict I, float (*restrict Y)[67]) {
  FOR (n, 2003)
    FOR (d, 67) Y[n][d] = E[I[n]][d];
}

void repeat_rows(const float (*restrict X)[67], float (*restrict Y)[67]) {
  FOR (i, 1505)
    FOR (j, 67) Y[i][j] = X[i / 5][j];
}

void outer_three(const float *restrict x, const float *restrict y, const float *restrict z,
                 float (*restrict T)[101][103]) {
  FOR (i, 97)
    FOR (j, 101)
      FOR (k, 103) T[i][j][k] = x[i] * y[j] * z[k];
}

void cosine_blocks(const float (*restrict I)[264], const float (*restrict D)[8], float (*restrict O)[264]) {
  static float P[256][264];
  FOR (y, 256)
    FOR (x, 264) {
      float s = 0;
      FOR (k, 8) s += D[x % 8][k] * I[y][x - x % 8 + k];
      P[y][x] = s;
    }
  FOR (y, 256)
    FOR (x, 264) {
      float s = 0;
      FOR (k, 8) s += D[y % 8][k] * P[y - y % 8 + k][x];
      O[y][x] = s;
    }
}

void horner(const float *restrict c, const float *restrict x, float *restrict y) {
  FOR (i, 50021) {
    float h = c[11];
    for (long k = 1; k < 12; k++) h = h * x[i] + c[11 - k];
    y[i] = h;
  }
}
void covariance(const float (*restrict X)[3], float (*restrict S)[3]) {
  float m[3] = {0}, s[3][3] = {{0}};
  FOR (n, 8009)
    FOR (i, 3) m[i] += X[n][i];
  FOR (i, 3) m[i] /= 8009;
  FOR (n, 8009)
    FOR (i, 3)
      FOR (j, 3) s[i][j] += (X[n][i] - m[i]) * (X[n][j] - m[j]);
  FOR (i, 3)
    FOR (j, 3) S[i][j] = s[i][j] / 8008;
}
void normal_equations(const float (*restrict A)[4], const float *restrict b, float (*restrict N)[4],
                      float *restrict r) {
  float products[4][4] = {{0}}, right[4] = {0};
  FOR (n, 60007)
    FOR (i, 4) {
      FOR (j, 4) products[i][j] += A[n][i] * A[n][j];
      right[i] += A[n][i] * b[n];
    }
  memcpy(N, products, sizeof products);
  memcpy(r, right, sizeof right);
}
void color_products(const uint8_t (*restrict I)[207][3], int32_t (*restrict S)[3]) {
  int32_t s[3][3] = {{0}};
  FOR (y, 301)
    FOR (x, 207)
      FOR (a, 3)
        FOR (b, 3) s[a][b] += I[y][x][a] * I[y][x][b];
  memcpy(S, s, sizeof s);
}
