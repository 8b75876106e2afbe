/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

void whole_powers(const float *restrict X, float *restrict Y) {
  FOR (i, 100003) Y[i] = powf(X[i], 2) + 0.5f * powf(X[i], 3) - 0.25f * powf(X[i], 5);
}
void half_powers(const float *restrict X, float *restrict Y) {
  FOR (i, 100003) Y[i] = powf(fabsf(X[i]), 1.5f) + powf(1 + fabsf(X[i]), -1.5f);
}
void linear_light(const float *restrict I, float *restrict O) {
  FOR (i, 269 * 481 * 3) O[i] = I[i] <= 0.04045f ? I[i] / 12.92f : powf((I[i] + 0.055f) / 1.055f, 2.4f);
}
void any_powers(const float *restrict X, const float *restrict E, float *restrict Y) {
  FOR (i, 100003) Y[i] = powf(fabsf(X[i]), E[i]);
}
void powers_of_two(const float *restrict X, float *restrict Y) {
  FOR (i, 100003) Y[i] = exp2f(X[i]);
}
void logarithms(const float *restrict X, float *restrict Y) {
  FOR (i, 100003) Y[i] = logf(1.5f + X[i]);
}
void masked_softmax(const float *restrict X, float *restrict Y) {
  FOR (i, 257) {
    float most = -INFINITY, sum = 0;
    FOR (j, i + 1) most = fmaxf(most, X[i * 259 + j]);
    FOR (j, 259) Y[i * 259 + j] = j <= i ? expf(X[i * 259 + j] - most) : 0;
    FOR (j, 259) sum += Y[i * 259 + j];
    FOR (j, 259) Y[i * 259 + j] /= sum;
  }
}
