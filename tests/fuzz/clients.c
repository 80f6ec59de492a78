/* clients: what daemons answer to clients, in one process; see targets.h. */
#include "tests/fuzz/targets.h"

#include "work/actions.h"
#include "work/batch.h"
#include "work/replica.h"
#include "work/result.h"
#include "work/servers.h"
#include "work/shards.h"
#include "wire/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static struct error why;

/* ---- daemons ---- */

#define NEXT '\f'   /* what is behind it is said in the next connection */
#define MEMORY '\v' /* what is behind it comes with a file in memory */
#define DAEMONS 24  /* connections, at most */
#define MAPPED 4096

static struct {
	int is_here;
	const uint8_t *data;
	size_t left;
	int fd[DAEMONS], count;
	volatile int stop; /* there is nothing more to hear */
} daemons;

static void daemons_say(int fd, const uint8_t *data, size_t size)
{
	while (size > 0) {
		int memory = -1;
		if (*data == MEMORY) {
			memory = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
			fuzz_must(ftruncate(memory, MAPPED) == 0 && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "memfd");
			data++, size--;
		}
		const uint8_t *end = size > 0 ? memchr(data, MEMORY, size) : NULL;
		size_t len = end ? (size_t)(end - data) : size;
		struct iovec piece = {(uint8_t *)(uintptr_t)data, len};
		if (len > 0)
			(void)transport_write(fd, &piece, 1, memory);
		if (memory >= 0)
			close(memory);
		data += len;
		size -= len;
	}
	shutdown(fd, SHUT_WR);
}

/* A client that connects has all answers at once, and then the end. Linked with --wrap. */
int __real_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	int pair[2];
	if (!daemons.is_here)
		return __real_connect(fd, to, len);
	if (daemons.left == 0 || daemons.count == DAEMONS) {
		daemons.stop = 1;
		errno = ECONNREFUSED;
		return -1;
	}
	int flags = fcntl(fd, F_GETFL);
	fuzz_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0 &&
			  fcntl(pair[0], F_SETFL, flags) == 0 && dup3(pair[0], fd, O_CLOEXEC) == fd,
		  "socketpair");
	close(pair[0]);
	const uint8_t *end = memchr(daemons.data, NEXT, daemons.left);
	size_t size = end ? (size_t)(end - daemons.data) : daemons.left;
	daemons_say(pair[1], daemons.data, size);
	daemons.fd[daemons.count++] = pair[1];
	daemons.data += size + (end != NULL);
	daemons.left -= size + (end != NULL);
	return 0;
}

/* Nobody is waited for: what is answered is here. Linked with --wrap. */
void __wrap_clock_sleep(double seconds);
void __wrap_clock_sleep(double seconds)
{
	(void)seconds;
}

static void daemons_begin(const uint8_t *data, size_t size)
{
	daemons.is_here = 1;
	daemons.data = data;
	daemons.left = size;
	daemons.stop = 0;
}

static void daemons_end(void)
{
	while (daemons.count > 0)
		close(daemons.fd[--daemons.count]);
	daemons.is_here = 0;
}

/* ---- a worker, and shardd ---- */

static int client_held(const struct piece *p, void *owner, struct error *err)
{
	(void)err;
	fuzz_must(p->skip + p->take <= p->length, "a piece that is none");
	++*(unsigned *)owner;
	return 0;
}

void fuzz_shards(const uint8_t *data, size_t size)
{
	unsigned held = 0;
	struct shards *s;
	const struct generation of = {.path = "shardd.sock", .worker = "w0", .answer_seconds = 5,
				      .stop = &daemons.stop, .held = client_held, .owner = &held};
	daemons_begin(data, size);
	fuzz_must(shards_new(&s, &of, &why) == 0, "shards_new");
	for (int life = 0; life < 8 && shards_hello(s, &why) == WORK_OK; life++) {
		int result = WORK_OK;
		for (int i = 0; i < 16 && (result == WORK_OK || result == WORK_WAIT); i++) {
			struct piece p;
			result = shards_ask(s, 50, i & 1, &why);
			if (result == WORK_OK)
				result = shards_take(s, 1, &p, &why);
			if (result == WORK_OK) {
				client_held(&p, &held, &why);
				fuzz_must(p.begin + p.length <= shards_generation(s)->samples, "rows that there are not");
			}
		}
		if (result != WORK_FENCED && result != WORK_OK && result != WORK_WAIT)
			break;
		shards_bye(s);
	}
	shards_free(s);
	daemons_end();
}

/* ---- a worker, and its parameters ---- */

#define DENSE 6
#define WIDTH 2
#define KEYS 100

static struct actions client_actions;

static void client_take_action(const struct record *r, void *owner)
{
	(void)owner;
	actions_take(&client_actions, r);
}

static void client_take_line(const char *line, size_t len, void *owner)
{
	(void)owner;
	fuzz_must(len > 0 && line[len - 1] == '\n', "no whole line");
}

