/* Operators of attention, recurrence, losses, resampling and strings. */
#ifndef TENON_IMPORT_ONNX_OPS_MORE_H
#define TENON_IMPORT_ONNX_OPS_MORE_H

#include "import/onnx/internal.h"

tn__onnx_fn tn__onnx_attention, tn__onnx_rotary_embedding;
tn__onnx_fn tn__onnx_nll_loss, tn__onnx_softmax_loss;
tn__onnx_fn tn__onnx_recurrent;
tn__onnx_fn tn__onnx_resize, tn__onnx_grid_sample, tn__onnx_roi_align, tn__onnx_max_roi_pool;
tn__onnx_fn tn__onnx_string_concat, tn__onnx_string_split, tn__onnx_string_normalizer, tn__onnx_regex_full_match,
    tn__onnx_label_encoder, tn__onnx_tfidf_vectorizer;

#endif
