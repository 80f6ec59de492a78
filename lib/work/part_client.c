/*
 * part_client: see part_client.h.
 *
 * The shared memory holds, in this order: parameters (dense, rows), the keys that are pulled, and a
 * push (dense, keys, rows), or two that take turns.  It must never write to a push before its
 * answer: until then a server may not have copied it, and a replica may be reading it.
 */
#include "work/part_client.h"

#include "base/boot.h"
#include "base/clock.h"
#include "work/kept.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAP_ROWS_BYTES ((size_t)1 << 32)
#define ALIGN 64
/* Final gradients are announced in pieces of at least so many floats: for a small model, a message
 * for each tensor would cost more than it saves. */
#define FINAL_FLOATS_MIN ((size_t)65536)

static size_t align(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- connecting ---- */

/* Sizes for the whole dense part, and for the most rows that a batch can touch here; pages cost
 * nothing until they are used. If a server refuses, everything goes inline. */
static void part_client_share(struct part_client *p, uint64_t floats)
{
	size_t dense = floats * sizeof(float), row = p->width * sizeof(float);
	size_t pull = p->only_sums ? 0 : dense;
	size_t pushes = p->two_pushes ? 2 : 1, each = (1 + pushes) * (row + sizeof(uint32_t));
	struct error err;
	void *memory;
	size_t rows = MAP_ROWS_BYTES / each;
	if (rows > p->key_count)
		rows = p->key_count;
	p->rows_max = rows;
	p->dense_max = floats;
	p->keys_at = align(pull + rows * row);
	p->push_at = p->keys_at + align(rows * sizeof(uint32_t));
	size_t push = align(dense + rows * (row + sizeof(uint32_t)));
	size_t bytes = p->push_at + pushes * push;
	p->other_at = bytes - push; /* with one push: the same */
	if (call_map(p->talk.call, bytes, &memory, &err) == 0)
		p->memory = memory;
}

/* The memory lasts as long as the connection, and a part may grow. */
static void part_client_share_memory(struct part_client *p)
{
	if (p->memory) /* the part that is there now has it already */
		return;
	if (p->dense_most > p->dense_count)
		part_client_share(p, p->dense_most);
	if (!p->memory)
		part_client_share(p, p->dense_count);
}

/* fd: the memory that the server passed, of `bytes`, as it said. Without the seal the server could
 * shrink it under us, and we would die by SIGBUS. */
static void part_client_look_at(struct part_client *p, int fd, uint64_t bytes)
{
	size_t want = p->dense_count * sizeof(float);
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) != 0 || bytes < want ||
	    (uint64_t)st.st_size < want)
		return;
	void *memory = mmap(NULL, want, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return;
	p->looked = memory;
	p->looked_bytes = want;
}

/* If the server refuses to share its parameters, pull them. */
static int part_client_look(struct part_client *p, struct error *err)
{
	static const char line[] = "look\n";
	struct record *r = &p->talk.record;
	uint64_t bytes = 0;
	struct error ignored;
	int result = call_request(p->talk.call, line, sizeof(line) - 1, r, NULL, NULL, err);
	if (result < 0)
		return -1;
	int fd = call_passed(p->talk.call);
	if (fd < 0)
		return 0;
	if (result == CALL_OK && record_u64(r, "map-bytes", 1, SIZE_MAX, &bytes, &ignored) == 0)
		part_client_look_at(p, fd, bytes);
	close(fd);
	return 0;
}

/* Whether its monotonic clock is ours. */
static int shares_clock(const struct record *greeting)
{
	char ours[BOOT_ID_MAX];
	const char *boot = record_get(greeting, "boot");
	boot_id(ours);
	return boot && ours[0] && strcmp(boot, ours) == 0;
}

int part_client_connect(struct part_client *p, double deadline, struct error *err)
{
	int result = conversation_connect(&p->talk, deadline, err);
	if (result != WORK_OK)
		return result;
	p->same_clock = shares_clock(call_greeting(p->talk.call));
	if (call_greets_with(p->talk.call, "keep"))
		kept_take_over(p->keep_dir, p->talk.options.path);
	part_client_share_memory(p);
	if (!p->looks || p->dense_count == 0 || part_client_look(p, err) == 0)
		return WORK_OK;
	part_client_close(p);
	return err->code == ERROR_UNAVAILABLE ? WORK_RESET : -1;
}

