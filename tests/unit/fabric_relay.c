/*
 * fabric/relay: a daemon on one host, its clients on another, nothing of which they notice.  The
 * hosts are two directories here, and two fabricds; a third one has other clients.
 */
#include "wire_daemon.h"

#include "wire/peer.h"
#include "wire/transport.h"

#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#define PAYLOAD (5u << 20)
#define GIVEN_AT (PAYLOAD + 8192) /* behind the one that is sent from 4096 on */
#define MAPPED (GIVEN_AT + PAYLOAD)

static char near_path[160], side_path[160], near_dir[128], side_dir[128], far_dir[128], routes[128];
static pid_t daemon_pid, world_pid;
static int has_world;

static const char *fabricd(void)
{
	static char path[4096];
	const char *bin = getenv("PACELINE_BIN");
	snprintf(path, sizeof path, "%s/fabricd", bin ? bin : "build/bin");
	return path;
}

/* Some builds have no programs. */
static int could_start_world(void)
{
	return access(fabricd(), X_OK) == 0 && system("command -v mpirun >/dev/null 2>&1") == 0;
}

static void exec_world(void)
{
	int quiet = open("/dev/null", O_RDWR | O_CLOEXEC);
	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* MPI's */
	dup2(quiet, 0);
	dup2(quiet, 1);
	execlp("mpirun", "mpirun", "--oversubscribe", "--bind-to", "none", "--mca",
	       "odls_base_sigkill_timeout", "0", "-n", "1", fabricd(), "--host", "far", "--run-dir",
	       far_dir, "--routes", routes, ":", "-n", "1", fabricd(), "--host", "near", "--run-dir",
	       near_dir, ":", "-n", "1", fabricd(), "--host", "side", "--run-dir", side_dir,
	       (char *)NULL);
	_exit(127);
}

static void start_world(void)
{
	fflush(NULL);
	world_pid = fork();
	assert_true(world_pid >= 0);
	if (world_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		exec_world();
	}
	for (int i = 0; access(near_path, F_OK) != 0 || access(side_path, F_OK) != 0; i++) {
		assert_true(i < PATIENCE * 100);
		usleep(10000);
	}
}

static struct call *dial_at(const char *path)
{
	struct call *c = NULL;
	struct error err;
	if (call_open(&c, path, PATIENCE, PATIENCE, &err) != 0)
		fail_msg("%s: %s", err.place, err.text);
	return c;
}

static struct call *dial_near(void)
{
	return dial_at(near_path);
}

#define NEED_WORLD()                                                                               \
	do {                                                                                       \
		if (!has_world)                                                                    \
			skip();                                                                    \
	} while (0)

static unsigned char pattern(size_t i)
{
	return (unsigned char)(i * 7 + i / 251);
}

/* ---- what is said and answered ---- */

static void requests_and_answers(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *c = dial_near();
	assert_string_equal(record_get(call_greeting(c), "role"), "test");
	say(c, "echo n=7\n");
	hear(c, "ok n=7");
	/* One after the other, in pieces, and what is no request. */
	say(c, "echo n=1\nlater key=1\nec");
	say(c, "ho n=3\n\001\necho\n");
	hear(c, "ok n=1");
	hear(c, "begun");
	struct call *other = dial_near();
	say(other, "release key=1\n");
	hear(other, "ok");
	hear(c, "ok released=1");
	hear(c, "ok n=3");
	hear(c, "err code=bad-request");
	hear(c, "err code=bad-request");
	call_close(other);
	call_close(c);
}

static void a_line_too_long_closes_one_client(void **state)
{
	(void)state;
	NEED_WORLD();
	static char line[9000];
	struct call *c = dial_near(), *other = dial_near();
	struct error err;
	memset(line, 'x', sizeof line);
	assert_int_equal(call_send(c, line, sizeof line, NULL, 0, &err), 0);
	hear(c, "err code=bad-request");
	hear_closed(c);
	say(other, "echo n=2\n");
	hear(other, "ok n=2");
	call_close(c);
	call_close(other);
}

static void half_a_line_at_the_end(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *c = dial_near();
	say(c, "echo n=5\necho n=6");
	assert_int_equal(shutdown(call_fd(c), SHUT_WR), 0);
	hear(c, "ok n=5");
	hear(c, "err code=bad-request"); /* the input ends without a newline */
	hear_closed(c);
	call_close(c);
}

