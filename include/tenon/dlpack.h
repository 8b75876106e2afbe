/* DLPack's C structures (version 1.x ABI, https://github.com/dmlc/dlpack, Apache-2.0), declared here so that nothing
 * else is needed. When <dlpack/dlpack.h> was included before, its declarations are used. */
#ifndef TENON_DLPACK_H
#define TENON_DLPACK_H
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stdint.h>

/* The version of DLPack that a tensor follows. */
typedef struct {
  uint32_t major; /* another one cannot be read */
  uint32_t minor; /* a later one adds */
} DLPackVersion;

/* Where memory is: kDLCPU, or where values of a program are (tn_value_info.device). A device of zeros, as a struct has
 * that nobody filled in, is read as kDLCPU. */
typedef enum {
  kDLCPU = 1,   /* main memory */
  kDLCUDA = 2,  /* a device of NVIDIA's */
  kDLOpenCL = 4, /* a device of OpenCL's */
  kDLExtDev = 12 /* one that DLPack does not know; here an island */
} DLDeviceType;

/* A device. */
typedef struct {
  DLDeviceType device_type; /* its kind */
  int32_t device_id;        /* which of its kind; 0 of kDLCPU */
} DLDevice;

/* Kinds of elements. */
typedef enum {
  kDLInt = 0U,          /* signed integers */
  kDLUInt = 1U,         /* unsigned integers */
  kDLFloat = 2U,        /* IEEE 754 */
  kDLOpaqueHandle = 3U, /* what only the two sides know; here tn_string */
  kDLBfloat = 4U,       /* bfloat16 */
  kDLComplex = 5U,      /* complex numbers; not in Tenon */
  kDLBool = 6U          /* truth values */
} DLDataTypeCode;

/* An element type. */
typedef struct {
  uint8_t code;   /* of DLDataTypeCode */
  uint8_t bits;   /* of an element: 8, 16 ... */
  uint16_t lanes; /* elements of a vector; 1 in Tenon */
} DLDataType;

/* A view of memory as a tensor. It owns nothing. */
typedef struct {
  void *data;           /* where the memory begins */
  DLDevice device;      /* where it is */
  int32_t ndim;         /* number of dimensions */
  DLDataType dtype;     /* of its elements */
  int64_t *shape;       /* `ndim` sizes */
  int64_t *strides;     /* in elements; NULL: compact row-major */
  uint64_t byte_offset; /* from `data` to the first element */
} DLTensor;

/* A tensor with an owner, as versions before 1.0 pass it. */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;                            /* the view */
  void *manager_ctx;                             /* the owner's own */
  void (*deleter)(struct DLManagedTensor *self); /* called when it is not needed any more; may be NULL */
} DLManagedTensor;

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL) /* nobody may write to it */
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL) /* a copy was made to pass it */

/* A tensor with an owner. */
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;                                  /* which its other fields follow */
  void *manager_ctx;                                      /* the owner's own */
  void (*deleter)(struct DLManagedTensorVersioned *self); /* called when it is not needed any more; may be NULL */
  uint64_t flags;                                         /* DLPACK_FLAG_... */
  DLTensor dl_tensor;                                     /* the view */
} DLManagedTensorVersioned;

#endif
#endif
