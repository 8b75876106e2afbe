/* Operators of image, sequence and signal models. Expected values of the tables are those of ONNX's reference evaluator
 * (onnx 1.23). */
#include "unit/graph_check.h"

static const tn__expr *ix(tn__graph *g, int64_t value) { return tn__ir_index(tn__graph_ir(g), value); }
static tn__value *f64(tn__graph *g, double value) { return tn__g_scalar(g, TN_F64, value); }

/* A fresh graph, for tests that go through many cases. */
static tn__graph *next_graph(void **state) {
  graph_fixture *f = *state;
  f->graph = tn__graph_create(f->ir, "test");
  return f->graph;
}

static const float image[] = {0,          1,          2.82842708, 5.19615269, 8,         11.1803398,
                              14.6969385, 18.5202579, 22.6274166, 27,         31.622776, 36.482872};

/* ---- resize ------------------------------------------------------------------------------------------------------ */

static const struct {
  const char *mode, *coordinates, *nearest;
  bool antialias, exclude_outside;
  double cubic_a;
  int64_t size[2];
  double scale[2], roi[4], want[36];
} resizes[] = {
    {"nearest",
     "half_pixel",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {6, 6},
     {2, 1.5},
     {0, 0, 1, 1},
     {0,          0,          1,          2.82842708, 2.82842708, 5.19615269, 0,          0,          1,
      2.82842708, 2.82842708, 5.19615269, 8,          8,          11.1803398, 14.6969385, 14.6969385, 18.5202579,
      8,          8,          11.1803398, 14.6969385, 14.6969385, 18.5202579, 22.6274166, 22.6274166, 27,
      31.622776,  31.622776,  36.482872,  22.6274166, 22.6274166, 27,         31.622776,  31.622776,  36.482872}},
    {"nearest",
     "align_corners",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {2, 8},
     {0.67000001668930054, 2},
     {0, 0, 1, 1},
     {0, 0, 1, 1, 2.82842708, 2.82842708, 5.19615269, 5.19615269, 22.6274166, 22.6274166, 27, 27, 31.622776, 31.622776,
      36.482872, 36.482872}},
    {"nearest",
     "asymmetric",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {4, 2},
     {1.3999999761581421, 0.60000002384185791},
     {0, 0, 1, 1},
     {0, 2.82842708, 8, 14.6969385, 8, 14.6969385, 22.6274166, 31.622776}},
    {"linear",
     "half_pixel",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {6, 6},
     {2, 1.5},
     {0, 0, 1, 1},
     {0,          0.5,        1.30473781, 2.52368927, 4.01229,    5.19615269, 2,          2.77254248, 3.92016339,
      5.42047644, 7.16136694, 8.52717876, 6,          7.31762743, 9.15101433, 11.2140512, 13.4595213, 15.1892319,
      11.6568546, 13.3960543, 15.7674456, 18.2962074, 20.9696541, 23.0109119, 18.970562,  21.0078239, 23.7694569,
      26.6669445, 29.6917667, 31.992218,  22.6274166, 24.8137093, 27.770462,  30.852314,  34.0528259, 36.482872}},
    {"linear",
     "align_corners",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {2, 8},
     {0.67000001668930054, 2},
     {0, 0, 1, 1},
     {0, 0.428571433, 0.857142866, 1.52240777, 2.30601931, 3.16667366, 4.18141317, 5.19615269, 22.3377628, 24.2016087,
      26.0654564, 28.0012722, 29.973074, 31.9789753, 34.0530739, 36.1271744}},
    {"linear",
     "asymmetric",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {4, 2},
     {1.3999999761581421, 0.60000002384185791},
     {0, 0, 1, 1},
     {0, 2.21895123, 5.71428585, 10.2945137, 14.2688932, 20.6206436, 22.6274166, 30.0818501}},
    {"cubic",
     "half_pixel",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {6, 6},
     {2, 1.5},
     {0, 0, 1, 1},
     {-0.910594344, -0.613451779, 0.191556618, 1.16097319, 2.83849597, 3.98308301, 1.17220783, 1.82066274, 3.14189959,
      4.40482855,   6.45649385,   7.81439495,  4.42249107, 5.64218426, 7.80196571, 9.54046154, 12.197813,  13.9007931,
      11.8382988,   13.6281128,   16.6507778,  18.915535,  22.2591915, 24.3608017, 19.2318802, 21.2687473, 24.6913624,
      27.2358913,   30.95891,     33.2875938,  23.7796822, 25.9749928, 29.6528988, 32.3744545, 36.3369675, 38.8087578}},
    {"cubic",
     "align_corners",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {2, 8},
     {0.67000001668930054, 2},
     {0, 0, 1, 1},
     {0, 0.275896251, 0.735080004, 1.48821509, 2.13086772, 3.25883031, 4.34605122, 5.19615269, 22.4082355, 23.8740273,
      25.8738461, 28.243103, 29.8152657, 32.3186989, 34.5433578, 36.2147217}},
    {"cubic",
     "asymmetric",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {4, 2},
     {1.3999999761581421, 0.60000002384185791},
     {0, 0, 1, 1},
     {0, 2.0452857, 4.28999949, 8.55410862, 14.9806061, 21.4664974, 23.7788486, 31.1714516}},
    {"nearest",
     "half_pixel",
     "ceil",
     false,
     false,
     -0.75,
     {6, 3},
     {2, 0.80000001192092896},
     {0, 0, 1, 1},
     {1, 2.82842708, 5.19615269, 11.1803398, 14.6969385, 18.5202579, 11.1803398, 14.6969385, 18.5202579, 27, 31.622776,
      36.482872, 27, 31.622776, 36.482872, 27, 31.622776, 36.482872}},
    {"nearest",
     "asymmetric",
     "floor",
     false,
     false,
     -0.75,
     {3, 3},
     {1.2999999523162842, 0.80000001192092896},
     {0, 0, 1, 1},
     {0, 1, 2.82842708, 0, 1, 2.82842708, 8, 11.1803398, 14.6969385}},
    {"nearest",
     "half_pixel",
     "round_prefer_ceil",
     false,
     false,
     -0.75,
     {2, 8},
     {0.69999998807907104, 2},
     {0, 0, 1, 1},
     {0, 0, 1, 1, 2.82842708, 2.82842708, 5.19615269, 5.19615269, 22.6274166, 22.6274166, 27, 27, 31.622776, 31.622776,
      36.482872, 36.482872}},
    {"linear",
     "half_pixel",
     "round_prefer_floor",
     true,
     false,
     -0.75,
     {1, 2},
     {0.60000002384185791, 0.60000002384185791},
     {0, 0, 1, 1},
     {3.68161011, 7.37958097}},
    {"cubic",
     "half_pixel",
     "round_prefer_floor",
     true,
     true,
     -0.75,
     {1, 2},
     {0.60000002384185791, 0.60000002384185791},
     {0, 0, 1, 1},
     {4.06499147, 8.38750648}},
    {"cubic",
     "half_pixel",
     "round_prefer_floor",
     false,
     true,
     -0.5,
     {4, 2},
     {1.3999999761581421, 0.60000002384185791},
     {0, 0, 1, 1},
     {-0.284851909, 2.13705897, 4.00146341, 8.34427166, 13.2914019, 19.9967003, 23.674242, 31.6227779}},
    {"linear",
     "half_pixel_symmetric",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {4, 2},
     {1.3999999761581421, 0.60000002384185791},
     {0, 0, 1, 1},
     {0.666666687, 3.61766887, 6.74395514, 11.5593395, 15.6281719, 22.1397457, 25.5424728, 33.2428093}},
    {"linear",
     "pytorch_half_pixel",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {1, 8},
     {0.40000000596046448, 2},
     {0, 0, 1, 1},
     {6, 6.65881348, 7.97644091, 9.40889359, 10.956171, 12.5946655, 14.3243761, 15.1892309}},
    {"linear",
     "tf_crop_and_resize",
     "round_prefer_floor",
     false,
     false,
     -0.75,
     {3, 3},
     {1, 0.75},
     {0.4, 0.6, 1.2, 1.7},
     {11.6874437, 10, 10, 24.0163822, 10, 10, 10, 10, 10}}};

