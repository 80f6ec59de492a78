/*
 * verbs: the table of what a server can be asked.  Lookup, arity, `help` and `counters` all come
 * from the owner's rows, so they cannot disagree.
 */
#include "wire/server_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void answer_help(struct request *rq, void *server)
{
	struct server *s = server;
	for (size_t i = 0; i < s->verbs.count; i++) {
		const struct verb *v = s->verbs.entry[i].verb;
		struct record_out *o = RECORD(
			"verb", F("name", v->name), F("required", v->required ? v->required : ""),
			F("optional", v->optional ? v->optional : ""),
			s->verbs.entry[i].one_way ? F("one-way", 1) : F_NONE,
			v->payload_bytes_max ? F("payload-bytes-max", v->payload_bytes_max)
					     : F_NONE);
		request_put(rq, o->data, record_end(o, v->help));
	}
	request_ok(rq, NULL);
}

static void answer_counters(struct request *rq, void *server)
{
	struct server *s = server;
	for (size_t i = 0; i < s->verbs.count; i++) {
		const struct verb_entry *v = &s->verbs.entry[i];
		request_put_record(rq, RECORD("counter", F("verb", v->verb->name),
					      F("requests", v->requests), F("errors", v->errors)));
	}
	request_ok(rq, NULL);
}

static void answer_map(struct request *rq, void *server)
{
	struct server *s = server;
	struct connection *c = request_connection(rq);
	struct error err;
	uint64_t bytes;
	if (record_u64(&s->record, "bytes", 1, UINT64_MAX, &bytes, &err) != 0) {
		request_bad(rq, &err);
	} else if (c->mapping) {
		request_err(rq, "bad-request", "%zu bytes are mapped already", c->mapping->bytes);
	} else if (mapping_new(&c->mapping, c->passed_fd, bytes, &err) != 0) {
		request_bad(rq, &err);
	} else {
		close(c->passed_fd);
		c->passed_fd = -1;
		request_ok(rq, NULL);
	}
}

static const struct verb builtin[] = {
	{"help", "", "", answer_help, 0, "lists all requests"},
	{"counters", "", "", answer_counters, 0, "requests and errors of each verb"},
	{"map", "bytes", "", answer_map, 0,
	 "takes the descriptor sent with it as shared memory for payloads"},
};
#define BUILTIN_COUNT (sizeof builtin / sizeof *builtin)

int verbs_is_map(const struct verb_entry *v)
{
	return v->verb->handler == answer_map;
}

/* A table has a few dozen rows: the first letter distinguishes most of them. */
struct verb_entry *verbs_find(struct verb_table *t, const char *name)
{
	for (struct verb_entry *v = t->entry; v < t->entry + t->count; v++)
		if (v->verb->name[0] == name[0] && strcmp(v->verb->name, name) == 0)
			return v;
	return NULL;
}

/* Splits at blanks; one block has the pointers and the words. */
static int split_words(const char *text, char ***words, size_t *count)
{
	size_t len = text ? strlen(text) : 0, n = 0;
	char **list = malloc((len / 2 + 1) * sizeof *list + len + 1);
	if (!list)
		return -1;
	char *copy = (char *)(list + len / 2 + 1), *rest;
	memcpy(copy, text ? text : "", len + 1);
	for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		list[n++] = word;
	*words = list;
	*count = n;
	return 0;
}

static int mark_one_way(struct verb_table *t, const char *names, struct error *err)
{
	char **name;
	size_t count;
	int result = 0;
	if (split_words(names, &name, &count) != 0)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < count && result == 0; i++) {
		struct verb_entry *v = verbs_find(t, name[i]);
		if (v)
			v->one_way = t->any_one_way = 1;
		else
			result = error_set(err, ERROR_SOFTWARE, NULL, "one-way: no verb '%s'",
					   name[i]);
	}
	free(name);
	return result;
}

/* The i-th of all verbs that a server answers: its owner's, then `more`, then the built-in ones. */
static void verbs_pick(struct verb_entry *v, size_t i, struct server *s,
		       const struct server_options *o)
{
	if (i < o->verb_count) {
		v->verb = &o->verbs[i];
		v->owner = o->owner;
	} else if (i < o->verb_count + o->more_count) {
		v->verb = &o->more_verbs[i - o->verb_count];
		v->owner = o->more_owner;
	} else {
		v->verb = &builtin[i - o->verb_count - o->more_count];
		v->owner = s;
	}
}

int verbs_new(struct verb_table *t, struct server *s, const struct server_options *options,
	      struct error *err)
{
	size_t count = options->verb_count + options->more_count;
	*t = (struct verb_table){0};
	t->entry = calloc(count + BUILTIN_COUNT, sizeof *t->entry);
	if (!t->entry)
		return error_set(err, ERROR_OS, NULL, "out of memory");
	for (size_t i = 0; i < count + BUILTIN_COUNT; i++) {
		struct verb_entry *v = &t->entry[i];
		verbs_pick(v, i, s, options);
		if (verbs_find(t, v->verb->name))
			return error_set(err, ERROR_SOFTWARE, NULL, "verb %s appears twice",
					 v->verb->name);
		if (split_words(v->verb->required, &v->required, &v->required_count) != 0)
			return error_set(err, ERROR_OS, NULL, "out of memory");
		t->count++;
	}
	return mark_one_way(t, options->one_way, err);
}

void verbs_free(struct verb_table *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->entry[i].required);
	free(t->entry);
	*t = (struct verb_table){0};
}

const char *verbs_missing(const struct verb_entry *v, const struct record *r)
{
	for (size_t i = 0; i < v->required_count; i++)
		if (!record_get(r, v->required[i]))
			return v->required[i];
	return NULL;
}