static unsigned long of_state(const char *key)
{
	static struct record r;
	struct error err;
	uint64_t value = 0;
	struct call *c = dial();
	assert_int_equal(call_request(c, "state\n", 6, &r, NULL, NULL, &err), CALL_OK);
	assert_int_equal(record_u64(&r, key, 0, UINT64_MAX, &value, &err), 0);
	call_close(c);
	return (unsigned long)value;
}

static void wait_for_state(const char *key, unsigned long least)
{
	for (int i = 0; of_state(key) < least; i++) {
		assert_true(i < PATIENCE * 100);
		usleep(10000);
	}
}

static void who_goes_is_gone_there_too(void **state)
{
	(void)state;
	NEED_WORLD();
	unsigned long cancelled = of_state("cancelled"), notes = of_state("notes");
	struct call *c = dial_near();
	say(c, "later key=2\n");
	hear(c, "begun");
	call_close(c);
	wait_for_state("cancelled", cancelled + 1);
	/* A request that tells and asks nothing arrives all the same. */
	int fd;
	struct error err;
	struct iovec note = {"note n=5\n", 9};
	assert_int_equal(transport_connect(near_path, &fd, &err), 0);
	assert_int_equal(transport_write(fd, &note, 1, -1), 9);
	close(fd);
	wait_for_state("notes", notes + 5);
}

static void the_daemon_closes(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *c = dial_near();
	say(c, "bye\n");
	hear(c, "ok bye=1");
	hear_closed(c);
	call_close(c);
}

/* ---- payloads ---- */

static void check_load(struct call *c, const unsigned char *data, size_t bytes)
{
	char expected[128];
	snprintf(expected, sizeof expected, "ok tag=0 got=%zu sum=%llu", bytes,
		 (unsigned long long)sum_of(data, bytes));
	hear(c, expected);
}

static void payloads_in_the_stream(void **state)
{
	(void)state;
	NEED_WORLD();
	static const size_t size[] = {0, 1, 4096, 32767, 32768, 70000, PAYLOAD};
	struct call *c = dial_near();
	struct record *r = malloc(sizeof *r);
	unsigned char *data = malloc(PAYLOAD), *back = malloc(PAYLOAD);
	struct error err;
	char line[64];
	for (size_t i = 0; i < PAYLOAD; i++)
		data[i] = i % 97 ? pattern(i) : '\n';
	for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
		int len = snprintf(line, sizeof line, "load bytes=%zu\n", size[i]);
		assert_int_equal(call_send(c, line, (size_t)len, data, size[i], &err), 0);
		check_load(c, data, size[i]);
		snprintf(line, sizeof line, "big n=%zu\necho n=%zu\n", size[i], i);
		say(c, line);
		assert_int_equal(call_receive(c, r, &err), 0);
		assert_int_equal(call_bytes(c, back, size[i], &err), 0);
		for (size_t j = 0; j < size[i]; j++)
			if (back[j] != pattern(j))
				fail_msg("%zu bytes: byte %zu is wrong", size[i], j);
		hear(c, "ok");
		snprintf(line, sizeof line, "ok n=%zu", i);
		hear(c, line);
	}
	free(back);
	free(data);
	free(r);
	call_close(c);
}

