#include "tenon/base.h"

const char *tn_version(void) { return "0.1.0"; }