static void resize_case(void **state, int index, bool scale_at_run) {
  tn__graph *g = next_graph(state);
  tn__value *x = input_of(g, "x", TN_F32, 4, (int64_t[]){1, 1, scale_at_run ? -1 : 3, 4});
  tn__value *scales = input_of(g, "scales", TN_F64, 1, (int64_t[]){2});
  tn__resize_spec spec = {.count = 2,
                          .mode = resizes[index].mode,
                          .coordinates = resizes[index].coordinates,
                          .nearest = resizes[index].nearest,
                          .antialias = resizes[index].antialias,
                          .exclude_outside = resizes[index].exclude_outside,
                          .cubic_a = resizes[index].cubic_a,
                          .extrapolation = 10};
  for (int i = 0; i < 2; i++) {
    tn__value *scale =
        scale_at_run ? tn__g_take(g, scales, tn__g_scalar_i64(g, TN_I64, i), 0) : f64(g, resizes[index].scale[i]);
    spec.axes[i] = (tn__resize_axis){.axis = 2 + i,
                                     .size = ix(g, resizes[index].size[i]),
                                     .scale = scale,
                                     .roi_start = f64(g, resizes[index].roi[i]),
                                     .roi_end = f64(g, resizes[index].roi[2 + i])};
  }
  const tensor in[] = {{image, {1, 1, 3, 4}}, {resizes[index].scale, {2}}};
  tn__value *y = tn__g_resize(g, x, &spec);
  check_result(state, in, y, resizes[index].want, resizes[index].size[0] * resizes[index].size[1], 2e-6);
}

