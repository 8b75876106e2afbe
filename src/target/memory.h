/* Scopes of memory: the memories that a device may have beside its own, by name. */
#ifndef TENON_TARGET_MEMORY_H
#define TENON_TARGET_MEMORY_H

#include <stddef.h>

typedef enum tn__memory_scope {
  TN__MEMORY_GLOBAL, /* what a device has unless another is named */
  TN__MEMORY_SHARED,
  TN__MEMORY_TEXTURE,     /* a second memory of the device's own */
  TN__MEMORY_HOST_PINNED, /* the host's, in which the device reads and writes */
  TN__MEMORY_TILE,
  TN__MEMORY_SCOPES
} tn__memory_scope;

const char *tn__memory_scope_name(tn__memory_scope scope);
/* As it stands behind a device's name: "/texture"; of global nothing does. */
const char *tn__memory_scope_behind(tn__memory_scope scope);
/* -1: there is no such. */
int tn__memory_scope_find(const char *name);
/* Of scopes, a bit each: "global and texture", cut where it does not fit */
void tn__memory_scope_list(unsigned scopes, char *text, size_t size);

#endif
