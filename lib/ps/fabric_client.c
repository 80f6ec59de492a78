/* See fabric_client.h. An answer belongs to the round for which it was asked. */
#include "ps/fabric_client.h"

#include "base/log.h"
#include "wire/peer.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes for the rows of one sum, for each direction. Only pages that are used take memory. If files
 * may not be so long, it is less. */
#define ROWS_BYTES ((size_t)1 << 32)
#define ROWS_BYTES_MIN ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define LINE_MAX_BYTES 512

struct memory {
	int fd; /* -1: none */
	char *base;
	size_t bytes;
};

struct fabric_client {
	struct ps_replica *replica;
	struct peer *peer;
	struct memory now; /* of the present connection */
	struct memory old; /* of an earlier connection: the replica's sum may still be there */
	size_t rows_at, out_at, rows_bytes;
	int mapped;    /* fabricd has mapped `now` */
	uint64_t sent; /* the last round that was opened there, */
	uint64_t open; /* and the last one that it has opened */
	int busy;      /* it may write for the round that was sent */
	struct row_sums *rows;
};

/* One request. */
struct asked {
	struct fabric_client *fabric;
	uint64_t round;
};

/* ---- memory ---- */

static void fabric_client_let_go(struct memory *m)
{
	if (m->base)
		munmap(m->base, m->bytes);
	if (m->fd >= 0)
		close(m->fd);
	*m = (struct memory){.fd = -1};
}

