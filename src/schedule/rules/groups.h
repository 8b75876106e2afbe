/* What rules know of small groups of elements (groups.c). */
#ifndef TENON_SCHEDULE_RULES_GROUPS_H
#define TENON_SCHEDULE_RULES_GROUPS_H

#include "schedule/rules/rules.h"

/* Steps of a group, elements that groups lie apart, and operations of all that is unrolled for a vector of them. */
enum { TN__GROUP_STEPS = 8, TN__GROUP_DISTANCE = 8, TN__GROUP_OPERATIONS = 512 };

typedef struct tn__group_reads {
  const tn__schedule *s;
  const tn__block *block;
  const tn__snode *loop; /* over groups */
  int64_t widest;        /* bytes of the widest element computed with or moved */
  int tensors;           /* that are taken apart */
  bool apart, far;       /* some group is read in parts; some are no groups, but elements from anywhere */
  bool shared;           /* some group is read again in other iterations of the loops outside, as of a product */
  TN__VEC(const tn__buffer *) seen;
} tn__group_reads;

/* What the block reads and writes in vectors along the loop over groups. */
tn__group_reads tn__group_reads_of(const tn__schedule *s, const tn__snode *block, const tn__snode *loop);

#endif
