#include "machine/reach.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

/* The largest second TLBs hold 4,096 pages: the step behind them is to be seen. */
enum { FEWEST_PAGES = 8, MOST_FIRST_PAGES = 1024, MOST_PAGES = 6144, MOST_POINTS = 64, MOST_WAYS = 32 };
enum { PASSES = 4, ROUNDS = 3, SHORTEST_RUN = 2000 };
#define SECONDS 0.1 /* for all passes after the first */
#define MOST_BYTES ((int64_t)128 << 20)
#define APART (16 << 10) /* lines that far apart are in one set of any L1 */
#define NEXT 1.148698355 /* from one number of pages to the next: the fifth root of 2 */
/* Cycles more that are a step. Loads from L2 take 8 more than from L1, and of 8 ways that 9 lines share some may stay;
 * a page that the second TLB has takes 5 to 9, and one that has to be looked up another 10 at the least. */
#define STEP_OF_WAYS 0.5
#define STEP_OF_FIRST 2.5
#define STEP_OF_SECOND 6

typedef struct course {
  char *memory;
  int64_t page_bytes;
  double clock;
  uint64_t random;
} course;

/* Where load `i` finds the place of the next one. */
typedef size_t (*layout)(const course *c, int i);
static size_t dense(const course *c, int i) { return (size_t)i * TN__LINE_BYTES; }
static size_t in_one_set(const course *c, int i) { return (size_t)i * APART; }
/* A line of each page, and not the same one: those of the same set would meet. */
static size_t on_pages(const course *c, int i) {
  int64_t lines = c->page_bytes / TN__LINE_BYTES;
  return (size_t)(i * c->page_bytes + i % lines * TN__LINE_BYTES);
}

#if defined(__x86_64__)
#define FOLLOW "mov (%0), %0\n"
#elif defined(__aarch64__)
#define FOLLOW "ldr %0, [%0]\n"
#endif

/* Links `count` places to a ring in random order, so that nothing is fetched ahead. */
static void *ring(course *c, layout at, int count) {
  int order[MOST_PAGES] = {0};
  for (int i = 0; i < count; i++) {
    c->random = c->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    int j = (int)((c->random >> 33) % (uint64_t)(i + 1));
    order[i] = i; /* where j is i, too */
    order[i] = order[j];
    order[j] = i;
  }
  for (int i = 0; i < count; i++)
    *(void **)(void *)(c->memory + at(c, order[i])) = c->memory + at(c, order[i + 1 < count ? i + 1 : 0]);
  return c->memory + at(c, order[0]);
}

/* Cycles that a load takes, at best. */
static double cycles_of(course *c, layout at, int count) {
  const void *p = ring(c, at, count);
  int turns = (count > SHORTEST_RUN ? count : SHORTEST_RUN) / 8 + 1;
  double best = 0;
  for (int round = 0; round <= ROUNDS; round++) {
    double start = tn__now();
    for (int i = 0; i < turns; i++)
      __asm__ volatile(FOLLOW FOLLOW FOLLOW FOLLOW FOLLOW FOLLOW FOLLOW FOLLOW : "+r"(p)::"memory");
    double cycles = (tn__now() - start) * c->clock / (8.0 * turns);
    if (round > 0 && (best == 0 || cycles < best)) best = cycles; /* the first round brings it near */
  }
  return best;
}

/* The shortest that loads took, for numbers of places that grow: what disturbs them only makes them longer, and seldom
 * in every pass. */
typedef struct curve {
  layout at;
  int points, count[MOST_POINTS];
  double cycles[MOST_POINTS];
} curve;

static void pass(course *c, curve *v) {
  for (int i = 0; i < v->points; i++) {
    double cycles = cycles_of(c, v->at, v->count[i]);
    if (v->cycles[i] == 0 || cycles < v->cycles[i]) v->cycles[i] = cycles;
  }
}

int tn__machine_last_within(const int *count, const double *cycles, int points, double most) {
  int i = points - 1;
  while (i >= 0 && cycles[i] > most) i--;
  return i < 0 || i == points - 1 ? 0 : count[i];
}

static int last_within(const curve *v, double most) {
  return tn__machine_last_within(v->count, v->cycles, v->points, most);
}

static double cycles_at(const curve *v, int count) {
  int i = 0;
  while (i < v->points - 1 && v->count[i] < count) i++;
  return v->cycles[i];
}

static void find_steps(const curve *ways, const curve *pages, tn__machine_reach *out) {
  out->l1_ways = last_within(ways, ways->cycles[0] + STEP_OF_WAYS);
  out->l1_pages = last_within(pages, STEP_OF_FIRST);
  if (out->l1_pages > MOST_FIRST_PAGES) out->l1_pages = 0;
  if (out->l1_pages > 0) out->pages = last_within(pages, cycles_at(pages, 2 * out->l1_pages) + STEP_OF_SECOND);
}

static void measure_curves(course *c, int most_pages, tn__machine_reach *out) {
  curve ways = {.at = in_one_set}, apart = {.at = on_pages}, side_by_side = {.at = dense}, pages;
  while (ways.points < MOST_WAYS + 1) ways.count[ways.points] = 2 + ways.points, ways.points++;
  for (double n = FEWEST_PAGES; n < most_pages && apart.points < MOST_POINTS; n *= NEXT)
    apart.count[apart.points] = side_by_side.count[apart.points] = (int)(n + 0.5), apart.points++;
  side_by_side.points = apart.points;
  double begun = tn__now();
  for (int i = 0; i < PASSES && (i == 0 || tn__now() - begun < SECONDS); i++) {
    pass(c, &ways);
    pass(c, &apart);
    pass(c, &side_by_side);
  }
  pages = apart; /* what a load takes longer when each line is on a page of its own */
  for (int i = 0; i < pages.points; i++) pages.cycles[i] -= side_by_side.cycles[i];
  find_steps(&ways, &pages, out);
}

tn_status *tn__machine_reach_of(double clock, tn__machine_reach *out) {
  course c = {.page_bytes = sysconf(_SC_PAGESIZE), .clock = clock, .random = 1};
  int pages = MOST_BYTES / c.page_bytes < MOST_PAGES ? (int)(MOST_BYTES / c.page_bytes) : MOST_PAGES;
  size_t bytes = (size_t)pages * (size_t)c.page_bytes;
  *out = (tn__machine_reach){.page_bytes = c.page_bytes, .pages_tried = pages};
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return tn_status_create(TN_OUT_OF_MEMORY, "no memory for %zu bytes to load from", bytes);
  madvise(memory, bytes, MADV_NOHUGEPAGE); /* large pages would be others than those that are counted */
  c.memory = memory;
  measure_curves(&c, pages, out);
  munmap(memory, bytes);
  return NULL;
}
