/*
 * history: jobs that have ended, a record each, in the order of their ends:
 *
 *     finished user= data= model= workers= worker-cores= servers= server-cores=
 *              [worker-bytes=] [server-bytes=] [steps-per-second=]
 */
#ifndef PACELINE_PLAN_HISTORY_H
#define PACELINE_PLAN_HISTORY_H

#include "plan/usage.h"

struct finished {
	struct plan_names names;
	uint64_t count[PLAN_ROLES], cores[PLAN_ROLES], bytes[PLAN_ROLES];
	double rate; /* steps a second; NAN: not said */
};

struct history { /* all zeros at first */
	struct finished *job;
	size_t count, room;
};

/* -1: ERROR_DATA or ERROR_OS. */
int history_take(struct history *h, const struct record *r, struct error *err);
/* Appends a record's line to the file at path, which is made when missing, and its directories with
 * it. A file of more than HISTORY_BYTES_MAX loses the older half. */
#define HISTORY_BYTES_MAX (1u << 20)
int history_append(const char *path, const char *line, size_t len, struct error *err);
void history_clear(struct history *h);
/* The most similar job: the one with the most of user, data and model equal; if several have
 * equally many, data counts most, then the model, then the later job. NULL: none has data or user
 * in common. */
const struct finished *history_nearest(const struct history *h, const struct usage *u);

#endif
