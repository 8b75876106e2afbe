#include "base/alloc.h"
#include "base/filled.h"
#include "tune/pool/workers.h"

tn_status *tn__workers_self_create(const tn_worker_options *options, const tn_timing_options *timing, bool runs,
                                   const tn__workers_owner *owner, tn__workers_self **out,
                                   tn_station_options *station) {
  tn_worker_options o;
  void *memory;
  TN_RETURN_IF_ERROR(tn__workers_options(options, &o));
  TN_RETURN_IF_ERROR(tn__alloc(NULL, 1, sizeof(tn__workers_self), 0, &memory));
  tn__workers_self *self = memory;
  *self = (tn__workers_self){0};
  tn_status *status = tn__workers_create(&o, timing, runs, owner, self, &self->workers);
  if (status != NULL) {
    tn__free(NULL, self, sizeof *self, 0);
    return status;
  }
  *out = self;
  *station = (tn_station_options){
      .size = sizeof *station, .slots = o.workers, .waiting = o.waiting, .drained = o.drained, .user = o.user};
  return NULL;
}

void tn__workers_self_release(void *self) {
  tn__workers_self *s = self;
  tn__workers_release(s->workers);
  tn__free(NULL, s, sizeof *s, 0);
}

tn_status *tn__workers_self_statistics(const tn__station *station, tn_worker_statistics *out) {
  const tn__supplied *supplied = &station->supplied;
  TN_RETURN_IF_ERROR(tn__filled_check("tn_worker_statistics", out, sizeof *out));
  if (supplied->release != tn__workers_self_release)
    return tn_status_create(TN_FAILED_PRECONDITION, "the %s owns no worker processes", station->kind->name);
  const tn_worker_statistics statistics = tn__workers_statistics(((const tn__workers_self *)supplied->self)->workers);
  tn__filled_write(out, &statistics, sizeof statistics);
  return NULL;
}