static void payloads_in_shared_memory(void **state)
{
	(void)state;
	NEED_WORLD();
	static const size_t size[] = {1, 4096, 16384, 16385, 1u << 20, (1u << 20) + 9, PAYLOAD};
	struct call *c = dial_near();
	struct error err;
	unsigned char *memory;
	char line[256];
	assert_int_equal(call_map(c, MAPPED, (void **)&memory, &err), 0);
	for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
		size_t n = size[i];
		for (size_t j = 0; j < n; j++)
			memory[4096 + j] = (unsigned char)(pattern(j) + i);
		/* What comes behind a payload in memory waits for it, and what is asked for meanwhile,
		 * too. */
		snprintf(line, sizeof line,
			 "echo n=1\nload map-offset-bytes=4096 map-bytes=%zu\necho n=2\n"
			 "give into-offset-bytes=%u into-bytes=%zu\necho n=3\n",
			 n, GIVEN_AT, n);
		say(c, line);
		hear(c, "ok n=1");
		check_load(c, memory + 4096, n);
		hear(c, "ok n=2");
		snprintf(line, sizeof line, "data map-offset-bytes=%u map-bytes=%zu", GIVEN_AT, n);
		hear(c, line);
		for (size_t j = 0; j < n; j++)
			if (memory[GIVEN_AT + j] != pattern(j))
				fail_msg("%zu bytes: byte %zu is wrong", n, j);
		hear(c, "ok");
		hear(c, "ok n=3");
	}
	/* Outside of it, and once more. */
	snprintf(line, sizeof line, "load map-offset-bytes=%u map-bytes=9\nmap bytes=8\n",
		 MAPPED - 8);
	say(c, line);
	hear(c, "err code=bad-request");
	hear(c, "err code=bad-request");
	call_close(c);
}

/* What the relay of a host keeps. */
static uint64_t of_stat(const char *dir, const char *key)
{
	static struct record r;
	static char path[160];
	struct error err;
	struct call *c = NULL;
	uint64_t value = UINT64_MAX;
	snprintf(path, sizeof path, "%s/fabric.sock", dir);
	assert_int_equal(call_open(&c, path, PATIENCE, PATIENCE, &err), 0);
	say(c, "stat\n");
	do
		assert_int_equal(call_receive(c, &r, &err), 0);
	while (!record_is(&r, "stat"));
	assert_int_equal(record_u64(&r, key, 0, UINT64_MAX, &value, &err), 0);
	call_close(c);
	return value;
}

/* ---- the same payload for several clients ---- */

#define SHARERS 3

static char give_all[96];

static void dial_sharers(struct call *c[SHARERS], unsigned char *memory[SHARERS])
{
	struct error err;
	snprintf(give_all, sizeof give_all, "give into-offset-bytes=0 into-bytes=%u\n", PAYLOAD);
	for (int i = 0; i < SHARERS; i++) {
		c[i] = dial_near();
		assert_int_equal(call_map(c[i], PAYLOAD, (void **)&memory[i], &err), 0);
	}
}

static void hear_given(struct call *c, const unsigned char *memory, size_t at, size_t bytes)
{
	char line[96];
	snprintf(line, sizeof line, "data map-offset-bytes=%zu map-bytes=%zu", at, bytes);
	hear(c, line);
	hear(c, "ok");
	for (size_t j = 0; j < bytes; j++)
		if (memory[at + j] != pattern(j))
			fail_msg("byte %zu is wrong", j);
}

static void check_given(struct call *c, const unsigned char *memory)
{
	hear_given(c, memory, 0, PAYLOAD);
}

/* All asked for at once. */
static void give_many(struct call *c, size_t bytes, size_t count)
{
	char line[96];
	for (size_t i = 0; i < count; i++) {
		snprintf(line, sizeof line, "give into-offset-bytes=%zu into-bytes=%zu\n",
			 i * bytes, bytes);
		say(c, line);
	}
}

static void the_same_payload_goes_once(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *c[SHARERS];
	unsigned char *memory[SHARERS];
	uint64_t sent = of_stat(far_dir, "payload-bytes"), copied = of_stat(far_dir, "copied-bytes");
	dial_sharers(c, memory);
	for (int i = 0; i < SHARERS; i++)
		say(c[i], give_all);
	for (int i = 0; i < SHARERS; i++)
		check_given(c[i], memory[i]);
	assert_int_equal(of_stat(far_dir, "payload-bytes") - sent, PAYLOAD);
	assert_int_equal(of_stat(far_dir, "copied-bytes") - copied, (SHARERS - 1) * PAYLOAD);
	/* What its owner has changed meanwhile is seen, and sent. */
	for (int i = 0; i < SHARERS - 1; i++)
		memory[i][PAYLOAD / 2]++;
	memset(memory[SHARERS - 1], 0, PAYLOAD);
	sent = of_stat(far_dir, "payload-bytes");
	copied = of_stat(far_dir, "copied-bytes");
	say(c[SHARERS - 1], give_all);
	check_given(c[SHARERS - 1], memory[SHARERS - 1]);
	sent = of_stat(far_dir, "payload-bytes") - sent;
	assert_int_equal(of_stat(far_dir, "copied-bytes") - copied + sent, PAYLOAD);
	assert_true(sent > 0 && sent < PAYLOAD / 4);
	for (int i = 0; i < SHARERS; i++)
		call_close(c[i]);
}

