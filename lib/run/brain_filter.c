/* brain_filter: see brain_filter.h. */
#include "run/brain_filter.h"

#include "base/fs.h"
#include "job/deadline.h"
#include "proc/process.h"

#include <event2/event.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVER_CORES 16 /* DLRover: pending time grows with a server's size */

/* ---- limits ---- */

/* A host that did not say how many it has counts as this one. */
static uint64_t cores_of(const struct node_place *place, uint64_t here)
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
		uint64_t cores = cores_of(&hosts->place[i], here);
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

struct words {
	struct brain_filter *f;
	size_t count;
};

static void add(struct words *w, const char *word)
{
	snprintf(w->f->text[w->count], sizeof *w->f->text, "%s", word);
	w->f->argv[w->count] = w->f->text[w->count];
	w->count++;
}

static void add_u64(struct words *w, const char *option, uint64_t value)
{
	char text[32];
	snprintf(text, sizeof text, "%llu", (unsigned long long)value);
	add(w, option);
	add(w, text);
}

static void add_real(struct words *w, const char *option, double value)
{
	char text[32];
	snprintf(text, sizeof text, "%.6g", value);
	add(w, option);
	add(w, text);
}

int brain_filter(struct brain_filter *f, const char *name, const struct brain_limits *l,
		 const char *search_path, struct error *err)
{
	struct words w = {f, 1};
	*f = (struct brain_filter){0};
	if (strcmp(name, BRAIN_ON) == 0) {
		if (process_find(BRAIN_PROGRAM, search_path, f->path, sizeof f->path, err) != 0)
			return -1;
	} else if (snprintf(f->path, sizeof f->path, "%s", name) >= (int)sizeof f->path) {
		return error_set(err, ERROR_CONFIG, "BRAIN", "path too long");
	}
	f->argv[0] = f->path;
	add_u64(&w, "--cores", l->cores);
	add_u64(&w, "--node-cores", l->node_cores);
	add_u64(&w, "--server-cores", l->server_cores);
	if (l->bytes)
		add_u64(&w, "--memory", l->bytes);
	if (l->node_bytes)
		add_u64(&w, "--node-memory", l->node_bytes);
	add_real(&w, "--gain", l->gain);
	add_real(&w, "--every", l->every);
	add_real(&w, "--change-cost", l->cost);
	if (l->history) {
		add(&w, "--history");
		f->argv[w.count++] = (char *)(size_t)l->history; /* the caller's */
	}
	return 0;
}

const char *brain_failure(const struct node_end *end, enum child_cut cut, char *out, size_t max)
{
	if (cut == CHILD_LATE)
		snprintf(out, max, "no answer in %g s", deadline_seconds(DEADLINE_SOLUTION));
	else if (cut == CHILD_TALKS)
		snprintf(out, max, "more than %u bytes of output", BRAIN_OUTPUT_BYTES_MAX);
	else if (end_class_of(end) != END_CLEAN)
		end_text(end, out, max);
	else
		return NULL;
	return out;
}

/* ---- once ---- */

struct once {
	char *text;
	size_t len;
	char why[128];
};

static void on_end(const struct node_end *end, enum child_cut cut, const char *output,
		   size_t bytes, void *arg)
{
	struct once *o = arg;
	size_t len;
	if (brain_failure(end, cut, o->why, sizeof o->why))
		return;
	const char *last = answer_last(output, bytes, &len);
	o->text = malloc(len + 1);
	if (!o->text) {
		snprintf(o->why, sizeof o->why, "out of memory");
		return;
	}
	memcpy(o->text, last, len);
	o->text[len] = '\0';
	o->len = len;
}

int brain_ask_once(const struct brain_filter *f, const char *rounds, size_t bytes, char **text,
		   size_t *len, struct error *err)
{
	struct once o = {0};
	struct child *child;
	struct event_base *base = event_base_new();
	const struct child_options options = {.argv = (char *const *)(size_t)f->argv,
					      .called = "brain",
					      .input = rounds,
					      .input_bytes = bytes,
					      .seconds = deadline_seconds(DEADLINE_SOLUTION),
					      .output_bytes_max = BRAIN_OUTPUT_BYTES_MAX,
					      .done = on_end,
					      .arg = &o};
	if (!base)
		return error_set(err, ERROR_OS, f->path, "out of memory");
	int result = child_start(&child, base, &options, err);
	if (result == 0)
		event_base_dispatch(base); /* until it has ended: nothing else happens there */
	event_base_free(base);
	if (result == 0 && !o.text)
		result = error_set(err, ERROR_CONFIG, f->path, "%s", o.why);
	*text = o.text;
	*len = o.len;
	return result;
}
