/* From functions to one module to an object, assembly or LLVM text. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "base/sanitize.h"
#include "codegen/llvm/arch.h"

/* ---- LLVM's own objects: owned by a box that the arena disposes of if a throw passes by -------------------------- */

typedef struct llvm_box {
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef builder;
  LLVMTargetMachineRef machine; /* the caller's or the arena's */
  LLVMTargetDataRef layout;
  LLVMPassBuilderOptionsRef options;
  LLVMMemoryBufferRef buffer;
  char *text;
  bool in_library; /* between TN__LIBRARY_BEGIN() and TN__LIBRARY_END() */
} llvm_box;

static void dispose(void *object) {
  llvm_box *box = object;
  if (box->text != NULL) LLVMDisposeMessage(box->text);
  if (box->buffer != NULL) LLVMDisposeMemoryBuffer(box->buffer);
  if (box->options != NULL) LLVMDisposePassBuilderOptions(box->options);
  if (box->builder != NULL) LLVMDisposeBuilder(box->builder);
  if (box->module != NULL) LLVMDisposeModule(box->module);
  if (box->layout != NULL) LLVMDisposeTargetData(box->layout);
  if (box->context != NULL) LLVMContextDispose(box->context);
  if (box->in_library) TN__LIBRARY_END();
  *box = (llvm_box){0};
}

/* LLVM keeps its list of targets in a global that is filled once and is not locked: when this library is loaded, before
 * any thread of its users can ask for a target. */
__attribute__((constructor)) static void initialize_targets(void) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
}

/* Loop strength reduction takes a sixth of LLVM's time and changes nothing that a clock shows: addresses are added up
 * as loops want them (emit_memory.c). There is only an option of the command line for that, one for all of a process,
 * so it stays on where this LLVM may be somebody else's, too: in a library of its own. */
static void turn_off_strength_reduction(void) {
  static const char *const options[] = {"tenon", "-disable-lsr"};
  Dl_info here, there;
  if (dladdr((const void *)(uintptr_t)&initialize_targets, &here) != 0 &&
      dladdr((const void *)(uintptr_t)&LLVMParseCommandLineOptions, &there) != 0 && here.dli_fbase == there.dli_fbase)
    LLVMParseCommandLineOptions(2, options, NULL);
}

/* LLVM's options belong to the process, and are there only when its own constructors have run. */
static pthread_once_t llvm_options_once = PTHREAD_ONCE_INIT;

struct tn__codegen_machine {
  LLVMTargetMachineRef machine;
  char triple[64];
};

static void dispose_machine(void *object) {
  tn__codegen_machine *m = object;
  TN__LIBRARY_BEGIN();
  if (m->machine != NULL) LLVMDisposeTargetMachine(m->machine);
  TN__LIBRARY_END();
}

tn__codegen_machine *tn__codegen_machine_create(tn__arena *arena, const tn__target *target) {
  pthread_once(&llvm_options_once, turn_off_strength_reduction);
  tn__codegen_machine *m = TN__NEW(arena, tn__codegen_machine);
  tn__arena_defer(arena, dispose_machine, m);
  char cpu[32], features[1024], *message = NULL;
  tn__target_llvm(target, m->triple, cpu, features);
  LLVMTargetRef llvm;
  bool unknown = LLVMGetTargetFromTriple(m->triple, &llvm, &message) != 0;
  TN__INITIALIZED(&llvm, sizeof(LLVMTargetRef));
  TN__INITIALIZED(&message, sizeof(char *));
  if (unknown) {
    TN__INITIALIZED(message, strlen(message) + 1);
    const char *words = tn__arena_strdup(arena, message);
    LLVMDisposeMessage(message);
    tn__throwf(arena->escape, TN_INTERNAL, "LLVM: %s", words);
  }
  TN__LIBRARY_BEGIN();
  m->machine = LLVMCreateTargetMachine(llvm, m->triple, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                       LLVMCodeModelSmall);
  TN__LIBRARY_END();
  if (m->machine == NULL) tn__throwf(arena->escape, TN_INTERNAL, "LLVM has no target machine for %s", target->name);
  return m;
}

