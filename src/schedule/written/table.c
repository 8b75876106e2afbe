/* The statements: one row for each primitive. Reading and printing go by it. */
#include "schedule/written/syntax.h"

const tn__written_row tn__written_rows[] = {
    {"split", "split %l0 %f", TN__WRITTEN_PARTS},
    {"tile", "tile %L by %N0", TN__WRITTEN_TILES},
    {"fuse", "fuse %l0 , %l1", TN__WRITTEN_FUSED},
    {"reorder", "reorder %L", TN__WRITTEN_NOTHING},
    {"parallel", "parallel %l0", TN__WRITTEN_BLOCK},
    {"vectorize", "vectorize %l0", TN__WRITTEN_BLOCK},
    {"unroll", "unroll %l0", TN__WRITTEN_BLOCK},
    {"bind", "bind %l0 to %w1", TN__WRITTEN_NOTHING},
    {"pragma", "pragma %l0 %w1 %n0", TN__WRITTEN_NOTHING},
    {"reverse_compute_at", "compute %b0 at end of %l1", TN__WRITTEN_NOTHING},
    {"compute_root", "compute %b0 at root", TN__WRITTEN_NOTHING},
    {"compute_at", "compute %b0 at %l1", TN__WRITTEN_NOTHING},
    {"reverse_inline", "inline %b0 backwards", TN__WRITTEN_NOTHING},
    {"inline", "inline %b0", TN__WRITTEN_NOTHING},
    {"hoist", "hoist part %n0 of %b0 along %n1", TN__WRITTEN_NOTHING},
    {"cache_read_in_order", "cache %i0 for %b0 in %s1 in order %N2", TN__WRITTEN_NOTHING},
    {"cache_read_cast", "cache %i0 for %b0 in %s1 cast", TN__WRITTEN_NOTHING},
    {"cache_read", "cache %i0 for %b0 in %s1", TN__WRITTEN_NOTHING},
    {"cache_write", "cache %o in %s1", TN__WRITTEN_NOTHING},
    {"set_scope", "scope %o %s1", TN__WRITTEN_NOTHING},
    {"set_memory", "memory %t0 %m0", TN__WRITTEN_NOTHING},
    {"rfactor_at", "rfactor %l0 at %l1", TN__WRITTEN_NOTHING},
    {"rfactor", "rfactor %l0", TN__WRITTEN_NOTHING},
    {"privatize", "privatize %l0", TN__WRITTEN_NOTHING},
    {"peel", "peel %l0 by %n0", TN__WRITTEN_NOTHING},
    {"decompose_reduction", "initialize %b0 before %l1", TN__WRITTEN_NOTHING},
    {"prefetch_spread", "prefetch %i0 for %b0 in %l1 spread over %n1 of %l2", TN__WRITTEN_NOTHING},
    {"prefetch_ahead", "prefetch %i0 for %b0 in %l1 by %n1 of %l2", TN__WRITTEN_NOTHING},
    {"prefetch", "prefetch %i0 for %b0 in %l1 by %n1", TN__WRITTEN_NOTHING},
    {"stream", "stream %o", TN__WRITTEN_NOTHING},
    {"storage_align", "align %o dimension %n1 to %n2 plus %n3", TN__WRITTEN_NOTHING},
    {"fold_scan", "fold %o to %n1 rows", TN__WRITTEN_NOTHING},
    {"fold_storage", "fold %o in %l1", TN__WRITTEN_NOTHING},
    {"slide", "slide %b0 in %l1", TN__WRITTEN_NOTHING},
    {"store_over", "store %b0 over %i0", TN__WRITTEN_NOTHING},
    {"declare_constant", "constant %t0", TN__WRITTEN_NOTHING},
    {"transform_layout", "layout %t0 as %p", TN__WRITTEN_NOTHING},
    {"tensorize", "tensorize %l0 with %w1", TN__WRITTEN_NOTHING},
    {"transpose", "transpose %b0 rows %l1 lanes %l2", TN__WRITTEN_NOTHING},
    {0}};

const char tn__written_words[] =
    "split, tile, fuse, reorder, parallel, vectorize, unroll, bind, pragma, compute, inline, hoist, cache, scope, "
    "memory, rfactor, privatize, peel, initialize, prefetch, stream, align, fold, slide, store, constant, layout, "
    "tensorize, "
    "transpose; let, if, choose";
