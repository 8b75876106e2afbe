/* Searches on tables of spaces that were measured as wholes (tests/tables): how near to the best they come in how many
 * trials, beside chance. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#include "tune/search/table.h"
#include "unit/check.h"

enum { TRIALS = 64, MOST_TABLES = 64, MOST_SEEDS = 1000 };
static int seeds = 4; /* the program's argument, else so many */

/* The best of so many trials over the table's best, and the trial after which it is within `near` of that (trials + 1:
 * none was). */
static double replay(const tn__table *table, uint64_t seed, int trials, double near, int *reached) {
  tn__space *space;
  tn__search *search;
  tn__cost_model *model;
  double best = INFINITY;
  check_ok(tn__table_space(table, &space));
  check_ok(tn__model_create(&model));
  check_ok(tn__search_create(space, model, TN__SEARCH_EVOLUTION, seed, &search));
  *reached = trials + 1;
  for (int i = 0; i < trials; i++) {
    const tn__proposal *p;
    check_ok(tn__search_next(search, &p));
    if (p == NULL) break;
    double seconds = tn__table_time(table, space, &p->point);
    if (isnan(seconds)) seconds = INFINITY; /* another than when the table was made */
    check_ok(tn__search_tell(search, p->index, seconds));
    best = fmin(best, seconds);
    if (*reached > trials && best <= tn__table_best(table) * near) *reached = i + 1;
  }
  tn__search_release(search);
  tn__model_release(model);
  tn__space_close(space);
  return tn__table_best(table) / best;
}

typedef struct score {
  double found, worst, by_chance, at_first; /* shares of the best: the mean of the seeds, the worst seed, ... */
  double trials, chance_trials;             /* until within 3 % of the best, the mean */
} score;

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* What drawing without returning gives on the average: the best of TRIALS draws, and the draws until one of those near
 * the best comes. */
static void judge_chance(const tn__table *table, double near, score *out) {
  int count = tn__table_points(table), close = 0;
  double *times = malloc((size_t)count * sizeof *times), none_before = 1;
  for (int i = 0; i < count; i++) times[i] = tn__table_seconds(table, i);
  qsort(times, (size_t)count, sizeof *times, by_value);
  for (int i = 0; i < count && count - i >= TRIALS; i++) { /* the i-th is the best of all that are drawn */
    double drawn = (double)TRIALS / (count - i);
    out->by_chance += none_before * drawn * tn__table_best(table) / times[i];
    none_before *= 1 - drawn;
  }
  while (close < count && times[close] <= tn__table_best(table) * near) close++;
  out->chance_trials = (double)(count + 1) / (close + 1);
  free(times);
}

static score judge(const tn__table *table) {
  const double near = 1 / 0.97;
  score s = {.worst = 1, .at_first = tn__table_best(table) / tn__table_static(table)};
  for (int seed = 1; seed <= seeds; seed++) {
    int reached;
    double found = replay(table, (uint64_t)seed, TRIALS, near, &reached);
    s.found += found / seeds;
    s.worst = fmin(s.worst, found);
    s.trials += (double)reached / seeds;
  }
  judge_chance(table, near, &s);
  return s;
}

static int list_tables(char paths[MOST_TABLES][512]) {
  static const char folder[] = TN_TEST_ROOT "/tests/tables";
  int count = 0;
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    size_t length = strlen(entry->d_name);
    if (length < 9 || strcmp(entry->d_name + length - 9, ".table.gz") != 0) continue;
    assert_true(count < MOST_TABLES);
    snprintf(paths[count++], 512, "%s/%s", folder, entry->d_name);
  }
  closedir(dir);
  return count;
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

static void test_searches_beat_chance(void **state) {
  static char paths[MOST_TABLES][512];
  int count = list_tables(paths), near = 0;
  assert_true(count >= 25);
  qsort(paths, (size_t)count, sizeof paths[0], by_text);
  print_message("%-24s %7s %7s %7s %7s %7s %9s %9s\n", "table", "points", "static", "found", "worst", "chance",
                "trials", "by chance");
  for (int i = 0; i < count; i++) {
    tn__table *table;
    check_ok(tn__table_read(paths[i], &table));
    score s = judge(table);
    char at_first[16] = "-"; /* the static choice is a schedule of several rules' parts, and none of the points */
    if (!isnan(s.at_first)) snprintf(at_first, sizeof at_first, "%.1f%%", 100 * s.at_first);
    print_message("%-24s %7d %7s %6.1f%% %6.1f%% %6.1f%% %9.1f %9.1f\n", tn__table_task(table)->name,
                  tn__table_points(table), at_first, 100 * s.found, 100 * s.worst, 100 * s.by_chance, s.trials,
                  s.chance_trials);
    assert_true(s.found >= 0.8);
    assert_true(s.found + 0.005 >= s.by_chance);
    near += s.found >= 0.97;
    tn__table_release(table);
  }
  assert_true(10 * near >= 8 * count); /* 97 % of the best in four of five */
}

static void test_tables_that_cannot_be(void **state) {
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"", "t.table:0: the table has no end"},
      {"something\n", "t.table:1: this is no table, which begins with \"tenon table 1\""},
      {"tenon table 1\nend\n", "t.table:2: a table has a name, a target, threads and points"},
      {"tenon table 1\nchoices 1 2\n", "t.table:2: choices are of a rule, which stands before"},
      {"tenon table 1\nrule r\nchoices 1 x\n", "t.table:3: a number is meant here"},
      {"tenon table 1\nrule r\nchoices 1 2\npoint 1 1 0.5\n", "t.table:4: there is no such rule"},
      {"tenon table 1\nrule r\nchoices 1 2\npoint 0 1 -0.5\n",
       "t.table:4: the seconds of a point, or \"failed\", are meant"},
      {"tenon table 1\nhello\n", "t.table:2: this is no line of a table"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tn__table *table;
    FILE *file = fopen("t.table", "w");
    assert_non_null(file);
    fputs(cases[i].text, file);
    fclose(file);
    check_fails(tn__table_read("t.table", &table), TN_INVALID_ARGUMENT, cases[i].words);
  }
  remove("t.table");
  tn__table *table;
  check_fails(tn__table_read("nowhere.table", &table), TN_NOT_FOUND, "cannot read nowhere.table");
}

int main(int argc, char **argv) {
  if (argc > 1) seeds = atoi(argv[1]);
  if (seeds < 1 || seeds > MOST_SEEDS) return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tables_that_cannot_be),
      cmocka_unit_test(test_searches_beat_chance),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
