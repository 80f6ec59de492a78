/*
 * show: how a job goes, as records. What people see is lib/screen's. Pure.
 */
#ifndef PACELINE_RUN_SHOW_H
#define PACELINE_RUN_SHOW_H

#include "run/supervisor.h"

#include <stddef.h>

struct record;
struct record_out;

/* From a record of the lead. */
void show_take_delays(struct run_delays *d, const struct record *r);

/* Adds the fields of a row to a record that was begun. */
void show_fields(struct record_out *o, const struct run_row *row);
/* `row iteration= epoch= epochs= loss= samples-done= ... time=` with newline. */
size_t show_record(const struct run_row *row, char *out, size_t out_max);

#endif
