/*
 * The exchange with servers: the pull that is sent behind a push, and when it is not the one that
 * is wanted.  The server is a process of its own; what it is asked, and what it shall do, lie in
 * memory that both share.
 */
#include "base/boot.h"
#include "param/map.h"
#include "wire/server.h"
#include "work/servers.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WIDTH 2
#define DENSE 3

/* What the server shall do with a push. */
enum play {
	AT_ONCE,       /* answer it */
	BEHIND_PULL,   /* answer it when a pull has come behind it, then that */
	PULL_IS_OLDER, /* the same, but the push is in a later unit than the pull waited for */
	HANG_UP,       /* close when a pull has come; then, the second time, as BEHIND_PULL */
	SCALED,        /* refuse a pull: the map, which it tells, has a part that is gone for good */
	SCALED_BACK    /* greet with such a map; without that part when asked the second time */
};

struct stage {
	enum play play;
	char asked[4096]; /* "pull 0,push 0,pull 1 after 1," */
	uint64_t applied;
	char boot[BOOT_ID_MAX]; /* that the server says it runs in; empty: it says none */
	size_t dense;           /* parameters that it has */
	int asked_by_clock;     /* pulls that said when they were asked */
};

static struct stage *stage;
static char dir[] = "/tmp/paceline-servers.XXXXXX", path[64];
static pid_t child;

/* ---- the server ---- */

static struct request *held_push;

static void note(const struct record *r)
{
	size_t len = strlen(stage->asked);
	const char *iteration = record_get(r, "iteration"), *after = record_get(r, "after");
	const char *idle = record_get(r, "idle");
	snprintf(stage->asked + len, sizeof stage->asked - len, "%s%s%s%s%s%s%s,", r->type,
		 iteration ? " " : "", iteration ? iteration : "", after ? " after " : "",
		 after ? after : "", idle ? " idle " : "", idle ? idle : "");
}

/* Dense values say which iteration they are of, rows which key. */
static void give(struct request *rq)
{
	const struct record *r = request_record(rq);
	const uint32_t *key = payload_data(request_payload(rq));
	size_t rows = payload_bytes(request_payload(rq)) / sizeof *key;
	size_t floats = DENSE + rows * WIDTH;
	struct record_out o;
	char line[256];
	struct error err;
	uint64_t offset;
	if (record_u64(r, "into-offset-bytes", 0, UINT64_MAX, &offset, &err) != 0)
		abort();
	float *out = request_mapped(rq, offset, floats * sizeof(float));
	for (size_t i = 0; i < floats; i++)
		out[i] = i < DENSE ? (float)stage->applied : (float)key[(i - DENSE) / WIDTH];
	record_begin(&o, line, sizeof line, "model");
	record_add_u64(&o, "iteration", stage->applied);
	record_add_u64(&o, "map-bytes", floats * sizeof(float));
	request_put_record(rq, &o);
	request_ok(rq, NULL);
}

static void answer_push(struct request *rq)
{
	request_ok(rq, "iteration=%llu applied=1", (unsigned long long)stage->applied);
}

static void on_pull(struct request *rq, void *owner)
{
	(void)owner;
	note(request_record(rq));
	if (stage->play == SCALED) {
		request_err(rq, "map", "this part goes by another map");
		return;
	}
	stage->asked_by_clock += record_get(request_record(rq), "asked") != NULL;
	if (held_push && stage->play == HANG_UP) {
		stage->play = BEHIND_PULL;
		connection_close(request_connection(rq));
		request_defer(rq, NULL, NULL);
		held_push = NULL;
		return;
	}
	if (held_push)
		stage->applied++;
	give(rq);
	if (held_push && stage->play == PULL_IS_OLDER)
		stage->applied += 2;
	if (held_push)
		answer_push(held_push);
	held_push = NULL;
}

