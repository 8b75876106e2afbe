/* Weights that never change are packed once, into the order in which the kernel reads them, and used from then on. */
#include <math.h>
#include <stdio.h>

#include "layer.h"

enum { ROWS = 5, IN = 784, OUT = 128 };

static float x[ROWS * IN], w[IN * OUT], bias[OUT], y[ROWS * OUT];
static float packed[IN * OUT]; /* as large as layer.h says: 128 columns are whole panels */

/* Numbers that look random and are the same everywhere. */
static float number(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / (float)(1 << 23) - 1.0f;
}

int main(void) {
  unsigned state = 1;
  for (int i = 0; i < ROWS * IN; i++) x[i] = number(&state);
  for (int i = 0; i < IN * OUT; i++) w[i] = number(&state);
  for (int i = 0; i < OUT; i++) bias[i] = number(&state);
  if (layer_pack_W(w, packed) != 0) return 1;
  for (int call = 1; call <= ROWS; call++) /* for any number of rows, as often as one likes */
    if (layer(call, x, packed, bias, y) != 0) return 1;
  double largest = 0;
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < OUT; j++) {
      double sum = bias[j];
      for (int k = 0; k < IN; k++) sum += (double)x[i * IN + k] * w[k * OUT + j];
      if (sum < 0) sum = 0;
      double difference = fabs(sum - y[i * OUT + j]);
      if (difference > largest) largest = difference;
    }
  printf("%d rows of %d; %s\n", ROWS, OUT, largest < 1e-3 ? "right" : "WRONG");
  return largest < 1e-3 ? 0 : 1;
}
