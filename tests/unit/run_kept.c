/* What a job's next supervisor has to know: one file of lines with sums. */
#include "run/sup.h"

#include "scratch.h"
#include "wire/aside.h"

#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char none[] = "none";
static const struct job job = {
	.name = "j",
	.batch = 64, .workers = 2, .servers = 2, .options.least = 1, .batch_scaling = none};
static char path[sizeof scratch + sizeof DIRS_KEPT];

static void nothing(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static void nothing_due(void *arg)
{
	(void)arg;
}

static struct supervisor *make(void)
{
	struct supervisor *s = calloc(1, sizeof *s);
	s->job = &job;
	s->log.file.fd = -1;
	s->base = event_base_new();
	s->phases.kick = event_new(s->base, -1, 0, nothing, s);
	s->phases.retry = timer_new(s->base, nothing_due, s);
	snprintf(s->dirs.state, sizeof s->dirs.state, "%s", scratch);
	return s;
}

static void release(struct supervisor *s)
{
	sup_kept_free(s);
	sup_in_force_free(s);
	sup_log_close(s);
	event_free(s->phases.kick);
	timer_free(s->phases.retry);
	event_base_free(s->base);
	free(s);
}

static int begin(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	snprintf(path, sizeof path, "%s/" DIRS_KEPT, scratch);
	*state = make();
	return 0;
}

static int end(void **state)
{
	release(*state);
	return scratch_remove(state);
}

static int keep(struct supervisor *s, enum kept_type type, const char *text)
{
	return sup_keep(s, type, text, text ? strlen(text) : 0);
}

/* Until all that is wanted was written, or could not be. */
static void written(struct supervisor *s)
{
	while (s->kept.writing)
		event_base_loop(s->base, EVLOOP_ONCE);
}

static char *whole(void)
{
	static char *text;
	assert_int_equal(fs_read_file(path, DIRS_KEPT_BYTES_MAX, &text, NULL, NULL), 0);
	return text;
}

/* The file has these lines, without their sums. */
static void expect(const char *lines)
{
	char *text = whole(), *to = text;
	for (char *at = text, *newline; *at; at = newline + 1) {
		newline = strchr(at, '\n');
		assert_non_null(newline);
		size_t len = (size_t)(newline - at);
		assert_true(len > 13 && memcmp(newline - 13, " sum=", 5) == 0);
		memmove(to, at, len - 13);
		to += len - 13;
		*to++ = '\n';
	}
	*to = '\0';
	assert_string_equal(text, lines);
	free(text);
}

static void put_file(const char *text)
{
	assert_int_equal(fs_replace_file(path, text, strlen(text), NULL), 0);
}

#define TIME "time seconds=12.000000\n"
#define SCALE                                                                                      \
	"scale job-workers=2 job-servers=2 workers=3 servers=2 maps=0 rebalances=4 change=1 "      \
	"reason=\n"
#define INTENT "intent kind=rollback cut=/c/000002 reason=server at=1\n"
#define REPEATED "repeated samples=7 before=9\n"
#define FORCE "force incarnation=3 life=0\naction kind=adjust-lr id=w0 scale=0.5\n"

static void what_is_kept_is_on_the_disk_when_it_says_so(void **state)
{
	struct supervisor *s = *state;
	assert_int_equal(keep(s, KEPT_SCALE, NULL), 0); /* there was none */
	assert_int_equal(keep(s, KEPT_SCALE, SCALE), -1);
	assert_int_equal(keep(s, KEPT_SCALE, SCALE), -1);
	written(s);
	assert_int_equal(keep(s, KEPT_SCALE, SCALE), 0);
	expect(SCALE);
	assert_int_equal(keep(s, KEPT_INTENT, INTENT), -1);
	assert_int_equal(keep(s, KEPT_SCALE, SCALE), 0); /* as before */
	written(s);
	expect(SCALE INTENT);
	assert_int_equal(keep(s, KEPT_INTENT, NULL), -1);
	written(s);
	assert_int_equal(keep(s, KEPT_INTENT, NULL), 0);
	expect(SCALE);
}

/* While a write is under way others change, and change back: the last of all is written. */
static void what_changes_meanwhile_is_written_after_it(void **state)
{
	struct supervisor *s = *state;
	keep(s, KEPT_TIME, TIME);
	assert_int_equal(keep(s, KEPT_IN_FORCE, FORCE), -1);
	assert_int_equal(keep(s, KEPT_REPEATED, "repeated samples=1\n"), -1);
	assert_int_equal(keep(s, KEPT_REPEATED, REPEATED), -1);
	assert_int_equal(aside_wait(&s->kept.writing, 60), 0);
	assert_non_null(s->kept.writing);
	assert_int_equal(keep(s, KEPT_TIME, TIME), 0);
	assert_int_equal(keep(s, KEPT_REPEATED, REPEATED), -1);
	written(s);
	assert_int_equal(keep(s, KEPT_REPEATED, REPEATED), 0);
	expect(TIME REPEATED FORCE);
}

static void each_goes_to_its_owner_and_stays(void **state)
{
	struct error err;
	struct supervisor *s = *state;
	char cut[sizeof scratch + 32];
	put_file(
		FORCE
		"new-type of=tomorrow\n" SCALE TIME REPEATED INTENT); /* a person's, without sums */
	assert_int_equal(sup_kept_read(s, KEPT_TIME, KEPT_SCALE, &err), 0);
	assert_int_equal(s->scale.now.workers, 3);
	assert_int_equal(s->rebalance.done, 4);
	assert_true(s->scale.is_kept);
	assert_true(s->spent.before >= 12 && s->spent.before <= 12);
	assert_false(s->recover.intent);
	assert_int_equal(sup_kept_read(s, KEPT_INTENT, KEPT_IN_FORCE, &err), 0);
	snprintf(cut, sizeof cut, "%s/checkpoints/000002", scratch);
	assert_string_equal(s->recover.cut, cut); /* never another job's */
	assert_int_equal(s->trainers.repeated, 7);
	assert_int_equal(s->trainers.before, 9);
	assert_int_equal(s->in_force.incarnation, 3);
	assert_int_equal(s->in_force.count, 1);
	assert_int_equal(keep(s, KEPT_SCALE, SCALE), 0);
	keep(s, KEPT_INTENT, NULL);
	written(s);
	expect(TIME SCALE REPEATED FORCE "new-type of=tomorrow\n");
	/* As they are written they are read. */
	struct supervisor *next = make();
	assert_int_equal(sup_kept_read(next, KEPT_TIME, KEPT_IN_FORCE, &err), 0);
	assert_int_equal(next->scale.now.workers, 3);
	assert_int_equal(next->in_force.count, 1);
	release(next);
}

static void none_is_no_error(void **state)
{
	struct error err;
	assert_int_equal(sup_kept_read(*state, KEPT_TIME, KEPT_IN_FORCE, &err), 0);
	put_file("");
	assert_int_equal(sup_kept_read(*state, KEPT_TIME, KEPT_IN_FORCE, &err), 0);
}

/* text in place of what the file has at the first `what` */
static void damaged(struct supervisor *s, const char *what, const char *text, int line,
		    const char *why)
{
	struct error err;
	char place[sizeof path + 16], *good = whole(), *bad = NULL;
	char *at = strstr(good, what);
	assert_non_null(at);
	assert_true(asprintf(&bad, "%.*s%s%s", (int)(at - good), good, text, at + strlen(what)) >
		    0);
	put_file(bad);
	assert_int_equal(sup_kept_read(s, KEPT_TIME, KEPT_IN_FORCE, &err), -1);
	assert_int_equal(err.code, ERROR_DATA);
	snprintf(place, sizeof place, "%s:%d", path, line);
	assert_string_equal(err.place, place);
	assert_non_null(strstr(err.text, why));
	put_file(good);
	free(good);
	free(bad);
}

static void a_damaged_line_is_named(void **state)
{
	struct error err;
	struct supervisor *s = *state;
	keep(s, KEPT_TIME, TIME);
	keep(s, KEPT_SCALE, SCALE);
	keep(s, KEPT_INTENT, INTENT);
	written(s);
	damaged(s, "workers=3", "workers=4", 2, "sum");
	damaged(s, "seconds=12", "seconds=13", 1, "sum");
	damaged(s, "scale ", "sca", 2, "key");
	damaged(s, "rollback", "rol?back", 3, "sum");
	damaged(s, "intent kind=rollback cut=/c/000002 reason=server at=1 sum=",
		"intent kind=rollback cut=/c/.. reason=server at=1\ntime sum=", 3,
		"cut=/c/.. names no checkpoint; without this line the job goes back to its last "
		"checkpoint if it has to");
	damaged(s, " at=1 sum=", " at=1 sum=x", 3, "sum");
	damaged(s, "time seconds=12.000000 sum=", "time seconds=soon\ntime sum=", 1, "seconds");
	/* Only what is asked for. */
	char *text = whole();
	text[strlen(text) - 1] = '\0';
	put_file(text);
	free(text);
	assert_int_equal(sup_kept_read(s, KEPT_TIME, KEPT_SCALE, &err), 0);
	assert_int_equal(sup_kept_read(s, KEPT_INTENT, KEPT_IN_FORCE, &err), -1);
	assert_non_null(strstr(err.text, "newline"));
}

static void status_says(const struct supervisor *s, const char *what)
{
	char text[RUN_WAITS_MAX];
	sup_waits(s, text, sizeof text);
	assert_non_null(strstr(text, what));
	assert_true(*what || !*text);
}

/* It is tried again, and what nobody waits for is no reason to wait. */
static void it_can_not_be_written(void **state)
{
	struct supervisor *s = *state;
	assert_int_equal(mkdir(path, 0700), 0);
	keep(s, KEPT_TIME, TIME);
	written(s);
	status_says(s, "");
	keep(s, KEPT_SCALE, SCALE);
	s->kept.retry_at = 0;
	sup_kept_step(s);
	written(s);
	status_says(s, "/kept can't be written: ");
	assert_int_equal(keep(s, KEPT_SCALE, SCALE), -1);
	assert_null(s->kept.writing); /* not at once */
	assert_int_equal(rmdir(path), 0);
	s->kept.retry_at = 0;
	sup_kept_end(s);
	status_says(s, "");
	assert_int_equal(keep(s, KEPT_SCALE, SCALE), 0);
	expect(TIME SCALE);
}

static void one_that_does_not_fit(void **state)
{
	struct supervisor *s = *state;
	keep(s, KEPT_TIME, TIME);
	written(s);
	assert_int_equal(sup_keep(s, KEPT_TIME, "", 0), -1);
	assert_int_equal(keep(s, KEPT_TIME, TIME), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_kept_is_on_the_disk_when_it_says_so),
		TEST(what_changes_meanwhile_is_written_after_it),
		TEST(each_goes_to_its_owner_and_stays),
		TEST(none_is_no_error),
		TEST(a_damaged_line_is_named),
		TEST(it_can_not_be_written),
		TEST(one_that_does_not_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
