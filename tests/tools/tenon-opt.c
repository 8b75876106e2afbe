/* tenon-opt: reads a function of the loop IR, or a graph, runs passes on it, prints it or interprets it. For golden
 * tests and for looking.
 *
 *   tenon-opt [--pass NAME]... [--lower] [--interpret [--wide]] [--dim NAME=N]... [FILE]
 *   tenon-opt --graph [--graph-pass NAME]... [--check] [--winograd TILE] [--dim NAME=N]... [FILE]
 *
 * With --graph the text is a graph (tools/graph_opt.h); --graph-pass says so, too.
 *
 * --pass runs one pass of the pipeline, --lower all of them. --interpret fills the inputs with a fixed pattern (element
 * i of each is i * 7 % 13 - 6, as its type wraps it), runs the result and prints the outputs. Exit status: 0, 1 for a
 * bad function, 2 misuse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/passes.h"
#include "ir/scalar.h"
#include "tools/graph_opt.h"

enum { MAX_PASSES = GRAPH_OPT_PASSES, MAX_DIMS = GRAPH_OPT_DIMS, SHOWN = 64 };

typedef struct options {
  const char *passes[MAX_PASSES], *dims[MAX_DIMS], *file;
  int pass_count, dim_count;
  bool lower, interpret, wide, is_graph;
  graph_opt graph;
} options;

typedef struct job {
  tn__arena arena;
  const options *options;
  char *text;
  size_t length;
} job;

static const char *read_all(FILE *file, char **text, size_t *length) {
  size_t capacity = 1 << 16, got;
  *length = 0;
  *text = malloc(capacity);
  while (*text != NULL && (got = fread(*text + *length, 1, capacity - *length, file)) > 0) {
    *length += got;
    if (*length == capacity) *text = realloc(*text, capacity *= 2);
  }
  return *text == NULL ? "out of memory" : ferror(file) ? "cannot read" : NULL;
}

static const tn__func *run_passes(tn__ir *ir, const tn__func *func, const options *o) {
  tn__escape *escape = tn__ir_arena(ir)->escape;
  for (int i = 0; i < o->pass_count; i++) {
    int which = 0;
    while (tn__ir_pass_name(which) != NULL && strcmp(tn__ir_pass_name(which), o->passes[i]) != 0) which++;
    if (tn__ir_pass_name(which) == NULL) tn__throwf(escape, TN_INVALID_ARGUMENT, "there is no pass %s", o->passes[i]);
    func = tn__ir_run_pass(ir, which, func, NULL);
  }
  return o->lower ? tn__ir_lower_for_codegen(ir, func, NULL) : func;
}

static int64_t value_of_dim(const tn__var *var, const options *o, tn__escape *escape) {
  size_t length = strlen(var->name);
  for (int i = 0; i < o->dim_count; i++)
    if (strncmp(o->dims[i], var->name, length) == 0 && o->dims[i][length] == '=')
      return strtoll(o->dims[i] + length + 1, NULL, 10);
  tn__throwf(escape, TN_INVALID_ARGUMENT, "--dim %s=N is missing", var->name);
}

static void print_output(const tn__buffer *buffer, const void *data, int64_t count) {
  printf("%s:", buffer->name);
  for (int64_t i = 0; i < count && i < SHOWN; i++) {
    tn__scalar value = tn__scalar_load(buffer->dtype, data, i);
    if (tn__dtype_is_float(buffer->dtype))
      printf(" %.9g", value.f);
    else
      printf(" %lld", (long long)value.i);
  }
  printf("%s\n", count > SHOWN ? " ..." : "");
}

static void interpret(tn__ir *ir, const tn__func *func, const options *o) {
  tn__arena *arena = tn__ir_arena(ir);
  int count = func->input_count + func->output_count;
  int64_t *scalars = TN__NEW_ARRAY(arena, func->scalar_count, int64_t);
  const tn__expr **values = TN__NEW_ARRAY(arena, func->scalar_count, const tn__expr *);
  for (int i = 0; i < func->scalar_count; i++) {
    scalars[i] = value_of_dim(func->scalars[i], o, arena->escape);
    values[i] = tn__ir_index(ir, scalars[i]);
  }
  void **buffers = TN__NEW_ARRAY(arena, count, void *);
  int64_t *sizes = TN__NEW_ARRAY(arena, count, int64_t);
  for (int i = 0; i < count; i++) {
    const tn__buffer *buffer = func->params[i];
    sizes[i] = 1;
    for (int d = 0; d < buffer->rank; d++) {
      int64_t dim;
      if (!tn__ir_as_int(tn__ir_substitute(ir, buffer->shape[d], func->scalars, values, func->scalar_count), &dim) ||
          dim < 0 || dim > 1 << 20 || sizes[i] > 1 << 20)
        tn__throwf(arena->escape, TN_INVALID_ARGUMENT, "%s is too large to be interpreted here", buffer->name);
      sizes[i] *= dim;
    }
    buffers[i] = tn__arena_alloc_array(arena, (size_t)sizes[i], tn_dtype_size(buffer->dtype));
    for (int64_t k = 0; k < sizes[i] && i < func->input_count; k++) {
      tn__scalar pattern = {.i = k * 7 % 13 - 6};
      tn__scalar_store(buffer->dtype, buffers[i], k, tn__scalar_cast(buffer->dtype, TN_I64, pattern));
    }
  }
  tn__interpret_options how = {.wide = o->wide};
  tn__check(arena->escape, tn__ir_interpret(ir, func, buffers, scalars, &how));
  for (int i = func->input_count; i < count; i++) print_output(func->params[i], buffers[i], sizes[i]);
}

static void run(tn__escape *escape, void *user) {
  job *j = user;
  j->arena.escape = escape;
  tn__ir *ir = tn__ir_create(&j->arena);
  tn__func *parsed;
  const char *name = j->options->file == NULL ? "stdin" : j->options->file;
  const char *slash = strrchr(name, '/');
  if (j->options->is_graph) {
    graph_opt_run(ir, slash == NULL ? name : slash + 1, j->text, j->length, &j->options->graph);
    return;
  }
  tn__check(escape, tn__func_parse(ir, slash == NULL ? name : slash + 1, j->text, j->length, &parsed));
  tn__check(escape, tn__func_verify(ir, parsed));
  const tn__func *func = run_passes(ir, parsed, j->options);
  tn__check(escape, tn__func_verify(ir, func));
  if (j->options->interpret) {
    interpret(ir, func, j->options);
    return;
  }
  tn__strbuf out;
  tn__strbuf_init(&out, NULL);
  tn__func_print(func, &out);
  fputs(tn__strbuf_text(&out), stdout);
  tn__strbuf_release(&out);
}

static bool read_options(int argc, char **argv, options *o) {
  for (int i = 1; i < argc; i++) {
    bool more = i + 1 < argc;
    if (strcmp(argv[i], "--pass") == 0 && more && o->pass_count < MAX_PASSES)
      o->passes[o->pass_count++] = argv[++i];
    else if (strcmp(argv[i], "--graph-pass") == 0 && more && o->graph.pass_count < MAX_PASSES)
      o->graph.passes[o->graph.pass_count++] = argv[++i], o->is_graph = true;
    else if (strcmp(argv[i], "--winograd") == 0 && more)
      o->graph.winograd = atoi(argv[++i]);
    else if (strcmp(argv[i], "--dim") == 0 && more && o->dim_count < MAX_DIMS)
      o->graph.dims[o->dim_count] = o->dims[o->dim_count] = argv[i + 1], o->graph.dim_count = ++o->dim_count, i++;
    else if (strcmp(argv[i], "--graph") == 0)
      o->is_graph = true;
    else if (strcmp(argv[i], "--check") == 0)
      o->graph.check = true;
    else if (strcmp(argv[i], "--lower") == 0)
      o->lower = true;
    else if (strcmp(argv[i], "--interpret") == 0)
      o->interpret = true;
    else if (strcmp(argv[i], "--wide") == 0)
      o->wide = true;
    else if (argv[i][0] != '-' && o->file == NULL)
      o->file = argv[i];
    else
      return false;
  }
  return true;
}

int main(int argc, char **argv) {
  options o = {0};
  if (!read_options(argc, argv, &o)) {
    fprintf(stderr,
            "usage: tenon-opt [--pass NAME]... [--lower] [--interpret [--wide]] [--dim NAME=N]... [FILE]\n"
            "       tenon-opt --graph [--graph-pass NAME]... [--check] [--winograd TILE] [--dim NAME=N]... [FILE]\n");
    return 2;
  }
  FILE *file = o.file == NULL ? stdin : fopen(o.file, "rb");
  job j = {.options = &o};
  const char *problem = file == NULL ? "cannot open" : read_all(file, &j.text, &j.length);
  if (file != NULL && file != stdin) fclose(file);
  if (problem != NULL) {
    fprintf(stderr, "tenon-opt: %s %s\n", problem, o.file == NULL ? "stdin" : o.file);
    return 1;
  }
  tn__escape escape;
  tn__arena_init(&j.arena, NULL, &escape);
  tn_status *status = tn__protect(&escape, run, &j);
  if (status != NULL) fprintf(stderr, "tenon-opt: %s\n", tn_status_message(status));
  int result = status != NULL;
  tn_status_free(status);
  tn__arena_release(&j.arena);
  free(j.text);
  return result;
}
