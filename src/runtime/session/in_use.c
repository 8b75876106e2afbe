/* What a session says that is called while a call of it has not returned. */
#include "runtime/session/session.h"

tn_status *tn__session_in_use(const tn_session *session) {
  if (atomic_load(&session->in_flight))
    return tn_status_create(TN_FAILED_PRECONDITION,
                            "the session is in flight: tn_session_start() gave it an invoke, and tn_session_wait() "
                            "comes before anything else (tn_session_cancel() may be called at any time)");
  return tn_status_create(TN_FAILED_PRECONDITION,
                          "the session is in use: another thread, or the invoke that this is called back from, has not "
                          "returned from it; use one session per thread, or take turns (tn_session_cancel() may be "
                          "called at any time)");
}
