/*
 * The exchange with a replica and a lead: what is told to whom and in which order, what lies where,
 * and what becomes of it when one of them goes.  Both are processes of their own here; what they
 * are asked, and what they shall do, lie in memory that all share.
 */
#include "wire/server.h"
#include "work/replica.h"

#include <fcntl.h>
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
#define DENSE 200000

enum daemon { LEAD, REPLICA, DAEMONS };

struct stage {
	/* What they shall do. */
	int no_look, no_parts, empty; /* the replica refuses these */
	int hang_up;                  /* this one closes at the next push, once; DAEMONS: none */
	int fence;                    /* the lead refuses a push, */
	int drop;                     /* or says that it came too late */
	int incarnation;
	/* What they were asked: "pull 0 dense 0,push 0," */
	char asked[DAEMONS][4096];
	volatile uint64_t applied;
	int staged;
	float pushed; /* the first dense gradient of the last push */
	float told;   /* the gradient of the first float that a `part` named, as it was then */
};

static struct stage *stage;
static char dir[] = "/tmp/paceline-replica.XXXXXX", path[DAEMONS][64];
static pid_t child[DAEMONS];
static const char *const names[DAEMONS] = {"lead", "r0"};

/* ---- both daemons ---- */

static enum daemon who; /* this process is */
static float *parameters;
static int parameters_fd;

static void note(struct request *rq, const char *key)
{
	const struct record *r = request_record(rq);
	char *to = stage->asked[who];
	size_t len = strlen(to);
	const char *iteration = record_get(r, "iteration"), *value = key ? record_get(r, key) : NULL;
	snprintf(to + len, sizeof stage->asked[who] - len, "%s%s%s%s%s%s%s,", r->type,
		 iteration ? " " : "", iteration ? iteration : "", value ? " " : "",
		 value ? key : "", value ? " " : "", value ? value : "");
}

static int hangs_up(struct request *rq)
{
	if (stage->hang_up != (int)who)
		return 0;
	stage->hang_up = DAEMONS;
	connection_close(request_connection(rq));
	request_defer(rq, NULL, NULL);
	return 1;
}

/* ---- the lead ---- */

static void on_join(struct request *rq, void *owner)
{
	(void)owner;
	note(rq, "replica");
	request_ok(rq, "iteration=%llu", (unsigned long long)stage->applied);
}

static void on_lead_push(struct request *rq, void *owner)
{
	(void)owner;
	if (hangs_up(rq)) {
		note(rq, NULL);
		return;
	}
	if (request_payload(rq) || !stage->staged) {
		request_err(rq, "bad-request", "a gradient, or none is staged");
		return;
	}
	note(rq, record_get(request_record(rq), "pulled") ? "pulled" : "rows");
	if (stage->fence) {
		request_err(rq, "fenced", NULL);
		return;
	}
	stage->staged = 0;
	stage->applied++;
	request_ok(rq, "iteration=%llu %s=1", (unsigned long long)stage->applied,
		   stage->drop ? "dropped" : "applied");
}

static void on_leave(struct request *rq, void *owner)
{
	(void)owner;
	note(rq, NULL);
	request_ok(rq, NULL);
}

/* ---- the replica ---- */

static void on_look(struct request *rq, void *owner)
{
	char line[64];
	struct record_out o;
	(void)owner;
	if (stage->no_look) {
		request_err(rq, "no-memory", NULL);
		return;
	}
	record_begin(&o, line, sizeof line, "ok");
	record_add_u64(&o, "map-bytes", DENSE * sizeof(float));
	request_ok_with(rq, &o, parameters_fd);
}

