/* What invokes in flight (flight.c) are made of (session.c). */
#ifndef TENON_RUNTIME_SESSION_FLIGHT_H
#define TENON_RUNTIME_SESSION_FLIGHT_H

#include "runtime/session/session.h"

/* Of a session without a thread. */
void tn__session_destroy(tn_session *session);
/* What tn_session_invoke() does, in the session that is in use. */
TN_MUST_USE tn_status *tn__session_invoke_bound(tn_session *session, const tn__function *function);

#endif
