/* Virtual devices: where a value lives and for what code about it is made, as far as that is known.
 *
 * Four fields, each of them free or fixed: the type of the device (DLPack's), which of its type, the target that code
 * is made for, and the scope of memory. Planning begins with devices of which little is fixed, brings together what
 * must agree (`join`), fills in what is left (`default`), and ends with all fields fixed (docs/devices.md).
 *
 * Devices are canonical: those of one cache with equal fields are one object, so that == compares them. Targets are
 * compared by identity and then by structure, scopes by their letters. A cache belongs to the configuration of one
 * compilation (config.h) and lives in its arena; nothing is kept beyond it. */
#ifndef TENON_TARGET_DEVICES_DEVICE_H
#define TENON_TARGET_DEVICES_DEVICE_H

#include "base/arena.h"
#include "target/text/text.h"

typedef struct tn__virtual_device {
  int device_type;          /* DLPack's; 0: free. That of the target when there is one. */
  int device_id;            /* TN__DEVICE_ID_FREE: free. 0 is an id like any other. */
  const tn__target *target; /* NULL: free */
  const char *memory_scope; /* "global", ...; NULL: free */
  const char *text;         /* of canonical ones: tn__virtual_device_text. No field that says anything. */
} tn__virtual_device;

/* The first field in which two devices differ. */
typedef enum tn__device_field {
  TN__DEVICE_AGREES, /* none */
  TN__DEVICE_TYPE,
  TN__DEVICE_ID,
  TN__DEVICE_TARGET,
  TN__DEVICE_SCOPE
} tn__device_field;

typedef struct tn__device_cache {
  tn__arena *arena;
  TN__VEC(const tn__target *) targets;
  TN__VEC(const tn__virtual_device *) devices; /* the first is free in every field */
} tn__device_cache;

#define TN__SCOPE_NAME_GLOBAL "global" /* the memory that a device has unless another is named */

void tn__device_cache_init(tn__device_cache *cache, tn__arena *arena);
/* The canonical one of these fields. Fixes the type where there is a target; a target of another type is a defect. */
const tn__virtual_device *tn__virtual_device_of(tn__device_cache *cache, const tn__virtual_device *fields);
const tn__virtual_device *tn__virtual_device_free(const tn__device_cache *cache); /* every field is */
bool tn__virtual_device_is_free(const tn__virtual_device *device);
bool tn__virtual_device_is_full(const tn__virtual_device *device); /* no field is */

/* Field by field what either of them fixes. When both fix one and differ, *out is NULL and the field is returned: a
 * conflict is a value. */
tn__device_field tn__virtual_device_join(tn__device_cache *cache, const tn__virtual_device *a,
                                         const tn__virtual_device *b, const tn__virtual_device **out);
/* What `a` fixes, and of the rest what `b` does; but b's target only where it is of the type that is chosen. */
const tn__virtual_device *tn__virtual_device_default(tn__device_cache *cache, const tn__virtual_device *a,
                                                     const tn__virtual_device *b);

/* "opencl:0/texture": free fields are left out, a free type is "?"; "opencl", "?:1", "?". The target is not told, nor
 * is the global scope. */
const char *tn__virtual_device_text(tn__arena *arena, const tn__virtual_device *device);
/* Reads that: TYPE[:ID][/SCOPE]. TN_INVALID_ARGUMENT lists the types, or the scopes, and the nearest. */
TN_MUST_USE tn_status *tn__virtual_device_parse(tn__device_cache *cache, const char *text,
                                                const tn__virtual_device **out);

#endif