static void resizes_images(void **state) {
  for (int i = 0; i < (int)(sizeof(resizes) / sizeof(resizes[0])); i++) {
    resize_case(state, i, false);
    resize_case(state, i, true);
  }
}

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

static const float grid[] = {-1, -1, -0.300000012, 0.400000006, 1.29999995, 0.899999976, 0.100000001, -0.699999988,
                             0,  0,  -2.5999999,   3.0999999};
static const struct {
  const char *mode, *padding;
  bool align_corners;
  double want[6];
} grids[] = {{"nearest", "zeros", false, {0, 27, 0, 2.82842708, 14.6969385, 0}},
             {"nearest", "zeros", true, {0, 11.1803398, 36.482872, 2.82842708, 14.6969385, 0}},
             {"nearest", "border", false, {0, 27, 36.482872, 2.82842708, 14.6969385, 22.6274166}},
             {"nearest", "border", true, {0, 11.1803398, 36.482872, 2.82842708, 14.6969385, 22.6274166}},
             {"nearest", "reflection", false, {0, 27, 36.482872, 2.82842708, 14.6969385, 5.19615269}},
             {"nearest", "reflection", true, {0, 11.1803398, 36.482872, 2.82842708, 14.6969385, 2.82842708}},
             {"linear", "zeros", false, {0, 20.2825661, 0, 2.16590428, 12.9386387, 0}},
             {"linear", "zeros", true, {0, 17.7061577, 19.0776405, 5.57177305, 12.9386387, 0}},
             {"linear", "border", false, {0, 20.2825661, 36.482872, 2.27989912, 12.9386387, 22.6274166}},
             {"linear", "border", true, {0, 17.7061577, 34.6866112, 5.57177305, 12.9386387, 22.6274166}},
             {"linear", "reflection", false, {0, 20.2825661, 35.9968605, 2.27989912, 12.9386387, 4.4858346}},
             {"linear", "reflection", true, {0, 17.7061577, 32.5462227, 5.57177305, 12.9386387, 5.02059078}},
             {"cubic", "zeros", false, {-0.402711868, 23.9810772, -1.59945226, 1.63798535, 12.8783588, 0}},
             {"cubic", "zeros", true, {0, 20.6706791, 21.2734699, 4.60466623, 12.8783588, 0}},
             {"cubic", "border", false, {-0.824586868, 20.9993153, 38.4750443, 1.72071695, 12.8783588, 22.6274166}},
             {"cubic", "border", true, {0, 18.703558, 35.0998764, 4.38231421, 12.8783588, 22.6274166}},
             {"cubic", "reflection", false, {-1.61084747, 20.9993153, 39.1671982, 1.70050955, 12.8783588, 2.40420794}},
             {"cubic", "reflection", true, {0, 19.8484802, 34.9196281, 3.13922262, 12.8783588, 4.26708364}}};

