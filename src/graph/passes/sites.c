/* Decisions that somebody may know better than a pass does. */
#include <stdio.h>

#include "base/hash.h"
#include "graph/passes/passes.h"

void tn__site_digest(const tn__site *site, char out[TN__SITE_DIGEST]) {
  tn__sha256 hash;
  tn__sha256_init(&hash);
  tn__sha256_update_string(&hash, site->kind);
  tn__sha256_update_string(&hash, site->text);
  const tn__digest digest = tn__sha256_final(&hash);
  for (int i = 0; i < TN__SITE_DIGEST / 2; i++) snprintf(&out[2 * i], 3, "%02x", digest.bytes[i]);
}

int tn__pass_decide(const tn__optimize_options *options, const tn__site *site) {
  if (options->decide == NULL) return site->usual;
  int choice = options->decide(options->decide_user, site);
  for (int i = 0; i < site->choice_count; i++)
    if (site->choices[i] == choice) return choice;
  return site->usual; /* as it was decided for a site that had more choices */
}
