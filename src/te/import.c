/* import "FILE": inserts the declarations of another file. A build must read only files below the importing file's
 * folder. So a path is relative, has no ".." and ends with ".te", and links must lead to places below that folder. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/below.h"
#include "base/file.h"
#include "base/magic.h"
#include "te/syntax.h"

enum { MOST_FILES = 256, MOST_DEPTH = 32 };

static bool goes_up(const char *path) {
  for (const char *part = path; part != NULL; part = strchr(part, '/')) {
    part += *part == '/';
    if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == 0)) return true;
  }
  return false;
}

static bool is_text(const char *path) {
  size_t length = strlen(path);
  return length > 3 && strcmp(path + length - 3, ".te") == 0;
}

static void check_path(const tn__syn_parser *p, const tn__token *at, const char *path) {
  if (path[0] == '/' || strchr(path, '\\') != NULL || goes_up(path))
    tn__lexer_fail(&p->lex, at,
                   "an import names a file in the folder of the file that it stands in, or below it: no "
                   "path from the root, no .. and no backslash");
  if (!is_text(path)) tn__lexer_fail(&p->lex, at, "an import names a file of declarations, which ends with .te");
}

/* Returns the folder of the file being read. */
static const char *folder_of(tn__arena *arena, const tn__te_source *source, const char *file) {
  const char *slash = strrchr(file, '/');
  if (source->depth == 1 && source->folder != NULL) return source->folder;
  if (slash == file) return "/";
  return slash == NULL ? "" : tn__arena_strndup(arena, file, (size_t)(slash - file));
}

/* Resolves the path of a file in that folder into `real`, without links. */
static const char *path_beside(const tn__syn_parser *p, const tn__te_source *source, const tn__token *at,
                               const char *name, char real[PATH_MAX]) {
  const char *folder = folder_of(p->arena, source, p->lex.name);
  const char *path = folder[0] == '\0' ? name : tn__arena_printf(p->arena, "%s/%s", folder, name);
  switch (tn__path_below(folder, name, real)) {
    case TN__BELOW_FAILED: tn__lexer_fail(&p->lex, at, "%s: cannot open: %s", path, strerror(errno)); break;
    case TN__BELOW_OUTSIDE:
      tn__lexer_fail(&p->lex, at,
                     "cannot import %s: a link leads out of the folder of the file that the import stands in; copy the "
                     "file there",
                     path);
      break;
    case TN__BELOW_THERE: break;
  }
  return path;
}

/* True when the file was read before. One that is being read would need itself. */
static bool is_read(const tn__syn_parser *p, const tn__te_source *source, const tn__token *at, const char *path) {
  for (int i = 0; i < source->files.count; i++) {
    if (!tn__same_file(source->files.data[i].path, path)) continue;
    if (!source->files.data[i].open) return true;
    const char *circle = source->files.data[i].path;
    for (int k = i + 1; k < source->files.count; k++)
      if (source->files.data[k].open)
        circle = tn__arena_printf(p->arena, "%s, which imports %s", circle, source->files.data[k].path);
    tn__lexer_fail(&p->lex, at, "the imports go in a circle: %s, which imports %s", circle, source->files.data[i].path);
  }
  return false;
}

typedef struct copy {
  tn__arena *arena;
  const tn__file_map *map;
  const char *text;
} copy;

static void copy_text(tn__escape *escape, void *user) {
  copy *c = user;
  c->arena->escape = escape;
  c->text = tn__arena_strndup(c->arena, c->map->size > 0 ? (const char *)c->map->data : "", c->map->size);
}

tn_status *tn__te_file_text(tn__arena *arena, const char *path, const char **text, size_t *length) {
  tn__file_map map;
  tn__escape escape, *outer = arena->escape;
  TN_RETURN_IF_ERROR(tn__file_map_open(path, &map));
  copy c = {.arena = arena, .map = &map};
  tn_status *status = NULL;
  const char *other = tn__magic_of(map.data, map.size);
  if (other != NULL)
    status = tn_status_create(TN_UNSUPPORTED, "%s: cannot be read as declarations: it is %s", path, other);
  else if (map.size > TN__TE_MOST_TEXT)
    status = tn_status_create(TN_INVALID_ARGUMENT, "%s: %zu bytes of text; at most %d are allowed", path, map.size,
                              (int)TN__TE_MOST_TEXT);
  else
    status = tn__protect(&escape, copy_text, &c);
  arena->escape = outer;
  *text = c.text;
  *length = map.size;
  tn__file_map_close(&map);
  return status;
}

void tn__te_enter_file(tn__te_source *source, const char *path, size_t length) {
  tn__syn_file file = {.path = path, .open = true};
  source->bytes += length;
  source->depth++;
  tn__vec_push(source->arena, &source->files, file);
}

bool tn__te_import_begin(tn__syn_parser *p, tn__te_source *source, tn__syn_import *out) {
  tn__token at = p->lex.token;
  if (at.kind != TN__TOKEN_STRING) tn__lexer_fail(&p->lex, &at, "expected the name of a file in quotes behind import");
  const char *path = tn__lexer_string(&p->lex, &at);
  bool incomplete = source->incomplete;
  source->incomplete = true; /* until all is well */
  if (source->files.count == 0)
    tn__lexer_fail(&p->lex, &at,
                   "an import is of a file beside the one that it stands in, and this text stands in none");
  check_path(p, &at, path);
  char real[PATH_MAX];
  *out = (tn__syn_import){.path = path_beside(p, source, &at, path, real), .index = source->files.count};
  bool before = is_read(p, source, &at, out->path);
  if (!before) {
    if (source->depth > MOST_DEPTH) tn__lexer_fail(&p->lex, &at, "imports nested more than %d levels deep", MOST_DEPTH);
    if (out->index == MOST_FILES) tn__lexer_fail(&p->lex, &at, "more than %d files", MOST_FILES);
    tn_status *status = tn__te_file_text(p->arena, real, &out->text, &out->length);
    if (status != NULL) tn__errors_throw(p->lex.errors, p->arena, &(tn__place){at.text, at.line, at.column}, status);
    if (source->bytes + out->length > TN__TE_MOST_TEXT)
      tn__lexer_fail(&p->lex, &at, "more than %d bytes of text in all files", (int)TN__TE_MOST_TEXT);
    tn__arena_allow(p->arena, TN__TE_STEPS_PER_BYTE * out->length);
    tn__te_enter_file(source, out->path, out->length);
  }
  source->incomplete = incomplete;
  return !before;
}

void tn__te_import_end(tn__te_source *source, const tn__syn_import *import) {
  source->files.data[import->index].open = false;
  source->depth--;
}