static void on_push(struct request *rq, void *owner)
{
	(void)owner;
	note(request_record(rq));
	if (stage->play == AT_ONCE) {
		stage->applied++;
		answer_push(rq);
		return;
	}
	held_push = rq;
	request_defer(rq, NULL, NULL);
}

static void on_parts(struct request *rq, void *owner)
{
	(void)owner;
	note(request_record(rq));
	int two = stage->play == SCALED || strcmp(stage->asked, "parts,") == 0;
	request_put_record(rq, RECORD("part", F("part", 0), F("socket", path), F("dense-begin", 0),
				      F("dense", DENSE), F("key-begin", 0),
				      F("keys", two ? MAP_PLACES / 2 : MAP_PLACES)));
	if (two)
		request_put_record(rq, RECORD("part", F("part", 1), F("socket", "/nowhere/ps1.sock"),
					      F("dense-begin", DENSE), F("dense", 0),
					      F("key-begin", MAP_PLACES / 2),
					      F("keys", MAP_PLACES / 2)));
	request_ok(rq, "version=%d", two ? 2 : 3);
}

static void on_leave(struct request *rq, void *owner)
{
	(void)owner;
	note(request_record(rq));
	request_ok(rq, NULL);
}

static void serve(void)
{
	static const struct verb verbs[] = {
		{"pull", "", "after", on_pull, 1 << 20, ""},
		{"push", "", "", on_push, 1 << 20, ""},
		{"leave", "", "idle", on_leave, 0, ""},
		{"parts", "", "", on_parts, 0, ""},
	};
	char greeting[160];
	struct server_options options = {.path = path,
					 .role = "ps",
					 .greeting_fields = greeting,
					 .verbs = verbs,
					 .verb_count = sizeof verbs / sizeof *verbs};
	struct server *server;
	struct error err;
	snprintf(greeting, sizeof greeting, "part=0/1 dense=%zu width=2 incarnation=7%s%s%s",
		 stage->dense, stage->play == SCALED_BACK ? " map=2" : "", *stage->boot ? " boot=" : "",
		 stage->boot);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
	if (server_new(&server, &options, &err) == 0)
		server_run(server, NULL, 0, &err);
	_exit(0);
}

/* ---- the worker ---- */

static struct batch batch(uint32_t *key, size_t *part_begin)
{
	part_begin[0] = 0;
	part_begin[1] = 2;
	return (struct batch){.count = 2,
			      .positions = 2,
			      .range = {{1, 0, 2}},
			      .range_count = 1,
			      .unique = 2,
			      .key = key,
			      .part_begin = part_begin,
			      .parts = 1};
}

static uint32_t key_a[] = {4, 5}, key_b[] = {6, 7}, key_c[] = {8, 9};
static size_t begin_a[2], begin_b[2], begin_c[2];
static struct batch a, b, c;

static void no_action(const struct record *r, void *owner)
{
	(void)r;
	(void)owner;
}

static struct exchange *start_of(enum play play, const char *boot, size_t dense)
{
	static const char *paths[] = {path};
	struct servers_options options = {.paths = paths,
					  .count = 1,
					  .dense_count = dense,
					  .width = WIDTH,
					  .key_count = 100,
					  .talk = {.worker = "w0",
						   .wait_seconds = 20,
						   .answer_seconds = 20,
						   .action = no_action}};
	struct exchange *x;
	struct error err;
	uint64_t low, high;
	*stage = (struct stage){.play = play, .dense = dense};
	snprintf(stage->boot, sizeof stage->boot, "%s", boot);
	child = fork();
	if (child == 0)
		serve();
	a = batch(key_a, begin_a);
	b = batch(key_b, begin_b);
	c = batch(key_c, begin_c);
	assert_int_equal(servers_new(&x, &options, &err), 0);
	assert_int_equal(x->kind->connect(x, &low, &high, &err), WORK_OK);
	assert_int_equal(high, 7);
	x->kind->identify(x, 1, 7);
	return x;
}

static struct exchange *start_in(enum play play, const char *boot)
{
	return start_of(play, boot, DENSE);
}

