/* How `tenon db` shows tasks and records: lines for people, or members of JSON objects. */
#ifndef TENON_TUNE_CLI_DB_PRINT_H
#define TENON_TUNE_CLI_DB_PRINT_H

#include "base/strbuf.h"
#include "tenon/database.h"

void tune_db_task_heading(tn__strbuf *out);
void tune_db_put_task(tn__strbuf *out, const tn_task_records *task);
void tune_db_json_task(tn__strbuf *out, const tn_task_records *task);
void tune_db_record_heading(tn__strbuf *out);
void tune_db_put_record(tn__strbuf *out, const tn_record *record);
void tune_db_json_record(tn__strbuf *out, const tn_record *record);
/* What a task is and how its trials ended, and its best record, which may be NULL, in full. */
void tune_db_describe(tn__strbuf *out, const tn_task_records *task, const tn_record *best);

#endif
