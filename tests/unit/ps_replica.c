/*
 * A replica as its workers have it: gradients that stay in their memory, parts that are final
 * before the push, parameters that are read where they lie; clients that write when they should
 * not, and clients that go; and sums over hosts by a fabricd that a small server stands for.
 * Replica and fabricd are processes of their own, so that their death, or a report of a sanitizer,
 * shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "param/sum_pair.h"
#include "ps/ps.h"
#include "wire/call.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 20.0                 /* seconds; a limit for what hangs, never a measurement */
#define DENSE (3u * 1024 * 1024 + 17) /* three buckets, and a little of a fourth */
#define WIDTH 2
#define OTHERS 100.0f /* what the other host adds to each */

static char dir[] = "/tmp/paceline-replica.XXXXXX", path[96], fabric[96];
static const char *own_id = "r0"; /* of the replica that begins */
static pid_t replica, fabricd;
static struct record record;

/* ---- a fabricd of two hosts; the other one's dense sum is OTHERS, and its rows 1 and 8 ---- */

struct stand_in {
	atomic_int refuse; /* sum-wait is answered with this: 1 lost, 2 room, 3 nothing */
	atomic_int slow;   /* sum-drop is not answered until this is 0 */
	atomic_uint opened, parts, floats, rows, waits, dropped; /* waits: that are held back */
	char hosts[64];
};

static struct stand_in *stand;
static uint64_t dense_at, rows_at, out_at, rows_here, round_open;
static struct request *wait_held;

static uint64_t number(struct request *rq, const char *key)
{
	uint64_t n = 0;

	(void)record_u64_opt(request_record(rq), key, 0, UINT64_MAX, &n, NULL);
	return n;
}

static void on_open(struct request *rq, void *owner)
{
	(void)owner;
	snprintf(stand->hosts, sizeof stand->hosts, "%s", record_get(request_record(rq), "hosts"));
	round_open = number(rq, "round");
	dense_at = number(rq, "dense-offset");
	rows_here = out_at = 0; /* no table, if it stays so */
	atomic_store(&stand->floats, 0);
	atomic_fetch_add(&stand->opened, 1);
	request_ok(rq, NULL);
}

static void on_part(struct request *rq, void *owner)
{
	uint64_t begin = number(rq, "begin"), length = number(rq, "length");
	float *dense = request_mapped(rq, dense_at, DENSE * sizeof *dense);

	(void)owner;
	for (uint64_t i = begin; i < begin + length; i++)
		dense[i] += OTHERS;
	atomic_fetch_add(&stand->parts, 1);
	atomic_fetch_add(&stand->floats, (unsigned)length);
	request_ok(rq, NULL);
}

static void on_rows(struct request *rq, void *owner)
{
	(void)owner;
	rows_here = number(rq, "rows");
	rows_at = number(rq, "offset");
	out_at = number(rq, "out-offset");
	atomic_store(&stand->rows, (unsigned)rows_here);
	request_ok(rq, NULL);
}

/* Those of the replica and those of the other host, by key. */
static uint64_t merge(struct request *rq)
{
	const uint32_t theirs[] = {1, 8};
	const uint32_t *key = request_mapped(rq, rows_at, rows_here * 12);
	const float *value = (const float *)(const void *)(key + rows_here);
	uint32_t *out = request_mapped(rq, out_at, (rows_here + 2) * 12), n = 0;
	float merged[64][WIDTH];
	size_t a = 0, b = 0;

	while (a < rows_here || b < 2) {
		int mine = a < rows_here && (b == 2 || key[a] <= theirs[b]);
		int also = b < 2 && (a == rows_here || theirs[b] <= key[a]);
		out[n] = mine ? key[a] : theirs[b];
		for (size_t j = 0; j < WIDTH; j++)
			merged[n][j] =
				(mine ? value[a * WIDTH + j] : 0.0f) + (also ? OTHERS : 0.0f);
		a += (size_t)mine;
		b += (size_t)also;
		n++;
	}
	memcpy(out + n, merged, n * sizeof *merged);
	return n;
}

static void on_wait(struct request *rq, void *owner)
{
	int refuse = atomic_load(&stand->refuse);

	(void)owner;
	if (refuse == 3) {
		wait_held = rq;
		request_defer(rq, NULL, NULL);
		atomic_fetch_add(&stand->waits, 1);
	} else if (refuse)
		request_err(rq, refuse == 1 ? "lost" : "room", "as told");
	else if (atomic_load(&stand->floats) != DENSE)
		request_err(rq, "bad-request", "not all parts were said");
	else
		request_ok(rq, "rows=%llu wire-bytes=1 sum=77", (unsigned long long)(out_at ? merge(rq) : 0));
}

static void on_drop(struct request *rq, void *owner)
{
	(void)owner;
	atomic_fetch_add(&stand->dropped, 1);
	if (wait_held)
		request_err(wait_held, "stale", NULL);
	wait_held = NULL;
	while (atomic_load(&stand->slow))
		usleep(1000);
	request_ok(rq, NULL);
}

static const struct verb fabric_verbs[] = {
	{"sum-open", "round iteration hosts dense dense-offset", "rows", on_open, 0, ""},
	{"sum-part", "round begin length", "", on_part, 0, ""},
	{"sum-rows", "round rows width offset out-offset out-bytes", "", on_rows, 0, ""},
	{"sum-wait", "round", "check", on_wait, 0, ""},
	{"sum-drop", "round", "", on_drop, 0, ""},
};

static int serve_fabric(void)
{
	struct server_options options = {.path = fabric,
					 .role = "fabricd",
					 .verbs = fabric_verbs,
					 .verb_count = sizeof fabric_verbs / sizeof *fabric_verbs};
	struct server *server;
	struct error err;

	if (server_new(&server, &options, &err) != 0 || server_run(server, NULL, 0.0, &err) != 0)
		return err.code;
	server_free(server);
	return 0;
}

/* ---- the replica ---- */

enum { WITH_FABRIC = 1, WITH_SUMS = 2 };

static int serve(struct ps_options *options, struct server_options *served)
{
	struct ps *ps;
	struct server *server;
	struct error err = {0};

	if (ps_new(&ps, options, &err) != 0)
		return err.code;
	served->owner = served->more_owner = ps;
	int rc = server_new(&server, served, &err);
	if (rc == 0)
		rc = ps_start(ps, server, &err);
	if (rc == 0)
		rc = server_run(server, NULL, 0.0, &err);
	ps_stop(ps);
	server_free(server);
	ps_free(ps);
	return rc == 0 ? 0 : err.code;
}

