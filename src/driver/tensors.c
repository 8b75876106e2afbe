/* Tensors from files: .npy (the runtime's reader), .npz (a zip of them) and ONNX TensorProto. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/arguments.h"
#include "base/file.h"
#include "base/magic.h"
#include "base/sanitize.h"
#include "driver/driver.h"
#include "runtime/tensor.h"

typedef struct tensor_list {
  tn_named_tensor *items;
  int count, capacity;
} tensor_list;

void tn_tensors_free(tn_named_tensor *tensors, int count) {
  for (int i = 0; i < count && tensors != NULL; i++) {
    free(tensors[i].name);
    tn_tensor_release(tensors[i].tensor);
  }
  free(tensors);
}

/* Takes the tensor over, also on failure. */
static tn_status *append(tensor_list *list, const char *name, size_t length, tn_tensor *tensor) {
  char *copy = malloc(length + 1);
  if (copy && list->count == list->capacity) {
    int capacity = list->capacity ? list->capacity * 2 : 4;
    tn_named_tensor *more = realloc(list->items, (size_t)capacity * sizeof *more);
    if (!more) {
      free(copy);
      copy = NULL;
    } else {
      list->items = more;
      list->capacity = capacity;
    }
  }
  if (!copy) {
    tn_tensor_release(tensor);
    return tn_status_create(TN_OUT_OF_MEMORY, "out of memory for a list of tensors");
  }
  memcpy(copy, name, length);
  copy[length] = 0;
  list->items[list->count++] = (tn_named_tensor){copy, tensor};
  return NULL;
}

/* ---- zip (PKWARE's APPNOTE 6.3): the central directory, stored and deflated members, zip64 sizes ----------------- */

typedef struct zip_member {
  const char *name;
  size_t name_length;
  int method;
  uint64_t packed, size, header; /* offset of the local header */
  uint32_t crc;
} zip_member;

