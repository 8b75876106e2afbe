/* C functions from the machine's: what is known of each before it runs decides what its C function asks of its caller.
 *
 * Each function of the machine becomes one internal C function over tensors with dimensions; those that no other calls
 * get a public one in front of it. A function is "planned" when all its memory, and that of what it calls, follows from
 * its inputs' sizes (for public ones: and values): then its workspace can be sized beforehand. Others take memory from
 * the workspace as they go, and stop when it is used up.
 *
 * The files call those that stand before them: plan, operands, lists, code, header, and emit_c.c calls plan and header.
 *
 * Public names begin with tn_NAME_ and what only the header and the object know with tni_NAME_, so that functions may
 * be called as the helpers are. */
#ifndef TENON_EMIT_C_EMIT_C_H
#define TENON_EMIT_C_EMIT_C_H

#include "base/strbuf.h"
#include "runtime/executable/executable.h"
#include "runtime/format/source_unit.h"

typedef enum tn__c_memory {
  TN__C_ELSEWHERE, /* input, output, constant, arena or view */
  TN__C_SLOT,      /* DYNAMIC of a size known at entry: a fixed place behind the arena */
  TN__C_SCRATCH,   /* the same, and one kernel alone uses it: all of them share one place */
  TN__C_LATE,      /* DYNAMIC or OUTPUT whose size is found on the way */
  TN__C_LIST       /* DYNAMIC that holds a list, which grows on the way */
} tn__c_memory;

typedef struct tn__c_function {
  const tn__function *f;
  const char *name;     /* of its public C function, after tn_MODEL_; a C identifier */
  const char **symbols; /* per scalar: the C name of a size that the caller gives, or NULL */
  bool called;          /* by another function: it has no public C function */
  bool planned;         /* its memory is known at entry */
  bool by_value;        /* what is known at entry follows from values of inputs, not from their sizes alone */
  bool late_outputs;    /* some output's size is not known at entry */
  bool sized;           /* a size or the workspace is open: there is something to ask before a call */
  int64_t workspace;    /* bytes, when they are constant; else -1 */
  uint8_t *known;       /* per scalar: computed at entry */
  uint8_t *tainted;     /* per scalar: of those, from values of inputs */
  const tn__instruction **made_by; /* per scalar: the one instruction that assigns it, or NULL */
  tn__c_memory *memory;            /* per register */
  uint32_t *place;                 /* per register: which slot (SLOT), tensor (LATE DYNAMIC) or list (LIST) */
  uint32_t slot_count, late_count, list_count;
  uint32_t entry; /* its place, for failures before its first instruction */
  uint8_t state;  /* of the walk through calls */
} tn__c_function;

typedef struct tn__c_emitter {
  const tn_executable *exe;
  const char *name;              /* a C identifier */
  const char *upper;             /* the same in capitals */
  const tn__source_unit *source; /* of the kernels, C99; NULL: they are machine code */
  tn__strbuf *out;
  tn__region *region;
  tn__c_function *functions;
  int max_rank;
  bool lists;          /* some function holds one */
  bool list_values;    /* and gets one from its caller, or makes one for it */
  const char **places; /* what may fail where, for tn_NAME_place(); [0] is of nowhere */
  uint32_t place_count, place_capacity;
  tn__strbuf asserts; /* cases of tn_NAME_message() */
} tn__c_emitter;

/* Writes one function's code. */
typedef struct tn__c_writer {
  tn__c_emitter *e;
  const tn__c_function *c;
  const tn__function *f;
  tn__strbuf *out;
  bool space; /* the function that sizes the workspace is written, not the one that runs */
} tn__c_writer;

/* What a status says: kind + TN__C_KINDS * place. The first are tn_kernel_result. */
enum { TN__C_CHECK = 5, TN__C_SIZE = 6, TN__C_OUTPUT = 7, TN__C_WORKSPACE = 8, TN__C_KINDS = 16 };
static inline int tn__c_status(int kind, uint32_t place) { return kind + TN__C_KINDS * (int)place; }

/* ---- plan.c ----------------------------------------------------------------------------------------------------- */

