/* The rule for everything that no other rule takes. */
#include "schedule/rules.h"

void tn__rule_plain_apply(tn__schedule *s, const tn__schedule_options *options) {
  if (options->threads == 1 || !tn__rule_is_large(s->te)) return;
  for (int i = 0; i < s->root->children.count; i++) {
    tn__snode *loop = s->root->children.data[i];
    tn__snodes blocks = {0};
    if (loop->is_block || tn__is_int_value(loop->var->extent, 1)) continue;
    tn__sched_blocks(s, loop, &blocks);
    bool independent = true;
    for (int b = 0; b < blocks.count; b++)
      independent &= !tn__sched_drives(loop, blocks.data[b], TN__AXIS_REDUCE) &&
                     !tn__sched_drives(loop, blocks.data[b], TN__AXIS_SCAN);
    if (independent) tn__parallel(s, loop->name);
  }
}
