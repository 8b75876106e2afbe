#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>

static int distance(const char *a, int m, const char *b, int n) {
  int rows[3][TN__LONGEST_NAME + 1], *before = rows[0], *last = rows[1], *now = rows[2];
  for (int j = 0; j <= n; j++) last[j] = j;
  for (int i = 1; i <= m; i++) {
    now[0] = i;
    for (int j = 1; j <= n; j++) {
      int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
      int least = last[j - 1] + (x != y);
      if (last[j] + 1 < least) least = last[j] + 1;
      if (now[j - 1] + 1 < least) least = now[j - 1] + 1;
      bool swapped = i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]);
      if (swapped && before[j - 2] + 1 < least) least = before[j - 2] + 1;
      now[j] = least;
    }
    int *free_row = before;
    before = last;
    last = now;
    now = free_row;
  }
  return last[n];
}

void tn__nearest_consider(tn__nearest *n, const char *text, size_t length) {
  int far = n->length < 3 ? 0 : (int)n->length / 3; /* beyond that another name is meant */
  if (length > TN__LONGEST_NAME || n->length > TN__LONGEST_NAME) return;
  int d = distance(n->name, (int)n->length, text, (int)length);
  if (d > far || (n->best != NULL && d >= n->distance)) return;
  n->distance = d;
  n->best = text;
  n->best_length = length;
}
