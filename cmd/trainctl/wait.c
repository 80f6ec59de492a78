/* trainctl wait: waits until a job ends, whichever trainctl runs it; then prints its summary and
 * exits with its status. */
#include "cmd/cmd.h"
#include "cmd/trainctl.h"
#include "base/clock.h"
#include "job/condition.h"
#include "job/jobs.h"
#include "proc/process.h"

#include <poll.h>
#include <unistd.h>

#define LOOK_SECONDS 60 /* seconds of a sleep at most */

/* Until exactly that process has ended, or the clock is at `until`. */
static void sleep_through(const struct condition *c, double until)
{
	int fd = process_watch(c->pid, c->start);
	if (fd < 0)
		return;
	struct pollfd end = {.fd = fd, .events = POLLIN};
	double left = until - clock_mono();
	if (!(left < LOOK_SECONDS))
		left = LOOK_SECONDS;
	poll(&end, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
	close(fd);
}

static int trainctl_wait_tell(const struct condition *c, struct error *err)
{
	fputs(c->summary, stdout);
	if (c->is == CONDITION_CRASHED)
		return error_set(err, ERROR_TEMPFAIL, NULL,
				 "job %s: %s%s; `trainctl run` goes on with it", c->name,
				 condition_words(c->is),
				 c->node[0] ? ", and its nodes still run" : "");
	if (c->is == CONDITION_NEW)
		return error_set(err, ERROR_TEMPFAIL, NULL, "job %s has not begun", c->name);
	return c->status;
}

/* until: INFINITY for no limit. The exit status of the job, or -1. */
static int wait_for(const char *job, const char *run_dir, double until, struct error *err)
{
	static struct condition c;
	struct dirs dirs;
	for (;;) {
		if (trainctl_find(job, run_dir, &dirs, err) != 0 ||
		    jobs_need_state(&dirs, job, err) != 0 || condition_read(&c, &dirs, err) != 0)
			return -1;
		if (c.is != CONDITION_RUNNING)
			return trainctl_wait_tell(&c, err);
		if (clock_mono() >= until)
			return error_set(err, ERROR_TEMPFAIL, NULL, "job %s still runs", c.name);
		sleep_through(&c, until);
	}
}

int trainctl_wait(int argc, char **argv)
{
	const char *job = NULL, *run_dir = NULL, *none;
	double seconds = 0;
	int limited = 0;
	const struct option_row rows[] = {TRAINCTL_ROW_JOB(&job),
					  TRAINCTL_ROW_RUN_DIR(&run_dir, "the job's run directory"),
					  {.name = "timeout",
					   .letter = 't',
					   .kind = OPTION_SECONDS,
					   .target = &seconds,
					   .arg = "S",
					   .help = "give up after this time, with status 75",
					   .max = 1e9,
					   .seen = &limited},
					  {0}};
	const struct option_table table = {
		PROGRAM " wait", "-j NAME | --run-dir DIR [--timeout SECONDS]",
		"Waits until the job ends, prints its summary, and ends with its exit status.",
		rows, NULL};
	struct error err;
	cmd_parsed(PROGRAM, trainctl_parse(&table, argc, argv, NULL, &none, &err), &err);
	int result = wait_for(job, run_dir, limited ? clock_mono() + seconds : 1e300, &err);
	return result >= 0 ? result : cmd_fail(PROGRAM, &err);
}
