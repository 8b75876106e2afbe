#include "runtime/device.h"

#include "base/alloc.h"

tn_status *tn__device_copy_between(tn__stream *to, void *destination, tn__stream *from, const void *source,
                                   size_t bytes, void *between) {
  const tn__device *in = to->device, *out = from->device;
  for (size_t at = 0; at < bytes; at += TN__COPY_PIECE) {
    size_t piece = bytes - at < TN__COPY_PIECE ? bytes - at : TN__COPY_PIECE;
    const void *there = out->driver->view(out, (void *)(uintptr_t)source, at);
    TN_RETURN_IF_ERROR(out->driver->copy(from, TN__COPY_OUT, between, there, piece));
    void *here = in->driver->view(in, destination, at);
    TN_RETURN_IF_ERROR(in->driver->copy(to, TN__COPY_IN, here, between, piece));
  }
  return NULL;
}
