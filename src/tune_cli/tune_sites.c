#include "tune_cli/tune_sites.h"

#include <uv.h>

#include "base/alloc.h"
#include "machine/identity.h"
#include "tune/tuner/sites.h"

static void told(void *user, const tn__site_result *r) {
  const tune_sites *words = user;
  if (words->quiet) return;
  fprintf(stderr, "%s %d instead of %d for %s: ", r->site->kind, r->choice, r->before, r->site->text);
  if (r->known)
    fprintf(stderr, "as it was measured before\n");
  else
    fprintf(stderr, "%.2f of the time%s\n", r->ratio, r->better ? "" : ", not shown to be faster");
}

typedef struct stations {
  uv_loop_t loop;
  tn_builder *builder;
  tn_runner *runner;
  tn_database *database;
  tn__sites *sites;
} stations;

static tn_status *work(stations *s, const tune_sites *words, const char *path, tn__strbuf *out) {
  const tn_worker_options options = {.size = sizeof options, .loop = &s->loop, .workers = 1};
  const tn_timing_options timing = {.size = sizeof timing, .verify = TN_VERIFY_FIRST};
  char machine[TN__MACHINE_IDENTITY_BYTES];
  tn__machine_identity("", machine);
  TN_RETURN_IF_ERROR(tn_worker_builder_create(&options, &s->builder));
  TN_RETURN_IF_ERROR(tn_worker_runner_create(&options, &timing, &s->runner));
  TN_RETURN_IF_ERROR(tn_database_open(words->database, NULL, &s->database));
  const tn__sites_words of_sites = {.path = path,
                                    .options = words->options,
                                    .builder = s->builder,
                                    .runner = s->runner,
                                    .database = s->database,
                                    .machine = machine,
                                    .most_seconds = words->most_seconds,
                                    .told = told,
                                    .user = (void *)(uintptr_t)words};
  TN_RETURN_IF_ERROR(tn__sites_start(&of_sites, &s->sites));
  while (!tn__sites_are_done(s->sites)) uv_run(&s->loop, UV_RUN_ONCE);
  const tn_status *failure = tn__sites_failure(s->sites);
  if (failure != NULL) return tn_status_create(tn_status_code_of(failure), "%s", tn_status_message(failure));
  const tn__variant *variants;
  int count = tn__sites_variants(s->sites, &variants);
  printf("%s: %d of %d decisions of the graph are other ones by what was measured\n", path, count,
         tn__sites_count(s->sites));
  tn__sites_print(s->sites, out);
  return NULL;
}

tn_status *tune_sites_decide(const tune_sites *words, const char *path, tn__strbuf *out) {
  stations s = {.builder = NULL};
  if (uv_loop_init(&s.loop) != 0) return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for a loop");
  tn_status *status = work(&s, words, path, out);
  tn__sites_release(s.sites);
  tn_builder_release(s.builder);
  tn_runner_release(s.runner);
  tn_database_release(s.database);
  uv_run(&s.loop, UV_RUN_DEFAULT); /* what is closed ends */
  uv_loop_close(&s.loop);
  return status;
}
