/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN: a primitive per case. Constant operands are brought into the layout that the primitive asks for before the
 * clock starts. A convolution's activations are so too, unless the case says `layout=plain`: a network keeps them in
 * that layout from layer to layer. */
#include "server.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGS 8

static struct {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_t primitive, to_plain; /* `to_plain` brings the result into the plain layout; NULL when it is there */
  dnnl_exec_arg_t args[MAX_ARGS];
  int arg_count;
  dnnl_memory_t plain, result;
} state;

static void check_at(dnnl_status_t status, int line) {
  if (status != dnnl_success) {
    bench_fail("oneDNN: status %d at line %d", (int)status, line);
  }
}
#define CHECK(call) check_at(call, __LINE__)

static void start_engine(void) {
  if (!state.engine) {
    CHECK(dnnl_engine_create(&state.engine, dnnl_cpu, 0));
    CHECK(dnnl_stream_create(&state.stream, state.engine, dnnl_stream_default_flags));
  }
}

static void release(void) {
  for (int i = 0; i < state.arg_count; i++) {
    dnnl_memory_destroy(state.args[i].memory);
  }
  if (state.plain) {
    dnnl_memory_destroy(state.plain);
  }
  if (state.primitive) {
    dnnl_primitive_destroy(state.primitive);
  }
  if (state.to_plain) {
    dnnl_primitive_destroy(state.to_plain);
  }
  state.primitive = state.to_plain = NULL;
  state.plain = state.result = NULL;
  state.arg_count = 0;
}

static dnnl_memory_desc_t describe(int rank, const dnnl_dim_t *dims, const dnnl_dim_t *strides) {
  dnnl_memory_desc_t result;
  CHECK(dnnl_memory_desc_create_with_strides(&result, rank, dims, dnnl_f32, strides));
  return result;
}

static dnnl_memory_desc_t describe_plain(int rank, const dnnl_dim_t *dims) {
  dnnl_dim_t strides[DNNL_MAX_NDIMS], stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return describe(rank, dims, strides);
}

static dnnl_memory_desc_t describe_any(int rank, const dnnl_dim_t *dims) {
  dnnl_memory_desc_t result;
  CHECK(dnnl_memory_desc_create_with_tag(&result, rank, dims, dnnl_f32, dnnl_format_tag_any));
  return result;
}

static dnnl_memory_t allocate(const_dnnl_memory_desc_t layout) {
  dnnl_memory_t result;
  CHECK(dnnl_memory_create(&result, layout, state.engine, DNNL_MEMORY_ALLOCATE));
  return result;
}

static dnnl_primitive_t make_reorder(dnnl_memory_t from, dnnl_memory_t to) {
  const_dnnl_memory_desc_t from_layout, to_layout;
  CHECK(dnnl_memory_get_memory_desc(from, &from_layout));
  CHECK(dnnl_memory_get_memory_desc(to, &to_layout));
  dnnl_primitive_desc_t description;
  dnnl_primitive_t result;
  CHECK(dnnl_reorder_primitive_desc_create(&description, from_layout, state.engine, to_layout, state.engine, NULL));
  CHECK(dnnl_primitive_create(&result, description));
  dnnl_primitive_desc_destroy(description);
  return result;
}

static void reorder(dnnl_primitive_t primitive, dnnl_memory_t from, dnnl_memory_t to) {
  dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  CHECK(dnnl_primitive_execute(primitive, state.stream, 2, args));
  CHECK(dnnl_stream_wait(state.stream));
}

/* Gives the primitive the operand in the file, in the layout it wants. */
static void add_operand(int argument, const char *path, dnnl_memory_desc_t plain_layout,
                        const_dnnl_memory_desc_t wanted) {
  size_t count;
  float *data = bench_read_f32(path, &count);
  dnnl_memory_t plain = allocate(plain_layout);
  void *handle;
  CHECK(dnnl_memory_get_data_handle(plain, &handle));
  memcpy(handle, data, count * sizeof *data);
  free(data);
  dnnl_memory_t memory = plain;
  if (!dnnl_memory_desc_equal(plain_layout, wanted)) {
    memory = allocate(wanted);
    dnnl_primitive_t primitive = make_reorder(plain, memory);
    reorder(primitive, plain, memory);
    dnnl_primitive_destroy(primitive);
    dnnl_memory_destroy(plain);
  }
  state.args[state.arg_count++] = (dnnl_exec_arg_t){argument, memory};
}

/* The result, and where it goes in the plain layout. */
static void add_result(int argument, dnnl_memory_desc_t plain_layout, const_dnnl_memory_desc_t layout,
                       bench_work *work) {
  state.result = allocate(layout);
  state.args[state.arg_count++] = (dnnl_exec_arg_t){argument, state.result};
  dnnl_memory_t shown = state.result;
  if (!dnnl_memory_desc_equal(plain_layout, layout)) {
    shown = state.plain = allocate(plain_layout);
    state.to_plain = make_reorder(state.result, state.plain);
  }
  void *handle;
  CHECK(dnnl_memory_get_data_handle(shown, &handle));
  work->output = handle;
  work->output_bytes = dnnl_memory_desc_get_size(plain_layout);
}

