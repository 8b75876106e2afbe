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
