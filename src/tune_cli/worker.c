/* tenon-tune worker: a worker process of a builder or a runner. */
#include "tune/worker/worker.h"

#include "tune_cli/tune_cli.h"

int tune_worker_main(int argc, char **argv) { return tn__worker_main(argc, argv, NULL); }