static int serve_replica(int how)
{
	static const char *const hosts[] = {"alpha", "beta"};
	struct layout_table table = {.name = "t", .width = WIDTH, .zero_columns = WIDTH};
	struct layout *layout = malloc(sizeof *layout);
	static struct map map;
	struct opt opt;
	struct store *store;
	struct error err = {0};
	int sums = (how & WITH_SUMS) != 0;

	layout_start(layout, 0);
	if ((!sums && (layout_add_tensor(layout, "a", DENSE, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER,
					 &err) != 0 ||
		       layout_set_table(layout, &table, &err) != 0)) ||
	    opt_by_name(&opt, "sgd", &err) != 0)
		return err.code;
	opt.lr = 1.0f;
	map_even(&map, 1, sums ? 0 : DENSE);
	if (store_new(&store, layout, &map, 0, &opt, &err) != 0)
		return err.code;
	struct ps_options options = {.id = own_id,
				     .socket = path,
				     .parts = 1,
				     .bsp = 1,
				     .store = store,
				     .sums = sums,
				     .replicas = 2,
				     .fabric = how & WITH_FABRIC ? fabric : NULL,
				     .hosts = hosts,
				     .hosts_count = 2};
	struct server_options served = {.path = path,
					.role = "ps-server",
					.verbs = ps_replica_verbs,
					.verb_count = ps_replica_verb_count,
					.more_verbs = sums ? ps_sums_verbs : ps_full_verbs,
					.more_count = sums ? ps_sums_verb_count
							   : ps_full_verb_count};
	int rc = serve(&options, &served);
	store_free(store);
	free(layout);
	return rc;
}

static pid_t begin(int (*what)(int), int arg)
{
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing running */
		int status = what(arg);
		fflush(NULL);
		exit(status);
	}
	return pid;
}

static int serve_fabric_too(int arg)
{
	(void)arg;
	return serve_fabric();
}

static void begin_fabric(void)
{
	fabricd = begin(serve_fabric_too, 0);
}

