/* What rules and primitives decide by that no machine tells: bounds, shares and weights, each with its reason. They
 * were found by measuring kernels, and `./dev schedules` shows what a change of one does. What a machine does is not
 * here but in tn__machine (target/target.h). Cycles are of one core. */
#ifndef TENON_SCHEDULE_HEURISTICS_H
#define TENON_SCHEDULE_HEURISTICS_H

/* ---- what operations cost ---------------------------------------------------------------------------------------- */
/* In additions. Divisions of integers are made of a multiplication and shifts; roots have an instruction that is busy
 * for long; other functions are polynomials of some twenty steps. */
#define TN__RULE_DIVISION_COST 4
#define TN__RULE_ROOT_COST 8
/* Cycles that 32 bytes of quotients or roots of floating-point numbers keep their unit busy, in single and double
 * precision, as outlines count them. */
#define TN__RULE_BUSY_CYCLES 5
#define TN__RULE_BUSY_DOUBLE 8
#define TN__RULE_FUNCTION_COST 20
/* Up to how many elements apart lanes are loaded side by side and put in order by shuffles, and from how many lanes on,
 * as emit_memory.c does it. */
#define TN__RULE_SHUFFLED_STRIDE 4
#define TN__RULE_SHUFFLED_LANES 4
/* The share of setting up a loop that goes on beside what was before, as outlines count it: a loop of four turns for
 * each of many results took two cycles more than what is in it. */
#define TN__RULE_ENTRY_HIDDEN (2.0 / 3)
/* Terms in a row that are not worth a vector. */
#define TN__RULE_SHORT_ROW 8
/* Instructions of a turn of a loop that do none of its work: counting, comparing, the jump. */
#define TN__RULE_TURN 3
/* Instructions that a tile takes at its end beside its results: addresses of the next one. */
#define TN__RULE_TILE_END 12
/* Operations that are worth waking other threads for: some 20 microseconds at 20 operations a nanosecond. */
#define TN__RULE_LARGE 400e3
/* Points of a map that one thread computes before others are awake. */
#define TN__RULE_FEW_POINTS 512

/* Instructions that a core looks ahead for something to do while results wait for their terms. */
#define TN__RULE_LOOK_AHEAD 224.0
/* A rule that competes has to promise so much less than the rule that would be taken without it. Of pairs of candidates
 * of two rules the ratio of predicted times is off by a factor of 1.2 (one standard deviation of its logarithm): of ten
 * promises of 0.9 seven hold. Measured, what promised 0.85 to 0.9 took 0.81 of the time, and what promised 0.9 to 0.95
 * took 1.07 (docs/experiments/static-schedules.md). */
#define TN__RULE_WORTH_ANOTHER 0.9
/* A rule that is asked later has to promise so much less: each counts what it sees of the declaration. */
#define TN__RULE_WORTH_A_LATER 0.5

/* ---- memory that is kept near ------------------------------------------------------------------------------------ */
/* Bytes of a part that is kept in a thread's private memory, of which there are 64 KiB: the rest is for what else the
 * kernel keeps there. */
#define TN__RULE_PRIVATE_BYTES 49152
/* Bytes of a tensor that is private to the rows at hand: there may be several of them. */
#define TN__RULE_PRIVATE_ROW_BYTES 16384
/* Bytes that a map takes in L2 instead of leaving all of it to memory: half of the smallest L2 less what reads it. */
#define TN__RULE_NEAR_BYTES (56 << 10)
/* Share of L2 in which all tensors lie whose rows then come by themselves. */
#define TN__RULE_NEAR 0.75
/* Pieces of up to so many lines from beyond L2 are over before the core fetches ahead of them, and come at a part of
 * the rate of long ones. Up to so many pieces that go on where they ended are as good as long ones. */