void part_client_close(struct part_client *p)
{
	conversation_close(&p->talk);
	kept_retire(p->keep);
	p->keep = NULL;
	p->memory = NULL;
	if (p->looked)
		munmap((void *)(uintptr_t)p->looked, p->looked_bytes);
	p->looked = NULL;
}

void part_client_free(struct part_client *p)
{
	part_client_close(p);
	if (p->sums.bytes > 0)
		sum_pair_close(&p->sums);
	free(p->inline_push);
}

/* ---- where things lie ---- */

void part_client_take(struct part_client *p, const uint32_t *key, size_t first, size_t rows)
{
	p->key = key;
	p->first = first;
	p->rows = rows;
}

int part_client_fits(const struct part_client *p)
{
	return p->memory && p->rows <= p->rows_max && p->dense_count <= p->dense_max;
}

int part_client_asked_for(const struct part_client *p, const uint32_t *key, size_t rows)
{
	return p->asked_rows == rows && memcmp(p->memory + p->keys_at, key, rows * sizeof(*key)) == 0;
}

/* Dense parameters that an answer brings. */
static size_t pulled(const struct part_client *p)
{
	return p->looked ? 0 : p->dense_count;
}

struct exchange_values part_client_values(const struct part_client *p)
{
	float *memory = (float *)(void *)p->memory;
	float *push = (float *)(void *)(p->memory + p->push_at);
	return (struct exchange_values){.dense = p->looked ? p->looked : memory,
					.rows = memory + pulled(p),
					.dense_gradient = push,
					.row_gradient = push + p->dense_count + p->rows};
}

/* ---- pulling ---- */

int part_client_ask_pull(struct part_client *p, uint64_t iteration, uint64_t after,
			 struct error *err)
{
	size_t bytes = p->rows * sizeof(uint32_t), sent = bytes;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	conversation_begin(&p->talk, &o, line, "pull");
	record_add_u64(&o, "iteration", iteration);
	if (p->map)
		record_add_u64(&o, "map", p->map);
	record_add_u64(&o, "dense", pulled(p) > 0);
	record_add_u64(&o, "rows", p->rows);
	p->asked = clock_mono();
	p->asked_rows = p->rows;
	if (p->same_clock)
		record_add_real(&o, "asked", p->asked);
	if (after > 0)
		record_add_u64(&o, "after", after);
	if (part_client_fits(p)) {
		record_add_u64(&o, "into-offset-bytes", 0);
		record_add_u64(&o, "into-bytes", p->keys_at);
		if (bytes > 0) {
			memcpy(p->memory + p->keys_at, p->key, bytes);
			record_add_u64(&o, "map-offset-bytes", p->keys_at);
			record_add_u64(&o, "map-bytes", bytes);
		}
		sent = 0;
	} else if (bytes > 0) {
		record_add_u64(&o, "bytes", bytes);
	}
	return conversation_ask(&p->talk, &o, p->key, sent, err);
}

/* Reads the `model` record, and its payload to where the model expects it. */
static int part_client_take_model(struct part_client *p, const struct part_place *to,
				  struct part_answer *answer, struct error *err)
{
	const struct record *r = &p->talk.record;
	size_t dense = pulled(p) * sizeof(float), rows = p->rows * p->width * sizeof(float);
	uint64_t bytes = 0;
	double waited = 0;
	if (record_real_opt(r, "waited", 0, 1e9, &waited, err) != 0 ||
	    record_u64_opt(r, "iteration", 0, UINT64_MAX, &answer->iteration, err) != 0)
		return -1;
	answer->reached = p->asked + waited;
	if (record_get(r, "map-bytes")) {
		if (record_u64(r, "map-bytes", dense + rows, dense + rows, &bytes, err) != 0)
			return -1;
		if (!part_client_fits(p))
			return error_set(err, ERROR_DATA, "", "an answer in memory not offered");
		if (!to)
			return 0;
		memcpy(to->dense, p->memory, dense);
		memcpy(to->rows, p->memory + dense, rows);
		return 0;
	}
	if (record_u64(r, "bytes", dense + rows, dense + rows, &bytes, err) != 0)
		return -1;
	if (call_bytes(p->talk.call, to ? (char *)to->dense : p->memory, dense, err) != 0)
		return -1;
	return call_bytes(p->talk.call, to ? (char *)to->rows : p->memory + dense, rows, err);
}

