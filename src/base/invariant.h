/* What the code around guarantees and no check in sight can show. */
#ifndef TENON_BASE_INVARIANT_H
#define TENON_BASE_INVARIANT_H

/* States a fact that holds for every input, because code elsewhere (which a comment or the condition names) has made it
 * so: readers learn it, and the static analyzer stops following paths on which it is false. Traps when it does not
 * hold, in every build: that is a defect of Tenon's own. Never for what a model, a file or a caller of the API can
 * bring about: that gets an error with its place. */
#define TN__INVARIANT(condition) ((condition) ? (void)0 : __builtin_trap())

#endif