static void who_has_it_goes(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *c[SHARERS];
	unsigned char *memory[SHARERS];
	for (int turn = 0; turn < 8; turn++) {
		dial_sharers(c, memory);
		for (int i = 0; i < SHARERS; i++)
			say(c[i], give_all);
		if (turn % 2) /* it has all of it by then, or not yet */
			check_given(c[0], memory[0]);
		call_close(c[0]);
		for (int i = 1; i < SHARERS; i++) {
			check_given(c[i], memory[i]);
			call_close(c[i]);
		}
	}
}

/* Pieces that lie one behind the other, of several payloads, are sent as they were said. */
static void what_is_not_there_is_sent_in_its_pieces(void **state)
{
	(void)state;
	NEED_WORLD();
	enum { PART = 700 * 1024, PARTS = PAYLOAD / PART };
	struct call *first = dial_near(), *c = dial_near();
	struct error err;
	unsigned char *had, *memory;
	char line[96];
	assert_int_equal(call_map(first, PART, (void **)&had, &err), 0);
	assert_int_equal(call_map(c, PAYLOAD, (void **)&memory, &err), 0);
	snprintf(line, sizeof line, "give into-offset-bytes=0 into-bytes=%d\n", PART);
	for (int turn = 0; turn < 8; turn++) {
		say(first, line);
		hear_given(first, had, 0, PART);
		memset(had, 0, PART);
		memset(memory, 0, PAYLOAD);
		give_many(c, PART, PARTS);
		for (size_t i = 0; i < PARTS; i++)
			hear_given(c, memory, i * PART, PART);
	}
	call_close(first);
	call_close(c);
}

/* What could not be copied can't be sent any more either. */
static void the_daemon_goes_and_a_copy_has_failed(void **state)
{
	(void)state;
	NEED_WORLD();
	static struct record r;
	struct call *c[SHARERS];
	unsigned char *memory[SHARERS];
	struct error err;
	char line[128];
	for (int turn = 0; turn < 8; turn++) {
		dial_sharers(c, memory);
		say(c[0], give_all);
		check_given(c[0], memory[0]);
		memset(memory[0], 0, PAYLOAD);
		snprintf(line, sizeof line, "%sbye\n", give_all);
		say(c[1], line);
		while (call_receive(c[1], &r, &err) == 0)
			;
		assert_int_equal(err.code, ERROR_UNAVAILABLE);
		for (int i = 0; i < SHARERS; i++)
			call_close(c[i]);
	}
}

/* ---- pushes of a group ---- */

#define DENSE 2500004u /* bytes, which are summed in pieces; behind them are 5000 of rows */
#define ROWS 20000u

static void say_push(struct call *c, unsigned group)
{
	char line[256];
	snprintf(line, sizeof line,
		 "push group=%u members=3 dense-bytes=%u dense=1 rows=5 map-offset-bytes=64 "
		 "map-bytes=%u\n",
		 group, DENSE, DENSE + ROWS);
	say(c, line);
}

static void hear_push(struct call *c, int dense, int of, const unsigned char *data, size_t bytes)
{
	char line[128];
	snprintf(line, sizeof line, "ok dense=%d sum-of=%d got=%zu hash=%llu", dense, of, bytes,
		 (unsigned long long)sum_of(data, bytes));
	hear(c, line);
}

