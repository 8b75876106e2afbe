/* The name that somebody may have meant. */
#ifndef TENON_BASE_NEAREST_H
#define TENON_BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

enum { TN__LONGEST_NAME = 256 }; /* longer ones are near to nothing */

/* Begins with the name that was not found, of `length` bytes, and nothing found. */
typedef struct tn__nearest {
  const char *name;
  size_t length;
  bool stars;   /* a '*' in the name stands for any text */
  int distance; /* of the best so far */
  const char *best;
  size_t best_length;
} tn__nearest;

/* Keeps a name that there is if it is nearer than those before: by how many letters must be put in, left out, replaced,
 * or swapped with their neighbours (Damerau and Levenshtein's distance). At the most a third of the name's, a fourth
 * beside a star, which takes up much already, and ten; none of one or two. Case does not count. */
void tn__nearest_consider(tn__nearest *n, const char *text, size_t length);

enum { TN__ADVICE = TN__LONGEST_NAME + 32 };
/* Writes `; did you mean "NAME"?` to `out`, or "" without a near match. Returns `out`. */
const char *tn__nearest_advice(const tn__nearest *n, char out[TN__ADVICE]);

#endif
