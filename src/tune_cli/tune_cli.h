/* The commands of tenon-tune, each in a file of its own. */
#ifndef TENON_TUNE_CLI_TUNE_CLI_H
#define TENON_TUNE_CLI_TUNE_CLI_H

int tune_tune_main(int argc, char **argv);
int tune_report_main(int argc, char **argv);  /* of `tenon tune report`: argv[0] is "report" */
int tune_machine_main(int argc, char **argv); /* of `tenon machine --from-records` */
int tune_db_main(int argc, char **argv);
int tune_worker_main(int argc, char **argv);

#endif