static uint64_t little(const uint8_t *p, int bytes) {
  uint64_t v = 0;
  for (int i = bytes - 1; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static tn_status *bad_zip(const char *why) {
  return tn_status_create(TN_DATA_LOSS, "not a usable .npz archive: %s", why);
}

/* Sizes and offset that do not fit 32 bits stand in the zip64 extra field (id 1), those with all bits set, in order. */
static void read_zip64(zip_member *m, const uint8_t *extra, size_t length) {
  while (length >= 4) {
    size_t size = (size_t)little(extra + 2, 2);
    if (size + 4 > length) return;
    if (little(extra, 2) == 1) {
      const uint8_t *at = extra + 4, *end = at + size;
      uint64_t *fields[] = {&m->size, &m->packed, &m->header};
      for (int i = 0; i < 3; i++) {
        if (*fields[i] != 0xffffffffu || at + 8 > end) continue;
        *fields[i] = little(at, 8);
        at += 8;
      }
    }
    extra += 4 + size;
    length -= 4 + size;
  }
}

/* Deflated members are unpacked piece by piece: first the header, then what its shape says, into the tensor. A few
 * bytes of a file can stand for a thousand times as many, and nobody has looked at those yet. */
enum { CHUNK = 1 << 16 };

typedef struct unpacking {
  z_stream z;
  uint64_t in_left, out_left;
  uLong crc;
} unpacking;

/* The next `size` bytes of the member. */
static tn_status *unpack(unpacking *u, void *out, size_t size) {
  const char *damaged = "a member's compressed data is damaged";
  u->z.next_out = out;
  u->out_left -= size;
  for (size_t left = size; left > 0;) {
    uInt in = u->in_left > (1u << 30) ? 1u << 30 : (uInt)u->in_left, room = left > (1u << 30) ? 1u << 30 : (uInt)left;
    u->z.avail_in = in;
    u->z.avail_out = room;
    int result = inflate(&u->z, Z_NO_FLUSH);
    u->in_left -= in - u->z.avail_in;
    left -= room - u->z.avail_out;
    bool stuck = u->z.avail_in == in && u->z.avail_out == room;
    if ((result != Z_OK && result != Z_STREAM_END) || (left > 0 && (stuck || result == Z_STREAM_END)))
      return bad_zip(damaged);
    if (result == Z_STREAM_END && u->out_left > 0) return bad_zip(damaged);
  }
  TN__INITIALIZED(out, size);
  u->crc = crc32_z(u->crc, out, size);
  return NULL;
}

/* The rest of it, which is thrown away: .npy files may have something behind their elements. */
static tn_status *unpack_rest(unpacking *u, uint8_t *chunk, uint32_t crc) {
  while (u->out_left > 0) TN_RETURN_IF_ERROR(unpack(u, chunk, u->out_left < CHUNK ? (size_t)u->out_left : CHUNK));
  u->z.avail_in = u->in_left > (1u << 30) ? 1u << 30 : (uInt)u->in_left;
  u->z.next_out = chunk;
  u->z.avail_out = 1;
  int result = inflate(&u->z, Z_FINISH); /* the mark of the end, if it was not read yet */
  if ((result != Z_STREAM_END && result != Z_BUF_ERROR) || u->z.avail_out != 1)
    return bad_zip("a member's compressed data is damaged");
  return u->crc == crc ? NULL : bad_zip("a member's checksum is wrong");
}

/* What needs to be put in order, strings and Fortran's arrays, goes through a copy of as many bytes as the shape
 * says. */
static tn_status *unpack_in_order(unpacking *u, const char *name, const tn__npy_info *info, uint8_t *chunk, size_t head,
                                  uint32_t crc, const tn_allocator *allocator, tn_tensor **out) {
  void *copy;
  size_t size = info->body + info->bytes, have = head < size ? head : size;
  TN_RETURN_IF_ERROR(tn__alloc(allocator, size, 1, 64, &copy));
  memcpy(copy, chunk, have);
  tn_status *status = unpack(u, (char *)copy + have, size - have);
  if (!status) status = unpack_rest(u, chunk, crc);
  if (!status) status = tn_tensor_read_npy_memory(name, copy, size, allocator, out);
  tn__free(allocator, copy, size, 64);
  return status;
}

static tn_status *unpack_tensor(unpacking *u, const char *name, uint8_t *chunk, uint32_t crc,
                                const tn_allocator *allocator, tn_tensor **out) {
  size_t head = u->out_left < CHUNK ? (size_t)u->out_left : CHUNK;
  uint64_t total = u->out_left;
  tn__npy_info info;
  TN_RETURN_IF_ERROR(unpack(u, chunk, head));
  TN_RETURN_IF_ERROR(tn__npy_describe(name, chunk, head, total, &info));
  if (!info.is_plain) return unpack_in_order(u, name, &info, chunk, head, crc, allocator, out);
  TN_RETURN_IF_ERROR(tn_tensor_create(info.dtype, info.rank, info.shape, allocator, out));
  size_t have = head - info.body < info.bytes ? head - info.body : info.bytes;
  char *data = tn_tensor_dl(*out)->data;
  if (have > 0) memcpy(data, chunk + info.body, have);
  tn_status *status = have < info.bytes ? unpack(u, data + have, info.bytes - have) : NULL;
  if (!status) status = unpack_rest(u, chunk, crc);
  if (!status) return NULL;
  tn_tensor_release(*out);
  *out = NULL;
  return status;
}

static tn_status *inflate_member(const zip_member *m, const char *name, const uint8_t *data,
                                 const tn_allocator *allocator, tn_tensor **out) {
  void *chunk;
  unpacking u = {.z = {.next_in = (Bytef *)(uintptr_t)data}, .in_left = m->packed, .out_left = m->size};
  TN_RETURN_IF_ERROR(tn__alloc(allocator, CHUNK, 1, 64, &chunk));
  tn_status *status =
      inflateInit2(&u.z, -MAX_WBITS) == Z_OK ? NULL : tn_status_create(TN_OUT_OF_MEMORY, "out of memory for zlib");
  if (!status) {
    status = unpack_tensor(&u, name, chunk, m->crc, allocator, out);
    inflateEnd(&u.z);
  }
  tn__free(allocator, chunk, CHUNK, 64);
  return status;
}

static tn_status *read_member(const tn__file_map *map, const zip_member *m, const tn_allocator *allocator,
                              tensor_list *list) {
  if (m->header > map->size || map->size - m->header < 30) return bad_zip("a member lies outside of the file");
  const uint8_t *local = map->data + m->header;
  uint64_t start = m->header + 30 + little(local + 26, 2) + little(local + 28, 2);
  if (little(local, 4) != 0x04034b50) return bad_zip("a member has no header");
  if (start > map->size || m->packed > map->size - start) return bad_zip("a member lies outside of the file");
  if (m->size > SIZE_MAX / 2 || (m->method == 8 && m->size / 1100 > m->packed))
    return bad_zip("a member's size is impossible");
  const uint8_t *data = map->data + start;
  char member[256];
  snprintf(member, sizeof member, "member \"%.*s\"", (int)(m->name_length < 200 ? m->name_length : 200), m->name);
  tn_tensor *tensor = NULL;
  if (m->method == 8) {
    TN_RETURN_IF_ERROR(inflate_member(m, member, data, allocator, &tensor));
  } else if (m->method != 0 || m->packed != m->size) {
    return bad_zip("a member is neither stored nor deflated");
  } else if (crc32_z(0, data, (size_t)m->size) != m->crc) {
    return bad_zip("a member's checksum is wrong");
  } else {
    TN_RETURN_IF_ERROR(tn_tensor_read_npy_memory(member, data, (size_t)m->size, allocator, &tensor));
  }
  size_t length = m->name_length;
  if (length > 4 && memcmp(m->name + length - 4, ".npy", 4) == 0) length -= 4;
  return append(list, m->name, length, tensor);
}

/* Overlapping members would expand a small file without limit, so their total size must not exceed the file's. */
static tn_status *read_directory(const tn__file_map *map, uint64_t at, uint64_t count, const tn_allocator *allocator,
                                 tensor_list *list) {
  uint64_t left = map->size;
  for (uint64_t i = 0; i < count; i++) {
    if (at > map->size || map->size - at < 46 || little(map->data + at, 4) != 0x02014b50)
      return bad_zip("its directory is damaged");
    const uint8_t *e = map->data + at;
    size_t name = (size_t)little(e + 28, 2), extra = (size_t)little(e + 30, 2), comment = (size_t)little(e + 32, 2);
    if (map->size - at - 46 < name + extra + comment) return bad_zip("its directory is damaged");
    zip_member m = {.name = (const char *)e + 46,
                    .name_length = name,
                    .method = (int)little(e + 10, 2),
                    .crc = (uint32_t)little(e + 16, 4),
                    .packed = little(e + 20, 4),
                    .size = little(e + 24, 4),
                    .header = little(e + 42, 4)};
    read_zip64(&m, e + 46 + name, extra);
    if (m.packed > left) return bad_zip("its members lie over each other");
    left -= m.packed;
    TN_RETURN_IF_ERROR(read_member(map, &m, allocator, list));
    at += 46 + name + extra + comment;
  }
  return NULL;
}

static tn_status *read_npz(const tn__file_map *map, const tn_allocator *allocator, tensor_list *list) {
  if (map->size < 22) return bad_zip("it is too short");
  /* The end record stands at the end, before a comment of at most 65,535 bytes. */
  uint64_t lowest = map->size > 22 + 65535 ? map->size - 22 - 65535 : 0;
  for (uint64_t at = map->size - 22;; at--) {
    const uint8_t *end = map->data + at;
    if (little(end, 4) == 0x06054b50)
      return read_directory(map, little(end + 16, 4), little(end + 10, 2), allocator, list);
    if (at == lowest) return bad_zip("it has no directory");
  }
}

/* ---- TensorProto ------------------------------------------------------------------------------------------------- */

typedef struct proto_call {
  const char *path;
  const tn_allocator *allocator;
  tensor_list *list;
  bool optional, without_value; /* of lists */
} proto_call;

static tn_status *string_tensor(tn__arena *arena, const tn__onnx_tensor *t, const tn_allocator *allocator,
                                tn_tensor **out) {
  const tn__text *const *texts = t->data;
  int64_t count = tn_element_count(t->rank, t->shape);
  tn_string *strings = TN__NEW_ARRAY(arena, count + 1, tn_string);
  for (int64_t i = 0; i < count; i++)
    if (texts[i]) strings[i] = (tn_string){texts[i]->bytes, texts[i]->length};
  return tn_tensor_create_strings(t->rank, t->shape, strings, allocator, out);
}

static void keep_proto(tn__arena *arena, proto_call *call, const tn__onnx_tensor *t, const char *name) {
  tn_tensor *tensor;
  if (t->dtype == TN_STRING) {
    tn__check(arena->escape, string_tensor(arena, t, call->allocator, &tensor));
  } else {
    tn__check(arena->escape, tn_tensor_create(t->dtype, t->rank, t->shape, call->allocator, &tensor));
    if (t->size > 0) memcpy(tn_tensor_dl(tensor)->data, t->data, t->size);
  }
  tn__check(arena->escape, append(call->list, name, strlen(name), tensor));
}

static void read_proto(tn__arena *arena, void *user) {
  proto_call *call = user;
  tn__onnx_tensor t = tn__onnx_read_tensor(arena, call->path);
  keep_proto(arena, call, &t, t.name ? t.name : "");
}

static void read_list(tn__arena *arena, void *user) {
  proto_call *call = user;
  const tn__onnx_tensor *list;
  int count = tn__onnx_read_list(arena, call->path, call->optional, &list);
  call->without_value = count < 0;
  for (int i = 0; i < count; i++) keep_proto(arena, call, &list[i], "");
}

tn_status *tn_tensors_read_list(const char *path, bool optional, const tn_allocator *allocator, tn_named_tensor **out,
                                int *count) {
  TN__NEED("out", out);
  TN__NEED("count", count);
  *out = NULL;
  *count = 0;
  TN__NEED("path", path);
  tensor_list list = {0};
  proto_call call = {.path = path, .allocator = allocator, .list = &list, .optional = optional};
  tn_status *status = tn__with_arena(allocator, read_list, &call);
  if (status) {
    tn_tensors_free(list.items, list.count);
    return status;
  }
  *out = list.items;
  *count = call.without_value ? -1 : list.count;
  return NULL;
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

static tn_status *no_tensors(const char *path) {
  tn__file_map map;
  TN_RETURN_IF_ERROR(tn__file_map_open(path, &map));
  const char *other = tn__magic_of(map.data, map.size);
  tn_status *status = tn_status_create(TN_INVALID_ARGUMENT, "%s: tensors are read from .npy, .npz and .pb files%s%s",
                                       path, other != NULL ? "; it is " : "", other != NULL ? other : "");
  tn__file_map_close(&map);
  return status;
}

tn_status *tn_tensors_read(const char *path, const tn_allocator *allocator, tn_named_tensor **out, int *count) {
  TN__NEED("out", out);
  TN__NEED("count", count);
  *out = NULL;
  *count = 0;
  TN__NEED("path", path);
  tensor_list list = {0};
  tn_status *status;
  if (ends_with(path, ".npy")) {
    tn_tensor *tensor;
    status = tn_tensor_read_npy(path, allocator, &tensor);
    if (!status) status = append(&list, "", 0, tensor);
  } else if (ends_with(path, ".npz")) {
    tn__file_map map;
    status = tn__file_map_open(path, &map);
    if (!status) {
      status = tn_status_prefix(read_npz(&map, allocator, &list), "%s", path);
      tn__file_map_close(&map);
    }
  } else if (ends_with(path, ".pb")) {
    proto_call call = {.path = path, .allocator = allocator, .list = &list};
    status = tn__with_arena(allocator, read_proto, &call);
  } else {
    status = no_tensors(path);
  }
  if (status) {
    tn_tensors_free(list.items, list.count);
    return status;
  }
  *out = list.items;
  *count = list.count;
  return NULL;
}