/* Fills in e->functions; refuses what cannot become C. */
TN_MUST_USE tn_status *tn__c_plan(tn__c_emitter *e);
static inline const tn__register *tn__c_root(const tn__function *f, uint32_t number) {
  return &f->registers[f->registers[number].root];
}
static inline bool tn__c_is_list(const tn__function *f, uint32_t number) {
  return f->registers[number].container != TN__CONTAINER_TENSOR;
}
bool tn__c_is_late(const tn__c_function *c, uint32_t number);       /* of a root */
bool tn__c_knows(const tn__c_function *c, const tn__register *r);   /* all its dimensions, at entry */
bool tn__c_same_size(const tn__register *a, const tn__register *b); /* in bytes, whatever the scalars are */
static inline bool tn__c_is_done_at_entry(const tn__c_function *c, const tn__instruction *in) {
  bool prologue = in < c->f->instructions + c->f->prologue_count;
  return tn__instruction_assigns_scalar(in->op) ? c->known[in->a] : in->op == TN__OP_ASSERT && prologue;
}

/* ---- operands.c ------------------------------------------------------------------------------------------------- */

/* `@` stands for the model's name, `^` for the same in capitals; two of one for itself. */
void tn__c_append_text(const tn__c_emitter *e, const char *text);
void tn__c_write_number(tn__strbuf *out, int64_t value);
void tn__c_write_string(tn__strbuf *out, const char *text); /* as a literal */
void tn__c_write_operand(const tn__c_writer *w, const tn__operand *o);
void tn__c_write_dim(const tn__c_writer *w, uint32_t number, int d);
/* Of the first element of a tensor's register, or of a list. */
void tn__c_write_address(const tn__c_writer *w, uint32_t number);
/* Sets a variable to the bytes of a register; negative when its shape is impossible. */
void tn__c_write_bytes(const tn__c_writer *w, uint32_t number, const char *into);
void tn__c_write_failure(const tn__c_writer *w, const char *condition, int kind, uint32_t place);
/* A view of what is sized on the way has its size. Others were looked at when the function was entered. */
void tn__c_write_view_check(const tn__c_writer *w, uint32_t number, uint32_t place);
/* Memory for a late tensor or output whose dimensions were set: the caller's, or the workspace's. */
void tn__c_write_fit(const tn__c_writer *w, uint32_t number, uint32_t place);
/* The array of tensors in which a late one is, and its place there. */
const char *tn__c_late_tensor(const tn__c_writer *w, uint32_t number, uint32_t *index);

/* ---- lists.c ---------------------------------------------------------------------------------------------------- */

/* What callers give and get as lists: types, and a description of one. */
void tn__c_write_list_types(const tn__c_emitter *e);
void tn__c_write_list_support(const tn__c_emitter *e);
/* In a public function: memory for lists that it gets and makes; copies of what it got, which may set `status`; and
 * what it made, for its caller. */
void tn__c_write_list_locals(const tn__c_writer *w);
void tn__c_write_lists_in(const tn__c_writer *w);
void tn__c_write_lists_out(const tn__c_writer *w);
/* A builtin over lists, or a COPY or MOVE of one. */
void tn__c_write_list_instruction(const tn__c_writer *w, const tn__instruction *in, uint32_t place);

/* ---- code.c ----------------------------------------------------------------------------------------------------- */

/* A dimension for people: a number, or how it follows from the sizes that the caller gives. */
void tn__c_write_dim_text(const tn__c_function *c, tn__strbuf *out, const tn__operand *dim);
void tn__c_write_declarations(tn__c_emitter *e);
TN_MUST_USE tn_status *tn__c_write_functions(tn__c_emitter *e);

/* ---- source.c --------------------------------------------------------------------------------------------------- */

/* Of modules whose kernels are source: all of the file that goes with the header of that name. */
void tn__c_write_source(const tn__c_emitter *e, const char *header);

/* ---- header.c --------------------------------------------------------------------------------------------------- */

TN_MUST_USE tn_status *tn__c_write_header(tn__c_emitter *e);
#endif