#define TN__RULE_PIECE_LINES 3
#define TN__RULE_SLOWER_PIECES 2.0
#define TN__RULE_STREAMS 96
/* Share of L3, which others use, too, up to which rows come from there. */
#define TN__RULE_LAST 0.5
/* Share of the last cache that a transposition may fill before memory is what matters. */
#define TN__RULE_FAR_FILLED 0.75
/* Share of a cache, or of a TLB, that the lines of one side of a tile may take: the other side needs as much. */
#define TN__RULE_ONE_SIDE 0.5
/* Rows that prefetches bring to L1. More of them, which may be a power of two apart, would drive each other out of its
 * sets before they are used: L1 has 8 ways or more as a rule, and the others go to L2. */
#define TN__RULE_ROWS_TO_L1 8

/* ---- contractions ------------------------------------------------------------------------------------------------ */
/* The share of fetching again what had no place in its set that is not hidden. */
#define TN__RULE_UNHIDDEN_SETS 0.2
/* The share of what comes from beyond L2 that is not hidden: of panels that are fetched while the one before is in use,
 * of rows in pages of their own, whose latency adds to it, and of those while nothing else happens. */
#define TN__RULE_EXPOSED_AHEAD 0.05
#define TN__RULE_EXPOSED_PAGES 1.0
#define TN__RULE_EXPOSED_COPY 2.0
/* Steps of a reduction whose rows lie apart that the first misses are hidden behind. */
#define TN__RULE_HIDDEN_ROWS 8
/* A prefetch takes the place of half a load: nothing waits for it. */
#define TN__RULE_PREFETCH 0.5
/* Long straight pieces give the compiler's scheduler room to take registers for loads that are not needed yet: beyond
 * so many multiply-adds they lose a twentieth, and under masks, which are values as well, a quarter. */
#define TN__RULE_LONG_PIECE 48
#define TN__RULE_LONG_PIECE_LOSS 1.05
#define TN__RULE_MASKED_PIECE_LOSS 1.25
/* Rows from which on a right operand of a narrower type is widened before the tiles, and the share of L2 that it may
 * fill then: what is larger is read in half the bytes. */
#define TN__RULE_ROWS_TO_WIDEN 64
#define TN__RULE_WIDENED 0.25
/* Steps of the shortest block of a reduction: shorter ones read and write their sums too often. */
#define TN__RULE_SHORTEST_BLOCK 256
/* And of the longest: no cache holds a column of as many. */
#define TN__RULE_LONGEST_BLOCK (1 << 24)
/* How far from the size that is wanted a divisor is looked for at the most: blocks that fit a near cache are looked at
 * to a quarter. */
#define TN__RULE_FARTHEST_DIVISOR 4096
/* Statements of all copies of a tile. Much code takes time in the compiler and brings nothing: on a core that has four
 * multiply-adds of whole vectors under way rows of 7 are as fast as rows of 23. So tiles that are larger than this many
 * sums for each of those are for little code. Past some size loops would keep their conditions. */
#define TN__RULE_MOST_CODE 4000
#define TN__RULE_LITTLE_CODE 400
#define TN__RULE_SMALL_TILE 2
/* Cycles that a statement takes that is executed for the first time, from a far cache. */
#define TN__RULE_COLD_STATEMENT 3
/* Cycles of multiply-adds that a pass of an element through memory is worth, times the element's bytes over those that
 * are multiplied and added in a cycle: copies for borders take time in the compiler, so there must be something to
 * win. */
#define TN__RULE_SHORT_SUM 10.0
/* Columns of a panel are padded up to a width while that is less than a 25th more than another width needs. */
#define TN__RULE_PADDED_LESS 24
#define TN__RULE_PADDED_MORE 25

/* ---- attention --------------------------------------------------------------------------------------------------- */
/* How often the scores of a block go to a cache or come from it: written, read for the maximum, exponentials written
 * over them and read twice. */
#define TN__RULE_SCORE_PASSES 5

/* ---- maps and reductions ----------------------------------------------------------------------------------------- */
/* Operations in one turn of a map's loop: longer code is only longer, as there are enough that don't wait for each
 * other. */
