/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

void running_sum(const float *restrict X, float *restrict S) {
  float s = 0;
  FOR (i, 1000003) S[i] = s += X[i];
}
void running_rows(const float *restrict X, float *restrict S) {
  FOR (i, 1021) {
    float s = 0;
    FOR (j, 1031) S[i * 1031 + j] = s += X[i * 1031 + j];
  }
}
void running_columns(const float *restrict X, float *restrict S) {
  FOR (j, 1031) S[j] = X[j];
  for (long i = 1; i < 1021; i++)
    FOR (j, 1031) S[i * 1031 + j] = S[(i - 1) * 1031 + j] + X[i * 1031 + j];
}
void running_max(const float *restrict X, float *restrict S) {
  FOR (i, 1021) {
    float s = X[i * 1031];
    FOR (j, 1031) S[i * 1031 + j] = s = fmaxf(s, X[i * 1031 + j]);
  }
}
void integral_image(const float *restrict X, float *restrict S) {
  FOR (i, 1021) {
    float s = 0;
    FOR (j, 1031) S[i * 1031 + j] = (s += X[i * 1031 + j]) + (i > 0 ? S[(i - 1) * 1031 + j] : 0);
  }
}
void exponential_average(const float *restrict X, float *restrict S) {
  FOR (c, 257) {
    float s = X[c * 4099];
    FOR (t, 4099) S[c * 4099 + t] = s = t > 0 ? 0.9F * s + 0.1F * X[c * 4099 + t] : s;
  }
}
void biquad(const float *restrict X, float *restrict Y) {
  Y[0] = X[0];
  Y[1] = X[1];
  for (long t = 2; t < 1000003; t++)
    Y[t] = 0.2F * X[t] + 0.3F * X[t - 1] + 0.1F * X[t - 2] + 0.5F * Y[t - 1] - 0.2F * Y[t - 2];
}
void last_state(const float *restrict A, const float *restrict x, float *restrict y) {
  float p[127], q[127];
  memcpy(p, x, sizeof(p));
  for (long t = 1; t < 65; t++) {
    FOR (i, 127) q[i] = 0.5F * p[i] + A[t * 127 * 127 + i] * p[(i + 1) % 127];
    memcpy(p, q, sizeof(p));
  }
  memcpy(y, p, sizeof(p));
}
void knapsack(const float *restrict v, const int64_t *restrict w, float *restrict B) {
  FOR (c, 4001) B[c] = w[0] <= c ? v[0] : 0;
  for (long i = 1; i < 61; i++)
    for (long c = 4000; c >= 0; c--) B[c] = fmaxf(B[c], w[i] <= c ? B[clamped(c - w[i], 0, 4000)] + v[i] : 0);
}
void shortest_paths(const float *restrict D, float *restrict E) {
  memcpy(E, D, sizeof(float[151][151]));
  FOR (k, 151)
    FOR (i, 151)
      FOR (j, 151) E[i * 151 + j] = fminf(E[i * 151 + j], E[i * 151 + k] + E[k * 151 + j]);
}
void viterbi(const float *restrict T, const float *restrict O, float *restrict B) {
  FOR (s, 61) B[s] = O[s];
  for (long t = 1; t < 256; t++)
    FOR (s, 61) B[t * 61 + s] = B[(t - 1) * 61 + s] + O[t * 61 + s] * T[s * 61 + (s + 1) % 61];
}
static float squashed(float x) { return 1 / (1 + expf(-x)); }

