#include "machine/settle.h"

#include <string.h>

#include "base/alloc.h"

enum { FEWEST = 2, MOST = 4 };
#define MOST_SPREAD 0.15
#define MOST_WAITING 0.05 /* share of a reading's time */
#define HOPELESS 0.3      /* share of waiting at which more readings would be disturbed as well */

double tn__machine_band(double value, double usual, double step) {
  if (step <= 1) return value < 1 ? 1 : (double)(int64_t)(value + 0.5);
  double band = usual;
  while (value > band * step) band *= step * step;
  while (value * step < band) band /= step * step;
  return band;
}

/* Other work reduces rates and reaches, and increases durations. */
static bool is_better(const tn__machine_row *row, double a, double b) {
  bool takes_time = strcmp(row->name, "fork") == 0 || strcmp(row->name, "fma_latency") == 0;
  if (a == 0 || b == 0) return b == 0 && a != 0;
  return takes_time ? a < b : a > b;
}

/* Returns the best reading of a row, and the relative difference of the second best. Both are 0 if all readings
 * failed. */
static double best_of(const tn__machine_reading *readings, int count, int row, double *spread) {
  double best = 0, second = 0;
  for (int i = 0; i < count; i++) {
    double value = readings[i].value[row];
    if (i == 0 || is_better(&tn__machine_rows[row], value, best))
      second = best, best = value;
    else if (i == 1 || is_better(&tn__machine_rows[row], value, second))
      second = value;
  }
  double larger = best > second ? best : second, smaller = best > second ? second : best;
  *spread = larger == 0 ? 0 : smaller == 0 ? 1e9 : larger / smaller - 1;
  return best;
}

static bool all_steady(const tn__machine_reading *readings, int count) {
  double spread;
  for (int row = 0; tn__machine_rows[row].name; row++) {
    if (tn__machine_rows[row].step == 0) continue;
    best_of(readings, count, row, &spread);
    if (spread > MOST_SPREAD) return false;
  }
  return true;
}

static void use_row(const tn__machine_row *row, double value, double spread, tn__machine *machine, tn__strbuf *notes) {
  double band = tn__machine_band(value, tn__machine_get(machine, row), row->step);
  tn__machine_set(machine, row, band < row->low ? row->low : band > row->high ? row->high : band);
  tn__strbuf_printf(notes, "# measured: %s %.4g, spread %.0f %%, taken as %.10g\n", row->name, value, 100 * spread,
                    tn__machine_get(machine, row));
}

static void use_readings(const tn__machine_reading *readings, int count, tn__machine *machine, tn__strbuf *notes,
                         bool *disturbed) {
  *disturbed |= readings[count - 1].disturbed;
  for (int i = 0; tn__machine_rows[i].name; i++) {
    const tn__machine_row *row = &tn__machine_rows[i];
    double spread;
    if (row->step == 0) continue;
    double value = best_of(readings, count, i, &spread);
    if (spread > MOST_SPREAD) {
      *disturbed = true;
      tn__strbuf_printf(notes, "# usual: %s, as %d measurements do not agree\n", row->name, count);
    } else if (value > 0) {
      use_row(row, value, spread, machine, notes);
    } else if (readings[count - 1].why[i][0]) {
      tn__strbuf_printf(notes, "# usual: %s, as %s\n", row->name, readings[count - 1].why[i]);
    }
  }
}

/* Restores orders that rounding to bands may break: a more distant cache is not faster, and a port moves at least
 * one element. */
static void keep_order(tn__machine *machine) {
  tn__core *core = &machine->core;
  if (core->l3_bytes > core->l2_bytes) core->l3_bytes = core->l2_bytes;
  if (core->memory_bytes > core->l3_bytes) core->memory_bytes = core->l3_bytes;
  if (core->load_bytes < core->load_ports * 4) core->load_bytes = core->load_ports * 4;
  if (core->fma_bytes < core->fma_ports * 4) core->fma_bytes = core->fma_ports * 4;
}

tn_status *tn__machine_settle(const tn__machine_meter *meter, tn__machine *machine, tn__strbuf *notes,
                              bool *disturbed) {
  tn__machine_reading readings[MOST];
  int count = 0, tried = 0;
  double waited = 0;
  *disturbed = false;
  while (tried < MOST && (count < FEWEST || !all_steady(readings, count))) {
    tn__machine_reading reading = {.waited = 0};
    TN_RETURN_IF_ERROR(meter->read(meter->user, &reading));
    tried++;
    if (reading.waited > waited) waited = reading.waited;
    if (reading.waited <= MOST_WAITING) readings[count++] = reading;
    if (tried == FEWEST && count == 0 && reading.waited > HOPELESS) break;
  }
  if (count >= FEWEST) {
    use_readings(readings, count, machine, notes, disturbed);
    keep_order(machine);
    return NULL;
  }
  *disturbed = true;
  tn__strbuf_printf(notes,
                    "# usual: all numbers, as other work kept %d of %d measurements waiting, up to %.0f %% of "
                    "their time\n",
                    tried - count, tried, 100 * waited);
  return NULL;
}