int part_client_answer_pull(struct part_client *p, const struct part_place *to,
			    struct part_answer *answer, struct error *err)
{
	const struct record *r = &p->talk.record;
	*answer = (struct part_answer){0};
	int got = 0;
	for (;;) {
		int anew = 0, result = conversation_receive(&p->talk, HASTY, &anew, err);
		if (result != WORK_OK)
			return result;
		if (anew)
			got = 0;
		if (record_is(r, "err"))
			return conversation_refused(&p->talk, err);
		if (record_is(r, "ok") && !got)
			return error_set(err, ERROR_DATA, p->talk.options.path,
					 "an answer to pull without parameters");
		if (record_is(r, "ok"))
			return WORK_OK;
		if (!record_is(r, "model"))
			continue;
		if (part_client_take_model(p, to, answer, err) == 0) {
			got = 1;
			continue;
		}
		if (err->code == ERROR_DATA)
			return error_wrap(err, p->talk.options.path);
		result = conversation_again(&p->talk, err);
		if (result != WORK_OK)
			return result;
		got = 0;
	}
}

/* ---- pushing ---- */

static char *inline_room(struct part_client *p, size_t bytes, struct error *err)
{
	if (bytes <= p->inline_room && p->inline_push)
		return p->inline_push;
	free(p->inline_push);
	p->inline_room = bytes + bytes / 4 + 64;
	p->inline_push = malloc(p->inline_room);
	if (p->inline_push)
		return p->inline_push;
	p->inline_room = 0;
	error_set(err, ERROR_OS, "", "out of memory");
	return NULL;
}

size_t part_client_push_bytes(const struct part_client *p)
{
	return p->dense_count * sizeof(float) +
	       p->rows * (sizeof(uint32_t) + p->width * sizeof(float));
}

/* Whether the push is kept. Without a thread or memory it is not, and the standby gets it at once.
 */
static int part_client_keep(struct part_client *p, const struct record_out *line, uint64_t sequence,
			    const char *payload, size_t bytes)
{
	const struct kept_options options = {.path = p->talk.options.path,
					     .worker = p->talk.options.worker,
					     .dir = p->keep_dir,
					     .generation = p->talk.generation,
					     .incarnation = p->talk.incarnation};
	struct error ignored;
	if (!p->keep && p->keeps && call_greets_with(p->talk.call, "keep"))
		(void)kept_new(&p->keep, &options, &ignored);
	return p->keeps && p->keep &&
	       kept_add(p->keep, line->data, line->len, sequence, payload, bytes);
}

/* Without keep= the part needs nothing of this push or of those before it. */
void part_client_pushed(struct part_client *p)
{
	uint64_t first = UINT64_MAX;
	struct error ignored;
	if (p->keep &&
	    record_u64_opt(&p->talk.record, "keep", 0, UINT64_MAX, &first, &ignored) == 0)
		kept_until(p->keep, first);
}

void part_client_release(struct part_client *p)
{
	if (p->keep)
		kept_release(p->keep);
}