#define TN__RULE_MOST_UNROLLED 80
/* Vectors of a row that are all written out, where they are few operations: loops of so few turns cost as much as what
 * they do. */
#define TN__RULE_SHORT_WALK 20
/* Cycles that a vector as wide as a line waits longer where it lies across two lines, both of which come from beyond
 * L1: of vectors of half a line every other one finds its line there. */
#define TN__RULE_CROSSED_LINE 2.0
/* Turns of a row's reduction that are all written out, where they are no more operations than a core looks ahead: it
 * begins with the next row while what is left of this one waits, and would go wrong at the end of each loop. */
#define TN__RULE_WRITTEN_ROW 20
/* Operations from which on what is computed once for each row had better be computed for a vector of rows. */
#define TN__RULE_ROW_END 4
/* From how often on a function is computed once instead, and read from memory each time. */
#define TN__RULE_HOISTED_FROM 8
/* Operations in all phases of a map together, each of which is written out. */
#define TN__RULE_MOST_IN_PHASES 1024
/* Of operations on a vector: up to which four vectors, or two, make a turn long enough. */
#define TN__RULE_UNROLL_FOUR 8
#define TN__RULE_UNROLL_TWO 16
/* A load waits for stores on their way to the same place of any page, and where tensors lie is not known here: one turn
 * of so many waits a cycle, and several vectors in a turn wait together. */
#define TN__RULE_TURNS_PER_CYCLE_LOST 2
/* Lines of a row that is stored past the caches, where it does not end with a line: shorter ones took 3 to 20 times as
 * long as through the caches. */
#define TN__RULE_STREAMED_LINES 64
/* Vectors of partial results that hide what latency there is. */
#define TN__RULE_CHAINS 8
/* Operations for each element of 1 or 2 bytes that is looked up in a table, up to which vectors gain nothing: taking
 * their lanes apart and putting them together takes as long. */
#define TN__RULE_LOOKED_UP 8
/* Steps of several vectors after which it does not matter that the last one is not full. */
#define TN__RULE_FILLED 4
/* Terms of a window that are written out. */
#define TN__RULE_WINDOW_TERMS 32
/* Operations of these terms, on vectors, all together. And of one of them, from which on a loop is as good: its turn
 * hides behind them. */
#define TN__RULE_WINDOW_WORK 1024
#define TN__RULE_WINDOW_TURN 64
/* Cycles that a line of a row from L3 keeps a core waiting which nothing fetched. */
#define TN__RULE_LINE_WAIT 2
/* Cycles until the first line of a page comes, less what a core finds to do in the meantime. */
#define TN__RULE_PAGE_WAIT 30
/* Terms of a part of a reduction that threads share: some 10 microseconds. And the length from which on the outermost
 * axis is cut rather than the longest. */
#define TN__RULE_SHORTEST_PART 65536
#define TN__RULE_LONG_AXIS 256
/* Terms of an accumulation for each element of the copies that they go into: writing copies and adding them up takes a
 * hundredth of the time then. */
#define TN__RULE_TERMS_PER_COPIED 64
/* Operations of a map that an accumulation whose terms go one after the other had better not compute: vectors make it,
 * so many elements at a time, which stay in L1 until they are read. */
#define TN__RULE_SCATTERED_COST 4
#define TN__RULE_SCATTERED_TURN 2048
/* One thread cuts a reduction that promises it a tenth. How many threads decide of those that share what is reduced,
 * whatever number there is; that is looked into where they take more than twice the time of an even share, and chosen
 * where it takes less than 0.7 of their time and costs one thread a hundredth at the most. */
#define TN__RULE_WORTH_A_CUT 0.9
#define TN__RULE_MANY_THREADS 16
#define TN__RULE_SCALES_BADLY 2.0
#define TN__RULE_SHARING_GAIN 0.7
#define TN__RULE_SHARING_PRICE 1.01
/* Cycles to write and add a part's result, and to start the nest that adds them up. */
#define TN__RULE_PART_RESULT 4
#define TN__RULE_PARTS 200