static void samples_grids(void **state) {
  for (size_t i = 0; i < sizeof(grids) / sizeof(grids[0]); i++) {
    tn__graph *g = next_graph(state);
    tn__value *x = input_of(g, "x", TN_F32, 4, (int64_t[]){1, 1, -1, 4}),
              *at = input_of(g, "at", TN_F32, 4, (int64_t[]){1, 2, 3, 2});
    const tensor in[] = {{image, {1, 1, 3, 4}}, {grid, {1, 2, 3, 2}}};
    check_result(state, in, tn__g_grid_sample(g, x, at, grids[i].mode, grids[i].padding, grids[i].align_corners),
                 grids[i].want, 6, 2e-6);
  }
}

static const float images[] = {0,           1,           2.82842708,  5.19615269,  8,          11.1803398,
                               14.6969385,  18.5202579,  22.6274166,  27,          31.622776,  36.482872,
                               -0,          -0.5,        -1.41421354, -2.59807634, -4,         -5.59016991,
                               -7.34846926, -9.26012897, -11.3137083, -13.5,       -15.811388, -18.241436};
static const float regions[] = {0, 0, 2.5, 1.5, 0.5, 0.300000012, 3.5999999, 2.9000001};
static const struct {
  bool max;
  int sampling_ratio;
  bool half_pixel;
  double want[8];
} rois[] = {
    {false, 0, true, {0.21875, 1.68566012, 5.51684332, 8.44403839, -2.5923543, -4.58261585, -10.78374, -14.1236486}},
    {false,
     0,
     false,
     {4.13601685, 7.01381493, 11.9092836, 16.3837509, -6.19600773, -8.72660255, -13.8404369, -17.2266541}},
    {false,
     2,
     true,
     {0.483654678, 2.02357888, 5.51684332, 8.44403839, -2.5923543, -4.58261585, -10.78374, -14.1236486}},
    {false,
     2,
     false,
     {4.13601685, 7.01381493, 12.0970917, 16.5445442, -6.19600773, -8.72660255, -13.8404369, -17.2266541}},
    {true, 0, true, {0.4375, 1.9445436, 5, 6.55098057, -0, -0.00703124888, -0, -0}},
    {true, 0, false, {3.93058825, 4.47797346, 9.17137241, 10.4486046, -0, -0, -0, -0}},
    {true, 2, true, {0.5, 1.9445436, 6.5, 8.51627445, -0, -0.00703124888, -0, -0}},
    {true, 2, false, {5.89588213, 6.71695995, 9.82647038, 11.1949339, -0, -0, -0, -0}}};

static void aligns_regions(void **state) {
  for (size_t i = 0; i < sizeof(rois) / sizeof(rois[0]); i++) {
    tn__graph *g = next_graph(state);
    tn__value *x = input_of(g, "x", TN_F32, 4, (int64_t[]){2, 1, 3, 4}),
              *r = input_of(g, "r", TN_F32, 2, (int64_t[]){-1, 4});
    const tensor in[] = {{images, {2, 1, 3, 4}}, {regions, {2, 4}}};
    const tn__roi_spec spec = {{2, 2}, rois[i].sampling_ratio, 1, rois[i].half_pixel, rois[i].max};
    tn__value *batches = tn__g_i64s(g, (int64_t[]){0, 1}, 2);
    tn__value *y = tn__g_roi_align(g, x, r, batches, &spec);
    check_result(state, in, y, rois[i].want, 8, 2e-6);
  }
}

static void adds_columns_up(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 3, (int64_t[]){1, 4, 2});
  const tn__expr *const block[] = {ix(g, 2), ix(g, 2)};
  const int64_t strides[] = {2, 1}, ones[] = {1, 1}, none[] = {0, 0};
  const tensor in[] = {{(float[]){1, 2, 3, 4, 5, 6, 7, 8}, {1, 4, 2}}};
  tn__value *y = tn__g_col2im(g, a, 2, (const tn__expr *[]){ix(g, 3), ix(g, 3)}, block, strides, ones, none, none);
  check_type(y, "f32[1, 1, 3, 3]");
  CHECK_RESULT(state, in, y, 1, 5, 4, 5, 13, 8, 0, 0, 0);
}