static void end(pid_t pid)
{
	int status;

	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static struct call *connect_to(const char *to)
{
	struct call *c;
	struct error err;

	if (call_open(&c, to, PATIENCE, PATIENCE, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	return c;
}

/* ---- workers and the lead ---- */

static struct call *lead, *asker; /* answers to the lead may be held back */

struct worker {
	struct call *call;
	char id[8];
	float *dense;
	uint32_t *key;
	float *row;
	size_t bytes;
};

static void say(struct call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct call *c, const char *format, ...)
{
	char line[2048];
	struct error err;
	va_list ap;

	va_start(ap, format);
	int len = vsnprintf(line, sizeof line, format, ap);
	va_end(ap);
	assert_int_equal(call_send(c, line, (size_t)len, NULL, 0, &err), 0);
}

/* The closing record, in `record`. 1: it is ok. */
static int closing(struct call *c)
{
	struct error err = {0};

	do {
		if (call_receive(c, &record, &err) != 0)
			fail_msg("%s: %s", err.place, err.text);
	} while (!record_is(&record, "ok") && !record_is(&record, "err"));
	return record_is(&record, "ok");
}

static void refused(struct call *c, const char *code)
{
	assert_false(closing(c));
	assert_string_equal(record_get(&record, "code"), code);
}

/* Memory for dense gradients, and one row of key 8. */
static struct worker worker(const char *id)
{
	struct worker w = {.call = connect_to(path)};
	struct error err;
	void *memory;

	snprintf(w.id, sizeof w.id, "%s", id);
	w.bytes = (DENSE + 1 + WIDTH) * sizeof(float);
	assert_int_equal(call_map(w.call, (w.bytes + 7) / 8 * 8, &memory, &err), 0);
	w.dense = memory;
	w.key = (uint32_t *)memory + DENSE;
	w.row = w.dense + DENSE + 1;
	*w.key = 8;
	return w;
}

static void fill(struct worker *w, float value)
{
	for (size_t i = 0; i < DENSE; i++)
		w->dense[i] = value;
	w->row[0] = w->row[1] = value;
}

static void push(struct worker *w, unsigned iteration, int rows)
{
	say(w->call,
	    "push worker=%s generation=1 incarnation=0 sequence=%u iteration=%u count=1 dense=1 "
	    "rows=%d "
	    "map-offset-bytes=0 map-bytes=%zu\n",
	    w->id, iteration + 1, iteration, rows, rows ? w->bytes : DENSE * sizeof(float));
	assert_true(closing(w->call));
}

static void part(struct worker *w, unsigned iteration, size_t from, size_t to)
{
	say(w->call,
	    "part worker=%s generation=1 incarnation=0 sequence=%u iteration=%u begin=%zu "
	    "length=%zu "
	    "map-offset-bytes=0 map-bytes=%zu\n",
	    w->id, iteration + 1, iteration, from, to - from, DENSE * sizeof(float));
	assert_true(closing(w->call));
}

/* Of w0 and w1, without waiting. */
static void sum(unsigned round, unsigned iteration, const char *replicas, int check)
{
	const char *members = "member worker=w0 generation=1 replica=r0\n"
			      "member worker=w1 generation=1 replica=r0\n";

	say(lead, "sum incarnation=0 round=%u iteration=%u replicas=%s%s bytes=%zu\n%s", round,
	    iteration, replicas, check ? " check=1" : "", strlen(members), members);
}

static void apply(unsigned round, unsigned iteration, unsigned divisor)
{
	say(lead, "apply incarnation=0 iteration=%u units=1 round=%u divisor=%u samples=%u\n",
	    iteration, round, divisor, divisor);
	assert_true(closing(lead));
}

static uint64_t stat_of(const char *key)
{
	struct error err;
	uint64_t n = 0;

	say(asker, "stat\n");
	assert_int_equal(call_receive(asker, &record, &err), 0);
	(void)record_u64(&record, key, 0, UINT64_MAX, &n, &err);
	assert_int_equal(call_receive(asker, &record, &err), 0);
	return n;
}

static const float *look(struct call *c)
{
	say(c, "look\n");
	assert_true(closing(c));
	int fd = call_passed(c);
	assert_true(fd >= 0);
	assert_true(mmap(NULL, DENSE * 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	const float *seen = mmap(NULL, DENSE * 4, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(seen != MAP_FAILED);
	close(fd);
	return seen;
}

static void assert_all(const float *seen, float value)
{
	for (size_t i = 0; i < DENSE; i++)
		if (!(seen[i] >= value && seen[i] <= value))
			fail_msg("parameter %zu is %g, not %g", i, (double)seen[i], (double)value);
}

static int start(int how)
{
	snprintf(dir, sizeof dir, "/tmp/paceline-replica.XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/r0.sock", dir);
	snprintf(fabric, sizeof fabric, "%s/fabric.sock", dir);
	memset(stand, 0, sizeof *stand);
	if (how & WITH_FABRIC)
		begin_fabric();
	replica = begin(serve_replica, how);
	lead = connect_to(path);
	asker = connect_to(path);
	while (how == WITH_FABRIC && stat_of("fabric") == 0)
		usleep(1000);
	return 0;
}

static void stop(int how)
{
	call_close(lead);
	call_close(asker);
	end(replica);
	if (how & WITH_FABRIC)
		end(fabricd);
	fs_remove_tree(dir, NULL);
}

/* ---- one host ---- */

static void gradients_stay_where_they_are(void **state)
{
	(void)state;
	start(0);
	struct worker a = worker("w0"), b = worker("w1");
	const float *seen = look(a.call);
	assert_all(seen, 0.0f);
	fill(&a, 1.0f);
	fill(&b, 9.0f);
	push(&a, 0, 1);
	/* Until all are there, nothing was read. */
	fill(&a, 2.0f);
	sum(1, 0, "r0", 0);
	push(&b, 0, 1);
	assert_true(closing(lead));
	/* From here on nothing of this matters, but for a round that adds them up again. */
	fill(&a, 7.0f);
	apply(1, 0, 2);
	assert_all(seen, -5.5f);
	fill(&a, 4.0f);
	fill(&b, 4.0f);
	push(&a, 1, 0);
	push(&b, 1, 0);
	sum(2, 1, "r0", 0);
	assert_true(closing(lead));
	/* One of them, alone. The other has gone by now: what it shared is here still. */
	fill(&b, 8.0f);
	call_close(b.call);
	say(lead, "sum incarnation=0 round=3 iteration=1 replicas=r0 bytes=41\n"
		  "member worker=w1 generation=1 replica=r0\n");
	assert_true(closing(lead));
	assert_int_equal(stat_of("round"), 3);
	apply(3, 1, 1);
	assert_all(seen, -13.5f);
	assert_int_equal(stat_of("staged"), 0);
	call_close(a.call);
	stop(0);
}

static void what_is_final_is_added_before_the_push(void **state)
{
	(void)state;
	start(0);
	struct worker a = worker("w0"), b = worker("w1");
	const float *seen = look(b.call);
	fill(&a, 1.0f);
	fill(&b, 1.0f);
	sum(1, 0, "r0", 0);
	push(&a, 0, 0);
	/* From the back to the front, one of them twice, in pieces that are no buckets. */
	part(&b, 0, 2500000, DENSE);
	part(&b, 0, 2500000, DENSE);
	part(&b, 0, 1500000, 2500000);
	part(&b, 0, 0, 0);
	/* Buckets from number 6 on are whole, and were added: what is written there later comes too
	 * late. */
	(void)stat_of("iteration");
	(void)stat_of("iteration");
	for (size_t i = 0; i < DENSE; i++)
		b.dense[i] = 3.0f;
	push(&b, 0, 0);
	assert_true(closing(lead));
	apply(1, 0, 1);
	for (size_t i = 0; i < DENSE; i++) {
		float want = i < 6u << 18 ? -4.0f : -2.0f;
		if (!(seen[i] >= want && seen[i] <= want))
			fail_msg("parameter %zu is %g", i, (double)seen[i]);
	}
	/* What was said can't be taken back, by no push of another kind; and a part behind the push
	 * changes nothing. */
	sum(2, 1, "r0", 0);
	fill(&a, 1.0f);
	fill(&b, 2.0f);
	push(&a, 1, 0);
	part(&b, 1, 0, DENSE);
	(void)stat_of("iteration");
	say(b.call,
	    "push worker=w1 generation=1 incarnation=0 sequence=2 iteration=1 count=0 dense=0 "
	    "rows=0\n");
	refused(b.call, "bad-request");
	say(b.call,
	    "push worker=w1 generation=1 incarnation=0 sequence=3 iteration=1 count=1 dense=1 "
	    "rows=0 map-offset-bytes=0 map-bytes=%zu\n",
	    DENSE * sizeof(float));
	refused(b.call, "bad-request");
	char line[160];
	struct error err;
	int len = snprintf(line, sizeof line,
			   "push worker=w1 generation=1 incarnation=0 sequence=2 iteration=1 "
			   "count=1 dense=1 rows=0 bytes=%zu\n",
			   DENSE * sizeof(float));
	assert_int_equal(
		call_send(b.call, line, (size_t)len, b.dense, DENSE * sizeof(float), &err), 0);
	refused(b.call, "bad-request");
	float before = seen[0];
	push(&b, 1, 0);
	part(&b, 1, 0, DENSE);
	assert_true(closing(lead));
	apply(2, 1, 1);
	assert_float_equal(seen[0], before - 3.0f, 0);
	/* Parts of a worker that is thrown away are not waited for, nor added. */
	part(&b, 2, 0, DENSE);
	say(lead, "throw incarnation=0 worker=w1 generation=1\n");
	assert_true(closing(lead));
	say(b.call,
	    "part worker=w1 generation=1 incarnation=0 sequence=3 iteration=2 begin=0 length=1 "
	    "map-offset-bytes=0 map-bytes=%zu\n",
	    DENSE * sizeof(float));
	refused(b.call, "fenced");
	say(b.call,
	    "part worker=w1 generation=2 incarnation=0 sequence=3 iteration=2 begin=5 length=%u "
	    "map-offset-bytes=0 map-bytes=%zu\n",
	    DENSE, DENSE * sizeof(float));
	refused(b.call, "bad-request");
	say(b.call,
	    "part worker=w1 generation=2 incarnation=0 sequence=3 iteration=2 begin=0 length=1 "
	    "map-offset-bytes=0 map-bytes=64\n");
	refused(b.call, "bad-request");
	call_close(a.call);
	call_close(b.call);
	stop(0);
}

/* The next record says that of w's push, as it was added. */
static void assert_summed(const struct worker *w, unsigned sequence, unsigned count)
{
	struct error err;
	uint64_t number;

	assert_int_equal(call_receive(lead, &record, &err), 0);
	assert_true(record_is(&record, "summed"));
	assert_string_equal(record_get(&record, "worker"), w->id);
	assert_int_equal(record_u64(&record, "generation", 1, 1, &number, &err), 0);
	assert_int_equal(record_u64(&record, "sequence", sequence, sequence, &number, &err), 0);
	assert_int_equal(record_u64(&record, "count", count, count, &number, &err), 0);
}

static void push_as(struct worker *w, unsigned sequence, unsigned count)
{
	say(w->call,
	    "push worker=%s generation=1 incarnation=0 sequence=%u iteration=0 count=%u dense=1 "
	    "rows=0 map-offset-bytes=0 map-bytes=%zu\n",
	    w->id, sequence, count, DENSE * sizeof(float));
}

/* Answered behind the sum. */
static void hold(unsigned round, const char *lines)
{
	say(lead, "hold incarnation=0 round=%u bytes=%zu\n%s", round, strlen(lines), lines);
}

static void one_push_of_a_member_is_added_and_named(void **state)
{
	(void)state;
	start(0);
	struct worker a = worker("w0"), b = worker("w1");
	fill(&a, 1.0f);
	fill(&b, 2.0f);
	sum(1, 0, "r0", 0);
	push_as(&a, 4, 8);
	assert_true(closing(a.call));
	/* Said again it is the same; another one it can't be. */
	push_as(&a, 4, 8);
	assert_true(closing(a.call));
	push_as(&a, 5, 8);
	refused(a.call, "bad-request");
	push_as(&a, 3, 8);
	refused(a.call, "bad-request");
	push_as(&a, 4, 9);
	refused(a.call, "bad-request");
	assert_non_null(strstr(record.text, "sequence 4 of 8 samples is staged"));
	push_as(&b, 9, 2);
	assert_true(closing(b.call));
	assert_summed(&a, 4, 8);
	assert_summed(&b, 9, 2);
	assert_true(closing(lead));
	/* A newer round says it, too, and one that is asked for again. */
	for (int turn = 0; turn < 2; turn++) {
		sum(2, 0, "r0", 0);
		assert_summed(&a, 4, 8);
		assert_summed(&b, 9, 2);
		assert_true(closing(lead));
	}
	call_close(a.call);
	call_close(b.call);
	stop(0);
}

static void who_told_the_lead_alone_is_named(void **state)
{
	struct error err;

	(void)state;
	start(0);
	struct worker a = worker("w0"), b = worker("w1");
	fill(&a, 1.0f);
	sum(1, 0, "r0", 0);
	push_as(&a, 1, 1);
	assert_true(closing(a.call));
	/* What is here is no matter, and strangers are nobody; of another round nothing is said. */
	hold(1, "part worker=w0 generation=1 sequence=1 unit=0 count=1\n"
		"part worker=w1 generation=7 sequence=1 unit=0 count=1\n"
		"part worker=x generation=1 sequence=1 unit=0 count=1\n");
	hold(2, "part worker=w0 generation=1 sequence=2 unit=0 count=1\n");
	hold(1, "part worker=w1 generation=1 sequence=1 unit=0 count=1\n");
	assert_int_equal(call_receive(lead, &record, &err), 0);
	assert_true(record_is(&record, "refused"));
	assert_string_equal(record_get(&record, "worker"), "w1");
	assert_non_null(strstr(record.text, "sequence 1, of 1 samples"));
	assert_true(closing(lead));
	assert_string_equal(record_get(&record, "refused"), "1");
	for (int i = 0; i < 3; i++)
		assert_true(closing(lead));
	/* Another count than the lead was told. */
	say(lead, "sum incarnation=0 round=2 iteration=0 replicas=r0 bytes=82\n"
		  "member worker=w1 generation=1 replica=r0\n"
		  "member worker=w0 generation=1 replica=r0\n");
	hold(2, "part worker=w0 generation=1 sequence=1 unit=0 count=2\n");
	assert_int_equal(call_receive(lead, &record, &err), 0);
	assert_true(record_is(&record, "refused"));
	assert_string_equal(record_get(&record, "worker"), "w0");
	assert_true(closing(lead));
	assert_true(closing(lead));
	/* When it is summed it is too late to ask. */
	say(lead, "sum incarnation=0 round=3 iteration=0 replicas=r0 bytes=41\n"
		  "member worker=w0 generation=1 replica=r0\n");
	assert_summed(&a, 1, 1);
	assert_true(closing(lead));
	hold(3, "part worker=w0 generation=1 sequence=2 unit=0 count=1\n");
	assert_true(closing(lead));
	assert_int_equal(stat_of("round"), 3);
	call_close(a.call);
	call_close(b.call);
	stop(0);
}

static atomic_int over;

static void *scribble(void *arg)
{
	volatile uint32_t *word = arg;

	while (!atomic_load(&over)) {
		word[0] = 0x7fc00000u;
		word[0] = 0x3f800000u;
	}
	return NULL;
}

/* Each time it was added it was 1. */
static void who_writes_meanwhile_spoils_nothing_else(void **state)
{
	pthread_t thread;
	unsigned round = 0, applied = 0;

	(void)state;
	start(0);
	struct worker a = worker("w0"), b = worker("w1");
	const float *seen = look(a.call);
	fill(&a, 1.0f);
	fill(&b, 1.0f);
	atomic_store(&over, 0);
	assert_int_equal(pthread_create(&thread, NULL, scribble, &b.dense[1000]), 0);
	for (int turn = 0; turn < 60; turn++) {
		push(&a, applied, 1);
		push(&b, applied, 1);
		sum(++round, applied, "r0", 0);
		assert_true(closing(lead));
		if (record_get(&record, "diverged"))
			continue;
		apply(round, applied, 2);
		applied++;
	}
	atomic_store(&over, 1);
	pthread_join(thread, NULL);
	assert_all(seen, -(float)applied);
	call_close(a.call);
	call_close(b.call);
	stop(0);
}

/* ---- two hosts ---- */

static void pull_rows(struct worker *w, unsigned iteration, float want[4])
{
	struct error err;
	const uint32_t key[2] = {1, 8};

	char line[160];
	int len = snprintf(
		line, sizeof line,
		"pull worker=%s generation=1 incarnation=0 iteration=%u dense=0 rows=2 bytes=8\n",
		w->id, iteration);
	assert_int_equal(call_send(w->call, line, (size_t)len, key, sizeof key, &err), 0);
	assert_int_equal(call_receive(w->call, &record, &err), 0);
	assert_true(record_is(&record, "model"));
	assert_int_equal(call_bytes(w->call, want, 4 * sizeof *want, &err), 0);
	assert_true(closing(w->call));
}

/* Asked again when its push is gone. */
static void what_cant_be_added_is_named_again(void **state)
{
	struct error err = {0};

	(void)state;
	start(0);
	struct worker a = worker("w0"), b = worker("w1");
	fill(&a, 1.0f);
	fill(&b, 1.0f);
	a.row[0] = NAN;
	push(&a, 0, 1);
	push(&b, 0, 1);
	for (int turn = 0; turn < 2; turn++) {
		sum(1, 0, "r0", 0);
		assert_int_equal(call_receive(lead, &record, &err), 0);
		assert_true(record_is(&record, "diverged"));
		assert_string_equal(record_get(&record, "worker"), "w0");
		assert_non_null(strstr(record.text, "nan"));
		assert_true(closing(lead));
		say(lead, "throw incarnation=0 worker=w0 generation=1\n");
		assert_true(closing(lead));
	}
	call_close(a.call);
	call_close(b.call);
	stop(0);
}

static void sums_of_all_hosts_are_stepped_with(void **state)
{
	float row[4];

	(void)state;
	start(WITH_FABRIC);
	struct worker a = worker("w0"), b = worker("w1");
	const float *seen = look(a.call);
	fill(&a, 1.0f);
	fill(&b, 2.0f);
	push(&a, 0, 1);
	sum(5, 0, "r1,r0", 1);
	push(&b, 0, 1);
	assert_true(closing(lead));
	assert_non_null(record_get(&record, "sum"));
	assert_string_equal(stand->hosts, "beta,alpha");
	assert_int_equal(atomic_load(&stand->rows), 1);
	apply(5, 0, 1);
	assert_all(seen, -103.0f);
	pull_rows(&a, 1, row);
	assert_true(row[0] < -99.0f && row[1] < -99.0f && row[0] > -101.0f);
	assert_float_equal(row[2], -103.0f, 0);
	/* Alone: nobody is asked. */
	unsigned opened = atomic_load(&stand->opened);
	push(&a, 1, 0);
	push(&b, 1, 0);
	sum(6, 1, "r0", 0);
	assert_true(closing(lead));
	apply(6, 1, 1);
	assert_all(seen, -106.0f);
	assert_int_equal(atomic_load(&stand->opened), opened);
	/* A newer one takes the place of one that waits for the other host. */
	atomic_store(&stand->refuse, 3);
	push(&a, 2, 0);
	push(&b, 2, 0);
	sum(7, 2, "r0,r1", 0);
	while (atomic_load(&stand->waits) == 0)
		usleep(1000);
	struct call *other = lead;
	lead = connect_to(path);
	atomic_store(&stand->refuse, 0);
	sum(8, 2, "r0,r1", 0);
	assert_true(closing(lead));
	assert_int_equal(atomic_load(&stand->dropped), 1);
	refused(other, "stale");
	call_close(other);
	apply(8, 2, 1);
	assert_all(seen, -209.0f);
	call_close(a.call);
	call_close(b.call);
	stop(WITH_FABRIC);
}

static void a_fabric_that_goes_costs_a_round(void **state)
{
	(void)state;
	start(WITH_FABRIC);
	struct worker a = worker("w0"), b = worker("w1");
	const float *seen = look(a.call);
	fill(&a, 1.0f);
	fill(&b, 2.0f);
	push(&a, 0, 0);
	push(&b, 0, 0);
	atomic_store(&stand->refuse, 1);
	sum(1, 0, "r0,r1", 0);
	refused(lead, "lost");
	atomic_store(&stand->refuse, 2);
	sum(2, 0, "r0,r1", 0);
	refused(lead, "room");
	assert_int_equal(stat_of("staged"), 2);
	/* It dies while others are waited for. */
	atomic_store(&stand->refuse, 3);
	sum(3, 0, "r0,r1", 0);
	while (atomic_load(&stand->waits) == 0)
		usleep(1000);
	kill(fabricd, SIGKILL);
	assert_int_equal(waitpid(fabricd, NULL, 0), fabricd);
	refused(lead, "fabric");
	sum(4, 0, "r0,r1", 0);
	refused(lead, "fabric");
	atomic_store(&stand->refuse, 0);
	begin_fabric();
	while (stat_of("fabric") == 0)
		usleep(1000);
	sum(5, 0, "r0,r1", 0);
	assert_true(closing(lead));
	/* And with a sum that is held: it is here, whatever becomes of the fabric. */
	kill(fabricd, SIGKILL);
	assert_int_equal(waitpid(fabricd, NULL, 0), fabricd);
	begin_fabric();
	apply(5, 0, 1);
	assert_all(seen, -103.0f);
	push(&a, 1, 0);
	push(&b, 1, 0);
	while (stat_of("fabric") == 0)
		usleep(1000);
	/* Its death may be heard of late. */
	for (unsigned round = 6;; round++) {
		sum(round, 1, "r0,r1", 0);
		if (closing(lead)) {
			apply(round, 1, 1);
			break;
		}
		assert_string_equal(record_get(&record, "code"), "fabric");
		usleep(20000);
	}
	assert_all(seen, -206.0f);
	call_close(a.call);
	call_close(b.call);
	stop(WITH_FABRIC);
}

/* ---- sums only ---- */

static int room_fd; /* that the replica passed last */

/* fd -1: none is handed over. 1: ok, and the memory is mapped. */
static int room(struct call *c, unsigned floats, int fd, struct sum_pair *sums)
{
	char line[80];
	struct error err;
	int len = snprintf(line, sizeof line, "room incarnation=0 floats=%u\n", floats);

	assert_int_equal(call_send_with(c, line, (size_t)len, fd, &err), 0);
	if (!closing(c))
		return 0;
	room_fd = call_passed(c);
	assert_true(room_fd >= 0);
	if (sum_pair_open(sums, room_fd, &err) != 0)
		fail_msg("%s", err.text);
	return 1;
}

static void assert_sum(const struct sum_pair *sums, uint64_t iteration, enum sum_pair_state state,
		       uint64_t round, float value)
{
	int which = sum_pair_find(sums, iteration, state);

	assert_true(which >= 0);
	assert_int_equal(sum_pair_head(sums, which).state, state);
	assert_int_equal(sum_pair_head(sums, which).round, round);
	assert_all(sum_pair_at(sums, which), value);
}

static void push_both(struct worker *a, struct worker *b, unsigned iteration, float value)
{
	fill(a, value);
	fill(b, 1.0f);
	push(a, iteration, 0);
	push(b, iteration, 0);
}

static void sums_are_read_where_they_lie(void **state)
{
	struct sum_pair sums;

	(void)state;
	start(WITH_SUMS);
	struct worker a = worker("w0"), b = worker("w1");
	assert_true(room(a.call, DENSE, -1, &sums));
	size_t bytes = sums.bytes;
	assert_int_equal(sums.floats, DENSE);
	assert_true(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, room_fd, 0) == MAP_FAILED);
	assert_int_equal(sum_pair_find(&sums, 0, SUM_PAIR_WHOLE), -1);
	push_both(&a, &b, 0, 2.0f);
	sum(1, 0, "r0", 1);
	assert_true(closing(lead));
	assert_non_null(record_get(&record, "sum"));
	assert_sum(&sums, 0, SUM_PAIR_WHOLE, 1, 3.0f);
	/* Made again, and then committed. */
	sum(2, 0, "r0", 0);
	assert_true(closing(lead));
	apply(2, 0, 2);
	assert_sum(&sums, 0, SUM_PAIR_COMMITTED, 2, 3.0f);
	assert_int_equal(stat_of("iteration"), 1);
	/* The next one is elsewhere, also as long as only parts of it are here. */
	sum(3, 1, "r0", 0);
	fill(&b, 5.0f);
	push_both(&a, &b, 1, 4.0f);
	assert_true(closing(lead));
	assert_sum(&sums, 1, SUM_PAIR_WHOLE, 3, 5.0f);
	assert_sum(&sums, 0, SUM_PAIR_COMMITTED, 2, 3.0f);
	apply(3, 1, 2);
	push_both(&a, &b, 2, 8.0f);
	sum(4, 2, "r0", 0);
	assert_true(closing(lead));
	assert_sum(&sums, 1, SUM_PAIR_COMMITTED, 3, 5.0f);
	assert_sum(&sums, 2, SUM_PAIR_WHOLE, 4, 9.0f);
	assert_int_equal(sum_pair_find(&sums, 0, SUM_PAIR_WHOLE), -1);
	/* The lead goes on elsewhere: what is here is of no use. */
	sum(5, 9, "r0", 0);
	push_both(&a, &b, 9, 1.0f);
	assert_true(closing(lead));
	assert_sum(&sums, 9, SUM_PAIR_WHOLE, 5, 2.0f);
	assert_int_equal(stat_of("iteration"), 9);
	call_close(a.call);
	call_close(b.call);
	sum_pair_close(&sums);
	close(room_fd);
	stop(WITH_SUMS);
}

static void die(void)
{
	kill(replica, SIGKILL);
	assert_int_equal(waitpid(replica, NULL, 0), replica);
	call_close(lead);
	call_close(asker);
	replica = begin(serve_replica, WITH_SUMS);
	lead = connect_to(path);
	asker = connect_to(path);
}

static void what_a_replica_held_outlives_it(void **state)
{
	struct sum_pair sums, again;

	(void)state;
	start(WITH_SUMS);
	struct worker a = worker("w0"), b = worker("w1");
	assert_true(room(a.call, DENSE, -1, &sums));
	int theirs = room_fd;
	for (unsigned i = 0; i < 3; i++) {
		push_both(&a, &b, i, (float)i);
		sum(i + 10, i, "r0", 0);
		assert_true(closing(lead));
		if (i < 2)
			apply(i + 10, i, 2);
	}
	/* It was settled, and not applied: both are there. */
	for (unsigned turn = 0; turn < 2; turn++) {
		call_close(a.call);
		call_close(b.call);
		die();
		a = worker("w0");
		b = worker("w1");
		assert_sum(&sums, 1, SUM_PAIR_COMMITTED, 11, 2.0f);
		assert_sum(&sums, 2, SUM_PAIR_WHOLE, 12, 3.0f);
		assert_int_equal(stat_of("round"), 0);
		/* The first that comes may have nothing. */
		if (turn == 0) {
			assert_true(room(b.call, DENSE, -1, &again));
			sum_pair_close(&again);
			close(room_fd);
		}
		assert_true(room(a.call, DENSE, theirs, &again));
		assert_int_equal(stat_of("round"), 12);
		assert_int_equal(stat_of("iteration"), 2);
		assert_sum(&again, 2, SUM_PAIR_WHOLE, 12, 3.0f);
		if (turn == 0) {
			sum_pair_close(&again);
			close(room_fd);
		}
	}
	apply(12, 2, 2);
	assert_sum(&again, 2, SUM_PAIR_COMMITTED, 12, 3.0f);
	sum_pair_close(&sums);
	close(theirs);
	theirs = room_fd;
	sums = again;
	/* It was applied. A lead that has not heard of it may name lower rounds. */
	call_close(a.call);
	call_close(b.call);
	die();
	a = worker("w0");
	b = worker("w1");
	assert_true(room(b.call, DENSE, theirs, &again));
	assert_int_equal(stat_of("iteration"), 3);
	assert_sum(&again, 2, SUM_PAIR_COMMITTED, 12, 3.0f);
	push_both(&a, &b, 3, 4.0f);
	sum(5, 3, "r0", 0);
	assert_true(closing(lead));
	assert_sum(&again, 3, SUM_PAIR_WHOLE, 5, 5.0f);
	/* What another one brings late is not taken for it. */
	close(room_fd);
	sum_pair_close(&again);
	assert_true(room(a.call, DENSE, theirs, &again));
	assert_sum(&again, 3, SUM_PAIR_WHOLE, 5, 5.0f);
	apply(5, 3, 2);
	assert_sum(&again, 2, SUM_PAIR_COMMITTED, 12, 3.0f);
	call_close(a.call);
	call_close(b.call);
	close(theirs);
	close(room_fd);
	sum_pair_close(&sums);
	sum_pair_close(&again);
	stop(WITH_SUMS);
}

/* As when it was handed over after the lead had asked where this replica is. */
static void a_sum_stays_though_its_apply_does_not_come(void **state)
{
	struct sum_pair sums;

	(void)state;
	start(WITH_SUMS);
	struct worker a = worker("w0"), b = worker("w1");
	assert_true(room(a.call, DENSE, -1, &sums));
	for (unsigned i = 0; i < 4; i++) {
		push_both(&a, &b, i, (float)i);
		sum(i + 1, i, "r0", 0);
		assert_true(closing(lead));
		assert_sum(&sums, i, SUM_PAIR_WHOLE, i + 1, (float)i + 1.0f);
		if (i > 0)
			assert_sum(&sums, i - 1, SUM_PAIR_COMMITTED, i, (float)i);
	}
	call_close(a.call);
	call_close(b.call);
	sum_pair_close(&sums);
	close(room_fd);
	stop(WITH_SUMS);
}

/* A sealed file of memory with so many bytes of text. */
static int memory_of(const void *text, size_t bytes, size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	assert_int_equal(pwrite(fd, text, bytes, 0), bytes);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void what_is_no_memory_of_sums_is_not_taken(void **state)
{
	struct sum_pair sums, mine;
	struct error err;

	(void)state;
	start(WITH_SUMS);
	struct call *c = connect_to(path);
	int pipes[2], file = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(pipe(pipes), 0);
	int some[] = {file, pipes[0], memory_of("x", 1, 1, F_SEAL_SHRINK),
		      memory_of("x", 1, 1 << 20, F_SEAL_SHRINK), memory_of("x", 1, 1 << 20, 0)};
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		assert_false(room(c, DENSE, some[i], &sums));
		assert_string_equal(record_get(&record, "code"), "bad-request");
		close(some[i]);
	}
	close(pipes[1]);
	assert_int_equal(stat_of("dense"), 0); /* nothing has happened */
	/* Of another length; of another life of the job, which is no mistake. */
	assert_int_equal(sum_pair_make(&mine, 100, 0, &err), 0);
	assert_false(room(c, DENSE, mine.fd, &sums));
	sum_pair_close(&mine);
	for (unsigned i = 0; i < 3; i++) {
		static const struct sum_pair_head head[3] = {{SUM_PAIR_COMMITTED, 7, 7},
							     {9, 1, 1},
							     {SUM_PAIR_WHOLE, UINT64_MAX, 1}};
		assert_int_equal(sum_pair_make(&mine, DENSE, i == 0, &err), 0);
		sum_pair_set(&mine, 1, &head[i]);
		assert_true(room(c, DENSE, mine.fd, &sums));
		assert_int_equal(stat_of("iteration"), 0);
		assert_int_equal(stat_of("round"), 0);
		close(room_fd);
		sum_pair_close(&sums);
		sum_pair_close(&mine);
	}
	/* One that says the last of all rounds: the lead's are counted, not that. */
	assert_int_equal(sum_pair_make(&mine, DENSE, 0, &err), 0);
	sum_pair_set(&mine, 0, &(struct sum_pair_head){SUM_PAIR_COMMITTED, 1u << 30, UINT64_MAX});
	assert_true(room(c, DENSE, mine.fd, &sums));
	struct worker a = worker("w0"), b = worker("w1");
	push_both(&a, &b, 0, 1.0f);
	sum(1, 0, "r0", 0);
	assert_true(closing(lead));
	assert_sum(&sums, 0, SUM_PAIR_WHOLE, 1, 2.0f);
	close(room_fd);
	sum_pair_close(&sums);
	sum_pair_close(&mine);
	call_close(a.call);
	call_close(b.call);
	call_close(c);
	stop(WITH_SUMS);
}

static void sums_of_all_hosts_are_read_where_they_lie(void **state)
{
	struct sum_pair sums;

	(void)state;
	start(WITH_FABRIC | WITH_SUMS);
	struct worker a = worker("w0"), b = worker("w1");
	assert_int_equal(stat_of("fabric"), 0);
	assert_true(room(a.call, DENSE, -1, &sums));
	while (stat_of("fabric") == 0)
		usleep(1000);
	for (unsigned i = 0; i < 3; i++) {
		sum(i + 1, i, "r0,r1", 1);
		push_both(&a, &b, i, (float)i);
		assert_true(closing(lead));
		assert_string_equal(record_get(&record, "sum"), "77");
		assert_sum(&sums, i, SUM_PAIR_WHOLE, i + 1, (float)i + 101.0f);
		apply(i + 1, i, 2);
		assert_sum(&sums, i, SUM_PAIR_COMMITTED, i + 1, (float)i + 101.0f);
		if (i > 0)
			assert_sum(&sums, i - 1, SUM_PAIR_COMMITTED, i, (float)i + 100.0f);
	}
	/* The other host goes, and the sum is made alone: but not as long as fabricd may write
	 * there. */
	atomic_store(&stand->refuse, 3);
	push_both(&a, &b, 3, 7.0f);
	sum(4, 3, "r0,r1", 0);
	while (atomic_load(&stand->waits) == 0)
		usleep(1000);
	struct call *other = lead;
	lead = connect_to(path);
	atomic_store(&stand->slow, 1);
	sum(5, 3, "r0", 0);
	refused(other, "stale");
	call_close(other);
	for (int i = 0; i < 5; i++)
		assert_int_equal(stat_of("round"), 0);
	atomic_store(&stand->slow, 0);
	assert_true(closing(lead));
	assert_sum(&sums, 3, SUM_PAIR_WHOLE, 5, 8.0f);
	/* Its death, too, ends that. */
	sum(6, 3, "r0,r1", 0);
	while (atomic_load(&stand->waits) == 1)
		usleep(1000);
	kill(fabricd, SIGKILL);
	assert_int_equal(waitpid(fabricd, NULL, 0), fabricd);
	refused(lead, "fabric");
	sum(7, 3, "r0", 0);
	assert_true(closing(lead));
	apply(7, 3, 2);
	assert_sum(&sums, 3, SUM_PAIR_COMMITTED, 7, 8.0f);
	atomic_store(&stand->refuse, 0);
	begin_fabric();
	while (stat_of("fabric") == 0)
		usleep(1000);
	push_both(&a, &b, 4, 1.0f);
	sum(8, 4, "r0,r1", 0);
	assert_true(closing(lead));
	assert_sum(&sums, 4, SUM_PAIR_WHOLE, 8, 102.0f);
	call_close(a.call);
	call_close(b.call);
	close(room_fd);
	sum_pair_close(&sums);
	stop(WITH_FABRIC | WITH_SUMS);
}

/* ---- states ---- */

static void give(struct call *c, unsigned attempt, size_t length, int fd)
{
	char line[120];
	struct error err;
	int len = snprintf(line, sizeof line,
			   "state incarnation=0 iteration=%u attempt=%u length=%zu\n", attempt + 1,
			   attempt, length);

	assert_int_equal(call_send_with(c, line, (size_t)len, fd, &err), 0);
}

/* The state of this attempt is so long, and begins with this text. */
static void assert_state(struct call *c, unsigned attempt, const char *from, size_t length,
			 const char *text)
{
	char is[16] = "";
	struct stat st;

	say(c, "state-get incarnation=0 attempt=%u from=%s\n", attempt, from);
	if (!closing(c))
		fail_msg("%s", record.text);
	int fd = call_passed(c);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, length);
	assert_int_equal(atoi(record_get(&record, "iteration")), attempt + 1);
	assert_int_equal((size_t)atol(record_get(&record, "length")), length);
	assert_true(pread(fd, is, strlen(text), (off_t)(length - strlen(text))) >= 0);
	assert_string_equal(is, text);
	assert_true(fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE);
	assert_int_equal(write(fd, "x", 1), -1);
	close(fd);
}

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define LONG ((size_t)5 << 20)

static void states_go_from_rank_to_rank(void **state)
{
	char *text = malloc(LONG);

	(void)state;
	start(WITH_SUMS);
	pid_t first = replica;
	struct call *a = connect_to(path);
	snprintf(path, sizeof path, "%s/r1.sock", dir);
	own_id = "r1";
	replica = begin(serve_replica, WITH_SUMS);
	struct call *b = connect_to(path), *c = connect_to(path);
	/* What is no such memory. */
	int some[] = {-1, open("/dev/null", O_RDWR), memory_of("x", 1, 1, F_SEAL_SHRINK),
		      memory_of("x", 1, 1, F_SEAL_SHRINK | F_SEAL_GROW),
		      memory_of("x", 1, 2, ALL_SEALS)};
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		give(a, 1, 1, some[i]);
		refused(a, "bad-request");
		close(some[i]);
	}
	say(a, "state-get incarnation=0 attempt=1 from=r0\n");
	refused(a, "no-state");
	say(a, "state-get incarnation=1 attempt=1 from=r0\n");
	refused(a, "fenced");
	/* The last two are kept; one that is said again takes its own place. */
	for (unsigned i = 1; i <= 4; i++) {
		int fd;
		memset(text, 'a' + (int)i, LONG);
		memcpy(text + LONG - 4, "end", 4);
		text[LONG - 1] = (char)('0' + i);
		fd = memory_of(text, LONG, LONG, ALL_SEALS);
		give(a, i == 4 ? 3 : i, LONG, fd);
		assert_true(closing(a));
		close(fd);
	}
	say(a, "state-get incarnation=0 attempt=1 from=r0\n");
	refused(a, "no-state");
	assert_state(a, 2, "r0", LONG, "end2");
	assert_state(a, 3, "r0", LONG, "end4");
	/* Two at once from the other replica, which says it once; then it is here. */
	say(c, "state-get incarnation=0 attempt=3 from=r0\n");
	assert_state(b, 3, "r0", LONG, "end4");
	assert_true(closing(c));
	close(call_passed(c));
	assert_state(b, 3, "r1", LONG, "end4");
	say(b, "state-get incarnation=0 attempt=1 from=r0\n");
	refused(b, "no-state");
	assert_non_null(strstr(record.text, "attempt 1 is not here"));
	say(b, "state-get incarnation=0 attempt=1 from=r2/x\n");
	refused(b, "bad-request");
	/* Whose client has gone, that is given up without harm. One that does not move is asked
	 * again when it does. */
	kill(first, SIGSTOP);
	say(c, "state-get incarnation=0 attempt=2 from=r0\n");
	call_close(c);
	say(b, "state-get incarnation=0 attempt=2 from=r0\n");
	kill(first, SIGCONT);
	assert_true(closing(b));
	close(call_passed(b));
	/* One that is gone. */
	call_close(a);
	kill(first, SIGKILL);
	assert_int_equal(waitpid(first, NULL, 0), first);
	assert_state(b, 2, "r0", LONG, "end2");
	say(b, "state-get incarnation=0 attempt=9 from=r0\n");
	kill(replica, SIGTERM); /* it ends while it asks */
	call_close(b);
	own_id = "r0";
	free(text);
	stop(WITH_SUMS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gradients_stay_where_they_are),
		cmocka_unit_test(what_is_final_is_added_before_the_push),
		cmocka_unit_test(one_push_of_a_member_is_added_and_named),
		cmocka_unit_test(who_told_the_lead_alone_is_named),
		cmocka_unit_test(who_writes_meanwhile_spoils_nothing_else),
		cmocka_unit_test(what_cant_be_added_is_named_again),
		cmocka_unit_test(sums_of_all_hosts_are_stepped_with),
		cmocka_unit_test(a_fabric_that_goes_costs_a_round),
		cmocka_unit_test(sums_are_read_where_they_lie),
		cmocka_unit_test(what_a_replica_held_outlives_it),
		cmocka_unit_test(a_sum_stays_though_its_apply_does_not_come),
		cmocka_unit_test(what_is_no_memory_of_sums_is_not_taken),
		cmocka_unit_test(sums_of_all_hosts_are_read_where_they_lie),
		cmocka_unit_test(states_go_from_rank_to_rank),
	};

	stand = mmap(NULL, sizeof *stand, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (stand == MAP_FAILED)
		return 71;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
