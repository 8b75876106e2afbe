/* Runs LeNet-5 from lenet.te on a drawn digit with made-up weights, and checks it against plain loops.
 *
 *   tenon build lenet.te --kernel lenet -o lenet
 *   cc main.c lenet.o -lm -o lenet
 *   ./lenet */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lenet.h"

typedef struct weights {
  float f1[6 * 25], b1[6], f2[16 * 6 * 25], b2[16], m3[120 * 400], b3[120], m4[84 * 120], b4[84], m5[10 * 84], b5[10];
} weights;

/* Numbers in [-scale, scale] that are the same everywhere (Knuth's MMIX generator). */
static void fill(float *out, size_t count, float scale, uint64_t *state) {
  for (size_t i = 0; i < count; i++) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    out[i] = scale * (2.0f * (float)(*state >> 40) / (float)(1 << 24) - 1.0f);
  }
}

/* ---- the same in plain loops ------------------------------------------------------------------------------------- */

static void convolve(const double *x, int channels, int size, const float *f, const float *b, int filters, double *y) {
  int out = size - 4;
  for (int o = 0; o < filters; o++)
    for (int i = 0; i < out; i++)
      for (int j = 0; j < out; j++) {
        double sum = b[o];
        for (int c = 0; c < channels; c++)
          for (int r = 0; r < 5; r++)
            for (int s = 0; s < 5; s++)
              sum += x[(c * size + i + r) * size + j + s] * f[((o * channels + c) * 5 + r) * 5 + s];
        y[(o * out + i) * out + j] = fmax(sum, 0);
      }
}

static void pool(const double *x, int channels, int size, double *y) {
  for (int c = 0; c < channels; c++)
    for (int i = 0; i < size; i++)
      for (int j = 0; j < size; j++) {
        const double *at = x + (c * 2 * size + 2 * i) * 2 * size + 2 * j;
        y[(c * size + i) * size + j] = fmax(fmax(at[0], at[1]), fmax(at[2 * size], at[2 * size + 1]));
      }
}

static void dense(const double *x, int inputs, const float *m, const float *b, int outputs, int rectify, double *y) {
  for (int n = 0; n < outputs; n++) {
    double sum = b[n];
    for (int k = 0; k < inputs; k++) sum += x[k] * m[n * inputs + k];
    y[n] = rectify ? fmax(sum, 0) : sum;
  }
}

static int reference(const float *image, const weights *w, double *probabilities) {
  static double framed[32 * 32], c1[6 * 28 * 28], p1[6 * 14 * 14], c2[16 * 10 * 10], p2[400], d3[120], d4[84];
  for (int y = 0; y < 28; y++)
    for (int x = 0; x < 28; x++) framed[(y + 2) * 32 + x + 2] = image[y * 28 + x];
  convolve(framed, 1, 32, w->f1, w->b1, 6, c1);
  pool(c1, 6, 14, p1);
  convolve(p1, 6, 14, w->f2, w->b2, 16, c2);
  pool(c2, 16, 5, p2);
  dense(p2, 400, w->m3, w->b3, 120, 1, d3);
  dense(d3, 120, w->m4, w->b4, 84, 1, d4);
  dense(d4, 84, w->m5, w->b5, 10, 0, probabilities);
  int digit = 0;
  for (int n = 1; n < 10; n++)
    if (probabilities[n] > probabilities[digit]) digit = n;
  double greatest = probabilities[digit], total = 0;
  for (int n = 0; n < 10; n++) total += probabilities[n] = exp(probabilities[n] - greatest);
  for (int n = 0; n < 10; n++) probabilities[n] /= total;
  return digit;
}

int main(void) {
  weights *w = malloc(sizeof *w);
  float image[28 * 28] = {0}, probabilities[10];
  double expected[10];
  uint64_t state = 1998;
  int32_t digit = -1;
  if (w == NULL) return 1;
  fill(w->f1, 6 * 25, 0.4f, &state);
  fill(w->b1, 6, 0.1f, &state);
  fill(w->f2, 16 * 6 * 25, 0.2f, &state);
  fill(w->b2, 16, 0.1f, &state);
  fill(w->m3, (size_t)120 * 400, 0.1f, &state);
  fill(w->b3, 120, 0.1f, &state);
  fill(w->m4, (size_t)84 * 120, 0.2f, &state);
  fill(w->b4, 84, 0.1f, &state);
  fill(w->m5, (size_t)10 * 84, 0.3f, &state);
  fill(w->b5, 10, 0.1f, &state);
  for (int i = 4; i < 24; i++) { /* a seven */
    image[4 * 28 + i] = image[5 * 28 + i] = 1.0f;
    image[i * 28 + 27 - i / 2 - 4] = image[i * 28 + 26 - i / 2 - 4] = 1.0f;
  }
  int status =
      lenet(image, w->f1, w->b1, w->f2, w->b2, w->m3, w->b3, w->m4, w->b4, w->m5, w->b5, probabilities, &digit);
  if (status != 0) {
    fprintf(stderr, "lenet: failed with %d\n", status);
    return 1;
  }
  int same = reference(image, w, expected) == digit;
  for (int n = 0; n < 10; n++) {
    printf("%d  %.6f\n", n, (double)probabilities[n]);
    same &= fabs((double)probabilities[n] - expected[n]) < 1e-5;
  }
  printf("looks like a %d\n", (int)digit);
  free(w);
  if (!same) fprintf(stderr, "lenet: plain loops disagree\n");
  return same ? 0 : 1;
}
