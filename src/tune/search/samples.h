/* Files of samples: what a model has learned from is kept beside the database of records, so that the next tuning need
 * not open every other kernel, and apply its candidates again, to know what they taught.
 *
 *   tenon model 1                        the version of the file
 *   of VERSION ...                       what the numbers depend on: samples of something else mean nothing here
 *   samples N                            then N samples as they lie in memory, and a SHA-256 of all before it
 *
 * A file is never trusted: one that is missing, damaged, or of something else is as good as none, and is made anew from
 * the records. It is written whole or not at all. */
#ifndef TENON_TUNE_SEARCH_SAMPLES_H
#define TENON_TUNE_SEARCH_SAMPLES_H

#include "tune/search/model.h"

enum { TN__MODEL_FILE_VERSION = 1, TN__MODEL_MOST_SAMPLES = 1024 /* of a file: the newest */ };

/* Writes the model's samples. `of` is one line of text. */
TN_MUST_USE tn_status *tn__model_write(const tn__cost_model *model, const char *of, const char *path);
/* Adds the samples of a file, but for those of tasks that the model has a number for already. TN_NOT_FOUND: there is no
 * file. TN_FAILED_PRECONDITION: it is of something else, or of another version. TN_DATA_LOSS: it is damaged. Nothing is
 * added then. */
TN_MUST_USE tn_status *tn__model_read(tn__cost_model *model, const char *of, const char *path);

#endif
