/* From fused groups of graph nodes to machine code: declare, schedule, lower, generate, in parallel and through the
 * kernel cache. */
#ifndef TENON_KERNELS_KERNELS_H
#define TENON_KERNELS_KERNELS_H

#include "base/clock.h"
#include "base/hash.h"
#include "cache/cache.h"
#include "codegen/backend.h"
#include "graph/passes/passes.h"
#include "kernels/slab.h"
#include "kernels/tuned.h"
#include "schedule/rules/choose.h"
#include "tenon/compile.h"
#include "tenon/kernel_abi.h"

/* What the kernels of devices with one target are made with, where that is not the driver's own. */
typedef struct tn__maker {
  tn__digest key; /* of the target */
  tn__target target;
  const tn__backend *backend; /* with `link` or `unit` */
  tn__schedule_options schedule;
} tn__maker;
typedef struct tn__device_maker {
  int device_type, device_id;
  const tn__maker *maker;
} tn__device_maker;

/* One kernel of the model: the declaration of a group, then everything that is made from it. Units with equal
 * declarations share code. */
typedef struct tn__unit {
  const tn__group *group;
  tn__arena arena; /* of the declaration and its loop IR; released when code has been made */
  bool has_arena;
  tn__te *te;
  tn__value **inputs, **outputs; /* in the order of the kernel's buffers */
  int input_count, output_count;
  const tn__var **scalars; /* the graph's symbols, in the order of the kernel's scalars */
  int scalar_count;
  const tn__maker *maker; /* NULL: the driver's own target */
  tn__plan_unit choice;   /* what the kernel's schedule depends on */
  const char *name;       /* a C identifier: what it computes and the start of its key */
  tn__digest key;         /* of declaration, target, options and build */
  int same_as;            /* index of the earlier unit with the same key, or its own */
  double flops, bytes;    /* of one call; -1 when symbolic */
  /* Made by tn__units_build: */
  tn_kernel native; /* a function of this library, which takes `native_scalars`; NULL: there is code of its own */
  const int64_t *native_scalars;
  int native_scalar_count;
  tn__code object;      /* empty when the kernel is in an earlier unit's, or source */
  const tn__func *func; /* lowered, of kernels that become source: in the unit's arena, or an earlier unit's */
  tn__ir *func_ir;
  const char *trace;
  const tn__memory_scope *memories; /* of inputs, then outputs: where its schedule wants them; NULL: anywhere */
  const char *declaration, *loops;  /* as text, when the executable keeps it (texts.h); else NULL */
  int64_t workspace_bytes;
  const tn__expr *workspace_expr; /* in `workspace_ir`, over workspace_dims; NULL when constant */
  const tn__var **workspace_dims;
  bool from_cache;
} tn__unit;

/* What the driver knows during one compilation. */
typedef struct tn__driver {
  tn__arena *arena;
  const tn_compile_options *options;
  tn__target target;
  const tn__backend *backend;    /* of the target */
  tn__schedule_options schedule; /* 0: what the target has, which is another one where constants are computed */
  const tn__chooser *chooser;    /* of schedules */
  const tn__variant *variants;   /* what is known to be better than the graph's estimates */
  int variant_count;
  void (*see_site)(void *user, const tn__site *site); /* each decision of the graph; NULL: nobody wants to know */
  void *see_user;
  TN__VEC(const tn__graph *) entries; /* graphs that callers run: a result returned alone is not read soon */
  int threads;                        /* compile threads */
  tn__cache *cache;                   /* NULL: off */
  tn__slab *slab;                     /* of the executable's constants; NULL: none yet */
  unsigned texts;                     /* that the executable keeps: TN__TEXT_... */
  bool limits_passes;                 /* run only the first `most_passes` graph passes */
  int most_passes;
  bool runs_once;                /* kernels for constants: several to an object, for inputs that lie anywhere */
  const struct tn__model *model; /* that the graph came from; may be NULL */
  TN__VEC(tn_phase_time *) times;
  tn__work *work;                        /* of the whole compilation */
  struct tn__driver_devices *devices;    /* driver/devices.h; NULL: of drivers that compile no model */
  const struct tn__virtual_device *host; /* whose target is the driver's; NULL: there are no devices */
  TN__VEC(const tn__maker *) makers;     /* distinct ones, for devices that need another than the driver's own target */
  TN__VEC(tn__device_maker) made_by;     /* those devices */
} tn__driver;

void tn__driver_progress(const tn__driver *driver, const char *phase, int done, int total);
void tn__driver_time(tn__driver *driver, const char *phase, double seconds); /* adds to the phase's entry */
void tn__driver_tell_times(const tn__driver *driver);                        /* calls options->times */
/* Calls the options' print callback when `pass` is what they want to see. */
bool tn__driver_prints(const tn__driver *driver, const char *pass);
void tn__driver_print(const tn__driver *driver, const char *subject, const char *pass, const char *text);

/* What kernels for the device are made with, where that is not the driver's own target; NULL: that, or nothing is. */
const tn__maker *tn__driver_maker(const tn__driver *driver, const struct tn__virtual_device *device);
/* What a unit is made for, and with. */
static inline const tn__target *tn__unit_target(const tn__driver *driver, const tn__unit *unit) {
  return unit->maker != NULL ? &unit->maker->target : &driver->target;
}
static inline const tn__backend *tn__unit_backend(const tn__driver *driver, const tn__unit *unit) {
  return unit->maker != NULL ? unit->maker->backend : driver->backend;
}
/* Declares the kernels of the groups that need one (units[i].group in order; views have none). Serial: reads the
 * graph. */
tn__unit *tn__units_declare(tn__driver *driver, const tn__group *const *groups, int count);
/* Schedules and compiles each distinct unit; code and trace land in the driver's arena. Deterministic for any number of
 * threads. */
void tn__units_build(tn__driver *driver, tn__unit *units, int count);
/* Text or bytes of one stage for all distinct units: "te", "schedule", "tir", "llvm", "asm", "obj". */
void tn__units_emit(tn__driver *driver, tn__unit *units, int count, const char *stage, tn__strbuf *out);

/* Identity of this build of Tenon (its linker's build id, else version): part of every key. */
void tn__kernels_build_identity(tn__sha256 *hasher);

#endif
