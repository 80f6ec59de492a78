/*
 * Pushes from shared memory, by a client that writes to it when it should not: what was judged is
 * what is applied, and no parameter becomes what is no finite number.  The server runs in a child
 * process, so that its death, or a report of a sanitizer, shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fs.h"
#include "ps/ps.h"
#include "ps/buffers.h"
#include "wire/call.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 20.0 /* seconds; a limit for what hangs, never a measurement */
#define SMALL 8
#define LARGE 300001 /* past the caches */
#define WIDTH 2
#define ROWS 3

static char dir[64], path[96];
static pid_t pid;
static struct call *client;
static struct record record;

static int serve(uint64_t dense)
{
	struct layout_table table = {.name = "t", .width = WIDTH, .zero_columns = WIDTH};
	struct layout *layout = malloc(sizeof *layout);
	static struct map map;
	struct opt opt;
	struct store *store;
	struct ps *ps;
	struct server *server;
	struct error err = {0};

	layout_start(layout, 0);
	if (layout_add_tensor(layout, "a", 5, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, &err) != 0 ||
	    layout_add_tensor(layout, "b", dense - 5, 1, LAYOUT_ZERO, 0, LAYOUT_OPTIMIZER, &err) !=
		    0 ||
	    layout_set_table(layout, &table, &err) != 0 || opt_by_name(&opt, "sgd", &err) != 0)
		return err.code;
	opt.lr = 1.0f;
	map_even(&map, 1, dense);
	if (store_new(&store, layout, &map, 0, &opt, &err) != 0)
		return err.code;
	struct ps_options options = {.id = "ps0", .parts = 1, .store = store};
	struct server_options served = {
		.path = path, .role = "ps-server", .verbs = ps_led_verbs, .verb_count = ps_led_verb_count};
	if (ps_new(&ps, &options, &err) != 0)
		return err.code;
	served.owner = ps;
	served.more_verbs = ps_verbs;
	served.more_count = ps_verb_count;
	served.more_owner = ps;
	int rc = server_new(&server, &served, &err);
	if (rc == 0)
		rc = ps_start(ps, server, &err);
	if (rc == 0)
		rc = server_run(server, NULL, 0.0, &err);
	ps_stop(ps);
	server_free(server);
	ps_free(ps);
	store_free(store);
	free(layout);
	return rc == 0 ? 0 : err.code;
}

static void start(uint64_t dense)
{
	struct error err;

	snprintf(dir, sizeof dir, "/tmp/paceline-shared.XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/ps0.sock", dir);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing running */
		int status = serve(dense);
		fflush(NULL);
		exit(status);
	}
	assert_int_equal(call_open(&client, path, PATIENCE, PATIENCE, &err), 0);
}

/* It was not killed by what it was told. */
static void stop(void)
{
	int status;

	call_close(client);
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	fs_remove_tree(dir, NULL);
}