static void set_machine(llvm_box *box, const tn__codegen_machine *m) {
  box->machine = m->machine;
  box->layout = LLVMCreateTargetDataLayout(box->machine);
  LLVMSetTarget(box->module, m->triple);
  LLVMSetModuleDataLayout(box->module, box->layout);
}

static unsigned metadata_kind(const tn__cg *cg, const char *name) {
  return LLVMGetMDKindIDInContext(cg->context, name, (unsigned)strlen(name));
}

static void set_up(tn__cg *cg, llvm_box *box, const tn__codegen_machine *machine) {
  const tn__target *target = cg->target;
  cg->context = box->context = LLVMContextCreate();
  cg->module = box->module = LLVMModuleCreateWithNameInContext("tenon", cg->context);
  cg->builder = box->builder = LLVMCreateBuilderInContext(cg->context);
  set_machine(box, machine);
  cg->void_type = LLVMVoidTypeInContext(cg->context);
  cg->i1 = LLVMInt1TypeInContext(cg->context);
  cg->i8 = LLVMInt8TypeInContext(cg->context);
  cg->i16 = LLVMInt16TypeInContext(cg->context);
  cg->i32 = LLVMInt32TypeInContext(cg->context);
  cg->i64 = LLVMInt64TypeInContext(cg->context);
  cg->f16 = LLVMHalfTypeInContext(cg->context);
  cg->f32 = LLVMFloatTypeInContext(cg->context);
  cg->f64 = LLVMDoubleTypeInContext(cg->context);
  cg->ptr = LLVMPointerTypeInContext(cg->context, 0);
  LLVMTypeRef task[] = {cg->ptr, cg->ptr, cg->i64, cg->i64};
  cg->task_type = LLVMFunctionType(cg->i32, task, 4, 0);
  cg->alias_scope_kind = metadata_kind(cg, "alias.scope");
  cg->nontemporal_kind = metadata_kind(cg, "nontemporal");
  cg->noalias_kind = metadata_kind(cg, "noalias");
  cg->arch = tn__cg_arch_of(target);
  cg->has_fma = tn__target_can(target, TN__CAN_FMA);
  cg->has_f16c = tn__target_can(target, TN__CAN_CONVERT_HALVES);
  cg->has_rounding = tn__target_can(target, TN__CAN_ROUND);
}

/* Every function: no unwinding, no calls into a C library that is not there, whole vectors, and where these are wider
 * than the stack is aligned by, spilled ones in whole lines: what lies across two is not forwarded to who loads it. */
static void set_attributes(tn__cg *cg) {
  enum { STACK_ALIGNMENT = 16 };
  unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
  LLVMAttributeRef attributes[] = {
      LLVMCreateEnumAttribute(cg->context, nounwind, 0),
      LLVMCreateStringAttribute(cg->context, "no-builtins", 11, "", 0),
      LLVMCreateStringAttribute(cg->context, "prefer-vector-width", 19, "512", 3),
      LLVMCreateStringAttribute(cg->context, "stackrealign", 12, "", 0),
  };
  size_t count = sizeof(attributes) / sizeof(attributes[0]) - (cg->target->cpu.vector_bytes > STACK_ALIGNMENT ? 0 : 1);
  for (LLVMValueRef f = LLVMGetFirstFunction(cg->module); f != NULL; f = LLVMGetNextFunction(f)) {
    if (LLVMIsDeclaration(f)) continue;
    for (size_t i = 0; i < count; i++)
      LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, attributes[i]);
  }
}

static void check_module(tn__cg *cg, llvm_box *box) {
#ifndef NDEBUG
  if (LLVMVerifyModule(box->module, LLVMReturnStatusAction, &box->text))
    tn__cg_fail(cg, "LLVM's verifier: %s", box->text);
  LLVMDisposeMessage(box->text);
  box->text = NULL;
#else
  (void)cg;
  (void)box;
#endif
}

/* What LLVM does with an instruction is a good deal more than what is done here to make it. */
static void count_instructions(tn__cg *cg, LLVMModuleRef module) {
  enum { STEPS_PER_INSTRUCTION = 16 };
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f != NULL; f = LLVMGetNextFunction(f))
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b != NULL; b = LLVMGetNextBasicBlock(b))
      for (LLVMValueRef i = LLVMGetFirstInstruction(b); i != NULL; i = LLVMGetNextInstruction(i))
        tn__work_step(cg->arena, STEPS_PER_INSTRUCTION);
}

