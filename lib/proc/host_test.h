/*
 * host_test: a short test of hosts, all at once: how fast each computes, copies memory, and
 * receives over its link from here; and which of them is bad.  node-host(8) reaches each host and
 * measures there.
 *
 * No number is good or bad alone: hosts are compared with each other.  A host is bad if it has less
 * than a third of what the others have (their median), does not answer, or calculates wrongly.
 */
#ifndef PACELINE_PROC_HOST_TEST_H
#define PACELINE_PROC_HOST_TEST_H

#include "base/error.h"

#include <stddef.h>

struct launcher;
struct record;

#define HOST_TEST_SHARE (1.0 / 3)
#define HOST_TEST_WHY_MAX 160

enum host_test_of { HOST_TEST_COMPUTE, HOST_TEST_MEMORY, HOST_TEST_LINK, HOST_TEST_KINDS };

struct host_test {
	const char *host;
	const struct launcher *launcher; /* one that is not far: this machine */
	const char *program;             /* node-host, the same path here and there */
	/* found out */
	double value[HOST_TEST_KINDS]; /* NAN: not known; this machine has no link to itself */
	int wrong;
	char why[HOST_TEST_WHY_MAX]; /* why it is bad; "": it is good */
};

/* Fills what is found out, of all hosts; waits as long as they need, 15 seconds at most. If a host
 * is bad, the test is done again, and the better result counts. -1: nothing could be tested. */
int host_tests_run(struct host_test *tests, size_t count, const char *search_path,
		   struct error *err);
/* Fills why, from the values. */
void host_tests_judge(struct host_test *tests, size_t count);

/* Starts `node-host --test`, of this machine; its answer can be read from *fd. */
int host_test_begin(const char *search_path, int *fd, int *pid, struct error *err);
/* Waits for it, for some seconds; line becomes what it printed, without newline, with a NUL. */
int host_test_end(int fd, int pid, char *line, size_t max, struct error *err);

struct record_out;
/* `host-test` as a record: name, what is known, state=good|bad and why. */
void host_test_record(struct record_out *o, char *line, size_t max, const struct host_test *t);

#endif
