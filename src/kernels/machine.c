#include "kernels/machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/trusted.h"
#include "cache/cache.h"
#include "codegen/backend.h"
#include "machine/machine_file.h"
#include "machine/measure.h"
#include "runtime/pool.h"
#include "target/limits.h"
#include "target/text/text.h"

/* "# sha256 HEX", the last line of a measurement that is kept: of all before it. */
static void append_hash(tn__strbuf *text) {
  char hex[65];
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__sha256_update(&h, tn__strbuf_text(text), text->length);
  tn__digest digest = tn__sha256_final(&h);
  tn__digest_hex(&digest, hex);
  tn__strbuf_printf(text, "# sha256 %s\n", hex);
}

static bool is_whole(const tn__file_map *map) {
  enum { LAST = sizeof "# sha256 " - 1 + 64 + 1, MOST = 1 << 20 };
  tn__strbuf text;
  if (map->size < LAST || map->size > MOST) return false;
  tn__strbuf_init(&text, NULL);
  tn__strbuf_printf(&text, "%.*s", (int)(map->size - LAST), (const char *)map->data);
  append_hash(&text);
  bool whole = text.length == map->size && memcmp(tn__strbuf_text(&text), map->data, map->size) == 0;
  tn__strbuf_release(&text);
  return whole;
}

/* Marks a measurement disturbed by other work, which is repeated after this time. */
#define DISTURBED "# disturbed: it is made again in ten minutes\n"
enum { DISTURBED_SECONDS = 600 };

/* Comments on how each parameter was obtained. */
static void copy_notes(const tn__file_map *map, tn__strbuf *notes) {
  static const char *const starts[] = {"# usual: ", "# measured: ", "# disturbed: "};
  const char *line = (const char *)map->data, *end = line + map->size;
  for (const char *next; line < end; line = next) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    next = stop ? stop + 1 : end;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
      if ((size_t)(next - line) > strlen(starts[i]) && memcmp(line, starts[i], strlen(starts[i])) == 0)
        tn__strbuf_printf(notes, "%.*s", (int)(next - line), line);
  }
}

/* Returns whether the measurement was disturbed and is outdated. A time in the future, after the clock was set back,
 * also counts as outdated. */
static bool is_expired(const char *path, const tn__file_map *map) {
  struct stat about;
  tn__strbuf notes;
  tn__strbuf_init(&notes, NULL);
  copy_notes(map, &notes);
  bool disturbed = strstr(tn__strbuf_text(&notes), DISTURBED) != NULL;
  tn__strbuf_release(&notes);
  if (!disturbed || stat(path, &about) != 0) return false;
  time_t now = time(NULL);
  return now < about.st_mtime || now - about.st_mtime > DISTURBED_SECONDS;
}

/* The numbers of `from` that are measured; what is known of CPUs like it is this version's own. */
static void copy_measured(const tn__machine *from, tn__machine *to) {
  for (const tn__machine_row *row = tn__machine_rows; row->name; row++)
    if (row->step > 0) tn__machine_set(to, row, tn__machine_get(from, row));
}

/* `notes`: the file is a measurement that was kept, all there or damaged, and its notes are appended; NULL: it is
 * somebody's, which may leave numbers out. */
static tn_status *use_file(const char *path, tn__target *target, tn__strbuf *notes) {
  tn__file_map map;
  tn__machine machine = target->cpu.row, usual = target->cpu.machine;
  tn_status *status = NULL;
  TN_RETURN_IF_ERROR(notes ? tn__file_map_trusted(path, &map) : tn__file_map_open(path, &map));
  if (notes && !is_whole(&map)) status = tn_status_create(TN_DATA_LOSS, "%s: the measurement is damaged", path);
  if (notes && !status && is_expired(path, &map))
    status = tn_status_create(TN_FAILED_PRECONDITION,
                              "%s: other work disturbed the measurement, ten minutes ago or more", path);
  if (!status) status = tn__machine_read(path, (const char *)map.data, map.size, target->cpu.arch, &machine);
  if (!status && notes) copy_notes(&map, notes);
  tn__file_map_close(&map);
  if (!status && notes) copy_measured(&machine, &usual);
  if (!status) tn__target_use(target, notes ? &usual : &machine);
  return status;
}

/* The version of the measurement method; raise it when the method yields other values. 1: clock by dependent
 * additions, and memory beyond all caches. 2: repeated, and rounded to bands around the usual values. */
#define WAY_OF_MEASURING 2

