/* Tenon: what every public header rests on: statuses, allocators, log sinks and element types.
 *
 * Ownership, once for the whole API:
 *  - A function that can fail returns `tn_status *`: NULL when all is well, otherwise a status that the caller owns and
 *    releases with tn_status_free(). Ignoring it is a compiler warning and a leak.
 *  - A constructor (`tn_X_create`, `tn_X_load`) sets `*out` to NULL first, and to an object only on success. The caller
 *    owns that object and releases it with `tn_X_release`, which takes NULL too.
 *  - Strings passed in are copied when they are kept; strings handed out live as long as the object they came from.
 *  - Nothing here is global. Two objects made from different contexts may be used from different threads at once; one
 *    object is used by one thread at a time unless its comment says otherwise.
 *  - A NULL `tn_allocator *` means malloc, realloc and free.
 *
 * Structs, so that later versions can add to them (docs/abi.md):
 *  - What the library tells is read where it lies, `const tn_X *`, and lives as long as its object unless the comment
 *    says otherwise. Several come as an array of pointers, because later versions may append fields.
 *  - A struct of the caller's that a function fills begins with `size`, as structs of options do:
 *    `tn_machine_limits limits = {.size = sizeof limits};`. No more than that is written. A size of 0 is refused.
 *
 * Options: NULL means the defaults. A struct of options begins with its size, `tn_load_options o = {.size = sizeof
 * o};`, and fields that are zero have their defaults. Later versions only append fields: what a caller's older struct
 * lacks has its default. A size of 0, fields set that the library is too old to know, and a list that is NULL but is
 * said to have elements are refused with TN_INVALID_ARGUMENT. */
#ifndef TENON_BASE_H
#define TENON_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))   /* before each public function */
#define TN_MUST_USE __attribute__((warn_unused_result)) /* a result that must be looked at */
/* A function like printf: which argument is the format, and which the first of those that it speaks of. */
#define TN_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define TN_NEVER_NULL __attribute__((returns_nonnull)) /* a result that is never NULL */
#else
#define TN_API
#define TN_MUST_USE
#define TN_PRINTF(fmt, first)
#define TN_NEVER_NULL
#endif

/* ---- status ---------------------------------------------------------------------------------------------------- */

/* What kind of failure it is. */
typedef enum tn_status_code {
  TN_OK = 0,              /* all is well; no status has it */
  TN_INVALID_ARGUMENT,    /* the caller asked for something that has no meaning (wrong name, shape, option, text) */
  TN_NOT_FOUND,           /* a file, name or entry that is not there */
  TN_UNSUPPORTED,         /* meaningful, but this version of Tenon does not do it */
  TN_OUT_OF_MEMORY,       /* an allocation failed */
  TN_OUT_OF_RANGE,        /* an index, dimension or number outside of what it may be, found while running */
  TN_FAILED_PRECONDITION, /* right call, wrong moment or place: an unset input, a CPU that lacks a feature */
  TN_DATA_LOSS,           /* a file or message is truncated, corrupt or hostile */
  TN_IO,                  /* the operating system refused to read or write */
  TN_CANCELLED,           /* the caller asked to stop */
  TN_INTERNAL             /* a defect of Tenon: please report it */
} tn_status_code;

typedef struct tn_status tn_status; /* a failure: its kind and its text */

/* Creates a status. When even that allocation fails, a static out-of-memory status is returned, so the result is never
 * NULL. `code` must not be TN_OK. */
TN_API TN_MUST_USE TN_NEVER_NULL tn_status *tn_status_create(tn_status_code code, const char *format, ...)
    TN_PRINTF(2, 3);
TN_API TN_MUST_USE TN_NEVER_NULL tn_status *tn_status_create_v(tn_status_code code, const char *format, va_list args);

/* Puts "text: " in front of the message, so that the outermost place comes first ("model.onnx: node "conv1": ..."), and
 * returns the same status. NULL stays NULL. */
TN_API TN_MUST_USE tn_status *tn_status_prefix(tn_status *status, const char *format, ...) TN_PRINTF(2, 3);