static int try_memory(struct memory *m, size_t bytes)
{
	*m = (struct memory){.fd = memfd_create("paceline-sum", MFD_CLOEXEC | MFD_ALLOW_SEALING),
			     .bytes = bytes};
	if (m->fd < 0)
		return -1;
	if (ftruncate(m->fd, (off_t)bytes) == 0 &&
	    fcntl(m->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
		m->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	if (m->base && m->base != MAP_FAILED)
		return 0;
	m->base = NULL;
	close(m->fd);
	return -1;
}

static int fabric_client_make_memory(struct fabric_client *f, struct error *err)
{
	const struct sum_pair *sums = &f->replica->sums;
	const struct store *s = f->replica->ps->store;
	size_t dense = (store_dense_count(s) * sizeof(float) + PAGE - 1) / PAGE * PAGE;

	if (sums->base) {
		f->now = (struct memory){.fd = fcntl(sums->own_fd, F_DUPFD_CLOEXEC, 0),
					 .bytes = sums->bytes};
		return f->now.fd >= 0 ? 0 : error_errno(err, ERROR_OS, "fabric", "descriptor");
	}
	f->rows_bytes = store_width(s) ? ROWS_BYTES : 0;
	while (try_memory(&f->now, dense + 2 * f->rows_bytes) != 0) {
		if (f->rows_bytes < 2 * ROWS_BYTES_MIN) {
			f->now = (struct memory){.fd = -1};
			return error_errno(err, ERROR_OS, "fabric", "%zu bytes of shared memory",
					   dense);
		}
		f->rows_bytes /= 2;
	}
	f->rows_at = dense;
	f->out_at = dense + f->rows_bytes;
	return 0;
}

/* ---- the connection ---- */

static int is_current(const struct fabric_client *f, uint64_t round)
{
	const struct round *rd = &f->replica->round;

	return rd->number == round && !rd->alone &&
	       (rd->state == ROUND_ADDING || rd->state == ROUND_ABROAD);
}

/* Tells the lead why a sum failed: with fabricd's code, or "fabric". */
static void fabric_client_refused(struct fabric_client *f, uint64_t round, const struct record *r)
{
	const char *code = record_get(r, "code");

	if (!is_current(f, round))
		return;
	if (!code || (strcmp(code, "lost") != 0 && strcmp(code, "room") != 0 &&
		      strcmp(code, "differs") != 0))
		code = "fabric";
	round_end(f->replica, code, "fabricd: %s", r->text ? r->text : "refused");
}

static int fabric_client_ask(struct fabric_client *f, uint64_t round, peer_reply_fn *reply,
			     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Sends a request. 0: it is on its way, and reply will be called. */
static int fabric_client_ask(struct fabric_client *f, uint64_t round, peer_reply_fn *reply,
			     const char *fmt, ...)
{
	char line[RECORD_LINE_MAX];
	struct asked *a = reply ? malloc(sizeof *a) : NULL;
	va_list ap;

	if (reply && !a)
		return -1;
	va_start(ap, fmt);
	int len = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	if (a)
		*a = (struct asked){f, round};
	if (len > 0 && (size_t)len < sizeof line &&
	    peer_send(f->peer, line, (size_t)len, NULL, 0, reply, a) == 0)
		return 0;
	free(a);
	return -1;
}

static void fabric_client_on_mapped(const struct record *r, int closing, void *fabric)
{
	struct fabric_client *f = fabric;

	if (!r || !closing)
		return;
	f->mapped = record_is(r, "ok");
	if (!f->mapped)
		log_say(LOG_LEVEL_ERROR, "fabricd does not take shared memory: %s",
			r->text ? r->text : "");
}

void fabric_client_share(struct fabric_client *f)
{
	struct error err = {0};
	char line[64];

	if (!peer_is_up(f->peer) || (f->replica->ps->options.sums && !f->replica->sums.base))
		return;
	if (fabric_client_make_memory(f, &err) != 0) {
		log_say(LOG_LEVEL_ERROR, "%s: %s", err.place, err.text);
		return;
	}
	int len = snprintf(line, sizeof line, "map bytes=%zu\n", f->now.bytes);
	(void)peer_send_with(f->peer, line, (size_t)len, f->now.fd, fabric_client_on_mapped, f);
}

static void fabric_client_on_up(struct peer *peer, const struct record *greeting, void *fabric)
{
	(void)peer;
	(void)greeting;
	fabric_client_share(fabric);
}

static void fabric_client_on_down(struct peer *peer, void *fabric)
{
	struct fabric_client *f = fabric;

	(void)peer;
	if (is_current(f, f->replica->round.number))
		round_end(f->replica, "fabric", "fabricd is gone");
	f->mapped = f->busy = 0;
	f->sent = f->open = 0;
	if (f->replica->total && (char *)f->replica->total == f->now.base) {
		fabric_client_let_go(&f->old);
		f->old = f->now;
	} else
		fabric_client_let_go(&f->now);
	f->now = (struct memory){.fd = -1};
	round_look(f->replica); /* a sum of this host alone waits until nobody else writes */
}

int fabric_client_is_up(const struct fabric_client *f)
{
	return f->mapped;
}

/* ---- a sum ---- */

static void on_opened(const struct record *r, int closing, void *arg)
{
	struct asked *a = arg;
	struct fabric_client *f = a->fabric;

	if (!closing)
		return;
	if (r && record_is(r, "ok")) {
		if (a->round == f->sent)
			f->open = a->round;
		round_look(f->replica);
	} else if (r)
		fabric_client_refused(f, a->round, r);
	free(a);
}

/* Turns "r0,r2" into the hosts of those replicas. -1: one of them is not known. */
static int name_hosts(const struct fabric_client *f, const char *replicas, char *out, size_t max)
{
	const struct ps_options *o = &f->replica->ps->options;
	size_t len = 0;

	for (const char *at = replicas; at; at = strchr(at, ',')) {
		char *end;
		at += *at == ',';
		unsigned long i = *at == 'r' ? strtoul(at + 1, &end, 10) : o->hosts_count;
		if (i >= o->hosts_count || end == at + 1 || (*end && *end != ','))
			return -1;
		int n = snprintf(out + len, max - len, "%s%s", len ? "," : "", o->hosts[i]);
		if (n < 0 || (size_t)n >= max - len)
			return -1;
		len += (size_t)n;
	}
	return 0;
}

float *fabric_client_open(struct fabric_client *f, uint64_t round, uint64_t iteration,
			  const char *replicas, float *place)
{
	size_t offset = place ? (size_t)((char *)place - f->replica->sums.base) : 0;
	char hosts[RECORD_LINE_MAX - LINE_MAX_BYTES];

	if (name_hosts(f, replicas, hosts, sizeof hosts) != 0) {
		round_end(f->replica, "bad-request",
			  "replicas=%.200s: --hosts does not name them all", replicas);
		return NULL;
	}
	if (!f->mapped ||
	    fabric_client_ask(f, round, on_opened,
			      "sum-open round=%llu iteration=%llu hosts=%s dense=%zu "
			      "dense-offset=%zu%s\n",
			      (unsigned long long)round, (unsigned long long)iteration, hosts,
			      store_dense_count(f->replica->ps->store), offset,
			      store_width(f->replica->ps->store) ? "" : " rows=0") != 0) {
		round_end(f->replica, "fabric", "fabricd is not there");
		return NULL;
	}
	f->sent = round;
	f->busy = 1;
	fabric_client_let_go(&f->old);
	return place ? place : (float *)(void *)f->now.base;
}

int fabric_client_is_open(const struct fabric_client *f, uint64_t round)
{
	return f->open == round;
}

int fabric_client_is_busy(const struct fabric_client *f)
{
	return f->busy;
}

static void fabric_client_on_part(const struct record *r, int closing, void *arg)
{
	struct asked *a = arg;

	if (!closing)
		return;
	if (r && record_is(r, "err"))
		fabric_client_refused(a->fabric, a->round, r);
	free(a);
}

void fabric_client_part(struct fabric_client *f, uint64_t round, size_t begin, size_t length)
{
	if (fabric_client_ask(f, round, fabric_client_on_part,
			      "sum-part round=%llu begin=%zu length=%zu\n",
			      (unsigned long long)round, begin, length) == 0)
		peer_flush(f->peer);
}

struct numbered {
	uint32_t key, at;
};

/* Sorts by key; spare is as long as list. There are three passes of 11 bits, so the result is in
 * spare. */
static void sort_keys(struct numbered *list, struct numbered *spare, size_t n)
{
	for (unsigned shift = 0; shift < 33; shift += 11) {
		size_t begin[2049] = {0};
		for (size_t i = 0; i < n; i++)
			begin[(list[i].key >> shift & 2047) + 1]++;
		for (size_t i = 0; i < 2047; i++)
			begin[i + 1] += begin[i];
		for (size_t i = 0; i < n; i++)
			spare[begin[list[i].key >> shift & 2047]++] = list[i];
		struct numbered *swap = list;
		list = spare;
		spare = swap;
	}
}

/* Writes u32 key[rows], ascending, and float value[rows][width]. */
static int fabric_client_write_rows(struct fabric_client *f, const struct row_sums *rows)
{
	size_t width = store_width(f->replica->ps->store), n = rows->count;
	struct numbered *list = malloc((2 * n + 1) * sizeof *list), *sorted = list + n;
	uint32_t *key = (uint32_t *)(void *)(f->now.base + f->rows_at);
	float *value = (float *)(void *)(key + n);

	if (!list)
		return -1;
	for (size_t i = 0; i < n; i++)
		list[i] = (struct numbered){table_key(rows->row[i]), (uint32_t)i};
	sort_keys(list, sorted, n);
	for (size_t i = 0; i < n; i++) {
		key[i] = sorted[i].key;
		memcpy(value + i * width, rows->value + sorted[i].at * width,
		       width * sizeof *value);
	}
	free(list);
	return 0;
}

/* Reads the rows of all hosts, in place of this host's own. */
static int fabric_client_read_rows(struct fabric_client *f, uint64_t rows, struct error *err)
{
	struct store *s = f->replica->ps->store;
	size_t width = store_width(s);
	const uint32_t *key = (const uint32_t *)(const void *)(f->now.base + f->out_at);

	f->rows->count = 0;
	if (rows == 0)
		return 0;
	if (rows > f->rows_bytes / ((1 + width) * sizeof(float)))
		return error_set(err, ERROR_DATA, NULL, "rows=%llu do not fit",
				 (unsigned long long)rows);
	if (row_sums_reserve(s, f->rows, (size_t)rows, err) != 0 ||
	    store_rows(s, key, (size_t)rows, 1, f->rows->row, err) != 0)
		return -1;
	memcpy(f->rows->value, key + rows, rows * width * sizeof(float));
	f->rows->count = (size_t)rows;
	return 0;
}

static void on_summed(const struct record *r, int closing, void *arg)
{
	struct asked *a = arg;
	struct fabric_client *f = a->fabric;
	uint64_t rows = 0, sum = 0;
	struct error err = {0};

	if (!closing)
		return;
	if (r && record_is(r, "err"))
		fabric_client_refused(f, a->round, r);
	else if (r && is_current(f, a->round)) {
		if (record_u64_opt(r, "rows", 0, UINT64_MAX, &rows, &err) != 0 ||
		    record_u64_opt(r, "sum", 0, UINT64_MAX, &sum, &err) != 0 ||
		    (store_width(f->replica->ps->store) &&
		     fabric_client_read_rows(f, rows, &err) != 0))
			round_end(f->replica, "fabric", "%s", err.text);
		else {
			f->busy = 0;
			round_summed(f->replica, sum);
		}
	}
	free(a);
}

void fabric_client_finish(struct fabric_client *f, uint64_t round, int check, struct row_sums *rows)
{
	size_t width = store_width(f->replica->ps->store);
	size_t bytes = (1 + width) * sizeof(float);
	int rc = 0;

	f->rows = rows;
	if (width && rows->count > f->rows_bytes / bytes) {
		round_end(f->replica, "room", "%zu rows are too many", rows->count);
		return;
	}
	if (width && rows->count)
		rc = fabric_client_write_rows(f, rows);
	if (width && rc == 0)
		rc = fabric_client_ask(
			f, round, fabric_client_on_part,
			"sum-rows round=%llu rows=%zu width=%zu offset=%zu out-offset=%zu "
			"out-bytes=%zu\n",
			(unsigned long long)round, rows->count, width, f->rows_at, f->out_at,
			f->rows_bytes);
	if (rc == 0)
		rc = fabric_client_ask(f, round, on_summed, "sum-wait round=%llu%s\n",
				       (unsigned long long)round, check ? " check=1" : "");
	if (rc != 0)
		round_end(f->replica, "fabric", "fabricd does not take more");
	else
		peer_flush(f->peer);
}

static void on_dropped(const struct record *r, int closing, void *arg)
{
	struct asked *a = arg;

	if (!closing)
		return;
	if (r && a->round == a->fabric->sent) {
		a->fabric->busy = 0;
		round_look(a->fabric->replica);
	}
	free(a);
}

void fabric_client_drop(struct fabric_client *f, uint64_t round)
{
	if (f->sent == round)
		(void)fabric_client_ask(f, round, on_dropped, "sum-drop round=%llu\n",
					(unsigned long long)round);
}

/* ---- life ---- */

int fabric_client_new(struct fabric_client **out, struct ps_replica *r, struct error *err)
{
	struct fabric_client *f = calloc(1, sizeof *f);

	if (!f)
		return error_set(err, ERROR_OS, "fabric", "out of memory");
	f->replica = r;
	f->now.fd = f->old.fd = -1;
	*out = f;
	return 0;
}

int fabric_client_start(struct fabric_client *f, struct error *err)
{
	struct ps *p = f->replica->ps;
	struct peer_options options = {.path = p->options.fabric,
				       .up = fabric_client_on_up,
				       .down = fabric_client_on_down,
				       .owner = f};

	f->peer = peer_new(server_base(p->server), &options);
	return f->peer ? 0 : error_set(err, ERROR_OS, p->options.fabric, "out of memory");
}

void fabric_client_stop(struct fabric_client *f)
{
	if (f && f->peer)
		peer_free(f->peer);
	if (f)
		f->peer = NULL;
}

void fabric_client_free(struct fabric_client *f)
{
	if (!f)
		return;
	fabric_client_let_go(&f->now);
	fabric_client_let_go(&f->old);
	free(f);
}
