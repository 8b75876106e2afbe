/* The data-flow half of the verifier: a forward must-analysis (Kildall's) over sets of bits, which are met by
 * intersection where paths join.
 *
 * Bits: each scalar "is assigned"; each register of storage DYNAMIC or OUTPUT "has memory" and "was written". Inputs
 * and constants are always written. The arena's registers are not followed: they share memory, and a read before any
 * write finds old results of the same session, never foreign memory. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/executable/executable.h"

enum { WORD_BITS = 64, MOST_PASSES = 100 };
#define MOST_STATE_BYTES ((uint64_t)256 << 20)

typedef struct flow {
  const tn_executable *exe;
  const tn__function *f;
  uint32_t words;        /* of one state */
  uint32_t *join;        /* per instruction: 1 + number of its state when it is a jump's target, else 0 */
  uint64_t *states;      /* of the joins */
  uint8_t *join_reached; /* per join */
  uint64_t *now;
  bool reachable, changed;
} flow;

static uint32_t memory_bit(const flow *w, uint32_t root) { return w->f->scalar_count + 2 * root; }
static uint32_t written_bit(const flow *w, uint32_t root) { return w->f->scalar_count + 2 * root + 1; }
static bool has(const flow *w, uint32_t bit) { return w->now[bit / WORD_BITS] >> (bit % WORD_BITS) & 1; }
static void set(flow *w, uint32_t bit) { w->now[bit / WORD_BITS] |= (uint64_t)1 << (bit % WORD_BITS); }
static void clear(flow *w, uint32_t bit) { w->now[bit / WORD_BITS] &= ~((uint64_t)1 << (bit % WORD_BITS)); }

static tn_status *wrong(const flow *w, const tn__instruction *in, const char *what, uint32_t number, const char *why) {
  return tn__load_corrupt("function \"%s\", code word %u, %s: %s %u %s", w->f->name, in->word,
                          tn__instruction_find(in->op)->name, what, number, why);
}

static tn_status *read_scalar(const flow *w, const tn__instruction *in, uint32_t scalar) {
  if (has(w, scalar)) return NULL;
  return wrong(w, in, "scalar", scalar, "is not assigned on every path to here");
}

static tn_status *read_dims(const flow *w, const tn__instruction *in, const tn__register *r) {
  for (int i = 0; i < r->rank; i++)
    if (r->dims[i].symbolic) TN_RETURN_IF_ERROR(read_scalar(w, in, (uint32_t)r->dims[i].value));
  return NULL;
}

/* The register can be touched: it has memory, and what its shape needs is known. */
static tn_status *use_register(const flow *w, const tn__instruction *in, uint32_t number) {
  const tn__register *r = &w->f->registers[number];
  tn__storage storage = w->f->registers[r->root].storage;
  if (r->container != TN__CONTAINER_TENSOR) return NULL; /* has its place from the start */
  if ((storage == TN__STORAGE_DYNAMIC || storage == TN__STORAGE_OUTPUT) && !has(w, memory_bit(w, r->root)))
    return wrong(w, in, "register", number, "has no memory on some path to here (ALLOC comes first)");
  return r->storage == TN__STORAGE_VIEW ? read_dims(w, in, r) : NULL;
}

static tn_status *read_register(const flow *w, const tn__instruction *in, uint32_t number) {
  TN_RETURN_IF_ERROR(use_register(w, in, number));
  uint32_t root = w->f->registers[number].root;
  tn__storage storage = w->f->registers[root].storage;
  bool followed = storage == TN__STORAGE_DYNAMIC || storage == TN__STORAGE_OUTPUT ||
                  w->f->registers[root].container != TN__CONTAINER_TENSOR;
  if (followed && !has(w, written_bit(w, root)))
    return wrong(w, in, "register", number, "is read but not written on every path to here");
  return NULL;
}

static tn_status *write_register(flow *w, const tn__instruction *in, uint32_t number) {
  TN_RETURN_IF_ERROR(use_register(w, in, number));
  set(w, written_bit(w, w->f->registers[number].root));
  return NULL;
}

static void jump_to(flow *w, uint32_t instruction) {
  uint32_t join = w->join[instruction] - 1;
  uint64_t *state = w->states + (size_t)join * w->words;
  for (uint32_t i = 0; i < w->words; i++) {
    uint64_t met = w->join_reached[join] ? state[i] & w->now[i] : w->now[i];
    if (met != state[i] || !w->join_reached[join]) w->changed = true;
    state[i] = met;
  }
  if (!w->join_reached[join]) w->changed = true;
  w->join_reached[join] = 1;
}

static tn_status *leave(const flow *w, const tn__instruction *in) {
  for (uint32_t i = 0; i < w->f->output_count; i++) {
    const tn__function_value *output = &w->f->outputs[i];
    if (!has(w, written_bit(w, output->reg)))
      return tn__load_corrupt(
          "function \"%s\", code word %u, RETURN: output \"%s\" is not written on every path to here", w->f->name,
          in->word, output->info.name);
    TN_RETURN_IF_ERROR(read_dims(w, in, &w->f->registers[output->reg]));
  }
  return NULL;
}

/* Does the result number `write` of its group come with memory? */
static bool brings_memory(const tn__instruction *in, uint32_t write) {
  if (in->op != TN__OP_BUILTIN) return in->op == TN__OP_CALL;
  char letter = tn__builtin_find(in->callee)->writes[write];
  return letter == 'e' || letter == 'j' || letter == 'X';
}

