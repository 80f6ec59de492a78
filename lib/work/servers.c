/*
 * servers: see servers.h.  A connection that goes is opened anew: a server that was handed over to
 * another process has the same incarnation, and is asked again what it did not answer, in the same
 * words.  With a higher incarnation there was a rollback: WORK_RESET.
 *
 * The pull of the next batch is sent right behind a push, which saves a round trip: the servers
 * hold it back until the push is applied.  Where it turns out that it was not for the next batch,
 * or is older than what the push's answer promises, its answer is thrown away, and the pull is sent
 * anew.
 *
 * Must never write to the shared gradients of a push before its answer: until then the server may
 * not have taken its copy.
 */
#include "work/servers.h"

#include "base/clock.h"
#include "base/number.h"
#include "param/map.h"
#include "wire/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_SECONDS 0.05       /* between attempts to connect, and of looks at *stop */
#define BACK_PAUSE_SECONDS 0.005 /* between attempts to connect again */
#define GREETING_SECONDS 2       /* then, maybe, another attempt: *stop is looked at in between */
#define STOP_GRACE_SECONDS 30    /* an unfinished batch is waited for, once *stop is set */
#define STOP_BACK_SECONDS 2      /* and a server that went, to come back */
#define MAP_BYTES_MAX ((size_t)1 << 32)
#define ALIGN 64
#define OPEN_MAX 2 /* a push, and the pull behind it */
#define EARLY_PAUSE 32 /* pushes without one, after one that came too early */

/* A request that is not answered; its payload stays where it lies. */
struct open_request {
	char line[RECORD_LINE_MAX];
	size_t len, bytes;
	const void *payload;
};

struct part {
	struct call *call; /* NULL: not connected */
	char *memory;      /* shared with it; NULL: inline */
	uint64_t dense_begin, dense_count;
	size_t rows_max; /* that fit in the memory */
	size_t keys_at, push_at;
	double asked; /* when the last pull was sent */
	size_t rows;  /* of the batch that was last asked for */
	float *inline_push;
	size_t inline_room;
	struct open_request open[OPEN_MAX]; /* a ring, answered in this order */
	uint32_t open_first, open_count;
};

struct servers {
	struct exchange exchange; /* first */
	struct servers_options options;
	uint64_t generation, incarnation;
	struct map map;
	struct part *part;
	int straight; /* this batch is computed in the shared pages of the only part */
	/* private memory, used when not straight; rooms in floats */
	float *dense, *dense_gradient, *rows, *row_gradient;
	size_t dense_room, dense_gradient_room, rows_room, row_gradient_room;
	int brief; /* who went is not waited for */
	int early; /* a pull was sent behind the push, for this iteration */
	uint64_t early_iteration;
	uint32_t early_pause; /* for so many pushes there is none */
	/* Of this pull: when the last server could answer, and the oldest that one gave. */
	double reached;
	uint64_t as_of;
	struct record record;
};

static struct servers *servers_of(struct exchange *x)
{
	return (struct servers *)(void *)x;
}

