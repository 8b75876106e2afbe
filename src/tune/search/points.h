/* Points of a space: drawing, changing and crossing them, and what they are as text.
 *
 * A point of most rules is a value for each of its decisions. A rule whose parts are scheduled as declarations of their
 * own has points that give a rule and decisions to each part. They are searched a part at a time: what is drawn or
 * changed is one part of a point, each as often as it takes of the kernel's time, so that what a measurement says of
 * the whole is said of that part. */
#ifndef TENON_TUNE_SEARCH_POINTS_H
#define TENON_TUNE_SEARCH_POINTS_H

#include "tune/search/space.h"

/* 0 <= result < n, from a state that moves on. */
int64_t tn__space_random(uint64_t *state, int64_t n);

/* What the static cost function likes best of a rule; of one with parts, of each part. */
void tn__space_liked(const tn__space *space, int rule, tn__space_point *out);
/* Number `index` of the rule's points, of which one with parts has its liked one only. */
void tn__space_at(const tn__space *space, int rule, int64_t index, tn__space_point *out);
/* Any point of the rule, each as likely; of one with parts, `from` with one part drawn, or, where that is NULL, with
 * all parts drawn. Gives that part, -1 for none. */
TN_MUST_USE int tn__space_draw(const tn__space *space, int rule, const tn__space_point *from, uint64_t *random,
                               tn__space_point *out);
/* Draws one part of a point. */
void tn__space_draw_part(const tn__space *space, int part, uint64_t *random, tn__space_point *point);
/* Changes one to three decisions, of one part where there are parts; gives that part, -1 for none. */
TN_MUST_USE int tn__space_mutate(const tn__space *space, uint64_t *random, tn__space_point *point);
/* Takes about half of the decisions, or parts, from another point of the same rule. */
void tn__space_cross(const tn__space *space, uint64_t *random, tn__space_point *point, const tn__space_point *other);
/* A part, each as often as it takes of the time. */
TN_MUST_USE int tn__space_pick_part(const tn__space *space, uint64_t *random);
bool tn__space_same(const tn__space *space, const tn__space_point *a, const tn__space_point *b);

/* The point that a rule's name and decisions as text are. False when they are none of this space. */
TN_MUST_USE bool tn__space_read(const tn__space *space, const char *rule, const char *decisions, tn__space_point *out);
/* The point that is nearest to what a text says of another declaration with this structure: sizes that are no choices
 * here become the nearest, and parts are told by their order. False when the rule is none of this space's, or the text
 * says nothing of it. */
TN_MUST_USE bool tn__space_nearest(const tn__space *space, const char *rule, const char *decisions,
                                   tn__space_point *out);
/* "rows 14, vectors 2", freed with free(); NULL when there is no memory. */
char *tn__space_decisions(const tn__space *space, const tn__space_point *point);

#endif