static tn_status *step_read(const flow *w, const tn__instruction *in, const tn__code_use *use) {
  switch (use->letter) {
    case 's': return read_scalar(w, in, use->word);
    case 'q': return use_register(w, in, use->word);
    case 'a': return read_dims(w, in, &w->f->registers[use->word]);
    case 'r':
    case 't': return read_register(w, in, use->word);
    default: return NULL;
  }
}

static tn_status *step_written(flow *w, const tn__instruction *in, const tn__code_use *use) {
  const tn__register *r = &w->f->registers[use->word];
  switch (use->letter) {
    case 'd': set(w, use->word); return NULL;
    case 'a':
      set(w, memory_bit(w, use->word));
      clear(w, written_bit(w, use->word));
      return NULL;
    case 't':
      clear(w, memory_bit(w, use->word));
      clear(w, written_bit(w, use->word));
      return NULL;
    case 'n':
      set(w, memory_bit(w, use->word));
      set(w, written_bit(w, use->word));
      return NULL;
    case 'w': {
      bool late = r->storage == TN__STORAGE_DYNAMIC || (r->storage == TN__STORAGE_OUTPUT && !r->early);
      if (late && use->grouped && brings_memory(in, use->index)) set(w, memory_bit(w, use->word));
      return write_register(w, in, use->word);
    }
    case 'c': jump_to(w, in->callee); return NULL;
    default: return NULL;
  }
}

/* What it reads comes before what it writes. */
static tn_status *step(flow *w, const tn__instruction *in) {
  const uint32_t *code = w->f->code + in->word;
  tn__code_uses uses = tn__code_uses_of(code);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);) TN_RETURN_IF_ERROR(step_read(w, in, &use));
  uses = tn__code_uses_of(code);
  for (tn__code_use use; tn__code_uses_next(&uses, &use);) TN_RETURN_IF_ERROR(step_written(w, in, &use));
  if ((tn__instruction_find(in->op)->traits & TN__ENDS) != 0) w->reachable = false;
  return in->op == TN__OP_RETURN ? leave(w, in) : NULL;
}

static void enter(flow *w) {
  memset(w->now, 0, (size_t)w->words * sizeof(uint64_t));
  for (uint32_t i = 0; i < w->f->scalar_count; i++)
    if (w->f->signature_scalar[i]) set(w, i);
  for (uint32_t i = 0; i < w->f->input_count; i++) set(w, written_bit(w, w->f->inputs[i].reg));
  for (uint32_t i = 0; i < w->f->output_count; i++)
    if (w->f->registers[w->f->outputs[i].reg].early) set(w, memory_bit(w, w->f->outputs[i].reg));
  w->reachable = true;
}

static tn_status *walk(flow *w) {
  enter(w);
  w->changed = false;
  for (uint32_t i = 0; i < w->f->instruction_count; i++) {
    if (w->join[i] != 0) {
      uint32_t join = w->join[i] - 1;
      if (w->reachable) jump_to(w, i);
      w->reachable = w->join_reached[join];
      memcpy(w->now, w->states + (size_t)join * w->words, (size_t)w->words * sizeof(uint64_t));
    }
    if (w->reachable) TN_RETURN_IF_ERROR(step(w, &w->f->instructions[i]));
  }
  return NULL;
}

static tn_status *verify(flow *w, tn__region *scratch) {
  const tn__function *f = w->f;
  uint64_t bits = (uint64_t)f->scalar_count + 2 * (uint64_t)f->register_count, joins = 0;
  if (bits > UINT32_MAX / 2) return tn__load_corrupt("function \"%s\" has too many registers", f->name);
  w->words = (uint32_t)(bits / WORD_BITS + 1);
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, f->instruction_count, sizeof(uint32_t), &w->join));
  for (uint32_t i = 0; i < f->instruction_count; i++) {
    const tn__instruction *in = &f->instructions[i];
    if (tn__instruction_jumps(in->op) && w->join[in->callee] == 0) w->join[in->callee] = (uint32_t)++joins;
  }
  if (joins * w->words * sizeof(uint64_t) > MOST_STATE_BYTES)
    return tn_status_create(TN_UNSUPPORTED, "function \"%s\" is too large to verify: %llu jump targets, %llu registers",
                            f->name, (unsigned long long)joins, (unsigned long long)bits);
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, joins * w->words, sizeof(uint64_t), &w->states));
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, joins, 1, &w->join_reached));
  TN_RETURN_IF_ERROR(tn__region_alloc(scratch, w->words, sizeof(uint64_t), &w->now));
  /* The sets only shrink, and in order of the code they settle in as many passes as loops are nested, and one or two
   * more. */
  for (int pass = 0; pass < MOST_PASSES; pass++) {
    TN_RETURN_IF_ERROR(walk(w));
    if (!w->changed) return NULL;
  }
  return tn_status_create(TN_UNSUPPORTED, "function \"%s\" is too large to verify: its jumps are nested too deeply",
                          f->name);
}

tn_status *tn__verify_flow(tn_executable *exe, const tn__function *f) {
  tn__region scratch;
  tn__region_init(&scratch, exe->region.allocator);
  flow w = {.exe = exe, .f = f};
  tn_status *status = verify(&w, &scratch);
  tn__region_release(&scratch);
  return status;
}