static void suppresses_boxes(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *boxes = input_of(g, "boxes", TN_F32, 3, (int64_t[]){1, 6, 4}),
            *scores = input_of(g, "scores", TN_F32, 3, (int64_t[]){1, 1, 6});
  tn__value *most = tn__g_i64s(g, (int64_t[]){3}, 1);
  const tensor in[] = {
      {(float[]){0, 0, 1, 1, 0, .1f, 1, 1.1f, 0, -.1f, 1, .9f, 0, 10, 1, 11, 0, 10.1f, 1, 11.1f, 0, 100, 1, 101},
       {1, 6, 4}},
      {(float[]){.9f, .75f, .6f, .95f, .5f, .3f}, {1, 1, 6}}};
  tn__value *half = tn__g_scalar(g, TN_F32, 0.5);
  CHECK_RESULT(state, in, tn__g_non_max_suppression(g, boxes, scores, most, half, tn__g_scalar(g, TN_F32, 0.4), false),
               0, 0, 3, 0, 0, 0);
  CHECK_RESULT(state, in, tn__g_non_max_suppression(g, boxes, scores, most, half, NULL, false), 0, 0, 3, 0, 0, 0, 0, 0,
               5);
}

/* Two batches of two classes, in which different boxes go. */
static void suppresses_boxes_of_each_class(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *boxes = input_of(g, "boxes", TN_F32, 3, (int64_t[]){2, 3, 4}),
            *scores = input_of(g, "scores", TN_F32, 3, (int64_t[]){2, 2, 3});
  const tensor in[] = {
      {(float[]){0, 0, 1, 1, 0, .1f, 1, 1.1f, 0, 10, 1, 11, 0, 0, 1, 1, 5, 5, 6, 6, 5, 5.1f, 6, 6.1f}, {2, 3, 4}},
      {(float[]){.9f, .8f, .7f, .3f, .5f, .1f, .2f, .6f, .9f, .5f, .4f, .05f}, {2, 2, 3}}};
  CHECK_RESULT(state, in,
               tn__g_non_max_suppression(g, boxes, scores, tn__g_i64s(g, (int64_t[]){2}, 1),
                                         tn__g_scalar(g, TN_F32, 0.5), tn__g_scalar(g, TN_F32, 0.1), false),
               0, 0, 0, 0, 0, 2, 0, 1, 1, 1, 0, 2, 1, 0, 0, 1, 1, 0, 1, 1, 1);
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

static const float steps[] = {0, 0, 0.5, 1, -1, -0.75, 0.625, 1, -0.5, -0.375, 0.75, -0.125};
static const struct {
  const char *kind, *activations;
  bool linear_before_reset;
  float w[24], r[36], b[24], h[6], c[6], p[9];
  double want[18], cells[6];
} cells[] = {
    {"rnn",
     "Tanh",
     false,
     {-0.5, 0.75, -0.5, -0.25, 0.25, 0.125},
     {-0.875, -1, 0.75, 0.5, 0.75, 0.125, 0.625, -0.375, -0.125},
     {0.625, -0.75, -0.375, -0.75, -0.125, 1},
     {-0.75, -0.25, -0.25, 0.875, -0.625, 0},
     {-0.5, -1, 0.5, -0.875, -0.5, 0},
     {0, -0.875, 1, 0.5, 1, -0.875, 0.5, -0.5, 0.125},
     {0.53258729, -0.899338782, 0.27406159, 0.230175704, -0.886695147, 0.929710269, 0.42302537, -0.509054542,
      0.724528015, 0.934790432, -0.953704536, 0.852820814, 0.482358515, -0.544804096, 0.673895478, 0.179657295,
      -0.876400173, 0.926367939},
     {0}},
    {"gru",
     "Sigmoid,Tanh",
     false,
     {0.875, -0.5, 0.5, -0.75, -0.375, 1, -0.125, 0, -0.5, -0.875, -0.125, 0.25, -0.125, 0.625, -0.25, 0.25, 0.625,
      0.875},
     {-0.125, -1,   0.5,    0,    0.75,  -0.125, -0.25, -0.875, -0.125, 0.25, 0.625, 0.75,  -0.625, 0.25,
      0.625,  -0.5, -0.375, 0.75, 0.125, 0,      0.375, 0,      1,      0.5,  -1,    -0.75, 0.125},
     {0.625, -0.875, 0.375, 0.5, 0.625, 0.75, -0.625, 0.125, 0.625, -0.25, -0.625, 0, -0.875, -0.625, 0.75, 0.375, 0.75,
      0.75},
     {0.75, -0.375, 0, 0.25, -0.5, 0.875},
     {-1, 0.75, 0.25, -0.5, 0.5, -0.125},
     {0.75, 1, -0.5, -0.125, -0.625, 0.375, 0.25, 0.75, 0.625},
     {0.422179699, 0.483822644, 0.309368134, 0.320106626, 0.745186269, 0.896812558, -0.115557536, 0.790957332,
      -0.134393543, 0.429678619, 0.891190767, 0.932766676, -0.331046611, 0.856511593, 0.168207154, 0.245184451,
      0.904639363, 0.846863925},
     {0}},
    {"gru",
     "Sigmoid,Tanh",
     true,
     {1, 1, 0.875, -0.75, -1, 0, -0.375, 0.875, 0.625, -0.125, 0.125, 0.25, 0.875, -1, 0, 0.375, -0.125, 0.875},
     {1,      0.75,   -0.125, 0.875, -0.875, 0.375, -0.5,  -0.5,  0.375, 0.625,  0.875, -0.625, 0.75, 0.75,
      -0.375, -0.875, 0.625,  0.75,  -0.125, -0.75, -0.75, -0.25, 0.5,   -0.375, -1,    0.375,  0.5},
     {-0.625, 0.125, -0.25, 0, -1, 0.25, -0.5, 0.125, -0.125, 0.25, -0.875, -0.25, 0.25, 0.625, -0.25, -1, 0.5, 0},
     {0.375, -0.75, -0.125, 0.875, 0.75, -0.375},
     {0.25, -0.875, 0.625, -0.5, -0.375, 1},
     {0.125, 0.75, -0.625, 0.5, 1, -0.875, -0.5, -0.75, -0.5},
     {-0.239732221, -0.341455102, -0.241151348, 0.747765601, 0.790073574, 0.246810511, -0.658652365, -0.124430805,
      -0.352944672, 0.623108625, 0.752424121, 0.417435735, -0.670999646, 0.114029646, -0.270192504, 0.345788538,
      0.606026113, -0.268005818},
     {0}},
    {"lstm",
     "Sigmoid,Tanh,Tanh",
     false,
     {-0.375, -0.875, 0.875, -0.5,  0.875, 0.5,    -0.75,  0.375, 0.625,  -0.75, -0.75, -0.25,
      -0.875, -0.125, 0,     0.375, 0.125, -0.125, -0.625, 0.125, -0.125, 0.75,  0.375, 0.5},
     {0.125,  -0.25,  -0.5, -0.125, 0.125,  -0.25, -0.75, -0.875, -1,    -0.625, -0.25, -0.5,
      -0.625, -0.375, 0.5,  -0.375, 0.875,  0.125, -0.75, 1,      0.75,  0.625,  -0.75, 0.625,
      0.375,  0.5,    0.5,  0.25,   -0.375, 0.875, 1,     0.375,  -0.25, 0,      0.125, -0.875},
     {-0.875, 0,     0.125, -0.625, -0.5,  -0.75, 0.875,  0, -0.5, 0.625, 1,   -0.375,
      0.875,  0.625, 0.625, 0,      0.875, -0.75, -0.875, 1, 0,    -0.25, 0.5, -0.375},
     {0.25, 0.75, 0.625, -0.75, 1, 0.5},
     {0.375, -0.625, 0.875, -0.25, 1, -0.625},
     {-0.875, 0.75, 0.125, -0.25, 1, 1, -1, 0.25, 0.625},
     {0.0816999525, 0.0327762403, 0.111984946, -0.0685670078, 0.753020704, -0.0897156671, 0.250548452, 0.301257581,
      -0.0561834611, -0.0553552769, 0.801768124, -0.00970609393, 0.166812062, 0.547084451, -0.083601132, -0.0586102344,
      0.921323419, -0.0478088595},
     {0.57001853, 0.964417934, -0.401677668, -0.286423564, 2.18032527, -0.293679833}}};

static tn__value *constant(tn__graph *g, int rank, const int64_t *shape, const float *data) {
  return tn__g_constant_value(g, TN_F32, rank, shape, data, false);
}

static tn__recurrent_spec recurrent_case(tn__graph *g, int i) {
  int64_t gates = strcmp(cells[i].kind, "lstm") == 0 ? 4 : strcmp(cells[i].kind, "gru") == 0 ? 3 : 1;
  return (tn__recurrent_spec){.kind = cells[i].kind,
                              .activations = cells[i].activations,
                              .linear_before_reset = cells[i].linear_before_reset,
                              .x = input_of(g, "x", TN_F32, 3, (int64_t[]){-1, 2, 2}),
                              .w = constant(g, 2, (int64_t[]){gates * 3, 2}, cells[i].w),
                              .r = constant(g, 2, (int64_t[]){gates * 3, 3}, cells[i].r),
                              .bias = constant(g, 1, (int64_t[]){gates * 6}, cells[i].b),
                              .h = constant(g, 2, (int64_t[]){2, 3}, cells[i].h),
                              .c = gates == 4 ? constant(g, 2, (int64_t[]){2, 3}, cells[i].c) : NULL,
                              .peepholes = gates == 4 ? constant(g, 1, (int64_t[]){9}, cells[i].p) : NULL,
                              .alphas = {NAN, NAN, NAN},
                              .betas = {NAN, NAN, NAN}};
}

static void recurs(void **state) {
  for (int i = 0; i < (int)(sizeof(cells) / sizeof(cells[0])); i++) {
    tn__graph *g = next_graph(state);
    tn__recurrent_spec spec = recurrent_case(g, i);
    tn__recurrent result = tn__g_recurrent(g, &spec);
    const tensor in[] = {{steps, {3, 2, 2}}};
    check_result(state, in, result.y, cells[i].want, 18, 2e-6);
    check_result(state, in, result.h, cells[i].want + 12, 6, 2e-6);
    if (result.c != NULL) check_result(state, in, result.c, cells[i].cells, 6, 2e-6);
  }
}

/* The second sequence ends after one step; backwards, each begins at its own end. */
static void recurs_over_lengths(void **state) {
  tn__graph *g = next_graph(state);
  tn__recurrent_spec spec = recurrent_case(g, 0);
  spec.lengths = tn__g_i64s(g, (int64_t[]){3, 1}, 2);
  const tensor in[] = {{steps, {3, 2, 2}}};
  double want[18];
  memcpy(want, cells[0].want, sizeof(want));
  for (int t = 1; t < 3; t++)
    for (int j = 0; j < 3; j++) want[t * 6 + 3 + j] = 0;
  tn__recurrent forwards = tn__g_recurrent(g, &spec);
  check_result(state, in, forwards.y, want, 18, 2e-6);
  const double last[6] = {want[12], want[13], want[14], want[3], want[4], want[5]};
  check_result(state, in, forwards.h, last, 6, 2e-6);
  spec.reverse = true;
  tn__recurrent backwards = tn__g_recurrent(g, &spec);
  tensor out;
  check_ok(run_graph(state, in, backwards.y, &out));
  const float *y = out.data;
  for (int j = 0; j < 3; j++) assert_float_equal(y[3 + j], want[3 + j], 1e-6); /* one step is the same either way */
  float turned[12];
  for (int t = 0; t < 3; t++) memcpy(turned + t * 4, steps + (2 - t) * 4, 4 * sizeof(float));
  const tensor other[] = {{turned, {3, 2, 2}}};
  tensor again;
  check_ok(run_graph(state, other, forwards.y, &again));
  for (int t = 0; t < 3; t++)
    for (int j = 0; j < 3; j++) assert_float_equal(y[t * 6 + j], ((const float *)again.data)[(2 - t) * 6 + j], 0);
}

/* ---- signals, matrices, random values ---------------------------------------------------------------------------- */

static void transforms_signals(void **state) {
  enum { LENGTH = 6 };
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 2, (int64_t[]){LENGTH, 2});
  float data[2 * LENGTH];
  double re[2 * LENGTH], im[2 * LENGTH], back[2 * LENGTH];
  for (int i = 0; i < 2 * LENGTH; i++) back[i] = (double)(data[i] = (float)((i * 7) % 5));
  for (int k = 0; k < LENGTH; k++)
    for (int c = 0; c < 2; c++) {
      re[k * 2 + c] = im[k * 2 + c] = 0;
      for (int j = 0; j < LENGTH; j++) {
        double angle = -2 * M_PI * j * k / LENGTH;
        re[k * 2 + c] += (double)data[j * 2 + c] * cos(angle);
        im[k * 2 + c] += (double)data[j * 2 + c] * sin(angle);
      }
    }
  const tensor in[] = {{data, {LENGTH, 2}}};
  tn__complex f = tn__g_dft(g, (tn__complex){a, NULL}, 0, ix(g, LENGTH), false, false);
  check_result(state, in, f.re, re, 2 * LENGTH, 1e-6);
  check_result(state, in, f.im, im, 2 * LENGTH, 1e-6);
  tn__complex inverse = tn__g_dft(g, f, 0, ix(g, LENGTH), true, false);
  check_result(state, in, inverse.re, back, 2 * LENGTH, 1e-6);
  tn__complex half = tn__g_dft(g, (tn__complex){a, NULL}, 0, ix(g, LENGTH), false, true);
  check_result(state, in, half.re, re, 2 * (LENGTH / 2 + 1), 1e-6);
  tn__complex real = tn__g_dft(g, half, 0, ix(g, LENGTH), true, true);
  assert_null(real.im);
  check_result(state, in, real.re, back, 2 * LENGTH, 1e-6);
}

