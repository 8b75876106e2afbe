#ifndef TENON_BASE_LOG_H
#define TENON_BASE_LOG_H

#include "tenon/base.h"

/* Formats one line and hands it to the sink; does nothing when `sink` is NULL or has no write function. */
void tn__log(const tn_log_sink *sink, tn_log_level level, const char *format, ...) TN_PRINTF(3, 4);

#endif