static const_dnnl_memory_desc_t wanted_by(dnnl_primitive_desc_t description, dnnl_query_t query) {
  return dnnl_primitive_desc_query_md(description, query, 0);
}

static void describe_choice(dnnl_primitive_desc_t description, bench_work *work) {
  const char *text = "";
  dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &text);
  snprintf(work->note, sizeof work->note, "%s", text);
}

static void prepare_gemm(const bench_case *given, bench_work *work) {
  dnnl_dim_t batch = bench_int(given, "batch"), m = bench_int(given, "m"), k = bench_int(given, "k"),
             n = bench_int(given, "n");
  dnnl_dim_t a_dims[] = {batch, m, k}, b_dims[] = {batch, k, n}, c_dims[] = {batch, m, n};
  int skip = batch == 1, rank = 3 - skip;
  dnnl_memory_desc_t a = describe_plain(rank, a_dims + skip), b = describe_plain(rank, b_dims + skip),
                     c = describe_plain(rank, c_dims + skip);
  dnnl_memory_desc_t a_free = bench_is_constant(given, "a") ? describe_any(rank, a_dims + skip) : a;
  dnnl_memory_desc_t b_free = bench_is_constant(given, "b") ? describe_any(rank, b_dims + skip) : b;
  dnnl_primitive_desc_t description;
  CHECK(dnnl_matmul_primitive_desc_create(&description, state.engine, a_free, b_free, NULL, c, NULL));
  add_operand(DNNL_ARG_SRC, bench_text(given, "a"), a, wanted_by(description, dnnl_query_src_md));
  add_operand(DNNL_ARG_WEIGHTS, bench_text(given, "b"), b, wanted_by(description, dnnl_query_weights_md));
  add_result(DNNL_ARG_DST, c, wanted_by(description, dnnl_query_dst_md), work);
  CHECK(dnnl_primitive_create(&state.primitive, description));
  describe_choice(description, work);
  dnnl_primitive_desc_destroy(description);
}

static void prepare_conv(const bench_case *given, bench_work *work) {
  dnnl_dim_t in = bench_int(given, "in"), out = bench_int(given, "out"), groups = bench_int(given, "groups"),
             size = bench_int(given, "size"), window = bench_int(given, "window"), stride = bench_int(given, "stride"),
             pad = bench_int(given, "pad"), result = (size + 2 * pad - window) / stride + 1;
  dnnl_dim_t x_dims[] = {1, in, size, size}, y_dims[] = {1, out, result, result}, bias_dims[] = {out};
  dnnl_dim_t w_dims[] = {groups, out / groups, in / groups, window, window};
  int skip = groups == 1, w_rank = 5 - skip;
  dnnl_dim_t strides[] = {stride, stride}, dilates[] = {0, 0}, pads[] = {pad, pad};
  bool plain = bench_is(given, "layout", "plain");
  dnnl_memory_desc_t x = describe_plain(4, x_dims), y = describe_plain(4, y_dims),
                     w = describe_plain(w_rank, w_dims + skip), bias = describe_plain(1, bias_dims);
  dnnl_primitive_desc_t description;
  CHECK(dnnl_convolution_forward_primitive_desc_create(
      &description, state.engine, dnnl_forward_inference, dnnl_convolution_direct, plain ? x : describe_any(4, x_dims),
      describe_any(w_rank, w_dims + skip), bias, plain ? y : describe_any(4, y_dims), strides, dilates, pads, pads,
      NULL));
  add_operand(DNNL_ARG_SRC, bench_text(given, "a"), x, wanted_by(description, dnnl_query_src_md));
  add_operand(DNNL_ARG_WEIGHTS, bench_text(given, "b"), w, wanted_by(description, dnnl_query_weights_md));
  add_operand(DNNL_ARG_BIAS, bench_text(given, "bias"), bias, bias);
  add_result(DNNL_ARG_DST, y, wanted_by(description, dnnl_query_dst_md), work);
  CHECK(dnnl_primitive_create(&state.primitive, description));
  describe_choice(description, work);
  dnnl_primitive_desc_destroy(description);
}

void engine_prepare(const bench_case *given, int threads, bench_work *work) {
  start_engine();
  release();
  if (bench_is(given, "kind", "gemm")) {
    prepare_gemm(given, work);
  } else if (bench_is(given, "kind", "conv")) {
    prepare_conv(given, work);
  } else {
    snprintf(work->unsupported, sizeof work->unsupported, "products and convolutions only");
  }
}

void engine_run(void) {
  CHECK(dnnl_primitive_execute(state.primitive, state.stream, state.arg_count, state.args));
  CHECK(dnnl_stream_wait(state.stream));
}

void engine_finish_output(void) {
  if (state.to_plain) {
    reorder(state.to_plain, state.result, state.plain);
  }
}

const char *engine_version(void) {
  static char text[64];
  const dnnl_version_t *version = dnnl_version();
  snprintf(text, sizeof text, "%d.%d.%d", version->major, version->minor, version->patch);
  return text;
}