static struct exchange *start(enum play play)
{
	return start_in(play, "");
}

static void end(struct exchange *x)
{
	x->kind->free(x);
	kill(child, SIGTERM);
	waitpid(child, NULL, 0);
	child = 0;
}

static void pull(struct exchange *x, uint64_t iteration, const struct batch *of, uint64_t as_of)
{
	struct exchange_values v;
	struct error err;
	assert_int_equal(x->kind->pull(x, iteration, of, &v, &err), WORK_OK);
	assert_int_equal(v.dense[0], as_of);
	assert_int_equal(v.rows[0], of->key[0]);
	assert_int_equal(v.rows[WIDTH], of->key[1]);
	assert_int_equal(v.dense_gradient[0], 0);
	v.dense_gradient[0] = 1;
}

static uint64_t push(struct exchange *x, const struct batch *of, const struct batch *next)
{
	struct exchange_push push = {.sequence = 1, .iteration = 0, .size = 2};
	struct error err;
	uint64_t iteration = 0;
	assert_int_equal(x->kind->push(x, &push, of, next, &err), WORK_OK);
	assert_int_equal(x->kind->wait(x, &iteration, &err), WORK_OK);
	return iteration;
}

static void the_next_pull_is_sent_behind_the_push(void **unused)
{
	(void)unused;
	struct exchange *x = start(BEHIND_PULL);
	pull(x, 0, &a, 0);
	assert_int_equal(push(x, &a, &b), 1);
	pull(x, 1, &b, 1);
	assert_string_equal(stage->asked, "pull 0,push 0,pull 1 after 1,");
	end(x);
}

static void without_a_next_batch_nothing_is_sent(void **unused)
{
	(void)unused;
	struct exchange *x = start(AT_ONCE);
	pull(x, 0, &a, 0);
	assert_int_equal(push(x, &a, NULL), 1);
	assert_string_equal(stage->asked, "pull 0,push 0,");
	pull(x, 1, &b, 1);
	a.count = 0; /* nothing to apply: the server may not go on by it */
	assert_int_equal(push(x, &a, &b), 2);
	assert_string_equal(stage->asked, "pull 0,push 0,pull 1,push 0,");
	end(x);
}

static void another_batch_is_asked_for_anew(void **unused)
{
	(void)unused;
	struct exchange *x = start(BEHIND_PULL);
	pull(x, 0, &a, 0);
	assert_int_equal(push(x, &a, &b), 1);
	pull(x, 1, &c, 1);
	assert_string_equal(stage->asked, "pull 0,push 0,pull 1 after 1,pull 1,");
	assert_int_equal(push(x, &c, &a), 2);
	a.unique = a.part_begin[1] = 1; /* the same first key, and fewer */
	struct exchange_values v;
	struct error err;
	assert_int_equal(x->kind->pull(x, 2, &a, &v, &err), WORK_OK);
	assert_int_equal(v.rows[0], 4);
	assert_string_equal(stage->asked, "pull 0,push 0,pull 1 after 1,pull 1,push 0,pull 1 after 1,pull 2,");
	end(x);
}

static void older_parameters_than_promised_are_asked_for_anew(void **unused)
{
	(void)unused;
	struct exchange *x = start(PULL_IS_OLDER);
	pull(x, 0, &a, 0);
	assert_int_equal(push(x, &a, &b), 3);
	pull(x, 3, &b, 3);
	assert_string_equal(stage->asked, "pull 0,push 0,pull 1 after 1,pull 3,");
	end(x);
}

static void a_worker_that_leaves_reads_past_it(void **unused)
{
	(void)unused;
	struct error err;
	struct exchange *x = start(BEHIND_PULL);
	pull(x, 0, &a, 0);
	assert_int_equal(push(x, &a, &b), 1);
	assert_int_equal(x->kind->leave(x, 0, 7, &err), WORK_OK);
	pull(x, 1, &c, 1);
	assert_string_equal(stage->asked, "pull 0,push 0,pull 1 after 1,leave idle 7,pull 1,");
	end(x);
}

