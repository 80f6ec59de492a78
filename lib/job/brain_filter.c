/* brain_filter: see brain_filter.h. */
#include "job/brain_filter.h"

#include "base/fs.h"
#include "job/deadline.h"
#include "proc/process.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVER_CORES 16 /* DLRover: pending time grows with a server's size */

/* ---- limits ---- */

/* A host that did not say its number of cores counts as one like this machine. */
static uint64_t brain_filter_cores_of(const struct node_place *place, uint64_t here)
{
	return place->cores > 0 ? (uint64_t)place->cores : here;
}

struct brain_limits brain_limits_of(const struct job *job, const struct hosts *hosts)
{
	struct brain_limits l = {.cores = job->cores,
				 .node_cores = job->node_cores,
				 .server_cores = SERVER_CORES,
				 .bytes = job->memory,
				 .node_bytes = job->node_memory,
				 .gain = job->plan_gain,
				 .every = job->plan_every};
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t here = online > 0 ? (uint64_t)online : 1;
	uint64_t sum = hosts ? 0 : here * (job->hosts.count > 0 ? job->hosts.count : 1);
	uint64_t most = hosts ? 0 : here;
	for (size_t i = hosts ? hosts->first : 0; hosts && i < hosts->count; i++) {
		uint64_t cores = brain_filter_cores_of(&hosts->place[i], here);
		sum += cores;
		most = cores > most ? cores : most;
	}
	if (sum == 0)
		sum = most = here;
	if (l.cores == 0)
		l.cores = sum;
	if (l.cores < 2)
		l.cores = 2; /* a worker and a server */
	if (l.node_cores == 0)
		l.node_cores = job->cores > 0 && job->cores < most ? job->cores : most;
	if (l.server_cores > l.node_cores)
		l.server_cores = l.node_cores;
	return l;
}

uint64_t brain_limits_share(const struct brain_limits *l, uint64_t nodes)
{
	uint64_t each = nodes > 0 ? l->cores / nodes : 1;
	each = each > l->node_cores ? l->node_cores : each;
	return each > 0 ? each : 1;
}

void brain_limits_add(struct record_out *o, const struct brain_limits *l)
{
	record_add_u64(o, "cores", l->cores);
	record_add_u64(o, "node-cores", l->node_cores);
	record_add_u64(o, "server-cores", l->server_cores);
	record_add_u64(o, "memory", l->bytes);
	record_add_u64(o, "node-memory", l->node_bytes);
	record_add_real(o, "gain", l->gain);
	record_add_real(o, "every", l->every);
	record_add_real(o, "change-cost", l->cost);
}

int brain_limits_take(struct brain_limits *l, const struct record *r, struct error *err)
{
	*l = (struct brain_limits){0};
	if (record_u64(r, "cores", 2, PLAN_CORES_MAX, &l->cores, err) != 0 ||
	    record_u64(r, "node-cores", 1, PLAN_CORES_MAX, &l->node_cores, err) != 0 ||
	    record_u64(r, "server-cores", 1, PLAN_CORES_MAX, &l->server_cores, err) != 0 ||
	    record_u64_opt(r, "memory", 0, PLAN_BYTES_MAX, &l->bytes, err) != 0 ||
	    record_u64_opt(r, "node-memory", 0, PLAN_BYTES_MAX, &l->node_bytes, err) != 0 ||
	    record_real(r, "gain", 0, 100, &l->gain, err) != 0 ||
	    record_real(r, "every", 0, 1e9, &l->every, err) != 0 ||
	    record_real(r, "change-cost", 0, 1e9, &l->cost, err) != 0)
		return -1;
	return 0;
}

/* ---- which jobs are alike ---- */

#define DATA_MAX 500 /* bytes: a history has one line a job */

void brain_likeness_add(struct record_out *o, const struct job *job)
{
	char user[OPTION_ID_MAX], data[DATA_MAX] = "", buffer[4096];
	struct passwd entry, *found = NULL;
	size_t at = 0, i = 0;
	if (getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found) == 0 && found)
		snprintf(user, sizeof user, "%.60s", found->pw_name);
	else
		snprintf(user, sizeof user, "%lu", (unsigned long)getuid());
	for (; i < job->data.count; i++) {
		size_t len = strlen(job->data.item[i]);
		if (at + len + 32 >= sizeof data)
			break;
		at += (size_t)snprintf(data + at, sizeof data - at, "%s%s", i > 0 ? " " : "",
				       job->data.item[i]);
	}
	if (i < job->data.count)
		snprintf(data + at, sizeof data - at, " and %zu more", job->data.count - i);
	record_add(o, "user", user);
	record_add(o, "data", data);
	record_add(o, "model", job->model);
}

/* ---- the command line ---- */

int brain_is_known(const char *name)
{
	return strcmp(name, BRAIN_OFF) == 0 || strcmp(name, BRAIN_ON) == 0 || fs_is_program(name);
}

int brain_words(struct argv *words, const char *name, const struct brain_limits *l,
		const char *search_path, struct error *err)
{
	char path[DIRS_PATH_MAX];
	if (strcmp(name, BRAIN_ON) == 0) {
		if (process_find(BRAIN_PROGRAM, search_path, path, sizeof path, err) != 0)
			return -1;
		name = path;
	}
	argv_add(words, name);
	argv_u64(words, "--cores", l->cores);
	argv_u64(words, "--node-cores", l->node_cores);
	argv_u64(words, "--server-cores", l->server_cores);
	if (l->bytes)
		argv_u64(words, "--memory", l->bytes);
	if (l->node_bytes)
		argv_u64(words, "--node-memory", l->node_bytes);
	argv_real(words, "--gain", l->gain);
	argv_real(words, "--every", l->every);
	argv_real(words, "--change-cost", l->cost);
	if (l->history)
		argv_add(words, "--history", l->history);
	return argv_end(words, err);
}

/* ---- once ---- */

struct once {
	char *text;
	size_t len;
	char why[CHILD_WHY_MAX];
};

static void brain_filter_on_end(const struct child_end *e, void *arg)
{
	struct once *o = arg;
	size_t len;
	if (child_failure(e, o->why))
		return;
	const char *last = answer_last(e->output, e->bytes, &len);
	o->text = malloc(len + 1);
	if (!o->text) {
		snprintf(o->why, sizeof o->why, "out of memory");
		return;
	}
	memcpy(o->text, last, len);
	o->text[len] = '\0';
	o->len = len;
}

int brain_ask_once(struct argv *words, const char *rounds, size_t bytes, char **text, size_t *len,
		   struct error *err)
{
	struct once o = {0};
	struct child_options options = {.called = "brain",
					.input = rounds,
					.input_bytes = bytes,
					.seconds = deadline_seconds(DEADLINE_SOLUTION),
					.output_bytes_max = BRAIN_OUTPUT_BYTES_MAX,
					.done = brain_filter_on_end,
					.arg = &o};
	char name[DIRS_PATH_MAX];
	snprintf(name, sizeof name, "%s", words->word[0]);
	int result = argv_end(words, err);
	options.argv = words->word;
	if (result == 0)
		result = child_run(&options, err);
	argv_free(words);
	if (result == 0 && !o.text)
		result = error_set(err, ERROR_CONFIG, name, "%s", o.why);
	*text = o.text;
	*len = o.len;
	return result;
}