/* A row's values say which key it is of. */
static void on_pull(struct request *rq, void *owner)
{
	const struct record *r = request_record(rq);
	const uint32_t *key = payload_data(request_payload(rq));
	size_t rows = payload_bytes(request_payload(rq)) / sizeof *key;
	uint64_t dense = 0, offset = 0, iteration = 0;
	struct record_out o;
	char line[256];
	(void)owner;
	note(rq, record_get(r, "after") ? "after" : "dense");
	(void)record_u64(r, "iteration", 0, UINT64_MAX, &iteration, NULL);
	while (stage->applied < iteration && !stage->fence)
		usleep(1000); /* it has nothing else to do */
	if (stage->empty) {
		request_err(rq, "empty", NULL);
		return;
	}
	(void)record_u64(r, "dense", 0, 1, &dense, NULL);
	(void)record_u64(r, "into-offset-bytes", 0, UINT64_MAX, &offset, NULL);
	dense *= DENSE;
	float *out = request_mapped(rq, offset, (dense + rows * WIDTH) * sizeof *out);
	parameters[0] = (float)stage->applied;
	memcpy(out, parameters, dense * sizeof *out);
	for (size_t i = 0; i < rows * WIDTH; i++)
		out[dense + i] = (float)key[i / WIDTH];
	record_begin(&o, line, sizeof line, "model");
	record_add_u64(&o, "iteration", stage->applied);
	record_add_u64(&o, "map-bytes", (dense + rows * WIDTH) * sizeof *out);
	request_put_record(rq, &o);
	request_ok(rq, NULL);
}

static void on_part(struct request *rq, void *owner)
{
	uint64_t begin = 0;
	(void)owner;
	note(rq, "length");
	if (stage->no_parts) {
		request_err(rq, "unknown-request", NULL);
		return;
	}
	(void)record_u64(request_record(rq), "begin", 0, DENSE, &begin, NULL);
	stage->told = ((const float *)payload_data(request_payload(rq)))[begin];
	request_ok(rq, NULL);
}

static void on_push(struct request *rq, void *owner)
{
	(void)owner;
	if (hangs_up(rq))
		return;
	note(rq, "rows");
	if (!request_payload(rq) ||
	    payload_bytes(request_payload(rq)) != (DENSE + 2 * (WIDTH + 1)) * sizeof(float)) {
		request_err(rq, "bad-request", "no gradient of %d floats and two rows", DENSE);
		return;
	}
	stage->pushed = *(const float *)payload_data(request_payload(rq));
	stage->staged = 1;
	request_ok(rq, "staged=1");
}

/* ---- starting them ---- */