/* "FOLDER/machine-HASH": of all that tells one machine from another, and of what is measured and how, which may be more
 * than the version knew that measured before. */
static void path_of(const char *folder, const tn__target *target, char *path, size_t size) {
  char name[64], hex[65];
  tn__sha256 h;
  tn__sha256_init(&h);
  tn__machine_host_name(name, sizeof name);
  tn__sha256_update_string(&h, name);
  tn__sha256_update_string(&h, target->name);
  tn__sha256_update_u64(&h, (uint64_t)target->cpu.machine.l1_bytes);
  tn__sha256_update_u64(&h, (uint64_t)target->cpu.machine.l2_bytes);
  tn__sha256_update_u64(&h, (uint64_t)target->cpu.machine.l3_bytes);
  tn__sha256_update_u64(&h, (uint64_t)sysconf(_SC_NPROCESSORS_CONF));
  tn__sha256_update_u64(&h, (uint64_t)target->cpu.cores); /* the threads that are started */
  tn__sha256_update_u64(&h, WAY_OF_MEASURING);
  for (const tn__machine_row *row = tn__machine_rows; row->name; row++)
    if (row->step > 0) tn__sha256_update_string(&h, row->name);
  tn__digest digest = tn__sha256_final(&h);
  tn__digest_hex(&digest, hex);
  snprintf(path, size, "%s/machine-%.16s", folder, hex);
}

/* Measures with the threads that a session has by default, awake as they are while kernels follow each other. */
static tn_status *measure(const tn__target *target, tn__machine *machine, tn__strbuf *notes, bool *disturbed) {
  tn_thread_pool *pool;
  TN_RETURN_IF_ERROR(tn_thread_pool_create(NULL, &pool));
  tn__pool_begin(pool);
  tn_status *status = tn__machine_measure(target, tn_thread_pool_env(pool), machine, notes, disturbed);
  tn__pool_end(pool);
  tn_thread_pool_release(pool);
  return status;
}

static tn_status *measure_into(const char *path, const tn__target *target) {
  tn__strbuf text;
  char name[64];
  tn__machine machine = target->cpu.machine;
  tn__strbuf_init(&text, NULL);
  tn__machine_host_name(name, sizeof name);
  tn__strbuf_printf(&text, "# %s, %s\n", name, target->name);
  bool disturbed = false;
  tn_status *status = measure(target, &machine, &text, &disturbed);
  if (disturbed) tn__strbuf_append(&text, DISTURBED);
  tn__machine_print(&machine, target->cpu.arch, &text);
  append_hash(&text);
  if (!status) status = tn__strbuf_status(&text);
  if (!status) status = tn__file_write_atomic(path, &(tn__bytes){tn__strbuf_text(&text), text.length}, 1, 0644);
  tn__strbuf_release(&text);
  return status;
}

/* One process measures, and those that come meanwhile wait for what it finds: two would disturb each other, and might
 * find different numbers. */
static tn_status *measure_alone(const char *folder, const char *path, tn__target *target, bool again,
                                tn__strbuf *notes) {
  int place = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (place >= 0) flock(place, LOCK_EX);
  tn_status *status = again ? measure_into(path, target) : NULL;
  if (!status) status = use_file(path, target, notes);
  if (status && !again) { /* still not there, or damaged */
    tn_status_free(status);
    status = measure_into(path, target);
    if (!status) status = use_file(path, target, notes);
  }
  if (place >= 0) close(place);
  return status;
}

/* Trouble is no error of the compilation: then there are the usual numbers, as where a folder has no measurement and
 * cannot take one. */
static void use_measurement(const tn_compile_options *options, const char *folder, bool writes, tn__target *target,
                            char *from, tn__strbuf *notes) {
  char path[4096 + 32];
  path_of(folder, target, path, sizeof path);
  tn_status *status = use_file(path, target, notes);
  if (status && writes) {
    if (tn_status_code_of(status) == TN_FAILED_PRECONDITION) unlink(path); /* a new file gets the right mode */
    tn_status_free(status);
    status = measure_alone(folder, path, target, false, notes);
  }
  if (!status) {
    snprintf(from, 512, "measured, and kept in %.400s", path);
    return;
  }
  if (writes)
    tn__log(options->log, TN_LOG_WARNING, "this machine's numbers are not kept: %s", tn_status_message(status));
  snprintf(from, 512, "usual for such a CPU: %.400s", tn_status_message(status));
  tn_status_free(status);
}