static void both_are_said_again_where_a_connection_went(void **unused)
{
	(void)unused;
	struct exchange *x = start(HANG_UP);
	pull(x, 0, &a, 0);
	assert_int_equal(push(x, &a, &b), 1);
	pull(x, 1, &b, 1);
	assert_string_equal(stage->asked, "pull 0,push 0,pull 1 after 1,push 0,pull 1 after 1,");
	end(x);
}

/* A host has a monotonic clock of its own. */
static void when_it_was_asked_is_for_this_host_only(void **unused)
{
	(void)unused;
	char here[BOOT_ID_MAX];
	boot_id(here);
	if (!here[0])
		skip();
	struct exchange *x = start_in(AT_ONCE, here);
	pull(x, 0, &a, 0);
	assert_int_equal(stage->asked_by_clock, 1);
	end(x);
	x = start_in(AT_ONCE, "af4a71a5-0000-4000-8000-000000000000");
	pull(x, 0, &a, 0);
	assert_int_equal(stage->asked_by_clock, 0);
	end(x);
}

/* The lead may be gone with its map: the worker asks for the queue's incarnation again. */
static void a_part_of_a_new_map_that_is_gone_is_no_long_wait(void **unused)
{
	(void)unused;
	struct exchange_values v;
	struct error err;
	struct exchange *x = start(SCALED);
	assert_int_equal(x->kind->pull(x, 0, &a, &v, &err), WORK_RESET);
	assert_string_equal(stage->asked, "pull 0,parts,");
	end(x);
}

static void a_part_of_the_map_that_is_gone_may_have_left_it(void **unused)
{
	(void)unused;
	struct exchange *x = start(SCALED_BACK);
	assert_string_equal(stage->asked, "parts,parts,");
	end(x);
}

/* Bytes of the memory that this process shares with the server. */
static size_t shared(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned long from, to;
	size_t bytes = 0;
	assert_non_null(maps);
	while (fgets(line, sizeof line, maps))
		if (strstr(line, "/memfd:paceline") && sscanf(line, "%lx-%lx", &from, &to) == 2)
			bytes += to - from;
	fclose(maps);
	return bytes;
}

/* Parameters and their gradients: pages cost nothing until they are used. */
static void a_part_of_three_gib_is_shared(void **unused)
{
	(void)unused;
	size_t dense = (size_t)3 << 28;
	struct exchange *x = start_of(AT_ONCE, "", dense);
	assert_true(shared() > 2 * dense * sizeof(float));
	end(x);
}

static int set_up(void **unused)
{
	(void)unused;
	stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (stage == MAP_FAILED || !mkdtemp(dir))
		return -1;
	snprintf(path, sizeof path, "%s/ps0.sock", dir);
	return 0;
}

static int tear_down(void **unused)
{
	(void)unused;
	char lock[80];
	if (child > 0)
		kill(child, SIGKILL);
	snprintf(lock, sizeof lock, "%s.lock", path);
	unlink(lock);
	unlink(path);
	rmdir(dir);
	return munmap(stage, sizeof *stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_pull_is_sent_behind_the_push),
		cmocka_unit_test(without_a_next_batch_nothing_is_sent),
		cmocka_unit_test(another_batch_is_asked_for_anew),
		cmocka_unit_test(older_parameters_than_promised_are_asked_for_anew),
		cmocka_unit_test(a_worker_that_leaves_reads_past_it),
		cmocka_unit_test(both_are_said_again_where_a_connection_went),
		cmocka_unit_test(when_it_was_asked_is_for_this_host_only),
		cmocka_unit_test(a_part_of_a_new_map_that_is_gone_is_no_long_wait),
		cmocka_unit_test(a_part_of_the_map_that_is_gone_may_have_left_it),
		cmocka_unit_test(a_part_of_three_gib_is_shared),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
