/* CPUs by name, and how a machine tells which one it is. */
#ifndef TENON_TARGET_CPUS_H
#define TENON_TARGET_CPUS_H

#include "target/target.h"

#define TN__COSTS(miss)          \
  {.fill = 0.75,                 \
   .shared_fill = 0.4,           \
   .unhidden = 0.15,             \
   .crowded = 0.15,              \
   .fewer = 0.05,                \
   .loop_entry = 6,              \
   .mispredicted = 14,           \
   .fork = 4000,                 \
   .chunk = 120,                 \
   .l2_wait = 12,                \
   .l3_wait = 60,                \
   .page_miss = (miss),          \
   .page_walk = 25,              \
   .broadcast = 1.2,             \
   .half_broadcast = 0.3,        \
   .line_bytes = TN__LINE_BYTES, \
   .l1_sets = 64,                \
   .page_bytes = 4096,           \
   .l1_pages = 64,               \
   .pages = 2048,                \
   .streams = 8,                 \
   .counted_trips = 24,          \
   .memory_cores = 4}
#define TN__USUAL_COSTS TN__COSTS(1)

/* Arrays, not pointers: those would have to be relocated when the runtime's library is loaded. */
typedef struct tn__cpu {
  char name[16];     /* LLVM's */
  char features[96]; /* a target's text of a baseline: "x86-64-v4+avx512vnni" */
  int vector_bytes;  /* of that target, for which the rates are */
  tn__machine machine;
} tn__cpu;

extern const tn__cpu tn__cpus[]; /* ends with an empty name */

/* What a CPU says that it is: maker, family and model of cpuid, or "ARM", implementer and part of AArch64's MIDR_EL1.
 * Without a maker: unknown. */
typedef struct tn__cpu_id {
  char maker[13];
  int family, model, stepping;
} tn__cpu_id;

tn__cpu_id tn__host_cpu(void);
/* Family and model as Intel's and AMD's manuals put them together from cpuid's leaf 1, EAX. */
tn__cpu_id tn__cpu_id_of_leaf(const char maker[13], uint32_t eax);
tn__cpu_id tn__cpu_id_of_midr(uint64_t midr);
/* NULL: none of the table. */
const tn__cpu *tn__cpu_find(const tn__cpu_id *id);
/* Sets core and caches of a target as that CPU has them. With narrower vectors, because features were taken away, a
 * port does as many instructions a cycle, and so fewer bytes. */
void tn__cpu_use(const tn__cpu *cpu, tn__target *target);
/* The same for this machine's CPU or, in tests, another. One that is not in the table, or whose vectors are not those
 * that it says to have, as virtual machines may do, stays as usual for the features, and for the family of AMD's; an
 * Intel that is not in the table and has tiles has at least the core of the first that had them. */
void tn__cpu_use_id(const tn__cpu_id *id, tn__target *target);

#endif
