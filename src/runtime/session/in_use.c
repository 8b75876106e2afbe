/* What a session says that is called while a call of it has not returned. */
#include "runtime/session/session.h"

tn_status *tn__session_in_use(void) {
  return tn_status_create(TN_FAILED_PRECONDITION,
                          "the session is in use: another thread, or the invoke that this is called back from, has not "
                          "returned from it; use one session per thread, or take turns (tn_session_cancel() may be "
                          "called at any time)");
}
