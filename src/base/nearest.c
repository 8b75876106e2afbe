#include "base/nearest.h"

#include <ctype.h>
#include <stdio.h>

enum { MOST_CHANGES = 10 }; /* which bounds the work for long names, and is what one of 32 may have */

static void fold(const char *text, size_t length, char *out) {
  for (size_t i = 0; i < length; i++) out[i] = (char)tolower((unsigned char)text[i]);
}

/* Changes from `a` to `b`, or more than `limit` when there are more. With `stars` a '*' in `a` is any text. */
static int distance(const char *a, int m, const char *b, int n, bool stars, int limit) {
  int rows[3][TN__LONGEST_NAME + 1], *before = rows[0], *last = rows[1], *now = rows[2];
  int least_of_last = 0;
  for (int j = 0; j <= n; j++) last[j] = j;
  for (int i = 1; i <= m; i++) {
    bool star = stars && a[i - 1] == '*', swaps = i > 1 && !(stars && a[i - 2] == '*');
    now[0] = star ? last[0] : last[0] + 1;
    int least_of_now = star ? least_of_last : now[0];
    for (int j = 1; j <= n; j++) {
      if (star) {
        now[j] = last[j] < now[j - 1] ? last[j] : now[j - 1];
        continue;
      }
      int least = last[j - 1] + (a[i - 1] != b[j - 1]);
      if (last[j] + 1 < least) least = last[j] + 1;
      if (now[j - 1] + 1 < least) least = now[j - 1] + 1;
      bool swapped = swaps && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && before[j - 2] + 1 < least) least = before[j - 2] + 1;
      now[j] = least;
      if (least < least_of_now) least_of_now = least;
    }
    if (least_of_now > limit && least_of_last > limit) return limit + 1;
    least_of_last = least_of_now;
    int *free_row = before;
    before = last;
    last = now;
    now = free_row;
  }
  return last[n];
}

void tn__nearest_consider(tn__nearest *n, const char *text, size_t length) {
  int letters = 0;
  if (length > TN__LONGEST_NAME || n->length > TN__LONGEST_NAME) return;
  for (size_t i = 0; i < n->length; i++) letters += !n->stars || n->name[i] != '*';
  bool any = letters < (int)n->length;
  int far = letters < 3 ? 0 : letters / (any ? 4 : 3); /* beyond that another name is meant */
  if (far > MOST_CHANGES) far = MOST_CHANGES;
  int limit = n->best != NULL ? n->distance - 1 : far;
  int apart = (int)length - letters;
  if (limit < 0 || -apart > limit || (!any && apart > limit)) return;
  /* Paths mostly begin alike, and what both begin and end with changes nothing. */
  char folded[2][TN__LONGEST_NAME];
  fold(n->name, n->length, folded[0]);
  fold(text, length, folded[1]);
  const char *a = folded[0], *b = folded[1];
  int m = (int)n->length, k = (int)length;
  while (m > 0 && k > 0 && *a == *b && !(n->stars && *a == '*')) a++, b++, m--, k--;
  while (m > 0 && k > 0 && a[m - 1] == b[k - 1] && !(n->stars && a[m - 1] == '*')) m--, k--;
  int d = distance(a, m, b, k, n->stars, limit);
  if (d > limit) return;
  n->distance = d;
  n->best = text;
  n->best_length = length;
}

const char *tn__nearest_advice(const tn__nearest *n, char out[TN__ADVICE]) {
  out[0] = '\0';
  if (n->best != NULL) snprintf(out, TN__ADVICE, "; did you mean \"%.*s\"?", (int)n->best_length, n->best);
  return out;
}
