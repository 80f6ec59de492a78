/*
 * log: lib/ never prints; it gives messages to a sink that the program sets (cmd.h sets stderr).
 * One call is one line for people, without newline.
 */
#ifndef PACELINE_BASE_LOG_H
#define PACELINE_BASE_LOG_H

#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

typedef void log_sink_fn(enum log_level level, const char *text, void *arg);

/* NULL discards (the default). Not thread-safe: set it once in main(). */
void log_set_sink(log_sink_fn *sink, void *arg, enum log_level highest);

void log_say(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Whether to log an event that has happened `count` times: yes the 1st, 2nd, 4th, 8th, ... time, so
 * that a client that causes it can't fill the disk. */
int log_is_worth(uint64_t count);

#endif