static tn_status *find_machine(const tn_compile_options *options, tn__target *out, char from[512], tn__strbuf *notes) {
  char folder[4096];
  const tn__backend *backend;
  TN_RETURN_IF_ERROR(tn__target_parse(options->target, out));
  TN_RETURN_IF_ERROR(tn__backend_find_any(out, &backend));
  snprintf(from, 512, "usual for the target");
  if (options->machine) {
    snprintf(from, 512, "of %.400s", options->machine);
    return use_file(options->machine, out, NULL);
  }
  if (!tn__target_is_native(out)) return NULL;
  snprintf(from, 512, "usual for such a CPU; nothing is measured, as the options say");
  if (options->no_measure) return NULL;
  snprintf(from, 512, "usual for such a CPU; nothing is measured without a folder for the cache that is yours alone");
  tn__cache_access access = tn__cache_folder(NULL, folder, sizeof folder);
  if (access != TN__CACHE_NONE) use_measurement(options, folder, access == TN__CACHE_WRITES, out, from, notes);
  return NULL;
}

tn_status *tn__kernels_machine_target(const tn_compile_options *options, tn__target *out, char from[512]) {
  char unused[512];
  tn__strbuf notes;
  tn__strbuf_init(&notes, NULL);
  tn_status *status = find_machine(options, out, from ? from : unused, &notes);
  tn__strbuf_release(&notes);
  return status;
}

bool tn__kernels_machine_is_measured(const tn_compile_options *options) {
  static const char measured[] = "measured, ";
  tn__target target;
  tn__strbuf notes;
  char from[512] = "";
  tn__strbuf_init(&notes, NULL);
  tn_status *status = find_machine(options, &target, from, &notes);
  bool is = status == NULL && strncmp(from, measured, strlen(measured)) == 0 &&
            strstr(tn__strbuf_text(&notes), DISTURBED) == NULL;
  tn__strbuf_release(&notes);
  tn_status_free(status);
  return is;
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

static tn_status *measure_again(void) {
  tn__target target;
  tn__strbuf notes;
  char folder[4096], path[4096 + 32];
  TN_RETURN_IF_ERROR(tn__target_parse(NULL, &target));
  if (tn__cache_folder(NULL, folder, sizeof folder) != TN__CACHE_WRITES)
    return tn_status_create(
        TN_FAILED_PRECONDITION,
        "there is no folder to keep a measurement in: set TENON_CACHE_DIR to one that is yours alone");
  path_of(folder, &target, path, sizeof path);
  tn__strbuf_init(&notes, NULL);
  tn_status *status = measure_alone(folder, path, &target, true, &notes);
  tn__strbuf_release(&notes);
  return status;
}

static tn_status *write_machine(const tn_compile_options *options, tn__strbuf *text) {
  tn__target target;
  tn__strbuf notes;
  char from[512];
  tn__strbuf_init(&notes, NULL);
  tn_status *status = find_machine(options, &target, from, &notes);
  if (!status) status = tn__strbuf_status(&notes);
  if (!status) {
    tn__strbuf_printf(text, "# %s\n# %s\n%s", target.name, from, tn__strbuf_text(&notes));
    tn__machine_print(&target.cpu.machine, target.cpu.arch, text);
    status = tn__strbuf_status(text);
  }
  tn__strbuf_release(&notes);
  return status;
}

tn_status *tn_machine_text(const tn_compile_options *options, bool refresh, char **out) {
  TN__NEED("out", out);
  *out = NULL;
  tn_compile_options o = {.size = sizeof o};
  TN_RETURN_IF_ERROR(tn__options_read("tn_compile_options", options, sizeof o, &o));
  tn__target target;
  TN_RETURN_IF_ERROR(tn__target_parse(o.target, &target));
  if (refresh && (!tn__target_is_native(&target) || o.machine || o.no_measure))
    return tn_status_create(TN_INVALID_ARGUMENT, "only this machine can be measured again");
  if (refresh) TN_RETURN_IF_ERROR(measure_again());
  tn__strbuf text;
  tn__strbuf_init(&text, NULL);
  tn_status *status = write_machine(&o, &text);
  if (!status && !(*out = strdup(tn__strbuf_text(&text))))
    status = tn_status_create(TN_OUT_OF_MEMORY, "out of memory for %zu bytes of text", text.length);
  tn__strbuf_release(&text);
  return status;
}

tn_machine_limits tn__kernels_machine_limits(const tn__target *target, int threads) {
  return tn__target_known_limits(target, threads);
}