void recurrent(const float *restrict X, const float *restrict V, const float *restrict W, const float *restrict h0,
               float *restrict h) {
  FOR (i, 129) h[i] = h0[i];
  for (long t = 1; t < 61; t++)
    FOR (i, 129) {
      float s = 0;
      FOR (d, 127) s += V[i * 127 + d] * X[t * 127 + d];
      FOR (k, 129) s += W[i * 129 + k] * h[(t - 1) * 129 + k];
      h[t * 129 + i] = tanhf(s);
    }
}
void gated(const float *restrict X, const float *restrict V, const float *restrict U, const float *restrict R,
           const float *restrict W, float *restrict h) {
  float z[97], r[97];
  FOR (i, 5 * 97) h[i] = 0;
  for (long t = 1; t < 31; t++)
    FOR (b, 5) {
      const float *x = X + (t * 5 + b) * 67, *old = h + ((t - 1) * 5 + b) * 97;
      FOR (k, 97) {
        float p = 0, q = 0;
        FOR (d, 67) p += V[k * 67 + d] * x[d];
        FOR (j, 97) p += U[k * 97 + j] * old[j];
        FOR (d, 67) q += V[(97 + k) * 67 + d] * x[d];
        FOR (j, 97) q += R[k * 97 + j] * old[j];
        z[k] = squashed(p);
        r[k] = squashed(q) * old[k];
      }
      FOR (i, 97) {
        float s = 0;
        FOR (d, 67) s += V[(2 * 97 + i) * 67 + d] * x[d];
        FOR (k, 97) s += W[i * 97 + k] * r[k];
        h[(t * 5 + b) * 97 + i] = z[i] * old[i] + (1 - z[i]) * tanhf(s);
      }
    }
}
static void remember(const float *restrict x, const float *restrict U, const float *restrict old,
                     const float *restrict cell, float *restrict h, float *restrict c) {
  float g[4 * 117];
  FOR (k, 4 * 117) {
    float s = x[k];
    FOR (j, 117) s += U[k * 117 + j] * old[j];
    g[k] = s;
  }
  FOR (i, 117) {
    c[i] = cell[i] * squashed(g[2 * 117 + i]) + tanhf(g[3 * 117 + i]) * squashed(g[i]);
    h[i] = tanhf(c[i]) * squashed(g[117 + i]);
  }
}
void long_short(const float *restrict X, const float *restrict U, float *restrict h, float *restrict c) {
  FOR (i, 117) h[i] = c[i] = 0;
  for (long t = 1; t < 47; t++)
    remember(X + t * 4 * 117, U, h + (t - 1) * 117, c + (t - 1) * 117, h + t * 117, c + t * 117);
}
void long_short_backwards(const float *restrict X, const float *restrict U, float *restrict h) {
  float state[2][117] = {{0}}, cell[2][117] = {{0}};
  for (long t = 45; t >= 0; t--)
    remember(X + t * 4 * 117, U, state[(t + 1) % 2], cell[(t + 1) % 2], state[t % 2], cell[t % 2]);
  memcpy(h, state[0], sizeof(state[0]));
}
void likeliest_path(const float *restrict A, const float *restrict B, float *restrict best, int64_t *restrict from) {
  FOR (j, 61) best[j] = B[j], from[j] = 0;
  for (long t = 1; t < 255; t++)
    FOR (j, 61) {
      float most = best[(t - 1) * 61] + A[j];
      long at = 0;
      for (long i = 1; i < 61; i++) {
        float v = best[(t - 1) * 61 + i] + A[i * 61 + j];
        if (v > most) most = v, at = i;
      }
      best[t * 61 + j] = most + B[t * 61 + j];
      from[t * 61 + j] = at;
    }
}
void hidden_states(const float *restrict A, const float *restrict B, float *restrict f) {
  FOR (j, 61) f[j] = B[j];
  for (long t = 1; t < 255; t++) {
    float s[61] = {0};
    FOR (i, 61)
      FOR (j, 61) s[j] += f[(t - 1) * 61 + i] * A[i * 61 + j];
    FOR (j, 61) f[t * 61 + j] = B[t * 61 + j] * s[j];
  }
}
void shortest_steps(const float *restrict W, float *restrict D) {
  float now[131];
  FOR (j, 131) D[j] = W[j];
  for (long t = 1; t < 33; t++) {
    memcpy(now, D, sizeof(now));
    FOR (i, 131)
      FOR (j, 131) D[j] = fminf(D[j], now[i] + W[i * 131 + j]);
  }
}
void edit_distance(const uint8_t *restrict a, const uint8_t *restrict b, int32_t *restrict D) {
  int32_t row[258];
  FOR (j, 258) row[j] = (int32_t)j;
  for (long i = 1; i <= 301; i++) {
    int32_t before = row[0];
    row[0] = (int32_t)i;
    for (long j = 1; j <= 257; j++) {
      int32_t up = row[j], least = up < row[j - 1] ? up : row[j - 1];
      int32_t moved = before + (a[i - 1] != b[j - 1]);
      row[j] = least + 1 < moved ? least + 1 : moved;
      before = up;
    }
  }
  D[0] = row[257];
}
void local_alignment(const uint8_t *restrict a, const uint8_t *restrict b, int32_t *restrict M) {
  int32_t row[258] = {0}, most = 0;
  for (long i = 1; i <= 301; i++) {
    int32_t before = 0;
    for (long j = 1; j <= 257; j++) {
      int32_t up = row[j], gap = (up > row[j - 1] ? up : row[j - 1]) - 2;
      int32_t here = before + (a[i - 1] == b[j - 1] ? 3 : -1);
      here = here > gap ? here : gap;
      row[j] = here > 0 ? here : 0;
      most = most > row[j] ? most : row[j];
      before = up;
    }
  }
  M[0] = most;
}
void convolved_self(double *restrict C) {
  C[0] = 1;
  for (long n = 1; n < 1009; n++) {
    double s = 0;
    FOR (k, n) s += C[k] * C[n - 1 - k];
    C[n] = 0.25 * s;
  }
}
void substituted(const float *restrict L, const float *restrict b, float *restrict x) {
  FOR (i, 509) {
    float s = 0;
    FOR (k, i) s += L[i * 509 + k] * x[k];
    x[i] = b[i] - s;
  }
}
void running_sum_i32(const int32_t *restrict X, int32_t *restrict S) {
  uint32_t s = 0;
  FOR (i, 1000003) S[i] = (int32_t)(s += (uint32_t)X[i]);
}
void running_max_i32(const int32_t *restrict X, int32_t *restrict S) {
  int32_t s = X[0];
  FOR (i, 1000003) S[i] = s = s > X[i] ? s : X[i];
}
void running_max_one(const float *restrict X, float *restrict S) {
  float s = X[0];
  FOR (i, 1000003) S[i] = s = fmaxf(s, X[i]);
}
void chebyshev(const float *restrict c, const float *restrict x, float *restrict y) {
  FOR (i, 50021) {
    float before = 1, now = x[i], s = c[0] + c[1] * now;
    for (long k = 2; k < 16; k++) {
      float next = 2 * x[i] * now - before;
      before = now;
      now = next;
      s += c[k] * next;
    }
    y[i] = s;
  }
}
void clenshaw(const float *restrict c, const float *restrict x, float *restrict y) {
  FOR (i, 30011) {
    float b = c[13], d = 0;
    for (long k = 1; k < 14; k++) {
      float next = c[13 - k] + 2 * x[i] * b - d;
      d = b;
      b = next;
    }
    y[i] = b - x[i] * d;
  }
}
void horner_long(const float *restrict c, const float *restrict x, float *restrict y) {
  FOR (i, 30011) {
    float h = c[69];
    for (long k = 1; k < 70; k++) h = h * x[i] + c[69 - k];
    y[i] = h;
  }
}
void running_middle(const float *restrict X, float *restrict S) {
  FOR (i, 31) {
    FOR (k, 37) S[i * 3737 + k] = X[i * 3737 + k];
    for (long j = 1; j < 101; j++)
      FOR (k, 37) S[i * 3737 + j * 37 + k] = S[i * 3737 + (j - 1) * 37 + k] + X[i * 3737 + j * 37 + k];
  }
}
void substituted_back(const float *restrict U, const float *restrict b, float *restrict x) {
  for (long i = 508; i >= 0; i--) {
    float s = 0;
    for (long k = i + 1; k < 509; k++) s += U[i * 509 + k] * x[k];
    x[i] = b[i] - s;
  }
}
void running_any(const bool *restrict X, bool *restrict S) {
  bool s = false;
  FOR (i, 300007) S[i] = s = s || X[i];
}
void running_min_u8(const uint8_t *restrict X, uint8_t *restrict S) {
  uint8_t s = X[0];
  FOR (i, 300007) S[i] = s = s < X[i] ? s : X[i];
}
void running_few_i16(const int16_t *restrict X, int16_t *restrict S) {
  FOR (r, 3) {
    uint16_t s = 0;
    FOR (i, 50021) S[r * 50021 + i] = (int16_t)(s = (uint16_t)(s + (uint16_t)X[r * 50021 + i]));
  }
}
