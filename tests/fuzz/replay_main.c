/* Runs a fuzz target once over every file of a folder, so that the corpus is a test in builds without libFuzzer. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The target gets a copy of exactly the right size, so that a sanitizer sees a read beyond the end. */
static int replay(const char *path) {
  tn__file_map map;
  tn_status *status = tn__file_map_open(path, &map);
  if (status != NULL) {
    fprintf(stderr, "%s\n", tn_status_message(status));
    tn_status_free(status);
    return 1;
  }
  uint8_t *copy = malloc(map.size == 0 ? 1 : map.size);
  if (copy == NULL) return 1;
  memcpy(copy, map.data, map.size);
  printf("%s\n", path);
  fflush(stdout); /* so that the file is known when the target crashes */
  LLVMFuzzerTestOneInput(copy, map.size);
  free(copy);
  tn__file_map_close(&map);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  struct dirent **entries = NULL;
  int count = scandir(argv[1], &entries, NULL, alphasort);
  if (count < 0) {
    perror(argv[1]);
    return 1;
  }
  int replayed = 0, failed = 0;
  for (int i = 0; i < count; i++) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", argv[1], entries[i]->d_name);
    if (entries[i]->d_name[0] != '.') {
      replayed++;
      failed += replay(path);
    }
    free(entries[i]);
  }
  free(entries);
  printf("%d inputs replayed\n", replayed);
  if (replayed == 0) fprintf(stderr, "%s: the corpus is empty\n", argv[1]);
  return failed > 0 || replayed == 0;
}