/* Code and text of a status; TN_OK and "ok" for NULL. The text lives as long as the status. */
TN_API tn_status_code tn_status_code_of(const tn_status *status);
TN_API const char *tn_status_message(const tn_status *status);
/* "invalid argument", "not found", ...: for people, never NULL. */
TN_API const char *tn_status_code_name(tn_status_code code);
TN_API void tn_status_free(tn_status *status); /* NULL is fine */

/* ---- allocator -------------------------------------------------------------------------------------------------- */

/* `reallocate(user, NULL, 0, n, align)` allocates, `(user, p, old, n, align)` resizes, `(user, p, old, 0, align)` frees
 * and returns NULL. `align` is a power of two. NULL from the first two means out of memory, and `p` stays valid then.
 * May be called from several threads at once. */
typedef struct tn_allocator {
  void *(*reallocate)(void *user, void *pointer, size_t old_size, size_t new_size, size_t align); /* as said above */
  void *user; /* what the function gets first */
} tn_allocator;

/* ---- logging ---------------------------------------------------------------------------------------------------- */

/* How much a line matters. */
typedef enum tn_log_level {
  TN_LOG_DEBUG,   /* for those who work on Tenon */
  TN_LOG_INFO,    /* what was done */
  TN_LOG_WARNING, /* it works, but not as one might think */
  TN_LOG_ERROR    /* something failed that no status tells of */
} tn_log_level;

/* Tenon never prints by itself: it calls the sink it was given, from any thread, one whole line without newline at a
 * time. */
typedef struct tn_log_sink {
  void (*write)(void *user, tn_log_level level, const char *line); /* the line lives for the call */
  void *user;                                                      /* what the function gets first */
} tn_log_sink;

/* ---- element types ---------------------------------------------------------------------------------------------- */

/* Codes and meaning are DLPack's (DLDataType with lanes = 1): kind in the high byte, bits in the low one. */
typedef enum tn_dtype {
  TN_DTYPE_INVALID = 0, /* no element type */
  /* Signed integers, two's complement. */
  TN_I8 = 0x0008,
  TN_I16 = 0x0010,
  TN_I32 = 0x0020,
  TN_I64 = 0x0040,
  /* Unsigned integers. */
  TN_U8 = 0x0108,
  TN_U16 = 0x0110,
  TN_U32 = 0x0120,
  TN_U64 = 0x0140,
  /* Floating-point numbers: IEEE 754 of 16, 32 and 64 bits, and bfloat16. */
  TN_F16 = 0x0210,
  TN_F32 = 0x0220,
  TN_F64 = 0x0240,
  TN_BF16 = 0x0410,
  TN_BOOL = 0x0608,  /* one byte, 0 or 1 */
  TN_STRING = 0x0380 /* a tn_string; DLPack has no strings: an opaque handle of 128 bits stands for them */
} tn_dtype;

/* An element of a tensor of TN_STRING: bytes, UTF-8 by convention, without a terminator; NUL is one like any other. The
 * data may be NULL when there are none. Whose the bytes are says the function that takes or gives the tensor. */
typedef struct tn_string {
  const char *data; /* need not end with a NUL */
  uint64_t length;  /* in bytes */
} tn_string;

TN_API size_t tn_dtype_size(tn_dtype dtype);      /* bytes per element; 0 for an invalid type */
TN_API const char *tn_dtype_name(tn_dtype dtype); /* "f32", "i64", "bool", ...; "invalid" */
TN_API tn_dtype tn_dtype_parse(const char *name); /* the inverse; TN_DTYPE_INVALID when unknown */

/* ---- version ---------------------------------------------------------------------------------------------------- */

/* Of this header: the build takes the project's version from here. Since 0.2.
 * What carries no "Since" is there since 0.1. */
#define TN_VERSION_MAJOR 0
#define TN_VERSION_MINOR 2
#define TN_VERSION_PATCH 0
/* The three as one number that grows: 0.2.0 is 200. Since 0.2. */
#define TN_VERSION (TN_VERSION_MAJOR * 10000 + TN_VERSION_MINOR * 100 + TN_VERSION_PATCH)

TN_API const char *tn_version(void); /* of the library that runs: "0.2.0" */
/* The same as a number, to be compared with TN_VERSION of the header that a program was compiled with. Since 0.2. */
TN_API int tn_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