int part_client_ask_push(struct part_client *p, struct record_out *line, uint64_t sequence,
			 const struct part_gradients *from, struct error *err)
{
	size_t dense = p->dense_count * sizeof(float), keys = p->rows * sizeof(uint32_t);
	size_t rows = p->rows * p->width * sizeof(float), bytes = part_client_push_bytes(p);
	int fits = part_client_fits(p);
	char *to = fits ? p->memory + p->push_at : inline_room(p, bytes, err);
	if (!to)
		return -1;
	if (from) {
		memcpy(to, from->dense, dense);
		memcpy(to + dense + keys, from->rows, rows);
	}
	if (keys > 0)
		memcpy(to + dense, p->key, keys);
	p->final_count = 0;
	if (p->map)
		record_add_u64(line, "map", p->map);
	record_add_u64(line, "dense", p->dense_count > 0);
	record_add_u64(line, "rows", p->rows);
	if (part_client_keep(p, line, sequence, to, bytes))
		record_add_u64(line, "kept", 1);
	if (p->keep && kept_is_full(p->keep, bytes))
		record_add_u64(line, "full", 1);
	if (bytes > 0 && fits) {
		size_t at = p->push_at;
		record_add_u64(line, "map-offset-bytes", at);
		record_add_u64(line, "map-bytes", bytes);
		p->push_at = p->other_at;
		p->other_at = at;
		return conversation_ask(&p->talk, line, NULL, 0, err);
	}
	if (bytes > 0)
		record_add_u64(line, "bytes", bytes);
	return conversation_ask(&p->talk, line, to, bytes, err);
}

void part_client_final(struct part_client *p, uint64_t sequence, uint64_t iteration, size_t begin,
		       size_t count)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	int joins = p->final_count > 0 && begin + count == p->final_begin;
	p->final_begin = begin;
	p->final_count = joins ? p->final_count + count : count;
	if (p->final_count < FINAL_FLOATS_MIN)
		return;
	conversation_begin(&p->talk, &o, line, "part");
	record_add_u64(&o, "sequence", sequence);
	record_add_u64(&o, "iteration", iteration);
	record_add_u64(&o, "begin", p->final_begin);
	record_add_u64(&o, "length", p->final_count);
	record_add_u64(&o, "map-offset-bytes", p->push_at);
	record_add_u64(&o, "map-bytes", p->dense_count * sizeof(float));
	p->final_count = 0;
	(void)conversation_aside(&p->talk, &o);
}

/* ---- a replica that only sums ---- */

int part_client_ask_room(struct part_client *p, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	record_begin(&o, line, sizeof line, "room");
	record_add_u64(&o, "incarnation", p->talk.incarnation);
	record_add_u64(&o, "floats", p->dense_count);
	return conversation_pass(&p->talk, &o, p->sums.bytes > 0 ? p->sums.fd : -1, err);
}

int part_client_take_room(struct part_client *p, struct error *err)
{
	struct sum_pair sums;
	int fd = call_passed(p->talk.call);
	if (fd < 0)
		return error_set(err, ERROR_DATA, p->talk.options.path,
				 "an answer to room without the memory of its sums");
	int result = sum_pair_open(&sums, fd, err);
	close(fd);
	if (result != 0)
		return error_wrap(err, p->talk.options.path);
	if (sums.floats != p->dense_count) {
		sum_pair_close(&sums);
		return error_set(err, ERROR_DATA, p->talk.options.path,
				 "sums of %llu floats, not %llu", (unsigned long long)sums.floats,
				 (unsigned long long)p->dense_count);
	}
	if (p->sums.bytes > 0) {
		/* Who has mapped the old file knows the new one by its number, which is a new one. */
		int other = fcntl(sums.fd, F_DUPFD_CLOEXEC, p->sums.fd + 1);
		if (other >= 0) {
			close(sums.fd);
			sums.fd = other;
		}
		sum_pair_close(&p->sums);
	}
	p->sums = sums;
	return 0;
}

int part_client_gradient_fd(const struct part_client *p)
{
	return call_memory_fd(p->talk.call);
}

int64_t part_client_sum_at(const struct part_client *p, uint64_t iteration, uint64_t round)
{
	int which = p->sums.bytes > 0 ? sum_pair_find(&p->sums, iteration, SUM_PAIR_WHOLE) : -1;
	if (which < 0 || (round > 0 && sum_pair_head(&p->sums, which).round != round))
		return -1;
	return (int64_t)sum_pair_offset(&p->sums, which);
}
