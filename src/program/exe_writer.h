/* Builds an executable in memory and serialises it: the only writer of the format in runtime/format/format.h.
 * Deterministic: the same calls give the same bytes. Errors are thrown on the arena's escape. */
#ifndef TENON_PROGRAM_EXE_WRITER_H
#define TENON_PROGRAM_EXE_WRITER_H

#include "base/arena.h"
#include "base/file.h"
#include "kernels/slab.h"
#include "runtime/format/format.h"
#include "target/target.h"

typedef struct tn__exe tn__exe;
typedef struct tn__exe_func tn__exe_func;

tn__exe *tn__exe_create(tn__arena *arena, const tn__target *target, const char *producer);

/* Adds a device, or finds it: DLPack's type and number, and what its kernels are compiled for. The first, number 0, is
 * the CPU that runs the program, of the executable's target, and there without being added. */
int tn__exe_device(tn__exe *exe, int type, int id, const tn__target *target);
/* The same for a memory of a device, which is a number of its own, behind the device's. */
int tn__exe_device_memory(tn__exe *exe, int type, int id, const tn__target *target, tn__memory_scope scope);
/* The device whose memory it is: itself, unless it is another memory than global. */
int tn__exe_device_home(const tn__exe *exe, int device);
/* Which CPU of the compilation's devices the host is, where there are several; else 0. */
void tn__exe_host(tn__exe *exe, int id);

/* `data` is not copied and must live until tn__exe_serialize. Equal contents (dtype, shape, bytes) share one entry.
 * Returns its index. */
int tn__exe_constant(tn__exe *exe, const char *name, tn_dtype dtype, int rank, const int64_t *shape, const void *data,
                     size_t size);
/* The same in the memory of a device, which a session copies it to. */
int tn__exe_constant_on(tn__exe *exe, int device, const char *name, tn_dtype dtype, int rank, const int64_t *shape,
                        const void *data, size_t size);
/* A string for constants of TN_STRING: the reference that is their element. Equal ones are stored once. */
uint64_t tn__exe_string(tn__exe *exe, const char *bytes, size_t length);
/* The executable needs the features of its target; flops/bytes negative when unknown. Returns its index. */
int tn__exe_kernel(tn__exe *exe, const char *name, uint64_t image_offset, uint64_t code_size, int buffer_count,
                   int scalar_count, double flops, double bytes);
void tn__exe_kernel_on(tn__exe *exe, int device, int index);
/* Appends native code (not copied) at the start of a page, and returns its offset in the image. */
uint64_t tn__exe_image(tn__exe *exe, const void *image, size_t size);
/* The source unit of a device's kernels (not copied); devices may share one. */
void tn__exe_source(tn__exe *exe, int device, const void *source, size_t size);
void tn__exe_text(tn__exe *exe, const char *name, const char *text, size_t size);

/* ---- functions -------------------------------------------------------------------------------------------------- */
tn__exe_func *tn__exe_function(tn__exe *exe, const char *name);
int tn__exe_function_index(const tn__exe_func *f);
/* Scalar registers. Symbols of the signature are scalar registers too: bound at entry from the input shapes, in the
 * order in which inputs name them first; a later input dimension of the same symbol must agree. */
int tn__exe_scalar(tn__exe_func *f);
int tn__exe_symbol(
    tn__exe_func *f,
    const char *name); /* a scalar register with a name for people; the same name gives the same register */
static inline tn__operand tn__prog_operand_const(int64_t v) { return (tn__operand){0, 0, v}; }
static inline tn__operand tn__prog_operand_scalar(int reg) { return (tn__operand){1, 0, reg}; }
/* Signature: returns the position. Dimensions of inputs are constants or symbols; of outputs constants or any scalar
 * register that is assigned by RETURN on every path. Each input or output has exactly one register of storage INPUT /
 * OUTPUT with the same type and dimensions; serialising makes those that nobody asked for (an output without one, never
 * written, is refused by the loader). */
int tn__exe_input(tn__exe_func *f, const char *name, tn_dtype dtype, int rank, const tn__operand *dims);
int tn__exe_output(tn__exe_func *f, const char *name, tn_dtype dtype, int rank, const tn__operand *dims);
/* The caller may bind the output to the input's buffer. The code must not read the input once it has written the
 * output; a kernel may do both when it reads each element before it writes it. */
