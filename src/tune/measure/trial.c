#include "tenon/tune.h"

const char *tn_trial_error_name(tn_trial_error error) {
  static const char *const names[TN_TRIAL_ERRORS] = {"ok",          "instantiation", "host compile",  "device compile",
                                                     "run time",    "wrong answer",  "build timeout", "run timeout",
                                                     "worker lost", "cancelled"};
  return (int)error >= 0 && (int)error < TN_TRIAL_ERRORS ? names[error] : "unknown";
}
