#include <stdio.h>
#include <string.h>

#include "base/shown.h"
#include "runtime/tensor.h"

static void append(char *text, size_t size, const char *piece) {
  size_t length = strlen(text);
  if (length + strlen(piece) < size)
    memcpy(text + length, piece, strlen(piece) + 1);
  else if (size >= 4 && length >= 3)
    memcpy(text + (length + 4 > size ? size - 4 : length), "...", 4);
}

/* Names come from the model, so escape them. */
static void append_name(char *text, size_t size, const char *name) {
  char shown[TN__SHOWN_CHAR];
  while (*name != '\0') {
    name += tn__shown_char(name, shown);
    append(text, size, shown);
  }
}

void tn__rt_format_dims(const tn_dim_info *const *dims, int rank, char *text, size_t size) {
  char number[32];
  text[0] = '\0';
  append(text, size, rank == TN_ANY_RANK ? "[..." : "[");
  for (int i = 0; i < rank; i++) {
    if (i > 0) append(text, size, ", ");
    snprintf(number, sizeof(number), "%lld", (long long)dims[i]->size);
    append_name(text, size, dims[i]->size >= 0 ? number : dims[i]->name != NULL ? dims[i]->name : "?");
    if (dims[i]->capacity == 0) continue;
    snprintf(number, sizeof(number), "<=%lld", (long long)dims[i]->capacity);
    append(text, size, number);
  }
  append(text, size, "]");
}

void tn__rt_format_shape(const int64_t *shape, int rank, char *text, size_t size) {
  char number[32];
  text[0] = '\0';
  append(text, size, "[");
  for (int i = 0; i < rank; i++) {
    snprintf(number, sizeof(number), "%s%lld", i > 0 ? ", " : "", (long long)shape[i]);
    append(text, size, number);
  }
  append(text, size, "]");
}
