/*
 * parameters: what a job with the model audit has on the simulated machine: its data and files, worker(1), and a check that
 * each sample is in a checkpoint as often as it should be: the model counts them, once in the table of rows and once in the
 * dense vector.
 */
#ifndef PACELINE_TESTS_SIM_PARAMETERS_H
#define PACELINE_TESTS_SIM_PARAMETERS_H

#include <stdint.h>

#define PARAMETERS_DATA "/data/d.csv"

/* The data, and in the directory state what trainctl prepares: schema, model, layout. */
void parameters_prepare(const char *state, uint64_t rows);
/* The main() of a worker, with those options that the supervisor gives it. Its id is w0, w1, ... */
int parameters_worker(int argc, char **argv);
/* Fails if not each sample is in the checkpoint so many times. */
void parameters_check(const char *checkpoint, uint64_t rows, uint64_t epochs);

#endif
