#include "tenon/base.h"

#define TEXT_OF(number) #number
#define TEXT(macro) TEXT_OF(macro)

const char *tn_version(void) { return TEXT(TN_VERSION_MAJOR) "." TEXT(TN_VERSION_MINOR) "." TEXT(TN_VERSION_PATCH); }
int tn_version_number(void) { return TN_VERSION; }