static size_t align(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void disconnect(struct servers *s)
{
	for (uint32_t i = 0; i < s->options.count; i++) {
		call_close(s->part[i].call);
		s->part[i].call = NULL;
		s->part[i].memory = NULL;
		s->part[i].open_count = 0;
	}
	s->early = 0;
}

static void servers_free(struct exchange *x)
{
	struct servers *s = servers_of(x);
	disconnect(s);
	for (uint32_t i = 0; i < s->options.count; i++)
		free(s->part[i].inline_push);
	free(s->part);
	free(s->dense);
	free(s->dense_gradient);
	free(s->rows);
	free(s->row_gradient);
	free(s);
}

static const struct map *servers_map(const struct exchange *x)
{
	return &((const struct servers *)(const void *)x)->map;
}

static void servers_disconnect(struct exchange *x)
{
	disconnect(servers_of(x));
}

static int servers_connected(const struct exchange *x)
{
	const struct servers *s = (const struct servers *)(const void *)x;
	for (uint32_t i = 0; i < s->options.count; i++)
		if (!s->part[i].call)
			return 0;
	return 1;
}

static void servers_identify(struct exchange *x, uint64_t generation, uint64_t incarnation)
{
	servers_of(x)->generation = generation;
	servers_of(x)->incarnation = incarnation;
}

/* ---- connecting ---- */

static int stopped(const struct servers *s)
{
	return s->options.stop && *s->options.stop;
}

static int check_greeting(const struct servers *s, uint32_t i, struct error *err)
{
	const struct record *r = call_greeting(s->part[i].call);
	const char *path = s->options.paths[i];
	const char *part = record_get(r, "part");
	uint64_t dense, width;
	char want[48], *end = want;
	end += number_format_u64(i, end);
	*end++ = '/';
	end += number_format_u64(s->options.count, end);
	*end = '\0';
	if (!part || strcmp(part, want) != 0)
		return error_set(err, ERROR_CONFIG, path, "is part %s, not %s", part ? part : "?",
				 want);
	if (record_u64(r, "dense", 0, UINT64_MAX, &dense, err) != 0 ||
	    record_u64(r, "width", 0, UINT32_MAX, &width, err) != 0)
		return error_wrap(err, path);
	if (dense != s->part[i].dense_count || width != s->options.width)
		return error_set(err, ERROR_CONFIG, path,
				 "serves another model: %llu dense parameters and rows of %llu, "
				 "not %llu and %u",
				 (unsigned long long)dense, (unsigned long long)width,
				 (unsigned long long)s->part[i].dense_count, s->options.width);
	return 0;
}

/* Sizes for the most rows a batch can touch here; pages cost nothing until they are used. A server
 * that refuses gets everything inline. */
static void share_memory(struct servers *s, struct part *p)
{
	size_t dense = p->dense_count * sizeof(float), row = s->options.width * sizeof(float);
	size_t each = 2 * row + 2 * sizeof(uint32_t), fixed = 2 * dense + 4 * ALIGN;
	struct error err;
	void *memory;
	if (fixed > MAP_BYTES_MAX - 4096 * each)
		return;
	size_t rows = (MAP_BYTES_MAX - fixed) / each;
	if (rows > s->options.key_count)
		rows = s->options.key_count;
	p->rows_max = rows;
	p->keys_at = align(dense + rows * row);
	p->push_at = p->keys_at + align(rows * sizeof(uint32_t));
	size_t bytes = p->push_at + align(dense + rows * (row + sizeof(uint32_t)));
	if (call_map(p->call, bytes, &memory, &err) == 0)
		p->memory = memory;
}

/* A server that is stopped has a socket, too, and greets nobody. */
static double greeting_seconds(const struct servers *s)
{
	return s->options.answer_seconds < GREETING_SECONDS ? s->options.answer_seconds
							    : GREETING_SECONDS;
}

static int connect_one(struct servers *s, uint32_t i, double deadline, struct error *err)
{
	struct part *p = &s->part[i];
	const char *path = s->options.paths[i];
	while (call_open(&p->call, path, 0, greeting_seconds(s), err) != 0) {
		if (err->code != ERROR_UNAVAILABLE && err->code != ERROR_TEMPFAIL)
			return -1;
		if (clock_mono() >= deadline) {
			err->code = ERROR_UNAVAILABLE;
			return -1;
		}
		if (stopped(s))
			return WORK_STOP;
		clock_sleep(PAUSE_SECONDS);
	}
	call_set_answer(p->call, s->options.answer_seconds);
	if (check_greeting(s, i, err) != 0) {
		call_close(p->call);
		p->call = NULL;
		return -1;
	}
	share_memory(s, p);
	return WORK_OK;
}

static int servers_connect(struct exchange *x, uint64_t *low, uint64_t *high, struct error *err)
{
	struct servers *s = servers_of(x);
	double deadline = clock_mono() + s->options.wait_seconds;
	*low = UINT64_MAX;
	*high = 0;
	for (uint32_t i = 0; i < s->options.count; i++) {
		uint64_t incarnation;
		int result = s->part[i].call ? WORK_OK : connect_one(s, i, deadline, err);
		if (result != WORK_OK)
			return result;
		if (record_u64(call_greeting(s->part[i].call), "incarnation", 0, UINT64_MAX,
			       &incarnation, err) != 0)
			return error_wrap(err, s->options.paths[i]);
		*low = incarnation < *low ? incarnation : *low;
		*high = incarnation > *high ? incarnation : *high;
	}
	return WORK_OK;
}

/* ---- asking ---- */

static void begin(const struct servers *s, struct record_out *o, char *line, const char *type)
{
	record_begin(o, line, RECORD_LINE_MAX, type);
	record_add(o, "worker", s->options.worker);
	record_add_u64(o, "generation", s->generation);
	record_add_u64(o, "incarnation", s->incarnation);
}

/* Part i's connection went: until the same server, or its heir, is there again. WORK_OK, WORK_RESET
 * when another incarnation is, WORK_STOP, or -1. */
static int come_back(struct servers *s, uint32_t i, struct error *err)
{
	struct part *p = &s->part[i];
	double deadline = clock_mono() + (s->brief ? 0 : s->options.wait_seconds), grace = 0;
	uint64_t incarnation;
	call_set_answer(p->call, greeting_seconds(s));
	while (call_reopen(p->call, err) != 0) {
		if (err->code != ERROR_UNAVAILABLE && err->code != ERROR_TEMPFAIL)
			return -1;
		double now = clock_mono();
		if (now >= deadline) {
			err->code = ERROR_UNAVAILABLE;
			return -1;
		}
		if (stopped(s) && grace == 0)
			grace = now + STOP_BACK_SECONDS;
		if (stopped(s) && now >= grace)
			return WORK_STOP;
		clock_sleep(BACK_PAUSE_SECONDS);
	}
	call_set_answer(p->call, s->options.answer_seconds);
	if (check_greeting(s, i, err) != 0 ||
	    record_u64(call_greeting(p->call), "incarnation", 0, UINT64_MAX, &incarnation, err) != 0)
		return -1;
	if (incarnation == s->incarnation)
		return WORK_OK;
	disconnect(s);
	return WORK_RESET;
}

static int send_open(struct part *p, struct error *err)
{
	for (uint32_t n = 0; n < p->open_count; n++) {
		const struct open_request *r = &p->open[(p->open_first + n) % OPEN_MAX];
		if (call_send(p->call, r->line, r->len, r->payload, r->bytes, err) != 0)
			return -1;
	}
	return 0;
}

/* A call to part i that failed: a connection that went is made anew, and what was not answered said
 * again; a silent server is not there. */
static int again(struct servers *s, uint32_t i, struct error *err)
{
	while (err->code == ERROR_UNAVAILABLE) {
		int result = come_back(s, i, err);
		if (result != WORK_OK)
			return result;
		if (send_open(&s->part[i], err) == 0)
			return WORK_OK;
	}
	if (err->code == ERROR_TEMPFAIL)
		err->code = ERROR_UNAVAILABLE;
	return -1;
}

static int refused(struct servers *s, uint32_t i, struct error *err)
{
	const char *code = record_get(&s->record, "code");
	if (code && strcmp(code, "fenced") == 0)
		return WORK_FENCED;
	if (code && strcmp(code, "diverged") == 0) {
		error_set(err, ERROR_DATA, s->options.paths[i], "%s",
			  s->record.text ? s->record.text : code);
		return WORK_DIVERGED;
	}
	/* A server without memory, or that thinks us too slow, may well take it from our next life. */
	int is_passing = code && (strcmp(code, "no-memory") == 0 || strcmp(code, "slow") == 0 ||
				  strcmp(code, "busy") == 0);
	return error_set(err, is_passing ? ERROR_TEMPFAIL : ERROR_SOFTWARE, s->options.paths[i],
			 "err code=%s: %s", code ? code : "",
			 s->record.text ? s->record.text : "");
}

static int ask(struct servers *s, uint32_t i, struct record_out *o, const void *payload,
	       size_t bytes, struct error *err)
{
	size_t len = record_end(o, NULL);
	if (len == 0)
		return error_set(err, ERROR_SOFTWARE, s->options.paths[i],
				 "a request longer than a line");
	struct part *p = &s->part[i];
	struct open_request *r = &p->open[(p->open_first + p->open_count++) % OPEN_MAX];
	memcpy(r->line, o->data, len);
	r->len = len;
	r->payload = payload;
	r->bytes = bytes;
	if (call_send(p->call, o->data, len, payload, bytes, err) != 0)
		return again(s, i, err);
	return WORK_OK;
}

/* Whether an answer is waited for once *stop is set: what is computed shall not be lost. */
enum patience { PATIENT, HASTY };

/* The next record of part i into s->record, looking at *stop meanwhile. *anew (may be NULL): the
 * connection had gone, and what is open was said again. */
static int receive(struct servers *s, uint32_t i, enum patience patience, int *anew,
		   struct error *err)
{
	struct part *p = &s->part[i];
	double deadline = clock_mono() + s->options.answer_seconds, grace = 0;
	while (call_receive_within(p->call, &s->record, PAUSE_SECONDS, err) != 0) {
		if (err->code != ERROR_TEMPFAIL || clock_mono() >= deadline) {
			int result = again(s, i, err);
			if (result != WORK_OK)
				return result;
			if (anew)
				*anew = 1;
			deadline = clock_mono() + s->options.answer_seconds;
			continue;
		}
		if (!stopped(s))
			continue;
		if (grace == 0)
			grace = clock_mono() + (patience == PATIENT ? STOP_GRACE_SECONDS : 0);
		if (clock_mono() >= grace)
			return WORK_STOP;
	}
	if (record_is(&s->record, "ok") || record_is(&s->record, "err")) {
		p->open_first = (p->open_first + 1) % OPEN_MAX;
		p->open_count--;
	}
	return WORK_OK;
}

/* The closing record of part i; actions before it are handed on. */
static int answer(struct servers *s, uint32_t i, enum patience patience, struct error *err)
{
	for (;;) {
		int result = receive(s, i, patience, NULL, err);
		if (result != WORK_OK)
			return result;
		if (record_is(&s->record, "ok"))
			return WORK_OK;
		if (record_is(&s->record, "err"))
			return refused(s, i, err);
		if (record_is(&s->record, "action"))
			s->options.action(&s->record, s->options.owner);
	}
}

static void add_known(struct record_out *o, const char *key, double value)
{
	if (value > 0)
		record_add_brief(o, key, value);
}

/* The pull that was sent early is for nobody: its answers are thrown away. */
static int drop_early(struct servers *s, enum patience patience, struct error *err)
{
	int result = WORK_OK;
	if (!s->early)
		return WORK_OK;
	for (uint32_t i = 0; i < s->options.count && result == WORK_OK; i++)
		result = answer(s, i, patience, err);
	s->early = 0;
	if (result != WORK_OK)
		disconnect(s);
	return result;
}

/* A question about ourselves, to the lead. */
static int ask_lead(struct servers *s, struct record_out *o, enum patience patience,
		    struct error *err)
{
	int result = drop_early(s, patience, err);
	if (result == WORK_OK)
		result = ask(s, 0, o, NULL, 0, err);
	if (result == WORK_OK)
		result = answer(s, 0, patience, err);
	if (result == WORK_STOP)
		disconnect(s); /* which takes the request back */
	return result;
}

static int servers_join(struct exchange *x, const struct exchange_member *member,
			uint64_t *iteration, struct error *err)
{
	struct servers *s = servers_of(x);
	char line[RECORD_LINE_MAX];
	struct record_out o;
	begin(s, &o, line, "join");
	record_add_u64(&o, "size", member->size);
	add_known(&o, "speed", member->speed);
	if (member->most > 0)
		record_add_u64(&o, "max", member->most);
	int result = ask_lead(s, &o, HASTY, err);
	if (result == WORK_OK &&
	    record_u64(&s->record, "iteration", 0, UINT64_MAX, iteration, err) != 0)
		return error_wrap(err, s->options.paths[0]);
	return result;
}

static int servers_leave(struct exchange *x, int brief, struct error *err)
{
	struct servers *s = servers_of(x);
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (!s->part[0].call)
		return WORK_RESET;
	begin(s, &o, line, "leave");
	s->brief = brief;
	int result = ask_lead(s, &o, PATIENT, err);
	s->brief = 0;
	return result;
}

static int servers_end(struct exchange *x, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	begin(servers_of(x), &o, line, "end");
	return ask_lead(servers_of(x), &o, HASTY, err);
}

/* ---- pulling ---- */

static int reserve(float **p, size_t *room, size_t floats, struct error *err)
{
	if (floats <= *room && *p)
		return 0;
	free(*p);
	*room = floats + floats / 4 + 16;
	*p = malloc(*room * sizeof(float));
	if (*p)
		return 0;
	*room = 0;
	return error_set(err, ERROR_OS, "", "out of memory");
}

/* Room for everything when it is not the shared pages'. */
static int reserve_private(struct servers *s, const struct batch *b, struct error *err)
{
	size_t dense = s->options.dense_count, rows = b->unique * s->options.width;
	if (reserve(&s->dense, &s->dense_room, dense, err) != 0 ||
	    reserve(&s->dense_gradient, &s->dense_gradient_room, dense, err) != 0 ||
	    reserve(&s->rows, &s->rows_room, rows, err) != 0)
		return -1;
	return reserve(&s->row_gradient, &s->row_gradient_room, rows, err);
}

static int fits(const struct part *p)
{
	return p->memory && p->rows <= p->rows_max;
}

/* after: the push that it is sent behind; 0: none. */
static int ask_pull(struct servers *s, uint32_t i, uint64_t iteration, uint64_t after,
		    const struct batch *b, struct error *err)
{
	struct part *p = &s->part[i];
	const uint32_t *keys = b->key + b->part_begin[i];
	size_t bytes = p->rows * sizeof(uint32_t), sent = bytes;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	begin(s, &o, line, "pull");
	record_add_u64(&o, "iteration", iteration);
	record_add_u64(&o, "dense", p->dense_count > 0);
	record_add_u64(&o, "rows", p->rows);
	record_add_real(&o, "asked", p->asked = clock_mono());
	if (after > 0)
		record_add_u64(&o, "after", after);
	if (fits(p)) {
		record_add_u64(&o, "into-offset-bytes", 0);
		record_add_u64(&o, "into-bytes", p->keys_at);
		if (bytes > 0) {
			memcpy(p->memory + p->keys_at, keys, bytes);
			record_add_u64(&o, "map-offset-bytes", p->keys_at);
			record_add_u64(&o, "map-bytes", bytes);
		}
		sent = 0;
	} else if (bytes > 0) {
		record_add_u64(&o, "bytes", bytes);
	}
	return ask(s, i, &o, keys, sent, err);
}

/* The `model` record and its payload, to where the model wants it. */
static int take_model(struct servers *s, uint32_t i, const struct batch *b, struct error *err)
{
	struct part *p = &s->part[i];
	size_t dense = p->dense_count * sizeof(float);
	size_t rows = p->rows * s->options.width * sizeof(float);
	size_t first = b->part_begin[i] * s->options.width;
	uint64_t bytes = 0, iteration = 0;
	double waited = 0;
	if (record_real_opt(&s->record, "waited", 0, 1e9, &waited, err) != 0 ||
	    record_u64_opt(&s->record, "iteration", 0, UINT64_MAX, &iteration, err) != 0)
		return -1;
	s->reached = fmax(s->reached, p->asked + waited);
	s->as_of = iteration < s->as_of ? iteration : s->as_of;
	if (record_get(&s->record, "map-bytes")) {
		if (record_u64(&s->record, "map-bytes", dense + rows, dense + rows, &bytes, err) <
		    0)
			return -1;
		if (!fits(p))
			return error_set(err, ERROR_DATA, "", "an answer in memory not offered");
		if (s->straight)
			return 0;
		memcpy(s->dense + p->dense_begin, p->memory, dense);
		memcpy(s->rows + first, p->memory + dense, rows);
		return 0;
	}
	if (record_u64(&s->record, "bytes", dense + rows, dense + rows, &bytes, err) != 0)
		return -1;
	float *to = s->straight ? (float *)(void *)p->memory : s->dense + p->dense_begin;
	float *rows_to = s->straight ? to + p->dense_count : s->rows + first;
	if (call_bytes(p->call, to, dense, err) != 0)
		return -1;
	return call_bytes(p->call, rows_to, rows, err);
}

static int answer_pull(struct servers *s, uint32_t i, const struct batch *b, struct error *err)
{
	int got = 0;
	for (;;) {
		int anew = 0, result = receive(s, i, HASTY, &anew, err);
		if (result != WORK_OK)
			return result;
		if (anew)
			got = 0;
		if (record_is(&s->record, "err"))
			return refused(s, i, err);
		if (record_is(&s->record, "ok") && !got)
			return error_set(err, ERROR_DATA, s->options.paths[i],
					 "an answer to pull without parameters");
		if (record_is(&s->record, "ok"))
			return WORK_OK;
		if (!record_is(&s->record, "model"))
			continue;
		if (take_model(s, i, b, err) == 0) {
			got = 1;
			continue;
		}
		if (err->code == ERROR_DATA)
			return error_wrap(err, s->options.paths[i]);
		result = again(s, i, err);
		if (result != WORK_OK)
			return result;
		got = 0;
	}
}

/* Where the model finds parameters and puts gradients, which are zeroed. */
static void lay_out(struct servers *s, const struct batch *b, struct exchange_values *v)
{
	size_t dense = s->options.dense_count, rows = b->unique * s->options.width;
	if (s->straight) {
		float *memory = (float *)(void *)s->part[0].memory;
		float *push = (float *)(void *)(s->part[0].memory + s->part[0].push_at);
		*v = (struct exchange_values){memory, memory + dense, push,
					      push + dense + b->unique, 0};
	} else {
		*v = (struct exchange_values){s->dense, s->rows, s->dense_gradient,
					      s->row_gradient, 0};
	}
	memset(v->dense_gradient, 0, dense * sizeof(float));
	memset(v->row_gradient, 0, rows * sizeof(float));
}

static void count_rows(struct servers *s, const struct batch *b)
{
	for (uint32_t i = 0; i < s->options.count; i++)
		s->part[i].rows = b->part_begin[i + 1] - b->part_begin[i];
	s->straight = s->options.count == 1 && fits(&s->part[0]);
}

static int ask_pulls(struct servers *s, uint64_t iteration, uint64_t after, const struct batch *b,
		     struct error *err)
{
	int result = WORK_OK;
	count_rows(s, b);
	for (uint32_t i = 0; i < s->options.count && result == WORK_OK; i++)
		result = ask_pull(s, i, iteration, after, b, err);
	return result;
}

static int take_answers(struct servers *s, const struct batch *b, struct error *err)
{
	int result = WORK_OK;
	s->reached = 0;
	s->as_of = UINT64_MAX;
	if (!s->straight && reserve_private(s, b, err) != 0)
		return -1;
	for (uint32_t i = 0; i < s->options.count && result == WORK_OK; i++)
		result = answer_pull(s, i, b, err);
	return result;
}

/* Whether the early pull was for this batch: its keys lie in the shared pages. */
static int early_is_for(const struct servers *s, const struct batch *b)
{
	int same = s->early;
	for (uint32_t i = 0; i < s->options.count && same; i++) {
		const struct part *p = &s->part[i];
		size_t rows = b->part_begin[i + 1] - b->part_begin[i];
		same = p->rows == rows && memcmp(p->memory + p->keys_at, b->key + b->part_begin[i],
						 rows * sizeof(uint32_t)) == 0;
	}
	return same;
}

static int servers_pull(struct exchange *x, uint64_t iteration, const struct batch *b,
			struct exchange_values *values, struct error *err)
{
	struct servers *s = servers_of(x);
	double began = clock_mono();
	int here = 0, result = WORK_OK;
	if (early_is_for(s, b)) {
		s->early = 0;
		result = take_answers(s, b, err);
		here = s->as_of >= iteration;
		/* As under SSP, where a push is answered when slower workers have caught up. */
		s->early_pause = here ? 0 : EARLY_PAUSE;
	} else {
		result = drop_early(s, HASTY, err);
	}
	if (result == WORK_OK && !here) {
		result = ask_pulls(s, iteration, 0, b, err);
		if (result == WORK_OK)
			result = take_answers(s, b, err);
	}
	if (result == WORK_OK) {
		lay_out(s, b, values);
		values->waited = s->reached > began ? s->reached - began : 0;
	} else if (result == WORK_FENCED || result == WORK_STOP) {
		disconnect(s); /* answers of the other parts may still come */
	}
	return result;
}

/* ---- pushing ---- */

static void add_ranges(struct record_out *o, const struct batch *b)
{
	char text[RECORD_LINE_MAX], *end = text;
	for (size_t i = 0; i < b->range_count; i++) {
		if (i > 0)
			*end++ = ',';
		end += number_format_u64(b->range[i].id, end);
		*end++ = ':';
		end += number_format_u64(b->range[i].begin, end);
		*end++ = ':';
		end += number_format_u64(b->range[i].length, end);
	}
	*end = '\0';
	record_add(o, "ranges", text);
}

/* The payload of a part: its dense gradient, its keys, its rows' gradients. In the shared pages,
 * or, where they do not hold it, in memory of its own. */
static char *gather_push(struct servers *s, uint32_t i, const struct batch *b, size_t *bytes,
			 struct error *err)
{
	struct part *p = &s->part[i];
	size_t dense = p->dense_count * sizeof(float), keys = p->rows * sizeof(uint32_t);
	size_t rows = p->rows * s->options.width * sizeof(float);
	size_t first = b->part_begin[i];
	char *to = p->memory + p->push_at;
	*bytes = dense + keys + rows;
	if (!fits(p)) {
		if (reserve(&p->inline_push, &p->inline_room, *bytes / sizeof(float), err) != 0)
			return NULL;
		to = (char *)p->inline_push;
	}
	if (!s->straight) {
		memcpy(to, s->dense_gradient + p->dense_begin, dense);
		memcpy(to + dense + keys, s->row_gradient + first * s->options.width, rows);
	}
	memcpy(to + dense, b->key + first, keys);
	return to;
}

static int ask_push(struct servers *s, uint32_t i, const struct exchange_push *push,
		    const struct batch *b, struct error *err)
{
	struct part *p = &s->part[i];
	size_t bytes;
	char *payload = gather_push(s, i, b, &bytes, err), line[RECORD_LINE_MAX];
	struct record_out o;
	if (!payload)
		return -1;
	begin(s, &o, line, "push");
	record_add_u64(&o, "sequence", push->sequence);
	record_add_u64(&o, "iteration", push->iteration);
	record_add_u64(&o, "count", b->count);
	record_add_u64(&o, "size", push->size);
	if (b->positions > b->count) /* rows that can't be read: covered, and not in the gradient */
		record_add_u64(&o, "skipped", b->positions - b->count);
	record_add_u64(&o, "dense", p->dense_count > 0);
	record_add_u64(&o, "rows", p->rows);
	add_ranges(&o, b);
	if (i == 0) {
		record_add_real(&o, "loss", push->loss);
		add_known(&o, "speed", push->speed);
		add_known(&o, "time", push->time);
		add_known(&o, "mem", push->mem);
	}
	if (bytes > 0 && fits(p)) {
		record_add_u64(&o, "map-offset-bytes", p->push_at);
		record_add_u64(&o, "map-bytes", bytes);
		return ask(s, i, &o, NULL, 0, err);
	}
	if (bytes > 0)
		record_add_u64(&o, "bytes", bytes);
	return ask(s, i, &o, payload, bytes, err);
}

/* A push without samples may be in no unit, and what waits for the next one would wait long. Keys
 * that do not lie in shared pages could not be looked at again. */
static int ask_early(struct servers *s, const struct exchange_push *push, const struct batch *b,
		     struct error *err)
{
	int fit = 1;
	if (s->early_pause > 0) {
		s->early_pause--;
		return WORK_OK;
	}
	count_rows(s, b);
	for (uint32_t i = 0; i < s->options.count; i++)
		fit = fit && fits(&s->part[i]);
	if (!fit)
		return WORK_OK;
	s->early = 1;
	s->early_iteration = push->iteration + 1;
	return ask_pulls(s, s->early_iteration, push->sequence, b, err);
}

/* Stages at the others, then tells the lead. */
static int servers_push(struct exchange *x, const struct exchange_push *push,
			const struct batch *b, const struct batch *next, struct error *err)
{
	struct servers *s = servers_of(x);
	int result = WORK_OK;
	for (uint32_t i = 1; i < s->options.count && result == WORK_OK; i++)
		result = ask_push(s, i, push, b, err);
	for (uint32_t i = 1; i < s->options.count && result == WORK_OK; i++)
		result = answer(s, i, PATIENT, err);
	if (result == WORK_OK)
		result = ask_push(s, 0, push, b, err);
	if (result == WORK_OK && next && b->count > 0)
		result = ask_early(s, push, next, err);
	if (result == WORK_FENCED || result == WORK_STOP || (result != WORK_OK && s->early))
		disconnect(s);
	return result;
}

static int servers_wait(struct exchange *x, uint64_t *iteration, struct error *err)
{
	struct servers *s = servers_of(x);
	int result = answer(s, 0, PATIENT, err);
	if (result == WORK_OK &&
	    record_u64(&s->record, "iteration", 0, UINT64_MAX, iteration, err) != 0)
		result = error_wrap(err, s->options.paths[0]);
	/* No server can say when it would answer what was sent early. */
	if (result == WORK_OK && s->early && *iteration < s->early_iteration)
		result = WORK_RESET;
	if (result != WORK_OK && (s->early || result == WORK_STOP))
		disconnect(s);
	return result;
}

static const struct exchange_kind servers_kind = {
	.free = servers_free,
	.map = servers_map,
	.connect = servers_connect,
	.disconnect = servers_disconnect,
	.connected = servers_connected,
	.identify = servers_identify,
	.join = servers_join,
	.leave = servers_leave,
	.end = servers_end,
	.pull = servers_pull,
	.push = servers_push,
	.wait = servers_wait,
};

int servers_new(struct exchange **out, const struct servers_options *options, struct error *err)
{
	struct servers *s = calloc(1, sizeof(*s));
	if (s)
		s->part = calloc(options->count, sizeof(*s->part));
	if (!s || !s->part) {
		free(s);
		return error_set(err, ERROR_OS, "", "out of memory");
	}
	s->exchange.kind = &servers_kind;
	s->options = *options;
	map_even(&s->map, options->count, options->dense_count);
	for (uint32_t i = 0; i < options->count; i++) {
		s->part[i].dense_begin = s->map.dense_begin[i];
		s->part[i].dense_count = s->map.dense_begin[i + 1] - s->map.dense_begin[i];
	}
	*out = &s->exchange;
	return 0;
}
