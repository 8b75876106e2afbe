/* Threads of a launch: what they do one by one, and together. */
#include "codegen/c/emit.h"

static const char axes[] = "XYZ";

int tn__cc_threads(const tn__launch *launch) { return launch->block[0] * launch->block[1] * launch->block[2]; }

/* The condition that holds for one thread of those that differ in axes that no loop around is bound to; NULL: there is
 * one thread only. */
const char *tn__cc_one_thread(const tn__cc *cc) {
  const char *text = NULL;
  for (int a = 0; cc->launch != NULL && a < 3; a++) {
    if (cc->launch->block[a] <= 1 || (cc->thread_axes >> a & 1) != 0) continue;
    text = text == NULL ? TN__CC_TEXT(cc, "TN_THREAD_%c == 0", axes[a])
                        : TN__CC_TEXT(cc, "%s && TN_THREAD_%c == 0", text, axes[a]);
  }
  return text;
}

void tn__cc_wait(tn__cc *cc) {
  if (cc->launch != NULL && cc->thread_axes == 0 && tn__cc_threads(cc->launch) > 1) tn__cc_line(cc, "TN_WAIT();");
}