static void pushes_of_a_group_are_summed(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *c[SHARERS];
	unsigned char *memory[SHARERS];
	struct error err;
	unsigned char *sum = malloc(DENSE + ROWS);
	uint64_t sent = of_stat(near_dir, "payload-bytes");
	for (int i = 0; i < SHARERS; i++) {
		c[i] = dial_near();
		assert_int_equal(call_map(c[i], PAYLOAD, (void **)&memory[i], &err), 0);
		memset(memory[i] + 64, i + 1, DENSE + ROWS);
		for (size_t k = 0; k < DENSE / sizeof(float); k++)
			((float *)(void *)(memory[i] + 64))[k] = (float)(k % 100 + (size_t)i);
	}
	say_push(c[0], 7);
	say_push(c[1], 7);
	say(c[2], "echo n=1\n");
	hear(c[2], "ok n=1");
	say_push(c[2], 7);
	/* The last one that came leads. */
	memcpy(sum, memory[2] + 64, DENSE + ROWS);
	for (size_t k = 0; k < DENSE / sizeof(float); k++)
		((float *)(void *)sum)[k] = (float)(3 * (k % 100) + 3);
	int lead = -1;
	for (int i = 0; i < SHARERS; i++) {
		static struct record r;
		assert_int_equal(call_receive(c[i], &r, &err), 0);
		assert_string_equal(record_get(&r, "sum-of"), "3");
		char want[32];
		int leads = strcmp(record_get(&r, "dense"), "1") == 0;
		if (leads) {
			assert_int_equal(lead, -1);
			lead = i;
			memcpy(sum + DENSE, memory[i] + 64 + DENSE, ROWS);
		}
		snprintf(want, sizeof want, "%llu",
			 (unsigned long long)(leads ? sum_of(sum, DENSE + ROWS)
						    : sum_of(memory[i] + 64 + DENSE, ROWS)));
		assert_string_equal(record_get(&r, "hash"), want);
	}
	assert_true(lead >= 0);
	assert_int_equal(of_stat(near_dir, "payload-bytes") - sent, DENSE + 3 * ROWS);
	/* A member that goes: the others go as they are. One of another group does not count. */
	say_push(c[0], 8);
	say_push(c[1], 8);
	call_close(c[1]);
	say_push(c[2], 9);
	hear_push(c[0], 1, 0, memory[0] + 64, DENSE + ROWS);
	hear_push(c[2], 1, 0, memory[2] + 64, DENSE + ROWS);
	call_close(c[0]);
	call_close(c[2]);
	free(sum);
}

/* While they are being added, or before, or when that is done. */
static void a_member_of_a_group_goes(void **state)
{
	(void)state;
	NEED_WORLD();
	static struct record r;
	struct call *c[SHARERS];
	unsigned char *memory[SHARERS];
	struct error err;
	dial_sharers(c, memory);
	for (unsigned turn = 0; turn < 8; turn++) {
		for (int i = 0; i < SHARERS; i++)
			say_push(c[i], 20 + turn);
		call_close(c[turn % SHARERS]);
		for (int i = 0; i < SHARERS; i++) {
			if (i == (int)turn % SHARERS)
				continue;
			assert_int_equal(call_receive(c[i], &r, &err), 0);
			assert_true(record_is(&r, "ok"));
		}
		c[turn % SHARERS] = dial_near();
		assert_int_equal(call_map(c[turn % SHARERS], PAYLOAD,
					  (void **)&memory[turn % SHARERS], &err), 0);
	}
	for (int i = 0; i < SHARERS; i++)
		call_close(c[i]);
}

/* ---- a group on two hosts: two members on near, one on side ---- */

/* at: the host that sums. */
static void say_far_push(struct call *c, unsigned group, int here, const char *at)
{
	char line[256];
	snprintf(line, sizeof line,
		 "push group=%u members=3 here=%d at=%s dense-bytes=%u dense=1 rows=5 "
		 "map-offset-bytes=64 map-bytes=%u\n",
		 group, here, at, DENSE, DENSE + ROWS);
	say(c, line);
}

static void dial_hosts(struct call *c[SHARERS], unsigned char *memory[SHARERS])
{
	struct error err;
	for (int i = 0; i < SHARERS; i++) {
		c[i] = dial_at(i < 2 ? near_path : side_path);
		assert_int_equal(call_map(c[i], PAYLOAD, (void **)&memory[i], &err), 0);
		memset(memory[i] + 64, i + 1, DENSE + ROWS);
		for (size_t k = 0; k < DENSE / sizeof(float); k++)
			((float *)(void *)(memory[i] + 64))[k] = (float)(k % 100 + (size_t)i);
	}
}