static void client_batch(struct batch *b, const struct exchange *x, uint64_t row)
{
	static float label[3] = {0, 1, 1}, weight[3] = {1, 1, 1};
	uint64_t number[3] = {row, row + 1, row + 7};
	const struct rows rows = {.count = 3, .label = label, .weight = weight, .row = number};
	const struct model_keys keys = {.are_rows = 1};
	batch_start(b, 0, 0);
	fuzz_must(batch_reserve(b, 3, 3, &why) == 0, "batch");
	for (size_t i = 0; i < 3; i++)
		batch_add_sample(b, &rows, i, &keys);
	batch_add_range(b, 1, row, 3);
	fuzz_must(batch_finish(b, x->kind->map(x), KEYS, &why) == 0, "batch");
}

/* A batch, as the trainer makes it. next: what it asks for early. */
static int client_round(struct exchange *x, uint64_t sequence, uint64_t *iteration, const struct batch *b, struct batch *next)
{
	const struct exchange_kind *kind = x->kind;
	struct exchange_push push = {.sequence = sequence, .size = 3, .loss = 2, .time = 0.1};
	struct exchange_values values;
	int result = kind->pull(x, *iteration, b, &values, &why);
	if (result != WORK_OK)
		return result;
	float sum = 0;
	for (size_t k = 0; k < DENSE; k++)
		sum += values.dense[k], values.dense_gradient[k] = 1;
	for (size_t k = 0; k < b->unique * WIDTH; k++)
		sum += values.rows[k], values.row_gradient[k] = 1;
	push.loss = isfinite(sum) ? 2 : 3;
	if (kind->final)
		kind->final(x, sequence, *iteration, 0, DENSE);
	if (x->is_watched && sequence % 4)
		result = kind->heed(x, 0, &why);
	if (result == WORK_OK && x->is_watched)
		result = kind->computed(x, iteration, &why);
	push.iteration = *iteration;
	client_batch(next, x, sequence * 10);
	if (result == WORK_OK && !x->late)
		result = kind->push(x, &push, b, next, &why);
	/* With a delay the next batch may begin without the answer. */
	if (result == WORK_OK && !x->late && !(x->is_watched && sequence % 2))
		result = kind->wait(x, iteration, &why);
	actions_obey(&client_actions, *iteration);
	return result;
}

/* What a trainer does, as long as it is answered. */
static void client_train(struct exchange *x)
{
	const struct exchange_kind *kind = x->kind;
	const struct exchange_member member = {.size = 3};
	struct batch b[2] = {{0}};
	uint64_t sequence = 0;
	actions_start(&client_actions, "w0", 3);
	client_actions.log = client_take_line;
	for (int life = 0; life < 6 && !daemons.stop; life++) {
		uint64_t low, high, iteration = 0;
		if (kind->connect(x, &low, &high, &why) != WORK_OK)
			break;
		fuzz_must(low <= high && kind->connected(x), "connected to nobody");
		kind->identify(x, 1, high);
		int result = kind->join(x, &member, &iteration, &why);
		for (int i = 0; i < 8 && result == WORK_OK; i++) {
			if (i == 0)
				client_batch(&b[sequence & 1], x, 0);
			result = client_round(x, sequence + 1, &iteration, &b[sequence & 1], &b[~sequence & 1]);
			sequence++;
		}
		if (result == WORK_OK)
			result = kind->leave(x, 0, 1, &why);
		if (result == WORK_OK)
			kind->end(x, &why);
		kind->disconnect(x);
	}
	batch_free(&b[0]);
	batch_free(&b[1]);
	kind->free(x);
}

static struct conversation_options client_talk(void)
{
	return (struct conversation_options){
		.worker = "w0", .answer_seconds = 5, .stop = &daemons.stop, .action = client_take_action};
}

void fuzz_servers(const uint8_t *data, size_t size)
{
	static const char *const paths[] = {"ps0.sock", "ps1.sock"};
	struct exchange *x;
	if (size < 1)
		return;
	const struct servers_options options = {.paths = paths, .lead = data[0] & 2 ? "lead.sock" : NULL,
						.count = 1 + (data[0] & 1), .dense_count = DENSE, .width = WIDTH,
						.key_count = KEYS, .talk = client_talk()};
	daemons_begin(data + 1, size - 1);
	fuzz_must(servers_new(&x, &options, &why) == 0, "servers_new");
	client_train(x);
	daemons_end();
}

void fuzz_replicas(const uint8_t *data, size_t size)
{
	struct exchange *x;
	if (size < 1)
		return;
	const struct replica_options options = {.lead = "lead.sock", .replica = "r0.sock", .dense_count = DENSE, .width = WIDTH,
						.key_count = KEYS, .delay = data[0] & 1, .talk = client_talk()};
	daemons_begin(data + 1, size - 1);
	fuzz_must(replica_new(&x, &options, &why) == 0, "replica_new");
	client_train(x);
	daemons_end();
}
