/* The options of a compilation, one row each. The row makes the cache key, the check of what a caller gives, the
 * command line's options, Python's keywords and their stub, and the table in docs/options.md. Whoever adds an option
 * adds a row here and the code that uses it. */
#ifndef TENON_OPTIONS_OPTIONS_H
#define TENON_OPTIONS_OPTIONS_H

#include "base/hash.h"
#include "tenon/te.h"

typedef enum tn__option_kind {
  TN__OPTION_FLAG,      /* bool */
  TN__OPTION_COUNT,     /* int */
  TN__OPTION_BYTES,     /* uint64_t */
  TN__OPTION_TEXT,      /* const char * */
  TN__OPTION_PATH,      /* const char *, of a file or folder */
  TN__OPTION_WORDS,     /* const char *, words with commas between them */
  TN__OPTION_DIMS,      /* tn_dim_setting *, the first of two rows: fixed sizes, then sizes with code of their own */
  TN__OPTION_SIZES,     /* tn_dim_setting * */
  TN__OPTION_PAIRS,     /* tn_alias_setting * */
  TN__OPTION_NAMES,     /* const char *const * */
  TN__OPTION_ON_DEVICE, /* tn_on_device * */
  TN__OPTION_FILE,      /* const char *: a text; on the command line, and in Python as a path, the file that has it */
  TN__OPTION_CALLER     /* functions and objects of the calling program's */
} tn__option_kind;

enum {
  TN__OPTION_CODE = 1,     /* changes what is compiled: part of the cache key */
  TN__OPTION_RUNS = 2,     /* means something for what is compiled already, too */
  TN__OPTION_DECLARED = 4, /* of declarations (.te), too */
  TN__OPTION_MODULE = 8,   /* of the executable that is written: on the command line for `tenon compile` alone */
  TN__OPTION_REVERSED = 16 /* Python's keyword is the opposite of the field */
};

/* An option on the command line. */
typedef struct tn__cli_option {
  const char *name;  /* "--threads" */
  const char *value; /* what it takes, for help: "N"; NULL: a flag; "[FILE.json]": perhaps, when it ends like this */
  const char *help;
  bool repeats; /* may be given several times; of others the values must not differ */
  bool writes;  /* the value is a file that is written, not one that is read */
} tn__cli_option;

typedef struct tn__option_row {
  const char *name; /* of the field in tn_compile_options */
  tn__option_kind kind;
  unsigned flags;             /* TN__OPTION_CODE ... */
  size_t at, bytes;           /* of the field; of declarations alone: `at` is in tn_schedule_options, too */
  const char *count_name;     /* lists: of the field with their length */
  size_t count_at;            /* and where it is */
  size_t declared_at;         /* in tn_schedule_options; 0: it has no such field */
  int64_t low, high;          /* counts and sizes */
  const char *usual;          /* what is done without it, in words */
  const char *help;           /* what it does, in words */
  tn__cli_option cli;         /* without a name: it is not on the command line */
  tn__cli_option declaration; /* of `tenon build`, where it reads differently; without a name: as `cli` */
  const char *python;         /* keyword; NULL: there is none */
  int position;               /* of the keyword, from 1 on; 0: it has none */
} tn__option_row;

/* All rows, in the order in which help and documentation tell them; ends with a NULL name. */
extern const tn__option_row tn__option_rows[];
/* Those of declarations alone, whose fields are in tn_schedule_options. */
extern const tn__option_row tn__option_declared_rows[];
/* The row of a field of either; NULL: there is none. */
const tn__option_row *tn__options_find(const char *name);
/* How a kind is called: "flag", "count" ... */
const char *tn__option_kind_name(tn__option_kind kind);

/* Counts and sizes are in their ranges, lists are there, and their elements have names: TN_INVALID_ARGUMENT otherwise.
 */
TN_MUST_USE tn_status *tn__options_check(const tn_compile_options *options);
/* Everything that changes code, with what the options say; whoever resolves what they leave open does it before. */
void tn__options_hash(const tn_compile_options *options, tn__sha256 *hash);

#endif
