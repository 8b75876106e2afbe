/* Groups of four words, as points with four coordinates, in vectors of eight lanes. LLVM takes each member out of them
 * by shuffles that cross halves of registers, three and what joins them; one member alone is best taken so. From three
 * on they are taken apart together, as a tile is transposed:
 *
 *   groups 0 1 2 3 4 5 6 7    are put together as    0|4  1|5  2|6  3|7
 *
 * and all other shuffles, two for each member, stay inside of halves. */
#include "codegen/llvm/emit.h"

enum { SIZE = 4, LANES = 8, WORDS = SIZE * LANES, FROM_MEMBERS = 3, MOST_SHUFFLES = 32 };

void tn__cg_note_groups(tn__cg *cg, LLVMValueRef groups, int64_t size) {
  LLVMTypeRef type = LLVMTypeOf(groups), element = tn__cg_element(type);
  bool words = element == cg->f32 || element == cg->i32;
  if (words && size == SIZE && tn__cg_lanes(type) == WORDS) tn__vec_push(cg->arena, &cg->groups_of_four, groups);
}

/* The member of groups that a shuffle takes; -1: it is something else. */
static int member_taken(LLVMValueRef shuffle, LLVMValueRef groups) {
  if (LLVMIsAShuffleVectorInst(shuffle) == NULL || LLVMGetOperand(shuffle, 0) != groups) return -1;
  if (LLVMGetNumMaskElements(shuffle) != LANES) return -1;
  int member = LLVMGetMaskValue(shuffle, 0);
  if (member < 0 || member >= SIZE) return -1;
  for (int i = 1; i < LANES; i++)
    if (LLVMGetMaskValue(shuffle, (unsigned)i) != member + SIZE * i) return -1;
  return member;
}

/* Pairs of groups 0|4 and so on, as four vectors. */
static void pair_halves(tn__cg *cg, LLVMValueRef groups, LLVMValueRef *pairs) {
  for (int k = 0; k < SIZE; k++) {
    int indices[LANES];
    for (int i = 0; i < LANES; i++) indices[i] = SIZE * (k + i / SIZE * SIZE) + i % SIZE;
    pairs[k] = tn__cg_shuffle(cg, groups, tn__cg_undef(LLVMTypeOf(groups)), indices, LANES);
  }
}

/* In each half: what two pairs have of the member and of its neighbour, and then the member of both. */
static LLVMValueRef take_member(tn__cg *cg, const LLVMValueRef *pairs, int member) {
  LLVMValueRef of_two[2];
  int mixed[LANES], taken[LANES];
  for (int i = 0; i < LANES; i++) {
    int half = i / SIZE * SIZE, at = i % SIZE;
    mixed[i] = LANES * (at % 2) + half + member / 2 * 2 + at / 2;
    taken[i] = LANES * (at / 2) + half + member % 2 * 2 + at % 2;
  }
  for (int p = 0; p < 2; p++) of_two[p] = tn__cg_shuffle(cg, pairs[2 * p], pairs[2 * p + 1], mixed, LANES);
  return tn__cg_shuffle(cg, of_two[0], of_two[1], taken, LANES);
}

static void take_apart(tn__cg *cg, LLVMValueRef groups) {
  LLVMValueRef shuffles[MOST_SHUFFLES], members[SIZE] = {NULL}, pairs[SIZE];
  int count = 0, different = 0;
  bool wanted[SIZE] = {false};
  for (LLVMUseRef use = LLVMGetFirstUse(groups); use != NULL; use = LLVMGetNextUse(use)) {
    int member = member_taken(LLVMGetUser(use), groups);
    if (member < 0 || count == MOST_SHUFFLES) continue;
    shuffles[count++] = LLVMGetUser(use);
    different += !wanted[member];
    wanted[member] = true;
  }
  if (different < FROM_MEMBERS) return;
  LLVMPositionBuilderBefore(cg->builder, LLVMGetNextInstruction(groups));
  pair_halves(cg, groups, pairs);
  for (int m = 0; m < SIZE; m++)
    if (wanted[m]) members[m] = take_member(cg, pairs, m);
  for (int i = 0; i < count; i++) {
    LLVMReplaceAllUsesWith(shuffles[i], members[member_taken(shuffles[i], groups)]);
    LLVMInstructionEraseFromParent(shuffles[i]);
  }
}

void tn__cg_take_groups_apart(tn__cg *cg) {
  for (int i = 0; i < cg->groups_of_four.count; i++) take_apart(cg, cg->groups_of_four.data[i]);
  cg->groups_of_four.count = 0;
}