/* The emitted code is what is meant already: slots become values, repeated index arithmetic and invariant loads move
 * out of loops. LLVM's own unrolling and vectorising would only undo the schedule. */
static void run_passes(tn__cg *cg, llvm_box *box) {
  box->options = LLVMCreatePassBuilderOptions();
  /* Elementary functions have branches: equal calls become one, and leave loops, while they are calls. */
  const char *passes = "function(mem2reg,early-cse,loop-mssa(licm)),always-inline,function(early-cse,loop-mssa(licm))";
  LLVMErrorRef error = LLVMRunPasses(box->module, passes, box->machine, box->options);
  if (error == NULL) return;
  char *message = LLVMGetErrorMessage(error);
  const char *words = tn__arena_strdup(cg->arena, message);
  LLVMDisposeErrorMessage(message);
  tn__cg_fail(cg, "LLVM's passes: %s", words);
}

static tn__code emit(tn__cg *cg, llvm_box *box, tn__emit kind) {
  if (kind == TN__EMIT_LLVM) {
    box->text = LLVMPrintModuleToString(box->module);
    size_t length = strlen(box->text);
    TN__INITIALIZED(box->text, length + 1);
    return (tn__code){.data = tn__arena_strndup(cg->arena, box->text, length), .size = length};
  }
  LLVMCodeGenFileType type = kind == TN__EMIT_ASSEMBLY ? LLVMAssemblyFile : LLVMObjectFile;
  bool failed = LLVMTargetMachineEmitToMemoryBuffer(box->machine, box->module, type, &box->text, &box->buffer) != 0;
  TN__INITIALIZED(&box->buffer, sizeof(LLVMMemoryBufferRef));
  if (failed) tn__cg_fail(cg, "LLVM: %s", box->text);
  const char *start = LLVMGetBufferStart(box->buffer);
  size_t size = LLVMGetBufferSize(box->buffer);
  TN__INITIALIZED(start, size);
  if (kind == TN__EMIT_ASSEMBLY) return (tn__code){.data = tn__arena_strndup(cg->arena, start, size), .size = size};
  return (tn__code){.data = tn__arena_copy(cg->arena, start, size), .size = size};
}

tn__code tn__codegen_llvm(tn__arena *arena, const tn__codegen_module *m, tn__emit kind) {
  llvm_box *box = TN__NEW(arena, llvm_box);
  tn__arena_defer(arena, dispose, box);
  TN__LIBRARY_BEGIN();
  box->in_library = true;
  tn__cg *cg = TN__NEW(arena, tn__cg);
  cg->arena = arena;
  cg->target = m->target;
  set_up(cg, box, m->machine != NULL ? m->machine : tn__codegen_machine_create(arena, m->target));
  cg->unaligned_inputs = m->unaligned_inputs;
  for (int i = 0; i < m->count; i++) tn__cg_func(cg, m->irs[i], m->funcs[i]);
  for (int i = 0; i < m->count && m->entries != NULL; i++) tn__cg_entry(cg, m->irs[i], m->funcs[i], &m->entries[i]);
  set_attributes(cg);
  check_module(cg, box);
  count_instructions(cg, box->module);
  run_passes(cg, box);
  tn__code code = emit(cg, box, kind);
  dispose(box);
  return code;
}

/* ---- the row ----------------------------------------------------------------------------------------------------- */

static bool takes(const tn__target *target) { return tn__cg_arch_of(target) != NULL; }

const tn__backend tn__backend_llvm = {
    .kinds = 1u << TN__TARGET_CPU | 1u << TN__TARGET_ISLAND,
    .emits = 1u << TN__EMIT_OBJECT | 1u << TN__EMIT_ASSEMBLY | 1u << TN__EMIT_LLVM,
    .takes = takes,
    .lower = tn__ir_lower_for_codegen,
    .measure = tn__cg_kernel_workspace,
    .prepare = tn__codegen_machine_create,
    .compile = tn__codegen_llvm,
    .link = tn__cg_link_image,
};
