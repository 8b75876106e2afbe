/* Which build of Tenon this is. */
#include <link.h>
#include <string.h>

#include "base/hash.h"
#include "kernels/kernels.h"
#include "tenon/runtime.h"

typedef struct identity_search {
  tn__sha256 *hasher;
  uintptr_t address; /* of a function in the library */
  bool found;
} identity_search;

static void hash_build_note(identity_search *search, const struct dl_phdr_info *info, const ElfW(Phdr) * segment) {
  const char *at = (const char *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr), *end = at + segment->p_memsz;
  while (at + sizeof(ElfW(Nhdr)) <= end && !search->found) {
    ElfW(Nhdr) note;
    memcpy(&note, at, sizeof note);
    const char *name = at + sizeof note, *data = name + (note.n_namesz + 3u) / 4u * 4u;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
      tn__sha256_update(search->hasher, data, note.n_descsz);
      search->found = true;
    }
    at = data + (note.n_descsz + 3u) / 4u * 4u;
  }
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *user) {
  identity_search *search = user;
  bool here = false;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *s = &info->dlpi_phdr[i];
    uintptr_t start = (uintptr_t)(info->dlpi_addr + s->p_vaddr);
    here |= s->p_type == PT_LOAD && search->address >= start && search->address < start + s->p_memsz;
  }
  for (int i = 0; here && i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_NOTE) hash_build_note(search, info, &info->dlpi_phdr[i]);
  return here;
}

static void hash_object(tn__sha256 *hasher, uintptr_t address) {
  identity_search search = {hasher, address, false};
  dl_iterate_phdr(visit_object, &search);
}

/* The runtime computes constants and has tables of what code for the machine is like: it may be a library of its
 * own. */
void tn__kernels_build_identity(tn__sha256 *hasher) {
  hash_object(hasher, (uintptr_t)&tn__kernels_build_identity);
  hash_object(hasher, (uintptr_t)&tn_executable_release);
  tn__sha256_update_string(hasher, tn_version());
}
