/*
 * node: what the programs of nodes that train, worker and agent, do the same way: options, and where
 * their records go.
 */
#ifndef PACELINE_CMD_NODE_H
#define PACELINE_CMD_NODE_H

#include "cmd/cmd.h"

#include "meter/meter.h"
#include "work/speed.h"

#include <fcntl.h>
#include <unistd.h>

struct node_options {
	struct meter_options meter;
	double wait, answer;
	const char *log;
	/* The predictor of its speed; where what was measured of its device is kept. */
	const char *predict, *device_file;
	struct speed_options speed;
};

#define NODE_REPORT_OPTIONS(n)                                                                     \
	{.name = "report-every",                                                                   \
	 .kind = OPTION_COUNT,                                                                     \
	 .target = &(n).meter.report_every,                                                        \
	 .arg = "ITERATIONS",                                                                      \
	 .help = "report to the monitor after this many iterations, or",                           \
	 .min = 1,                                                                                 \
	 .max = 1e6},                                                                              \
	{                                                                                          \
		.name = "report-seconds", .kind = OPTION_SECONDS,                                  \
		.target = &(n).meter.report_seconds, .arg = "SECONDS",                             \
		.help = "after this time, whichever is first", .max = 86400                        \
	}

#define NODE_SPEED_OPTIONS(n)                                                                      \
	{.name = "device-file",                                                                    \
	 .kind = OPTION_TEXT,                                                                      \
	 .target = &(n).device_file,                                                               \
	 .arg = "FILE",                                                                            \
	 .help = "where what was measured of its device is kept, for the next start"},             \
	{.name = "predict",                                                                        \
	 .kind = OPTION_CHOICE,                                                                    \
	 .target = &(n).predict,                                                                   \
	 .arg = "MODEL",                                                                           \
	 .help = "predict its own speed, for sizes set at every barrier (none)",                   \
	 .choices = "none|" PREDICT_CHOICES},                                                      \
	{.name = "predict-load",                                                                   \
	 .kind = OPTION_TEXT,                                                                      \
	 .target = &(n).speed.load,                                                                \
	 .arg = "FILE",                                                                            \
	 .help = "file with what was learnt before, to start with, if it exists"},                 \
	{                                                                                          \
		.name = "predict-save", .kind = OPTION_TEXT, .target = &(n).speed.save,            \
		.arg = "FILE",                                                                     \
		.help = "file to write what was learnt, from time to time and at the end"          \
	}

#define NODE_OPTIONS(n)                                                                            \
	{.name = "load-root",                                                                      \
	 .kind = OPTION_TEXT,                                                                      \
	 .target = &(n).meter.load_root,                                                           \
	 .arg = "DIR",                                                                             \
	 .help = "where the node's /proc and /sys are mounted, in a container"},                   \
	{.name = "log",                                                                            \
	 .kind = OPTION_TEXT,                                                                      \
	 .target = &(n).log,                                                                       \
	 .arg = "FILE",                                                                            \
	 .help = "append applied and spent records to FILE (standard error)"},                     \
	{.name = "wait",                                                                           \
	 .kind = OPTION_SECONDS,                                                                   \
	 .target = &(n).wait,                                                                      \
	 .arg = "SECONDS",                                                                         \
	 .help = "how long to wait for a daemon that is not there",                                \
	 .max = 86400},                                                                            \
	{                                                                                          \
		.name = "answer", .kind = OPTION_SECONDS, .target = &(n).answer, .arg = "SECONDS", \
		.help = "how long to wait for an answer, also at the barrier", .min = 0.1,         \
		.max = 864000                                                                      \
	}

/* What the options say of predictions; *speed NULL: there are none. */
static inline int node_predicts(struct node_options *n, const struct speed_options **speed,
				struct error *err)
{
	int predicts = n->predict && predict_model_of(n->predict, &n->speed.model) == 0;
	*speed = predicts ? &n->speed : NULL;
	n->meter.watch = predicts;
	if (predicts || (!n->speed.load && !n->speed.save))
		return 0;
	return error_set(err, ERROR_USAGE, n->speed.load ? "--predict-load" : "--predict-save",
			 "is for --predict MODEL");
}

static inline int node_open_log(const struct node_options *n, int *fd, struct error *err)
{
	*fd = STDERR_FILENO;
	if (!n->log)
		return 0;
	*fd = open(n->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	return *fd < 0 ? error_errno(err, ERROR_CANTCREAT, n->log, "open") : 0;
}

static inline void node_close_log(int fd)
{
	if (fd != STDERR_FILENO)
		close(fd);
}

/* A record's line; owner: the descriptor. */
static inline void node_write_log(const char *line, size_t len, void *owner)
{
	int fd = *(int *)owner;
	if (write(fd, line, len) != (ssize_t)len)
		log_say(LOG_LEVEL_WARNING, "a record could not be written: %s", strerror(errno));
}

#endif
