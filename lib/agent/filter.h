/*
 * filter: the life of an agent whose command does not know Paceline: it reads rows, if any, from
 * its standard input, and its end says whether they are done.  There is no lead and no parameter:
 * when a command or an agent dies, its rows are handed out again, and nothing is rolled back.
 *
 * each: the command runs once for each shard.  rows: it runs once for all shards that this agent
 * takes, until there is nothing to hand out; if rows come back later, it runs once more.
 */
#ifndef PACELINE_AGENT_FILTER_H
#define PACELINE_AGENT_FILTER_H

#include "agent/agent.h"

#define FILTER_JOBS_MAX 1024

/* 0: the queue has nothing left, or *stop. -1: ERROR_NEGATIVE: all is done except shards that are
 * held; ERROR_DATA: rows can't be read, or a file was changed; ERROR_CONFIG: the files are not the
 * queue's; ERROR_UNAVAILABLE, ERROR_IO (--output), ...; or the status of a command that can't
 * succeed on any shard. Rows in hand have been given back as far as possible. */
int filter_each(const struct agent_options *o, struct error *err);
/* The same; -1 with *end seen: the command did not end with 0, and the caller must end in the same
 * way. ERROR_DATA also if it ended with 0 without having read all rows. */
int filter_rows(const struct agent_options *o, struct node_end *end, struct error *err);

#endif