static void serve(enum daemon daemon)
{
	static const struct verb verbs[DAEMONS][5] = {
		{{"join", "", "", on_join, 0, ""},
		 {"push", "", "", on_lead_push, 1 << 20, ""},
		 {"leave", "", "", on_leave, 0, ""}},
		{{"look", "", "", on_look, 0, ""},
		 {"pull", "", "after", on_pull, 1 << 20, ""},
		 {"part", "", "", on_part, 1 << 20, ""},
		 {"push", "", "", on_push, 1 << 20, ""}},
	};
	static const size_t count[DAEMONS] = {3, 4};
	char greeting[128];
	struct server_options options = {.path = path[daemon],
					 .role = "ps-server",
					 .greeting_fields = greeting,
					 .verbs = verbs[daemon],
					 .verb_count = count[daemon]};
	struct server *server;
	struct error err;
	who = daemon;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
	snprintf(greeting, sizeof greeting, "id=%s incarnation=%d%s", names[daemon],
		 stage->incarnation,
		 daemon == REPLICA ? " part=0/1 replica=0/1 dense=200000 width=2" : "");
	parameters_fd = memfd_create("parameters", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (ftruncate(parameters_fd, DENSE * sizeof(float)) != 0 ||
	    fcntl(parameters_fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		_exit(1);
	parameters = mmap(NULL, DENSE * sizeof(float), PROT_READ | PROT_WRITE, MAP_SHARED,
			  parameters_fd, 0);
	if (parameters != MAP_FAILED && server_new(&server, &options, &err) == 0)
		server_run(server, NULL, 0, &err);
	_exit(0);
}

static void launch(enum daemon daemon)
{
	child[daemon] = fork();
	if (child[daemon] == 0)
		serve(daemon);
}

static void end_daemon(enum daemon daemon)
{
	kill(child[daemon], SIGTERM);
	waitpid(child[daemon], NULL, 0);
	child[daemon] = 0;
}

/* ---- the worker ---- */

static uint32_t key_a[] = {4, 5}, key_b[] = {6, 7};
static size_t begins[] = {0, 2};
static struct batch a, b;

static struct batch batch(uint32_t *key)
{
	return (struct batch){.count = 2,
			      .positions = 2,
			      .range = {{1, 0, 2}},
			      .range_count = 1,
			      .unique = 2,
			      .key = key,
			      .part_begin = begins,
			      .parts = 1};
}

static void no_action(const struct record *r, void *owner)
{
	(void)r;
	(void)owner;
}

static double answer_seconds = 20;
static int delay;

static struct exchange *new_exchange(double wait_seconds)
{
	struct replica_options options = {.lead = path[LEAD],
					  .replica = path[REPLICA],
					  .dense_count = DENSE,
					  .width = WIDTH,
					  .key_count = 100,
					  .delay = delay,
					  .talk = {.worker = "w0",
						   .wait_seconds = wait_seconds,
						   .answer_seconds = answer_seconds,
						   .action = no_action}};
	struct exchange *x;
	struct error err;
	assert_int_equal(replica_new(&x, &options, &err), 0);
	return x;
}

static void connect_to_both(struct exchange *x)
{
	struct error err;
	uint64_t low, high;
	int result = x->kind->connect(x, &low, &high, &err);
	if (result < 0)
		fail_msg("%s: %s", err.place, err.text);
	assert_int_equal(result, WORK_OK);
	assert_int_equal(low, stage->incarnation);
	assert_int_equal(high, stage->incarnation);
	x->kind->identify(x, 1, high);
}

static struct exchange *start(struct stage play)
{
	*stage = play;
	stage->incarnation = 7;
	if (play.hang_up == 0)
		stage->hang_up = DAEMONS;
	launch(LEAD);
	launch(REPLICA);
	a = batch(key_a);
	b = batch(key_b);
	struct exchange *x = new_exchange(60);
	connect_to_both(x);
	return x;
}

static void end(struct exchange *x)
{
	x->kind->free(x);
	end_daemon(LEAD);
	end_daemon(REPLICA);
}

static struct exchange_values pull(struct exchange *x, uint64_t iteration, const struct batch *of)
{
	struct exchange_values v;
	struct error err;
	assert_int_equal(x->kind->pull(x, iteration, of, &v, &err), WORK_OK);
	assert_int_equal(v.dense[0], iteration);
	assert_int_equal(v.rows[0], of->key[0]);
	assert_int_equal(v.rows[WIDTH], of->key[1]);
	assert_int_equal(v.dense_gradient[0], 0);
	assert_int_equal(v.row_gradient[2 * WIDTH - 1], 0);
	v.dense_gradient[0] = v.row_gradient[2 * WIDTH - 1] = (float)iteration + 1;
	return v;
}

static int push_for(struct exchange *x, uint64_t iteration, const struct batch *of,
		    const struct batch *next, uint64_t *then)
{
	struct exchange_push push = {.sequence = iteration + 1, .iteration = iteration, .size = 2};
	struct error err;
	int result = x->kind->push(x, &push, of, next, &err);
	if (result == WORK_OK)
		result = x->kind->wait(x, then, &err);
	if (result < 0)
		fail_msg("%s: %s", err.place, err.text);
	return result;
}

static void push(struct exchange *x, uint64_t iteration, const struct batch *of,
		 const struct batch *next)
{
	uint64_t then = 0;
	assert_int_equal(push_for(x, iteration, of, next, &then), WORK_OK);
	assert_int_equal(then, iteration + 1);
	assert_int_equal(stage->pushed, iteration + 1);
}

/* ---- tests ---- */

static void the_replica_is_told_before_the_lead(void **unused)
{
	(void)unused;
	uint64_t iteration = 9;
	struct error err;
	struct exchange *x = start((struct stage){0});
	struct exchange_member member = {.size = 2};
	assert_int_equal(x->kind->join(x, &member, &iteration, &err), WORK_OK);
	assert_int_equal(iteration, 0);
	pull(x, 0, &a);
	push(x, 0, &a, &b); /* the lead refuses one that is not staged */
	pull(x, 1, &b);
	push(x, 1, &b, NULL);
	assert_string_equal(stage->asked[REPLICA],
			    "pull 0 dense 0,push 0 rows 2,pull 1 after 1,push 1 rows 2,");
	assert_string_equal(stage->asked[LEAD], "join replica r0,push 0 rows 0,push 1 rows 0,");
	assert_int_equal(x->kind->leave(x, 0, 0, &err), WORK_OK);
	end(x);
}

static void dense_parameters_are_not_copied(void **unused)
{
	(void)unused;
	struct exchange *x = start((struct stage){0});
	struct exchange_values v = pull(x, 0, &a), w;
	push(x, 0, &a, NULL);
	w = pull(x, 1, &b);
	assert_ptr_equal(v.dense, w.dense);
	assert_int_equal(v.dense[0], 1); /* it is the replica's own memory */
	end(x);
}

static void dense_parameters_are_pulled_where_they_cannot_be_seen(void **unused)
{
	(void)unused;
	struct exchange *x = start((struct stage){.no_look = 1});
	pull(x, 0, &a);
	push(x, 0, &a, NULL);
	pull(x, 1, &b);
	assert_string_equal(stage->asked[REPLICA],
			    "pull 0 dense 1,push 0 rows 2,pull 1 dense 1,");
	end(x);
}

static struct exchange *start_with_delay(struct stage play)
{
	delay = 1;
	struct exchange *x = start(play);
	delay = 0;
	return x;
}

static int push_alone(struct exchange *x, uint64_t iteration, const struct batch *of,
		      const struct batch *next)
{
	struct exchange_push push = {.sequence = iteration + 1, .iteration = iteration, .size = 2};
	struct error err;
	return x->kind->push(x, &push, of, next, &err);
}

/* Its parameters are those that the push meets: the lead, which would change them, hears of the push
 * only then. */
static void with_a_delay_the_next_batch_is_pulled_first(void **unused)
{
	(void)unused;
	uint64_t then = 0;
	struct error err;
	struct exchange *x = start_with_delay((struct stage){0});
	struct exchange_values v = pull(x, 0, &a);
	x->kind->final(x, 1, 0, 0, DENSE); /* nobody is told: the sum before may be under way */
	assert_int_equal(push_alone(x, 0, &a, &b), WORK_OK);
	assert_int_equal(stage->pushed, 1);
	struct exchange_values w = pull(x, 0, &b); /* is here already */
	assert_ptr_not_equal(v.dense_gradient, w.dense_gradient);
	assert_int_equal(v.dense_gradient[0], 1); /* the replica may still add it up */
	assert_int_equal(x->kind->wait(x, &then, &err), WORK_OK);
	assert_int_equal(then, 1);
	assert_false(x->dropped);
	assert_int_equal(push_alone(x, 1, &b, NULL), WORK_OK);
	assert_int_equal(x->kind->wait(x, &then, &err), WORK_OK);
	(void)pull(x, 2, &a);
	assert_int_equal(w.dense[0], 2);
	assert_string_equal(stage->asked[REPLICA],
			    "pull 0 dense 0,push 0 rows 2,pull 0 dense 0,push 1 rows 2,pull 2 dense 0,");
	assert_string_equal(stage->asked[LEAD], "push 0 pulled 0,push 1 pulled 0,");
	end(x);
}

/* The step of others changes the replica's own memory, not what is computed from. */
static void with_a_delay_dense_parameters_are_copied(void **unused)
{
	(void)unused;
	uint64_t then;
	struct error err;
	struct exchange *x = start_with_delay((struct stage){0}), *other;
	struct exchange_values v, seen;
	(void)pull(x, 0, &a);
	assert_int_equal(push_alone(x, 0, &a, &b), WORK_OK);
	v = pull(x, 0, &b);
	assert_int_equal(x->kind->wait(x, &then, &err), WORK_OK);
	other = new_exchange(60);
	connect_to_both(other);
	seen = pull(other, 1, &a);
	assert_int_equal(seen.dense[0], 1);
	assert_int_equal(v.dense[0], 0);
	other->kind->free(other);
	end(x);
}

static void with_a_delay_a_dropped_push_is_told(void **unused)
{
	(void)unused;
	uint64_t then;
	struct error err;
	struct exchange *x = start_with_delay((struct stage){.drop = 1});
	(void)pull(x, 0, &a);
	assert_int_equal(push_alone(x, 0, &a, &b), WORK_OK);
	(void)pull(x, 0, &b);
	assert_int_equal(x->kind->wait(x, &then, &err), WORK_OK);
	assert_true(x->dropped);
	(void)pull(x, 1, &b); /* so it is pulled anew */
	end(x);
}

/* What could not be said whole leaves a connection on which nothing more can be said. */
static void a_replica_that_reads_nothing_costs_the_connection(void **unused)
{
	(void)unused;
	uint64_t then = 0;
	answer_seconds = 0.2;
	struct exchange *x = start((struct stage){0});
	answer_seconds = 20;
	(void)pull(x, 0, &a);
	kill(child[REPLICA], SIGSTOP);
	for (int i = 0; i < 20000; i++) /* more than a socket takes */
		x->kind->final(x, 1, 0, 0, DENSE);
	kill(child[REPLICA], SIGCONT);
	assert_int_equal(push_for(x, 0, &a, NULL, &then), WORK_RESET);
	assert_false(x->kind->connected(x));
	connect_to_both(x);
	(void)pull(x, 0, &a);
	push(x, 0, &a, NULL);
	end(x);
}

static void what_is_final_is_told_while_the_rest_is_computed(void **unused)
{
	(void)unused;
	struct exchange *x = start((struct stage){0});
	struct exchange_values v = pull(x, 0, &a);
	v.dense_gradient[DENSE - 70000] = 3;
	x->kind->final(x, 1, 0, DENSE - 70000, 70000);
	/* small ones together, as soon as they are many */
	x->kind->final(x, 1, 0, DENSE - 80000, 10000);
	x->kind->final(x, 1, 0, DENSE - 140000, 60000);
	x->kind->final(x, 1, 0, 50, 100);
	push(x, 0, &a, NULL);
	assert_string_equal(stage->asked[REPLICA],
			    "pull 0 dense 0,part 0 length 70000,part 0 length 70000,push 0 rows 2,");
	assert_int_equal(stage->told, 0);
	v = pull(x, 1, &b);
	v.dense_gradient[DENSE - 65536] = 4;
	x->kind->final(x, 2, 1, DENSE - 65536, 65536);
	push(x, 1, &b, NULL);
	assert_int_equal(stage->told, 4);
	end(x);
}

static void a_replica_without_parts_is_told_no_more(void **unused)
{
	(void)unused;
	struct exchange *x = start((struct stage){.no_parts = 1});
	pull(x, 0, &a);
	x->kind->final(x, 1, 0, 100000, 100000);
	push(x, 0, &a, NULL);
	pull(x, 1, &b);
	x->kind->final(x, 2, 1, 100000, 100000);
	push(x, 1, &b, NULL);
	assert_string_equal(
		stage->asked[REPLICA],
		"pull 0 dense 0,part 0 length 100000,push 0 rows 2,pull 1 dense 0,push 1 rows 2,");
	end(x);
}

static void a_replica_that_goes_is_not_waited_for(void **unused)
{
	(void)unused;
	uint64_t then;
	struct exchange *x = start((struct stage){.hang_up = REPLICA});
	pull(x, 0, &a);
	assert_int_equal(push_for(x, 0, &a, NULL, &then), WORK_RESET);
	assert_false(x->kind->connected(x));
	assert_string_equal(stage->asked[LEAD], "");
	/* and another life, with another memory, is looked at anew */
	connect_to_both(x);
	pull(x, 0, &a);
	push(x, 0, &a, NULL);
	end(x);
}

static void an_empty_replica_is_asked_again_later(void **unused)
{
	(void)unused;
	struct exchange *x = start((struct stage){.empty = 1});
	struct exchange_values v;
	struct error err;
	assert_int_equal(x->kind->pull(x, 0, &a, &v, &err), WORK_RESET);
	end(x);
}

/* As when what relays it is started anew: it is the same lead, and knows what it was told. */
static void a_lead_that_comes_back_is_told_again(void **unused)
{
	(void)unused;
	*stage = (struct stage){0};
	struct exchange *x = start((struct stage){0});
	stage->hang_up = LEAD;
	pull(x, 0, &a);
	push(x, 0, &a, NULL);
	assert_string_equal(stage->asked[LEAD], "push 0,push 0 rows 0,");
	assert_string_equal(stage->asked[REPLICA], "pull 0 dense 0,push 0 rows 2,");
	end(x);
}

static void a_lead_that_forgot_us_fences(void **unused)
{
	(void)unused;
	uint64_t then;
	struct exchange *x = start((struct stage){.fence = 1});
	pull(x, 0, &a);
	assert_int_equal(push_for(x, 0, &a, NULL, &then), WORK_FENCED);
	stage->fence = 0;
	assert_true(x->kind->connected(x));
	/* with a pull behind the push, which nobody will answer */
	stage->fence = 1;
	pull(x, 0, &a);
	assert_int_equal(push_for(x, 0, &a, &b, &then), WORK_FENCED);
	assert_false(x->kind->connected(x));
	end(x);
}

static void a_lead_of_another_incarnation_is_a_rollback(void **unused)
{
	(void)unused;
	uint64_t then;
	struct exchange *x = start((struct stage){0});
	pull(x, 0, &a);
	end_daemon(LEAD);
	stage->incarnation = 8;
	launch(LEAD);
	assert_int_equal(push_for(x, 0, &a, NULL, &then), WORK_RESET);
	assert_false(x->kind->connected(x));
	end(x);
}

static void a_part_is_neither_lead_nor_replica(void **unused)
{
	(void)unused;
	struct error err;
	uint64_t low, high;
	struct exchange *x = start((struct stage){0}), *y;
	char other[64];
	x->kind->free(x);
	memcpy(other, path[LEAD], sizeof other); /* the wrong way round */
	memcpy(path[LEAD], path[REPLICA], sizeof other);
	y = new_exchange(60);
	assert_int_equal(y->kind->connect(y, &low, &high, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_string_equal(err.text, "is part 0/1, not a lead without parameters");
	memcpy(path[LEAD], other, sizeof other);
	y->kind->free(y);
	memcpy(other, path[REPLICA], sizeof other);
	memcpy(path[REPLICA], path[LEAD], sizeof other);
	y = new_exchange(60);
	assert_int_equal(y->kind->connect(y, &low, &high, &err), -1);
	assert_int_equal(err.code, ERROR_CONFIG);
	assert_string_equal(err.text, "is no replica");
	memcpy(path[REPLICA], other, sizeof other);
	end(y);
}

static int set_up(void **unused)
{
	(void)unused;
	stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (stage == MAP_FAILED || !mkdtemp(dir))
		return -1;
	for (int i = 0; i < DAEMONS; i++)
		snprintf(path[i], sizeof path[i], "%s/%s.sock", dir, names[i]);
	return 0;
}

static int tear_down(void **unused)
{
	(void)unused;
	char lock[256];
	for (int i = 0; i < DAEMONS; i++) {
		if (child[i] > 0)
			kill(child[i], SIGKILL);
		snprintf(lock, sizeof lock, "%s.lock", path[i]);
		unlink(lock);
		unlink(path[i]);
	}
	rmdir(dir);
	return munmap(stage, sizeof *stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_replica_is_told_before_the_lead),
		cmocka_unit_test(dense_parameters_are_not_copied),
		cmocka_unit_test(dense_parameters_are_pulled_where_they_cannot_be_seen),
		cmocka_unit_test(with_a_delay_the_next_batch_is_pulled_first),
		cmocka_unit_test(with_a_delay_dense_parameters_are_copied),
		cmocka_unit_test(with_a_delay_a_dropped_push_is_told),
		cmocka_unit_test(a_replica_that_reads_nothing_costs_the_connection),
		cmocka_unit_test(what_is_final_is_told_while_the_rest_is_computed),
		cmocka_unit_test(a_replica_without_parts_is_told_no_more),
		cmocka_unit_test(a_replica_that_goes_is_not_waited_for),
		cmocka_unit_test(an_empty_replica_is_asked_again_later),
		cmocka_unit_test(a_lead_that_comes_back_is_told_again),
		cmocka_unit_test(a_lead_that_forgot_us_fences),
		cmocka_unit_test(a_lead_of_another_incarnation_is_a_rollback),
		cmocka_unit_test(a_part_is_neither_lead_nor_replica),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