/* ---- pipelines --------------------------------------------------------------------------------------------------- */
/* The share of the smaller of computing and memory that the other does not hide where a tensor goes to memory between
 * two stages: its pages are new, and each of them waits for the system once. */
#define TN__RULE_PIPE_UNHIDDEN 0.5
/* Cycles where a row is read as soon as it was written: loads that two stores in flight share wait for both, and each
 * row's loops begin anew. Rows of 256 floats lose a quarter by it, of 2,500 nothing that can be measured. */
#define TN__RULE_SWEEP_ROW 100
/* By how much estimates of pipelines must differ to mean anything. */
#define TN__RULE_AS_GOOD 1.02
/* Cycles of what is written out of the steps of scans, with what reads them, for a few vectors of columns: more takes
 * the compiler longer than it is worth. And what a turn of a loop over such steps takes beside. */
#define TN__RULE_WRITTEN_STEPS 192
#define TN__RULE_REGISTER_TURN 2
/* Shuffles for each vector of a tile that is turned in registers, and how many rows it must have. */
#define TN__RULE_TURN_SHUFFLES 4
#define TN__RULE_LEAST_TURNED 8
/* Up to how many channels of a pixel, or the like, one row of all pixels is made of. */
#define TN__RULE_MOST_CHANNELS 12
/* How many positions must share a part of what a stage computes for it to become a tensor of its own. */
#define TN__RULE_HOISTED_TIMES 16
/* How many times the elements that all terms of a reduction need together may be computed when each term has its own
 * part of them made: windows of neighbouring tiles overlap, those of neighbouring terms must not. */
#define TN__RULE_TERM_AGAIN 1.5

/* ---- transpositions: cycles a line ------------------------------------------------------------------------------- */
/* Of a line of which a piece is used, as the rest may be gone by then; of stores to more pages than prefetchers follow;
 * of a page beyond the TLBs, stores more than loads, which overlap; of a whole line that the hardware had fetched ahead
 * and that is gone. */
#define TN__RULE_PIECE 0.5
#define TN__RULE_MANY_STREAMS 1.2
#define TN__RULE_STORE_PAGE 9
#define TN__RULE_LOAD_PAGE 4
#define TN__RULE_FETCHED_IN_VAIN 1.5
/* Prefetchers don't see a run shorter than this before its end; what they don't bring comes that late from memory, and
 * from L3. */
#define TN__RULE_RUN_BYTES 512
#define TN__RULE_LATE_FROM_MEMORY 45
#define TN__RULE_LATE_FROM_L3 1.3

/* ---- Winograd's algorithm ---------------------------------------------------------------------------------------- */
/* The share of a cache up to which a tensor between two kernels stays there. */
#define TN__RULE_STAYS 0.5
/* The share of the smaller of arithmetic and the weights' way that the other does not hide: blocks wait for weights. */
#define TN__RULE_WEIGHTS_UNHIDDEN 0.25
/* Cycles to start a kernel. */
#define TN__RULE_KERNEL_START 5000
/* Each step up has to gain a tenth: tiles of 2x2 for their errors and 16/9 of the weights, those of 4x4 for 9/4 of that
 * again. */
#define TN__RULE_WORTH_A_TILE 0.9

/* ---- GPUs -------------------------------------------------------------------------------------------------------- */
/* Products: sides of tiles that they are filled up to, where that adds little or sizes are open, and at the least; the
 * terms of a step, in instructions on matrices or one by one. */
#define TN__RULE_GPU_OPEN_TILE 128
#define TN__RULE_GPU_LEAST_TILE 16
#define TN__RULE_GPU_TERMS 16
/* Tiles that keep a usual GPU busy, and terms that are worth a part of their own where there are fewer. */
#define TN__RULE_GPU_BLOCKS 264
#define TN__RULE_GPU_PART 128
#define TN__RULE_GPU_STEP 2

#endif