/* One of those on this host has the sum, the others have their rows. */
static void hear_far_sum(struct call *c[SHARERS], unsigned char *memory[SHARERS], int from, int to)
{
	static struct record r;
	struct error err;
	unsigned char *sum = malloc(DENSE + ROWS);
	int leads = 0;
	for (size_t k = 0; k < DENSE / sizeof(float); k++)
		((float *)(void *)sum)[k] = (float)(3 * (k % 100) + 3);
	for (int i = 0; i < SHARERS; i++) {
		char want[32];
		assert_int_equal(call_receive(c[i], &r, &err), 0);
		assert_string_equal(record_get(&r, "sum-of"), "3");
		int has_dense = strcmp(record_get(&r, "dense"), "1") == 0;
		leads += has_dense;
		assert_true(!has_dense || (i >= from && i < to));
		memcpy(sum + DENSE, memory[i] + 64 + DENSE, ROWS);
		snprintf(want, sizeof want, "%llu",
			 (unsigned long long)(has_dense ? sum_of(sum, DENSE + ROWS)
							: sum_of(sum + DENSE, ROWS)));
		assert_string_equal(record_get(&r, "hash"), want);
	}
	assert_int_equal(leads, 1);
	free(sum);
}

static void members_on_two_hosts_are_one_sum(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *c[SHARERS];
	unsigned char *memory[SHARERS];
	dial_hosts(c, memory);
	uint64_t sent = of_stat(side_dir, "payload-bytes");
	say_far_push(c[0], 40, 2, "near");
	say_far_push(c[2], 40, 1, "near");
	say_far_push(c[1], 40, 2, "near");
	hear_far_sum(c, memory, 0, 2);
	assert_int_equal(of_stat(side_dir, "payload-bytes") - sent, DENSE + ROWS);
	for (unsigned i = 0; i < SHARERS; i++)
		say_far_push(c[i], 41, i < 2 ? 2 : 1, "side");
	hear_far_sum(c, memory, 2, 3);
	for (int i = 0; i < SHARERS; i++)
		call_close(c[i]);
}

static void who_is_not_summed_with_another_host_goes_as_it_is(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *c[SHARERS];
	unsigned char *memory[SHARERS];
	dial_hosts(c, memory);
	/* The server is there: each host sums its own. */
	say_far_push(c[2], 50, 1, "far");
	hear_push(c[2], 1, 0, memory[2] + 64, DENSE + ROWS);
	static struct record r;
	struct error err;
	for (int i = 0; i < 2; i++)
		say_far_push(c[i], 50, 2, "far");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(call_receive(c[i], &r, &err), 0);
		assert_string_equal(record_get(&r, "sum-of"), "2");
	}
	/* Nobody comes there: side's has gone there, and is sent from side in the end. */
	say_far_push(c[2], 51, 1, "near");
	say_far_push(c[0], 51, 2, "near");
	call_close(c[1]);
	hear_push(c[0], 1, 0, memory[0] + 64, DENSE + ROWS);
	hear_push(c[2], 1, 0, memory[2] + 64, DENSE + ROWS);
	call_close(c[0]);
	call_close(c[2]);
	for (int i = 0; of_stat(near_dir, "far") + of_stat(side_dir, "near") > 0; i++) {
		assert_true(i < PATIENCE * 100);
		usleep(10000);
	}
}

/* A daemon that looks at once finds all of it, and the lines behind it in their order. */
static void the_payload_is_there_first(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *c = dial_near();
	struct error err;
	unsigned char *memory;
	char line[128];
	assert_int_equal(call_map(c, 3 * PAYLOAD, (void **)&memory, &err), 0);
	for (int i = 0; i < 40; i++) {
		memory[3 * PAYLOAD - 1] = (unsigned char)i;
		snprintf(line, sizeof line,
			 "last map-offset-bytes=0 map-bytes=%u\necho n=%d\necho n=7\n%s",
			 3 * PAYLOAD, i, i % 2 ? "" : "last map-offset-bytes=0 map-bytes=8\nech");
		say(c, line);
		snprintf(line, sizeof line, "ok byte=%d", i);
		hear(c, line);
		snprintf(line, sizeof line, "ok n=%d", i);
		hear(c, line);
		hear(c, "ok n=7");
		if (i % 2)
			continue;
		hear(c, "ok byte=0");
		say(c, "o n=8\n");
		hear(c, "ok n=8");
	}
	call_close(c);
}