/* The closing record of a request, in `record`. 1: it is ok. */
static int ask(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int ask(const char *format, ...)
{
	char line[512];
	struct error err = {0};
	va_list ap;

	va_start(ap, format);
	int len = vsnprintf(line, sizeof line, format, ap);
	va_end(ap);
	int rc = call_request(client, line, (size_t)len, &record, NULL, NULL, &err);
	if (rc < 0)
		fail_msg("%s: %s: %s", line, err.place, err.text);
	return rc == CALL_OK;
}

/* What one push needs: gradients, keys, rows' gradients; then room for what is pulled. */
struct memory {
	float *dense;
	uint32_t *key;
	float *row, *model;
	size_t push_bytes, model_at, model_bytes;
	char *lines; /* of an apply, or the keys of a pull */
	size_t lines_at;
};

static struct memory share(size_t dense)
{
	struct memory m;
	struct error err;
	void *memory;
	size_t floats = dense + ROWS * WIDTH;

	m.push_bytes = (floats + ROWS) * sizeof(float);
	m.model_at = (m.push_bytes + 63) / 64 * 64;
	m.model_bytes = floats * sizeof(float);
	m.lines_at = (m.model_at + m.model_bytes + 63) / 64 * 64;
	assert_int_equal(call_map(client, m.lines_at + 4096, &memory, &err), 0);
	m.dense = memory;
	m.key = (uint32_t *)(void *)(m.dense + dense);
	m.row = m.dense + dense + ROWS;
	m.model = (float *)(void *)((char *)memory + m.model_at);
	m.lines = (char *)memory + m.lines_at;
	return m;
}

static void fill(struct memory *m, size_t dense)
{
	for (size_t i = 0; i < dense; i++)
		m->dense[i] = (float)(i % 100) + 1.0f;
	for (size_t i = 0; i < ROWS; i++)
		m->key[i] = (uint32_t)(7 * i + 1);
	for (size_t i = 0; i < ROWS * WIDTH; i++)
		m->row[i] = (float)i + 0.5f;
}

static int push(const struct memory *m, unsigned sequence)
{
	return ask("push worker=w0 generation=1 incarnation=0 sequence=%u iteration=0 count=1 dense=1 "
		   "rows=%d map-offset-bytes=0 map-bytes=%zu\n",
		   sequence, ROWS, m->push_bytes);
}

static void apply(unsigned sequence, unsigned iteration)
{
	char line[256], part[128];
	struct error err;
	int len = snprintf(part, sizeof part, "part worker=w0 generation=1 sequence=%u unit=0\n",
			   sequence);
	int head = snprintf(line, sizeof line,
			    "apply incarnation=0 iteration=%u units=1 bytes=%d\n", iteration, len);

	assert_int_equal(call_send(client, line, (size_t)head, part, (size_t)len, &err), 0);
	assert_int_equal(call_receive(client, &record, &err), 0);
	assert_true(record_is(&record, "ok"));
}

/* The parameters and the rows of the keys 1, 8 and 15, into m->model. */
static void pull(const struct memory *m)
{
	uint32_t *key = (uint32_t *)(void *)m->lines;

	for (size_t i = 0; i < ROWS; i++)
		key[i] = (uint32_t)(7 * i + 1);
	assert_true(ask("pull worker=w0 generation=1 incarnation=0 iteration=0 dense=1 rows=%d "
			"into-offset-bytes=%zu into-bytes=%zu map-offset-bytes=%zu map-bytes=%zu\n",
			ROWS, m->model_at, m->model_bytes, m->lines_at, ROWS * sizeof *key));
}

static void what_is_staged_stays(void **state)
{
	const size_t sizes[] = {SMALL, LARGE};

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		size_t dense = sizes[k];
		start(dense);
		struct memory m = share(dense);
		fill(&m, dense);
		assert_true(push(&m, 1));
		/* It said `staged`: from here on nothing of this matters. */
		memset(m.dense, 0xff, m.push_bytes);
		apply(1, 0);
		pull(&m);
		for (size_t i = 0; i < dense; i++)
			if (m.model[i] != -((float)(i % 100) + 1.0f))
				fail_msg("parameter %zu is %g", i, (double)m.model[i]);
		for (size_t i = 0; i < ROWS * WIDTH; i++)
			assert_float_equal(m.model[dense + i], -((float)i + 0.5f), 0);
		stop();
	}
}

/* The last words of a refusal are those of `why`. */
static void refused(const struct memory *m, unsigned sequence, const char *why)
{
	assert_false(push(m, sequence));
	assert_string_equal(record_get(&record, "code"), "diverged");
	assert_non_null(record.text);
	if (!strstr(record.text, why))
		fail_msg("'%s', not '%s'", record.text, why);
}

static void the_first_that_is_too_large_is_named(void **state)
{
	const size_t sizes[] = {SMALL, LARGE};
	const float bad[] = {NAN, -INFINITY, 1.1e18f};

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		size_t dense = sizes[k], place[] = {0, 5, 7, dense / 2, dense - 1};
		start(dense);
		struct memory m = share(dense);
		for (size_t i = 0; i < 15; i++) {
			size_t at = place[i / 3];
			char why[96];
			snprintf(why, sizeof why,
				 "worker w0, iteration 0: the gradient of parameter %s[%zu] is",
				 at < 5 ? "a" : "b", at < 5 ? at : at - 5);
			fill(&m, dense);
			m.dense[at] = bad[i % 3];
			m.row[0] = NAN;
			refused(&m, 1, why);
		}
		fill(&m, dense);
		m.row[3] = 1e30f;
		refused(&m, 1, "the gradient of key 8 is 1e+30");
		assert_true(ask("stat\n"));
		/* 1e18 itself is within. */
		fill(&m, dense);
		m.dense[0] = 1e18f;
		assert_true(push(&m, 2));
		stop();
	}
}

/* ---- a client that writes all the time ---- */

struct scribbler {
	volatile uint32_t *word;
	uint32_t a, b;
	atomic_int end;
};

