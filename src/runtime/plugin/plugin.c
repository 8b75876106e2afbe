#include "runtime/plugin/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/program.h"
#include "base/strbuf.h"
#include "base/trusted.h"

enum { MOST_PATH = 4096 };

typedef struct search {
  const char *driver;
  char path[MOST_PATH]; /* the plug-in's path, once found */
  bool named;           /* it is in a folder of TENON_PLUGIN_PATH */
  tn__strbuf places;    /* the folders searched */
} search;

/* Is the plug-in in the folder, which is `length` bytes and `below`? */
static bool is_in(search *s, const char *folder, size_t length, const char *below) {
  int size = snprintf(s->path, sizeof s->path, "%.*s%s/tenon-%s.so", (int)length, folder, below, s->driver);
  if (size < 0 || size >= MOST_PATH) return false;
  tn__strbuf_printf(&s->places, "%s%.*s%s", s->places.length > 0 ? ", " : "", (int)length, folder, below);
  return access(s->path, F_OK) == 0;
}

static bool is_in_path(search *s) {
  const char *path = secure_getenv("TENON_PLUGIN_PATH");
  while (path != NULL && *path != '\0') {
    size_t length = strcspn(path, ":");
    if (length > 0 && is_in(s, path, length, "")) return s->named = true;
    path += length + (path[length] == ':');
  }
  return false;
}

/* The folder of the file that this function is in, without links. The loader knows a program by what it was called
 * with, the system by its file. */
TN_MUST_USE static bool own_folder(char folder[MOST_PATH]) {
  Dl_info own, program;
  if (dladdr((const void *)(uintptr_t)&tn__plugin_driver, &own) == 0 || own.dli_fname == NULL) return false;
  bool is_program =
      dladdr((const void *)(uintptr_t)getauxval(AT_PHDR), &program) != 0 && own.dli_fbase == program.dli_fbase;
  if (is_program) {
    if (!tn__program_beside("", folder, MOST_PATH)) return false;
  } else if (realpath(own.dli_fname, folder) == NULL) {
    return false;
  }
  char *slash = strrchr(folder, '/');
  if (slash == NULL) return false;
  *slash = '\0';
  return true;
}

static bool is_found(search *s) {
  static const char *const below[] = {"", "/tenon", "/../lib/tenon", "/../" TN__PLUGIN_LIBRARY_FOLDER "/tenon"};
  char folder[MOST_PATH];
  if (is_in_path(s)) return true;
  if (!own_folder(folder)) return false;
  for (size_t i = 0; i < sizeof below / sizeof below[0]; i++)
    if ((i != 3 || strcmp(below[3], below[2]) != 0) && is_in(s, folder, strlen(folder), below[i])) return true;
  return false;
}

static tn_status *of_no_use(const search *s, const char *what) {
  return tn_status_create(TN_FAILED_PRECONDITION,
                          "the plug-in \"%s\" %s: install the plug-ins that came with this Tenon (%s)", s->path, what,
                          tn_version());
}

static tn_status *of_another_version(const search *s, uint32_t version) {
  char what[120];
  unsigned release = version / 1000, layout = version % 1000;
  snprintf(what, sizeof what, "is of Tenon %u.%u.%u, layout %u, not of %s, layout %d", release / 10000,
           release / 100 % 100, release % 100, layout, tn_version(), TN__PLUGIN_LAYOUT);
  return of_no_use(s, what);
}

/* A folder of TENON_PLUGIN_PATH may belong to anyone, so check it. Tenon's own folder is as trusted as Tenon. */
static tn_status *check_place(const search *s) {
  char folder[MOST_PATH];
  if (!s->named) return NULL;
  snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(s->path, '/') - s->path), s->path);
  return tn_status_prefix(tn__folder_check_trusted(folder, "TENON_PLUGIN_PATH"), "the plug-in \"%s\" is not opened",
                          s->path);
}

static tn_status *open_found(const search *s, DLDeviceType type, const tn__device_driver **out) {
  TN_RETURN_IF_ERROR(check_place(s));
  void *library = dlopen(s->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) {
    const char *why = dlerror();
    char what[512];
    snprintf(what, sizeof what, "cannot be opened (%s)", why == NULL ? "dlopen" : why);
    return of_no_use(s, what);
  }
  void *symbol = dlsym(library, "tn_plugin_driver");
  uint32_t version = 0;
  const tn__device_driver *(*entry)(uint32_t, uint32_t *);
  memcpy(&entry, &symbol, sizeof entry); /* ISO C has no conversion from data to function pointers; POSIX has */
  const tn__device_driver *driver = symbol == NULL ? NULL : entry(TN__PLUGIN_VERSION, &version);
  dlclose(library); /* it stays */
  if (symbol == NULL) return of_no_use(s, "is none: it has no function tn_plugin_driver");
  if (driver == NULL || version != TN__PLUGIN_VERSION) return of_another_version(s, version);
  if (driver->type != type) return of_no_use(s, "is for other devices than its name says");
  *out = driver;
  return NULL;
}

tn_status *tn__plugin_driver(DLDeviceType type, const char *name, const tn__device_driver **out) {
  search s = {.driver = name};
  *out = NULL;
  tn__strbuf_init(&s.places, NULL);
  tn_status *status;
  if (is_found(&s))
    status = open_found(&s, type, out);
  else
    status =
        tn_status_create(TN_NOT_FOUND,
                         "there is no plug-in for %s devices: no file tenon-%s.so in %s; install it there, or name "
                         "its folder in TENON_PLUGIN_PATH",
                         name, name, tn__strbuf_text(&s.places));
  tn__strbuf_release(&s.places);
  return status;
}