void tn__exe_alias(tn__exe_func *f, int output, int input);
/* The input may have any strides: then `other` is called, which has two inputs more for each such one (format.h). */
void tn__exe_strided(tn__exe_func *f, tn__exe_func *other, int input);
/* Sets an input's default, a constant on the first device. It has the input's type, and its sizes where these are
 * constants. */
void tn__exe_default(tn__exe_func *f, int input, int index);
/* Hides the function from callers of the executable, because it relies on checks of the functions that call it. */
void tn__exe_inner(tn__exe_func *f);
/* The input or output is a buffer of which the first `valid` elements along the axis count; its dimension there is a
 * constant. Of an input a constant or a symbol, of an output a constant or what is known when the prologue is done. */
void tn__exe_extent(tn__exe_func *f, bool output, int index, int axis, tn__operand valid);
/* A tensor register; `index` and `offset` as tn__storage says. Returns its number. */
int tn__exe_register(tn__exe_func *f, tn_dtype dtype, int rank, const tn__operand *dims, tn__storage storage, int index,
                     tn__operand offset);
/* The register's memory is that of a device. */
void tn__exe_register_on(tn__exe_func *f, int device, int reg);
/* A register that holds a list of tensors of one type and rank, in storage INPUT, OUTPUT or DYNAMIC; and the statement
 * that an input or output, declared with `rank` constant dimensions of zero, is one. */
int tn__exe_list(tn__exe_func *f, tn_dtype dtype, int rank, tn__container container, tn__storage storage, int index);
void tn__exe_holds(tn__exe_func *f, bool output, int index, tn__container container);
/* Bytes of the function's arena: a constant, or a scalar register. That one, and all that size or place an ARENA
 * register, are assigned in the prologue (format.h): emit the scalar arithmetic over the input shapes, and loads from
 * inputs and constants, first. What is only known later (the element of a computed tensor) may size DYNAMIC registers
 * and outputs, each after its ALLOC, and views of them. */
void tn__exe_arena(tn__exe_func *f, tn__operand bytes);
/* The same for the arena on a device, 0 being the host's. */
void tn__exe_arena_on(tn__exe_func *f, int device, tn__operand bytes);
/* Emits one instruction; operand words as the table says. Returns the word offset of the instruction. */
uint32_t tn__exe_emit(tn__exe_func *f, tn__opcode opcode, const uint32_t *words, int count);
uint32_t tn__exe_here(const tn__exe_func *f); /* word offset of the next instruction */
void tn__exe_patch(tn__exe_func *f, uint32_t instruction, int operand,
                   uint32_t word); /* fills a jump's target in later */
/* Conveniences over emit. */
int tn__exe_emit_const(tn__exe_func *f, int64_t value); /* returns the scalar register */
void tn__exe_set_const(tn__exe_func *f, int scalar, int64_t value);
int tn__exe_emit_scalar_op(tn__exe_func *f, tn__scalar_op op, int a, int b);
/* In the message, a scalar's number between two TN__SCALAR_MARK stands for its value. */
void tn__exe_emit_assert(tn__exe_func *f, int scalar, const char *message);
/* What the code from here on is made of, for messages of the machine; NULL: nothing that has a name. */
void tn__exe_origin(tn__exe_func *f, const char *origin);
void tn__exe_emit_kernel(tn__exe_func *f, int kernel, const int *reads, int read_count, const int *writes,
                         int write_count, const int *scalars, int scalar_count);
void tn__exe_emit_builtin(tn__exe_func *f, int builtin, const int *reads, int read_count, const int *writes,
                          int write_count, const int *scalars, int scalar_count);
void tn__exe_emit_call(tn__exe_func *f, int function, const int *reads, int read_count, const int *writes,
                       int write_count);

/* Constants in the slab come first in the file's section of them, in the order in which they lie, so that the file
 * can be put together around them. The places of equal ones but the first are zero. */
void tn__exe_keep_in_place(tn__exe *exe, const tn__slab *slab);
/* The constants stay where they are: the file has none, and only tn__executable_load_apart() reads it, with these
 * addresses. */
const void *const *tn__exe_leave_constants(tn__exe *exe);
/* The whole file, in pieces that live in the arena, or are the constants' and the image's own bytes. Call it once. */
tn__pieces tn__exe_pieces(tn__exe *exe);
/* The same in one, aligned for tn_load_options.borrow_data. */
tn__bytes tn__exe_join(tn__arena *arena, const tn__pieces *pieces);
tn__bytes tn__exe_serialize(tn__exe *exe);

#endif