static void memory_that_is_none(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *c = dial_near();
	struct iovec line = {"map bytes=4096\n", 15};
	int fd = memfd_create("unsealed", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 4096), 0);
	say(c, "map bytes=4096\nload map-offset-bytes=0 map-bytes=8\n");
	hear(c, "err code=bad-request");
	hear(c, "err code=bad-request");
	assert_int_equal(transport_write(call_fd(c), &line, 1, fd), 15);
	hear(c, "err code=bad-request");
	say(c, "echo n=1\n");
	hear(c, "ok n=1");
	close(fd);
	call_close(c);
}

static void a_client_dies_in_a_payload(void **state)
{
	(void)state;
	NEED_WORLD();
	struct error err;
	void *memory;
	unsigned long closed = of_state("closed");
	for (int i = 0; i < 8; i++) {
		struct call *c = dial_near();
		char line[128];
		assert_int_equal(call_map(c, 4 * PAYLOAD, &memory, &err), 0);
		memset(memory, 1, 4 * PAYLOAD);
		snprintf(line, sizeof line, "load map-offset-bytes=0 map-bytes=%u\n", 4 * PAYLOAD);
		say(c, line);
		say(c, i % 2 ? "load bytes=1000000\nhalf" : "give into-offset-bytes=0 into-bytes=5000000\n");
		call_close(c);
	}
	wait_for_state("closed", closed + 8);
	struct call *c = dial_near();
	say(c, "echo n=1\n");
	hear(c, "ok n=1");
	call_close(c);
}

/* ---- many ---- */

static void one_that_is_never_read(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *deaf = dial_near(), *c = dial_near();
	for (int i = 0; i < 4; i++)
		say(deaf, "big n=10000000\n");
	char line[64], expected[64];
	for (int i = 0; i < 2000; i++) {
		snprintf(line, sizeof line, "echo n=%d\n", i);
		snprintf(expected, sizeof expected, "ok n=%d", i);
		say(c, line);
		hear(c, expected);
	}
	assert_true(of_stat(near_dir, "kept-bytes") < 1u << 20);
	assert_true(of_stat(far_dir, "kept-bytes") < 1u << 20);
	/* All of it is there when it is read at last. */
	struct record *r = malloc(sizeof *r);
	unsigned char *back = malloc(10000000);
	struct error err;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(call_receive(deaf, r, &err), 0);
		assert_int_equal(call_bytes(deaf, back, 10000000, &err), 0);
		for (size_t j = 0; j < 10000000; j++)
			if (back[j] != pattern(j))
				fail_msg("byte %zu is wrong", j);
		hear(deaf, "ok");
	}
	free(back);
	free(r);
	call_close(deaf);
	call_close(c);
	for (int i = 0; of_stat(near_dir, "near") + of_stat(far_dir, "far") > 0; i++) {
		assert_true(i < PATIENCE * 100);
		usleep(10000);
	}
}

/* Until nothing more is taken. */
static void say_all_that_fits(int fd, const char *text)
{
	struct iovec line = {(char *)(uintptr_t)text, strlen(text)};
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	while (poll(&p, 1, 300) > 0)
		assert_true(transport_write(fd, &line, 1, -1) != TRANSPORT_LOST);
}

/* Its daemon waits until an answer is taken before it hears the next request. */
static void one_that_goes_and_has_read_nothing(void **state)
{
	(void)state;
	NEED_WORLD();
	int fd;
	char text[4096] = "big n=20000\necho n=1\t"; /* answers are longer than what asks for them */
	struct error err;
	assert_int_equal(transport_connect(near_path, &fd, &err), 0);
	memset(text + strlen(text), 'x', sizeof text - 2 - strlen(text));
	text[sizeof text - 2] = '\n';
	text[sizeof text - 1] = '\0';
	say_all_that_fits(fd, text);
	close(fd);
	for (int i = 0; of_stat(near_dir, "near") + of_stat(far_dir, "far") > 0; i++) {
		assert_true(i < PATIENCE * 100);
		usleep(10000);
	}
	assert_int_equal(of_stat(far_dir, "kept-bytes"), 0);
}

