/* SPDX-License-Identifier: Apache-2.0 */
#include "plain.h"

void heat(const float *restrict U, float *restrict V) {
  FOR (i, 1023)
    FOR (j, 1025) {
      const float *u = U + i * 1025 + j;
      V[i * 1025 + j] =
          0 < i && i < 1022 && 0 < j && j < 1024 ? u[0] + 0.1F * (u[-1025] + u[1025] + u[-1] + u[1] - 4 * u[0]) : u[0];
    }
}
void heat_3d(const float *restrict U, float *restrict V) {
  FOR (i, 95)
    FOR (j, 97)
      FOR (k, 99) {
        const float *u = U + ((i + 1) * 99 + j + 1) * 101 + k + 1;
        V[(i * 97 + j) * 99 + k] = 0.4F * u[0] + 0.1F * (u[-9999] + u[9999] + u[-101] + u[101] + u[-1] + u[1]);
      }
}
static void step(const float *restrict U, float *restrict V, long rows, long columns) {
  FOR (i, rows - 2)
    FOR (j, columns - 2) {
      const float *u = U + (i + 1) * columns + j + 1;
      V[i * (columns - 2) + j] = 0.6F * u[0] + 0.1F * (u[-columns] + u[columns] + u[-1] + u[1]);
    }
}
void heat_4_steps(const float *restrict U, float *restrict V) {
  float *A = malloc(sizeof(float[1021][1023])), *B = malloc(sizeof(float[1019][1021]));
  step(U, A, 1023, 1025);
  step(A, B, 1021, 1023);
  step(B, A, 1019, 1021);
  step(A, V, 1017, 1019);
  free(A);
  free(B);
}
void heat_64_steps(const float *restrict U, float *restrict V) {
  float A[258], B[258];
  memcpy(A, U, sizeof(A));
  FOR (t, 64) {
    FOR (i, 258) B[i] = 0 < i && i < 257 ? A[i] + 0.25F * (A[i - 1] - 2 * A[i] + A[i + 1]) : A[i];
    memcpy(A, B, sizeof(A));
  }
  memcpy(V, A, sizeof(A));
}
void wave(const float *restrict U, const float *restrict P, float *restrict V) {
  FOR (i, 1021)
    FOR (j, 1023) {
      const float *u = U + (i + 1) * 1025 + j + 1;
      V[i * 1023 + j] = 2 * u[0] - P[(i + 1) * 1025 + j + 1] + 0.2F * (u[-1025] + u[1025] + u[-1] + u[1] - 4 * u[0]);
    }
}
void life(const uint8_t *restrict W, uint8_t *restrict N) {
  FOR (i, 1023)
    FOR (j, 1025) {
      int s = 0;
      FOR (a, 3)
        FOR (b, 3) s += W[(i + a + 1022) % 1023 * 1025 + (j + b + 1024) % 1025];
      N[i * 1025 + j] = s == 3 || (s == 4 && W[i * 1025 + j] == 1);
    }
}
void bodies(const float *restrict P, const float *restrict m, float *restrict F) {
  FOR (i, 1021) {
    float x = 0, y = 0, z = 0;
    FOR (j, 1021) {
      float a = P[j] - P[i], b = P[1021 + j] - P[1021 + i], c = P[2042 + j] - P[2042 + i];
      float r = 1 / sqrtf(a * a + b * b + c * c + 0.01F), w = m[j] * r * r * r;
      x += a * w;
      y += b * w;
      z += c * w;
    }
    F[i] = x;
    F[1021 + i] = y;
    F[2042 + i] = z;
  }
}
void upwind(const float *restrict U, const float *restrict A, float *restrict V) {
  FOR (i, 1023)
    FOR (j, 1023) {
      const float *u = U + i * 1025 + j + 1;
      float a = A[i * 1025 + j + 1];
      V[i * 1023 + j] = u[0] - 0.2F * (fmaxf(a, 0) * (u[0] - u[-1]) + fminf(a, 0) * (u[1] - u[0]));
    }
}
void smooth_exp(const float *restrict X, float *restrict Y) {
  float *E = malloc(sizeof(float[521][523]));
  FOR (i, 521 * 523) E[i] = expf(sinf(X[i]));
  FOR (i, 519)
    FOR (j, 521) {
      float s = 0;
      FOR (a, 3)
        FOR (b, 3) s += E[(i + a) * 523 + j + b];
      Y[i * 521 + j] = s;
    }
  free(E);
}
void move_points(const float *restrict X, const float *restrict A, float *restrict Y) {
  FOR (i, 40099)
    FOR (c, 3) {
      const float *x = X + 3 * i, *a = A + 4 * c;
      Y[3 * i + c] = a[0] * x[0] + a[1] * x[1] + a[2] * x[2] + a[3];
    }
}