static void takes_determinants(void **state) {
  tn__graph *g = graph_of(state);
  tn__value *a = input_of(g, "a", TN_F32, 3, (int64_t[]){3, 3, 3});
  const tensor in[] = {
      {(float[]){0, 2, 1, 3, 0, 4, 1, 5, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 2, 4, 6, 1, 1, 1}, {3, 3, 3}}};
  CHECK_RESULT(state, in, tn__g_determinant(g, a), 23, 1, 0);
}

static void draws_random_values(void **state) {
  enum { COUNT = 4000 };
  tn__graph *g = graph_of(state);
  const tn__expr *dims[1] = {ix(g, COUNT)};
  tn__value *u = tn__g_random_uniform(g, TN_F32, 1, dims, -1, 3, 7),
            *n = tn__g_random_normal(g, TN_F32, 1, dims, 2, 0.5, 7);
  tn__value *p = tn__g_full(g, TN_F32, 0.25, 1, dims), *hits = tn__g_bernoulli(g, p, TN_I32, 9);
  const tn__expr *row[2] = {ix(g, 1), ix(g, 3)};
  tn__value *logits =
      tn__g_unary(g, "log", tn__g_reshape(g, tn__g_convert(g, tn__g_i64s(g, (int64_t[]){1, 2, 1}, 3), TN_F32), 2, row));
  tn__value *classes = tn__g_multinomial(g, logits, ix(g, COUNT), TN_I64, 3);
  double mean[4] = {0}, square = 0;
  tn__value *const all[4] = {u, n, hits, classes};
  for (int k = 0; k < 4; k++) {
    tensor out;
    check_ok(run_graph(state, NULL, all[k], &out));
    for (int i = 0; i < COUNT; i++) {
      double value = tn__load_f64(all[k]->dtype, out.data, i);
      mean[k] += value / COUNT;
      if (k == 0) assert_true(value >= -1 && value < 3);
      if (k == 1) square += (value - 2) * (value - 2) / COUNT;
      if (k == 3) assert_true(value == 0 || value == 1 || value == 2);
    }
  }
  assert_true(fabs(mean[0] - 1) < 0.06 && fabs(mean[1] - 2) < 0.03 && fabs(sqrt(square) - 0.5) < 0.03);
  assert_true(fabs(mean[2] - 0.25) < 0.03 && fabs(mean[3] - 1) < 0.05);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, graph_set_up, graph_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(resizes_images),
      TEST(samples_grids),
      TEST(aligns_regions),
      TEST(adds_columns_up),
      TEST(suppresses_boxes),
      TEST(suppresses_boxes_of_each_class),
      TEST(recurs),
      TEST(recurs_over_lengths),
      TEST(transforms_signals),
      TEST(takes_determinants),
      TEST(draws_random_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