/* Together they have more on its way than a link may: those who find it full are heard later. */
static void many_at_once(void **state)
{
	(void)state;
	NEED_WORLD();
	enum { CLIENTS = 48, BYTES = 1000000 };
	struct call *c[CLIENTS];
	struct record *r = malloc(sizeof *r);
	unsigned char *back = malloc(BYTES);
	struct error err;
	for (int i = 0; i < CLIENTS; i++)
		c[i] = dial_near();
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < CLIENTS; i++)
			say(c[i], "big n=1000000\n");
		for (int i = 0; i < CLIENTS; i++) {
			assert_int_equal(call_receive(c[i], r, &err), 0);
			assert_int_equal(call_bytes(c[i], back, BYTES, &err), 0);
			hear(c[i], "ok");
		}
	}
	for (int i = 0; i < CLIENTS; i++)
		call_close(c[i]);
	free(back);
	free(r);
}

/* ---- the world goes, and comes again ---- */

static void a_new_world(void **state)
{
	(void)state;
	NEED_WORLD();
	struct call *c = dial_near();
	struct error err;
	void *memory;
	int status;
	assert_int_equal(call_map(c, PAYLOAD, &memory, &err), 0);
	memset(memory, 3, PAYLOAD);
	kill(world_pid, SIGKILL);
	assert_int_equal(waitpid(world_pid, &status, 0), world_pid);
	hear_closed(c);
	/* The sockets that it left behind are taken over. */
	unlink(near_path);
	unlink(side_path);
	start_world();
	for (int i = 0; call_reopen(c, &err) != 0; i++) {
		assert_true(i < PATIENCE * 100);
		usleep(10000);
	}
	char line[64];
	snprintf(line, sizeof line, "load map-offset-bytes=0 map-bytes=%u\n", PAYLOAD);
	say(c, line);
	check_load(c, memory, PAYLOAD);
	call_close(c);
}

static int begin(void **state)
{
	struct error err;
	if (make_dir(state) != 0)
		return -1;
	has_world = could_start_world();
	if (!has_world)
		return 0;
	daemon_pid = daemon_start(NULL);
	snprintf(far_dir, sizeof far_dir, "%s/run", daemon_dir);
	snprintf(near_dir, sizeof near_dir, "%s/near", daemon_dir);
	snprintf(near_path, sizeof near_path, "%s/test.sock", near_dir);
	snprintf(side_dir, sizeof side_dir, "%s/side", daemon_dir);
	snprintf(side_path, sizeof side_path, "%s/test.sock", side_dir);
	snprintf(routes, sizeof routes, "%s/routes", daemon_dir);
	const char *route = "route socket=test.sock host=far\n";
	if (fs_replace_file(routes, route, strlen(route), &err) != 0)
		return -1;
	start_world();
	return 0;
}

static int end(void **state)
{
	int status;
	if (has_world) {
		kill(world_pid, SIGTERM);
		waitpid(world_pid, &status, 0);
		if (daemon_stop(daemon_pid) != 0)
			return -1;
	}
	return remove_dir(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_and_answers),
		cmocka_unit_test(a_line_too_long_closes_one_client),
		cmocka_unit_test(half_a_line_at_the_end),
		cmocka_unit_test(who_goes_is_gone_there_too),
		cmocka_unit_test(the_daemon_closes),
		cmocka_unit_test(payloads_in_the_stream),
		cmocka_unit_test(payloads_in_shared_memory),
		cmocka_unit_test(the_same_payload_goes_once),
		cmocka_unit_test(who_has_it_goes),
		cmocka_unit_test(what_is_not_there_is_sent_in_its_pieces),
		cmocka_unit_test(the_daemon_goes_and_a_copy_has_failed),
		cmocka_unit_test(pushes_of_a_group_are_summed),
		cmocka_unit_test(a_member_of_a_group_goes),
		cmocka_unit_test(members_on_two_hosts_are_one_sum),
		cmocka_unit_test(who_is_not_summed_with_another_host_goes_as_it_is),
		cmocka_unit_test(the_payload_is_there_first),
		cmocka_unit_test(memory_that_is_none),
		cmocka_unit_test(a_client_dies_in_a_payload),
		cmocka_unit_test(one_that_is_never_read),
		cmocka_unit_test(one_that_goes_and_has_read_nothing),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(a_new_world),
	};
	return cmocka_run_group_tests_name("fabric_relay", tests, begin, end);
}
