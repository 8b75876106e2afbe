/* Printing in pieces that share one set of names, and copying in pieces into another context: for text forms that hold
 * expressions and statements of the loop IR. */
#ifndef TENON_IR_PRINT_H
#define TENON_IR_PRINT_H

#include "ir/stmt.h"

typedef struct tn__printer tn__printer;
/* Both live in the arena; `out` must outlive the printer. */
tn__printer *tn__printer_create(tn__arena *arena, tn__strbuf *out);
/* A name for a variable or buffer: the wanted one, made a name and told apart from those that are visible. */
const char *tn__printer_bind(tn__printer *p, const void *entity, const char *wanted);
const char *tn__printer_name(tn__printer *p, const void *entity, const char *wanted); /* bound, or bound now */
int tn__printer_mark(const tn__printer *p);
void tn__printer_reset(tn__printer *p, int mark); /* what was bound since the mark is forgotten */
void tn__printer_expr(tn__printer *p, const tn__expr *e);
void tn__printer_range(tn__printer *p, const tn__var *var);           /* " in [0, +n)" */
void tn__printer_stmt(tn__printer *p, const tn__stmt *s, int indent); /* lines, indented so many levels */

/* The f64 of fewest digits that rounds to the value in its own type. */
double tn__ir_shortest_float(tn_dtype dtype, double value);

/* Copies into `ir` with everything made anew in the order of binding; what is copied must be bound or bind itself. */
typedef struct tn__importer tn__importer;
tn__importer *tn__importer_create(tn__ir *ir);
const tn__var *tn__ir_import_var(tn__importer *m, const tn__var *var);
const tn__buffer *tn__ir_import_buffer(tn__importer *m, const tn__buffer *buffer);
void tn__ir_import_as_param(tn__importer *m, const tn__buffer *buffer); /* the copy of this one will be a parameter */
/* The copy of this one will have these strides, expressions of the importer's context; NULL: none. */
void tn__ir_import_with_strides(tn__importer *m, const tn__buffer *buffer, const tn__expr *const *strides);
const tn__buffer *tn__ir_imported_buffer(tn__importer *m, const tn__buffer *buffer); /* that of one bound before */
const tn__expr *tn__ir_import_expr(tn__importer *m, const tn__expr *e);
const tn__stmt *tn__ir_import_stmt(tn__importer *m, const tn__stmt *s);

#endif