static void *scribble(void *arg)
{
	struct scribbler *s = arg;

	while (!atomic_load(&s->end)) {
		*s->word = s->a;
		*s->word = s->b;
	}
	return NULL;
}

static void what_was_judged_is_applied(void **state)
{
	const size_t sizes[] = {SMALL, LARGE};

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		size_t dense = sizes[k];
		unsigned applied = 0, turns = k == 0 ? 2000 : 40;
		start(dense);
		struct memory m = share(dense);
		struct scribbler s = {.a = 0x7fc00000u, .b = 0x3f800000u};
		pthread_t thread;
		fill(&m, dense);
		m.dense[dense - 2] = 1.0f;
		s.word = (volatile uint32_t *)(void *)&m.dense[dense - 2];
		assert_int_equal(pthread_create(&thread, NULL, scribble, &s), 0);
		for (unsigned i = 1; i <= turns; i++) {
			if (push(&m, i))
				apply(i, applied++);
		}
		atomic_store(&s.end, 1);
		pthread_join(thread, NULL);
		pull(&m);
		for (size_t i = 0; i < dense + ROWS * WIDTH; i++)
			if (!isfinite(m.model[i]))
				fail_msg("parameter %zu is %g", i, (double)m.model[i]);
		/* Each time it was 1 when it was judged. */
		assert_float_equal(m.model[dense - 2], -(float)applied, 0);
		stop();
	}
}

#define LINES 60

struct separators {
	volatile char *at[LINES];
	atomic_int end;
};

/* Behind a tab is text, so the lines are well formed whether they are one or many. */
static void *separate(void *arg)
{
	struct separators *s = arg;

	while (!atomic_load(&s->end)) {
		for (size_t i = 0; i < LINES; i++)
			*s->at[i] = '\t';
		for (size_t i = 0; i < LINES; i++)
			*s->at[i] = '\n';
	}
	return NULL;
}

/* They become more between a look and the next. */
static void lines_of_an_apply_may_change(void **state)
{
	struct separators s = {.end = 0};
	pthread_t thread;
	size_t len = 0;

	(void)state;
	start(SMALL);
	struct memory m = share(SMALL);
	for (unsigned i = 0; i < LINES; i++) {
		len += (size_t)sprintf(m.lines + len,
				       "part worker=w%u generation=1 sequence=1 unit=0\n", i);
		s.at[i] = m.lines + len - 1;
	}
	len += (size_t)sprintf(m.lines + len, "part worker=w generation=1 sequence=1 unit=0\n");
	assert_int_equal(pthread_create(&thread, NULL, separate, &s), 0);
	for (unsigned i = 0; i < 3000; i++)
		(void)ask("apply incarnation=0 iteration=%u units=1 map-offset-bytes=%zu map-bytes=%zu\n",
			  1000000u, m.lines_at, len);
	atomic_store(&s.end, 1);
	pthread_join(thread, NULL);
	stop();
}

static void buffers_are_used_again_and_given_up(void **state)
{
	struct buffers *r = buffers_new();
	void *buffer[10];

	(void)state;
	for (size_t i = 0; i < 10; i++) {
		buffer[i] = buffer_take(r, 1000 + i);
		assert_int_equal((uintptr_t)buffer[i] % 64, 0);
		memset(buffer[i], 1, 1000 + i);
	}
	for (size_t i = 0; i < 10; i++)
		buffer_give(buffer[i]);
	assert_int_equal(buffers_idle(r), 10);
	assert_ptr_equal(buffer_take(r, 1000), buffer[9]); /* the last one is in the cache still */
	buffer_give(buffer[9]);
	void *large = buffer_take(r, 5 << 20), *small = buffer_take(r, 10);
	assert_int_equal(buffers_idle(r), 10); /* none of them suited */
	buffer_give(large);
	assert_ptr_equal(buffer_take(r, (5 << 20) + 68), large); /* a row more */
	memset(large, 1, 5 << 20);
	buffer_give(large);
	buffer_give(small);
	for (size_t i = 0; i < 2 * BUFFERS_IDLE_TAKES; i++)
		buffer_give(buffer_take(r, 900));
	assert_int_equal(buffers_idle(r), 1);
	assert_null(buffer_take(r, SIZE_MAX - 10));
	buffer_give(NULL);
	buffers_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_staged_stays),
		cmocka_unit_test(the_first_that_is_too_large_is_named),
		cmocka_unit_test(what_was_judged_is_applied),
		cmocka_unit_test(lines_of_an_apply_may_change),
		cmocka_unit_test(buffers_are_used_again_and_given_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
