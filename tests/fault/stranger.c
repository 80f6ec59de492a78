/*
 * The stranger of fault/stranger: a client of shardd and the servers that was written after the man
 * pages alone, and speaks as badly as it can, under names of its own: twice, late, overlapping,
 * empty, unknown, not a number, huge, half, silent, of other incarnations, gone.  Now and then it
 * trains rows of the audit model as it should, and these must count.
 *
 *     stranger SEED MESSAGES PAUSE bye|gone SAMPLES SHARDD LEAD SERVER...
 *     stranger SEED MESSAGES PAUSE bye|gone SAMPLES SHARDD LEAD replica:SOCKET
 *
 * With a replica the gradients go there, now and then in memory that is shared, and the lead is
 * told of them.
 *
 * After PAUSE messages, and after the last one, it closes all connections, prints `pause` and waits
 * for a line.  In the end it gives back what it holds (bye), or dies with rows in its hands and as
 * a member (gone).  It exits with 1 when an answer that is due does not come, or when what must be
 * refused was applied.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MS 30000
#define PARTS_MAX 8
#define SELVES 4
#define NAME "stranger"
#define PIECES_MAX 4
#define ROWS_MAX 4096 /* of a piece */
#define SHARED_BYTES (64 << 10)
#define OTHERS_MAX 32
#define LINE_ROOM 4096 /* the protocol's */

/* ---- chance ---- */

static uint64_t splitmix(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t chance;

static uint64_t below(uint64_t n)
{
	return splitmix(&chance) % n;
}

static int one_in(uint64_t n)
{
	return below(n) == 0;
}

static uint64_t wild(void)
{
	static const uint64_t number[] = {0,           1,           63,
					  64,          65,          INT32_MAX,
					  UINT32_MAX,  UINT64_C(1) << 48, INT64_MAX,
					  UINT64_MAX - 1, UINT64_MAX};

	return one_in(3) ? splitmix(&chance) : number[below(sizeof number / sizeof *number)];
}

/* ---- talking ---- */

struct talk {
	const char *path;
	int fd;       /* -1: closed */
	unsigned due; /* answers that have not come */
	int stuck;    /* they may never come: something far off was asked for */
	char in[1 << 16];
	size_t len;
	uint64_t opened; /* how often */
};

struct piece {
	uint64_t id, begin, length, seed, skip, take;
	int of_others;
};

static uint64_t messages, oks, errs, applied, rows_applied, denied, wrong;
static struct piece got[PIECES_MAX * 4]; /* the shard records of the last answer */
static size_t got_count;
static char closing[LINE_ROOM + 1]; /* the last closing record */
static char said[2 * LINE_ROOM];    /* the last line of ours */

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "stranger: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	exit(1);
}

static void talk_close(struct talk *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	t->len = 0;
	t->due = 0;
	t->stuck = 0;
}

static uint64_t field(const char *line, const char *key, uint64_t otherwise)
{
	char word[64];

	snprintf(word, sizeof word, " %s=", key);
	const char *at = strstr(line, word);
	return at ? strtoull(at + strlen(word), NULL, 10) : otherwise;
}

static void keep_piece(const char *line)
{
	struct piece p = {.id = field(line, "id", 0),
			  .begin = field(line, "begin", 0),
			  .length = field(line, "length", 0),
			  .seed = field(line, "seed", 0)};

	const char *worker = strstr(line, " worker=");

	p.of_others = worker && strncmp(worker, " worker=" NAME, sizeof " worker=" NAME - 1) != 0;
	p.skip = field(line, "skip", 0);
	p.take = field(line, "take", p.length - p.skip);
	if (got_count < sizeof got / sizeof *got)
		got[got_count++] = p;
}

/* Waits for more bytes of t; 0: it is closed, or nothing came in time. */
static int more(struct talk *t, int ms)
{
	struct pollfd p = {.fd = t->fd, .events = POLLIN};

	if (poll(&p, 1, ms) != 1)
		return 0;
	if (t->len == sizeof t->in)
		die("%s: a line without an end", t->path);
	ssize_t n = recv(t->fd, t->in + t->len, sizeof t->in - t->len, 0);
	if (n <= 0) {
		talk_close(t);
		return 0;
	}
	t->len += (size_t)n;
	return 1;
}

static void skip_bytes(struct talk *t, uint64_t bytes)
{
	while (bytes && t->fd >= 0) {
		uint64_t n = bytes < t->len ? bytes : t->len;
		t->len -= (size_t)n;
		memmove(t->in, t->in + n, t->len);
		bytes -= n;
		if (bytes && !more(t, ANSWER_MS))
			talk_close(t);
	}
}

/* The next whole line, without its newline; 0: there is none yet. */
static int next_line(struct talk *t, char *line)
{
	char *end = memchr(t->in, '\n', t->len);

	if (!end)
		return 0;
	size_t n = (size_t)(end - t->in);
	memcpy(line, t->in, n < LINE_ROOM ? n : LINE_ROOM);
	line[n < LINE_ROOM ? n : LINE_ROOM] = 0;
	t->len -= n + 1;
	memmove(t->in, end + 1, t->len);
	return 1;
}

static void hear(struct talk *t, const char *line)
{
	if (strncmp(line, "ok", 2) == 0 || strncmp(line, "err ", 4) == 0) {
		snprintf(closing, sizeof closing, "%s", line);
		oks += line[0] == 'o';
		errs += line[0] == 'e';
		t->due -= t->due > 0;
	} else if (strncmp(line, "shard ", 6) == 0)
		keep_piece(line);
	else if (strncmp(line, "model ", 6) == 0)
		skip_bytes(t, field(line, "bytes", 0));
}

/* What has come by now. */
static void drain(struct talk *t)
{
	char line[LINE_ROOM + 1];

	while (t->fd >= 0 && (next_line(t, line) || more(t, 0))) {
		if (line[0])
			hear(t, line);
		line[0] = 0;
	}
}

static void talk_open(struct talk *t)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char line[LINE_ROOM + 1];

	if (t->fd >= 0)
		return;
	snprintf(to.sun_path, sizeof to.sun_path, "%s", t->path);
	t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	t->opened++;
	if (t->fd < 0 || connect(t->fd, (struct sockaddr *)&to, sizeof to) != 0)
		die("%s: %s", t->path, strerror(errno));
	while (!next_line(t, line))
		if (!more(t, ANSWER_MS))
			die("%s: no greeting", t->path);
	if (strncmp(line, "paceline ", 9) != 0)
		die("%s: greets with %s", t->path, line);
}

/* As much of it as the other side takes: it may close us for what we say. */
static void put(struct talk *t, const void *data, size_t len)
{
	const char *at = data;

	while (len && t->fd >= 0) {
		struct pollfd p = {.fd = t->fd, .events = POLLIN | POLLOUT};
		if (poll(&p, 1, ANSWER_MS) != 1)
			die("%s: reads nothing and says nothing", t->path);
		if (p.revents & POLLIN)
			drain(t);
		if (!(p.revents & POLLOUT) || t->fd < 0)
			continue;
		ssize_t n = send(t->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
			talk_close(t);
			return;
		}
		at += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

static void say_bulk(struct talk *t, const void *bulk, size_t bytes, const char *fmt, va_list ap)
{
	if (t->stuck)
		talk_close(t);
	talk_open(t);
	int len = vsnprintf(said, sizeof said - 1, fmt, ap);
	if (len < 0 || (size_t)len >= sizeof said - 1)
		die("a line is too long");
	messages++;
	t->due++;
	put(t, said, (size_t)len);
	put(t, "\n", 1);
	put(t, bulk, bytes);
}

/* Says a line and does not wait for its answer. */
__attribute__((format(printf, 2, 3))) static void say(struct talk *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_bulk(t, NULL, 0, fmt, ap);
	va_end(ap);
}

enum answer { OK, ERR, CLOSED };

/* Waits until everything is answered. */
static enum answer answered(struct talk *t)
{
	char line[LINE_ROOM + 1];

	got_count = 0;
	while (t->fd >= 0 && t->due) {
		if (next_line(t, line))
			hear(t, line);
		else if (!more(t, ANSWER_MS) && t->fd >= 0)
			die("%s: no answer in %d s to %s", t->path, ANSWER_MS / 1000, said);
	}
	return t->fd < 0 ? CLOSED : closing[0] == 'o' ? OK : ERR;
}

__attribute__((format(printf, 2, 3))) static enum answer ask(struct talk *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_bulk(t, NULL, 0, fmt, ap);
	va_end(ap);
	return answered(t);
}

__attribute__((format(printf, 4, 5))) static enum answer
ask_bulk(struct talk *t, const void *bulk, size_t bytes, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_bulk(t, bulk, bytes, fmt, ap);
	va_end(ap);
	return answered(t);
}

/* ---- who we are ---- */

struct self {
	char name[16];
	uint64_t generation, incarnation, sequence, iteration;
	struct piece piece[PIECES_MAX];
	size_t pieces;
	int member;
	struct talk shardd, part[PARTS_MAX];
	char *shared; /* with the replica, on that connection; NULL: nothing is */
	uint64_t shared_by;
	int pushed; /* something to the replica in this generation that was not applied */
};

static struct self self[SELVES], ghost;
static struct talk odd[PARTS_MAX + 1]; /* beside those: for what need not be understood */
static size_t parts;
static int with_replica; /* then parts is 2: the lead, and the replica that has all */
static uint64_t samples;
static struct piece others[OTHERS_MAX]; /* what is in other hands, when last looked at */
static size_t others_count;

static struct piece *any_piece(struct self *me)
{
	return me->pieces ? &me->piece[below(me->pieces)] : NULL;
}

static void forget(struct self *me, struct piece *p)
{
	*p = me->piece[--me->pieces];
}

static void hello(struct self *me)
{
	if (ask(&me->shardd, "hello worker=%s", me->name) != OK)
		die("hello: %s", closing);
	me->generation = field(closing, "generation", 0);
	me->incarnation = field(closing, "incarnation", 0);
	me->pieces = 0;
	me->sequence = 0;
	me->pushed = 0;
}

static void get(struct self *me)
{
	if (me->generation == 0)
		hello(me);
	if (me->pieces == PIECES_MAX)
		return;
	if (ask(&me->shardd, "get worker=%s generation=%" PRIu64 " max=%" PRIu64, me->name,
		me->generation, 1 + below(300)) == OK &&
	    got_count)
		me->piece[me->pieces++] = got[0];
}

static void leave(struct self *me)
{
	if (!me->member)
		return;
	me->member = 0;
	if (one_in(2))
		(void)ask(&me->part[0],
			  "leave worker=%s generation=%" PRIu64 " incarnation=%" PRIu64, me->name,
			  me->generation, me->incarnation);
	else
		talk_close(&me->part[0]);
}

/* Under BSP a member that is silent holds up everybody, our other selves, too. */
static void others_leave(const struct self *me)
{
	for (size_t i = 0; i < SELVES; i++)
		if (&self[i] != me)
			leave(&self[i]);
}

static int join(struct self *me)
{
	others_leave(me);
	if (me->generation == 0)
		hello(me);
	if (ask(&me->part[0],
		"join worker=%s generation=%" PRIu64 " incarnation=%" PRIu64 " size=%" PRIu64 "%s",
		me->name, me->generation, me->incarnation, below(100),
		with_replica ? " replica=r0" : "") != OK)
		return me->member = 0;
	me->iteration = field(closing, "iteration", 0);
	return me->member = 1;
}

/* ---- pushes ---- */

struct shot {
	uint64_t generation, incarnation, sequence, iteration, count;
	char ranges[3 * LINE_ROOM / 4];
	const char *more; /* fields */
	uint32_t row[ROWS_MAX];
	size_t rows;
	float value;
	int all_keys; /* to every server, also those of other parts */
};

static struct shot shot;

/* The rows of the piece at positions from..from+n-1, as paceline-protocol(7) orders them. */
static void rows_of(const struct piece *p, uint64_t from, uint64_t n)
{
	static uint32_t a[ROWS_MAX];
	uint64_t state = p->seed;

	for (uint64_t j = 0; j < p->length; j++)
		a[j] = (uint32_t)(p->begin + j);
	for (uint64_t j = p->length - 1; p->seed && j >= 1; j--) {
		uint64_t k = splitmix(&state) % (j + 1);
		uint32_t x = a[j];
		a[j] = a[k];
		a[k] = x;
	}
	memcpy(shot.row, a + from, n * sizeof *a);
	shot.rows = n;
}

static void add_range(uint64_t id, uint64_t begin, uint64_t length)
{
	size_t at = strlen(shot.ranges);

	snprintf(shot.ranges + at, sizeof shot.ranges - at, "%s%" PRIu64 ":%" PRIu64 ":%" PRIu64,
		 at ? "," : "", id, begin, length);
}

static void one_range(uint64_t id, uint64_t begin, uint64_t length)
{
	shot.ranges[0] = 0;
	add_range(id, begin, length);
}

/* What a worker should push for the first of the rows that remain of p. */
static void aim(struct self *me, const struct piece *p)
{
	uint64_t n = 1 + below(p->take < 48 ? p->take : 48);

	shot = (struct shot){.generation = me->generation,
			     .incarnation = me->incarnation,
			     .sequence = ++me->sequence,
			     .iteration = me->iteration,
			     .count = n,
			     .more = "",
			     .value = 1.0f};
	rows_of(p, p->skip, n);
	add_range(p->id, p->begin + p->skip, n);
}

static size_t part_of(uint32_t key)
{
	return (size_t)(((uint64_t)(uint32_t)(key * UINT32_C(2654435761)) * parts) >> 32);
}

/* Keys, then rows of one float. */
static size_t payload(size_t part, uint32_t *bulk)
{
	static uint32_t key[ROWS_MAX];
	size_t n = 0;

	if (with_replica && part == 0)
		return 0;
	for (size_t i = 0; i < shot.rows; i++)
		if (with_replica || shot.all_keys || part_of(shot.row[i]) == part)
			key[n++] = shot.row[i];
	memcpy(bulk, key, n * sizeof *key);
	for (size_t i = 0; i < n; i++)
		memcpy(bulk + n + i, &shot.value, sizeof shot.value);
	return n;
}

/* Memory that the replica of me reads, too; once a connection. 0: there is none. */
static int share(struct self *me)
{
	struct talk *t = &me->part[1];
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} with = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
			   .cmsg_level = SOL_SOCKET,
			   .cmsg_type = SCM_RIGHTS}};
	int fd;

	if (t->stuck)
		talk_close(t);
	talk_open(t);
	if (me->shared && me->shared_by == t->opened)
		return 1;
	if (me->shared)
		munmap(me->shared, SHARED_BYTES);
	me->shared = NULL;
	fd = memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, SHARED_BYTES) != 0 ||
	    fcntl(fd, F_ADD_SEALS, one_in(8) ? 0 : F_SEAL_SHRINK | F_SEAL_GROW) != 0)
		die("memory to share: %s", strerror(errno));
	snprintf(said, sizeof said, "map bytes=%d\n", one_in(8) ? SHARED_BYTES * 2 : SHARED_BYTES);
	memcpy(CMSG_DATA(&with.head), &fd, sizeof fd);
	struct iovec line = {said, strlen(said)};
	struct msghdr message = {.msg_iov = &line,
				 .msg_iovlen = 1,
				 .msg_control = &with,
				 .msg_controllen = sizeof with};
	messages++;
	t->due++;
	if (sendmsg(t->fd, &message, MSG_NOSIGNAL) < 0)
		talk_close(t);
	if (answered(t) == OK) {
		me->shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (me->shared == MAP_FAILED)
			die("memory to share: %s", strerror(errno));
		me->shared_by = t->opened;
	}
	close(fd);
	return me->shared != NULL;
}

/* In memory that is shared: gradients stay where they are, and what is beside them changes. */
static enum answer push_shared(struct self *me, const uint32_t *bulk, size_t n)
{
	size_t at = 8 * below(100);

	memcpy(me->shared + at, bulk, 2 * n * sizeof *bulk);
	enum answer a = ask(&me->part[1],
			    "push worker=%s generation=%" PRIu64 " incarnation=%" PRIu64
			    " sequence=%" PRIu64 " iteration=%" PRIu64 " count=%" PRIu64
			    " dense=0 rows=%zu ranges=%s%s map-offset-bytes=%zu map-bytes=%zu",
			    me->name, shot.generation, shot.incarnation, shot.sequence,
			    shot.iteration, shot.count, n, shot.ranges, shot.more, at,
			    2 * n * sizeof *bulk);
	memset(me->shared + SHARED_BYTES / 2, (int)below(256), 64);
	return a;
}

static enum answer push(struct self *me, size_t part)
{
	static uint32_t bulk[2 * ROWS_MAX];
	size_t n = payload(part, bulk), bytes = 2 * n * sizeof *bulk;

	me->pushed |= with_replica && part == 1;
	if (with_replica && part == 1 && one_in(3) && share(me))
		return push_shared(me, bulk, n);
	return ask_bulk(&me->part[part], bulk, bytes,
			"push worker=%s generation=%" PRIu64 " incarnation=%" PRIu64
			" sequence=%" PRIu64 " iteration=%" PRIu64 " count=%" PRIu64
			" dense=0 rows=%zu ranges=%s%s bytes=%zu",
			me->name, shot.generation, shot.incarnation, shot.sequence, shot.iteration,
			shot.count, n, shot.ranges, shot.more, bytes);
}

/* To all servers, the lead last; the lead's answer. Another's refusal ends it, or it does not. */
static enum answer fire(struct self *me)
{
	for (size_t i = 1; i < parts; i++)
		if (push(me, i) != OK && one_in(2))
			return ERR;
	enum answer a = push(me, 0);
	if (a == CLOSED)
		me->member = 0;
	if (a == OK)
		me->iteration = field(closing, "iteration", me->iteration);
	return a;
}

static int was_applied(void)
{
	return strstr(closing, " applied=1") && !strstr(closing, " repeated=1");
}

static void must_be_refused(enum answer a, const char *what)
{
	if (a != OK || !was_applied() || wrong++ > 4)
		return;
	printf("# %s was applied: %s %s\n", what, shot.ranges, closing);
}

/* A member with rows in its hand, or NULL. */
static struct piece *ready(struct self *me)
{
	if (me->pushed) /* there it may be the push of the next iteration, too */
		hello(me);
	if (me->pieces == 0)
		get(me);
	if (me->pieces == 0 || !join(me))
		return NULL;
	return any_piece(me);
}

static void good_push(struct self *me, struct piece *p)
{
	aim(me, p);
	if (one_in(8) && shot.count > 1) { /* the same rows, one by one */
		shot.ranges[0] = 0;
		for (uint64_t i = 0; i < shot.count; i++)
			add_range(p->id, p->begin + p->skip + i, 1);
	}
	enum answer a = fire(me);
	me->pushed &= a != OK || !was_applied();
	if (a != OK || !was_applied()) {
		if (denied++ < 5)
			printf("# a good push was answered %s\n", closing);
		forget(me, p);
		return;
	}
	applied++;
	rows_applied += shot.count;
	p->skip += shot.count;
	p->take -= shot.count;
	if (one_in(4)) { /* the same again: known, and of no effect */
		if (fire(me) != OK || !strstr(closing, " repeated=1"))
			must_be_refused(OK, "a push said twice");
	} else if (one_in(4)) { /* the same rows under a name of their own */
		shot.sequence = ++me->sequence;
		shot.iteration = me->iteration;
		must_be_refused(fire(me), "what is in the model already");
	}
	if (p->take == 0)
		forget(me, p);
}

static void act_good(struct self *me)
{
	struct piece *p = ready(me);

	if (p)
		good_push(me, p);
	leave(me);
}

/* Whatever is chosen is not true, or of no worker here: chance makes no right push of it. */
static void lie(const struct piece *p)
{
	static char text[64];
	uint64_t first = p->begin + p->skip;
	const struct piece *o = others_count ? &others[below(others_count)] : NULL;

	switch (below(23)) {
	case 0: shot.count++; return;
	case 1: shot.count--; return;
	case 2: shot.count = wild() | 64; return;
	case 3: shot.count = 0; return;
	case 4: shot.ranges[0] = 0; return;
	case 5: add_range(p->id, first, shot.count); shot.count *= 2; return;
	case 6: add_range(p->id, first + shot.count - 1, 1); shot.count++; return;
	case 7: one_range(p->id, first, wild() | 64); return;
	case 8: one_range(p->id, p->begin + p->length + wild() / 2, shot.count); return;
	case 9: one_range((UINT64_C(1) << 40) + wild() / 2, first, shot.count); return;
	case 10: one_range(o ? o->id : UINT64_MAX, o ? o->begin : first, shot.count); return;
	case 11: add_range(o ? o->id : UINT64_MAX, o ? o->begin : first, 1); shot.count++; return;
	case 12:
		shot.ranges[0] = 0;
		for (uint64_t i = 0; i < 65; i++)
			add_range(p->id, first + i, 1);
		shot.count = 65;
		return;
	case 13: shot.value = NAN; return;
	case 14: shot.value = one_in(2) ? INFINITY : -INFINITY; return;
	case 15: shot.value = 1e38f; shot.count++; return;
	case 16: shot.all_keys = !with_replica; shot.count += (uint64_t)with_replica; return;
	case 17: shot.row[0] = (uint32_t)(samples + below(1000)); return;
	case 18: shot.row[shot.rows++] = shot.row[0]; return;
	case 19: shot.generation--; return;
	case 20: shot.incarnation += 1 + wild() / 2; return;
	case 21:
		snprintf(text, sizeof text, " skipped=%" PRIu64, 1 + wild() / 2);
		shot.more = one_in(2) ? text : " loss=nan";
		return;
	case 22:
		snprintf(shot.ranges, sizeof shot.ranges, "%s", one_in(2) ? "1:2" : ":::,,9,-1");
		return;
	}
}

/* Sent whole, and refused whatever it is. What of it the servers have staged stays there unused. */
static void act_lie(struct self *me)
{
	struct piece *p = ready(me);

	if (!p)
		return;
	aim(me, p);
	lie(p);
	must_be_refused(fire(me), "a lie");
	leave(me);
}

/* Some servers only, or not the same to all. */
static void act_half(struct self *me)
{
	struct piece *p = ready(me);

	if (!p)
		return;
	aim(me, p);
	switch (with_replica && one_in(4) ? 5 : below(5)) {
	case 5: /* another sequence, or a second push */
		(void)push(me, 1);
		shot.sequence++;
		if (one_in(2))
			(void)push(me, 1);
		me->sequence = shot.sequence;
		must_be_refused(push(me, 0), "a push of another sequence");
		me->member = 0;
		talk_close(&me->part[0]);
		break;
	case 0:
		must_be_refused(push(me, 0), "a push to the lead alone");
		me->member = 0;
		talk_close(&me->part[0]);
		break;
	case 1:
		(void)push(me, below(parts - 1) + 1);
		break;
	case 2: /* not the same count to all */
		for (size_t i = 1; i < parts; i++) {
			shot.count++;
			(void)push(me, i);
		}
		shot.count = shot.rows;
		must_be_refused(push(me, 0), "a push of several counts");
		me->member = 0;
		talk_close(&me->part[0]);
		break;
	case 3: /* nothing at all, as if there were no work */
		shot.count = shot.rows = 0;
		shot.ranges[0] = 0;
		(void)fire(me);
		break;
	case 4: /* under a name that nobody has told the lead */
		shot.generation = 1 + wild() / 2;
		shot.sequence = wild() / 2;
		(void)push(&ghost, 1 + below(parts - 1));
		break;
	}
	leave(me);
}

/* Of an iteration that is over, or far off. */
static void act_when(struct self *me)
{
	struct piece *p = ready(me);

	if (!p)
		return;
	aim(me, p);
	if (one_in(2)) {
		if (shot.iteration)
			shot.iteration -= 1 + below(shot.iteration < 5 ? shot.iteration : 5);
		/* Under BSP it is dropped and its rows are given back; else it is in time. */
		if (fire(me) == OK && was_applied()) {
			applied++;
			rows_applied += shot.count;
		}
		forget(me, p);
	} else {
		shot.iteration += 1 + wild() / 4;
		me->pushed |= with_replica; /* it may be just the next one */
		for (size_t i = 0; i < parts; i++) {
			/* Other servers answer when they are so far. */
			static uint32_t bulk[2 * ROWS_MAX];
			size_t n = payload(i, bulk);
			say(&me->part[i],
			    "push worker=%s generation=%" PRIu64 " incarnation=%" PRIu64
			    " sequence=%" PRIu64 " iteration=%" PRIu64
			    " count=%" PRIu64 " dense=0 rows=%zu ranges=%s bytes=%zu",
			    me->name, shot.generation, shot.incarnation, shot.sequence,
			    shot.iteration, shot.count + 1, n, shot.ranges, 2 * n * sizeof *bulk);
			put(&me->part[i], bulk, 2 * n * sizeof *bulk);
			me->part[i].stuck = 1;
		}
	}
	leave(me);
}

/* As a member: half a payload, then gone. */
static void act_cut_short(struct self *me)
{
	struct piece *p = ready(me);
	static const char half[64];

	if (!p)
		return;
	size_t part = below(parts);
	say(&me->part[part],
	    "push worker=%s generation=%" PRIu64 " incarnation=%" PRIu64 " sequence=%" PRIu64
	    " iteration=%" PRIu64 " count=16 dense=0 rows=16 ranges=%" PRIu64 ":%" PRIu64
	    ":16 bytes=128",
	    me->name, me->generation, me->incarnation, ++me->sequence, me->iteration, p->id,
	    p->begin + p->skip);
	put(&me->part[part], half, below(sizeof half));
	talk_close(&me->part[part]);
	if (part == 0)
		me->member = 0;
	leave(me);
}

/* ---- members ---- */

static void act_member(struct self *me)
{
	uint64_t old = me->generation;

	others_leave(me);
	switch (below(7)) {
	case 0: /* twice */
		if (join(me))
			(void)join(me);
		break;
	case 1: /* silent for a while */
		(void)join(me);
		usleep((useconds_t)below(30000));
		break;
	case 2: /* gone before it is answered */
		hello(me);
		say(&me->part[0], "join worker=%s generation=%" PRIu64 " incarnation=%" PRIu64,
		    me->name, me->generation, me->incarnation);
		talk_close(&me->part[0]);
		me->member = 0;
		break;
	case 3: /* of a generation that is over */
		hello(me);
		(void)join(me);
		(void)ask(&me->part[0],
			  "join worker=%s generation=%" PRIu64 " incarnation=%" PRIu64, me->name,
			  old ? old : 1, me->incarnation);
		break;
	case 4: /* of another incarnation */
		(void)ask(&odd[1], "join worker=%s generation=%" PRIu64 " incarnation=%" PRIu64,
			  me->name, me->generation + 1, me->incarnation + 1 + below(9));
		break;
	case 5: /* with nothing to do, and away */
		if (join(me))
			say(&me->part[0],
			    "end worker=%s generation=%" PRIu64 " incarnation=%" PRIu64, me->name,
			    me->generation, me->incarnation);
		talk_close(&me->part[0]);
		me->member = 0;
		break;
	case 6: /* numbers that no worker has */
		(void)ask(&odd[1],
			  "join worker=%s generation=%" PRIu64 " incarnation=%" PRIu64
			  " speed=%s max=%" PRIu64,
			  me->name, wild(), wild(), one_in(2) ? "nan" : "-1", wild());
		break;
	}
	leave(me);
}

/* ---- shardd ---- */

static void act_hello(struct self *me)
{
	switch (below(4)) {
	case 0:
		hello(me);
		break;
	case 1:
		(void)ask(&me->shardd, "hello worker=%s generation=%" PRIu64, me->name,
			  me->generation);
		break;
	case 2:
		(void)ask(&me->shardd, "hello worker=%s generation=%" PRIu64, me->name, wild());
		break;
	case 3:
		(void)ask(&me->shardd, "bye worker=%s generation=%" PRIu64, me->name,
			  me->generation);
		me->generation = 0;
		me->pieces = 0;
		break;
	}
}

static void act_get(struct self *me)
{
	if (!one_in(6)) {
		get(me);
		return;
	}
	(void)ask(&me->shardd, "get worker=%s generation=%" PRIu64 " max=%" PRIu64, me->name,
		  wild(), wild());
}

/* done, progress, renew and back of any shard there is, or is not. */
static void act_claim(struct self *me)
{
	static const char *const verb[] = {"done", "progress", "renew", "back"};
	const char *what = verb[below(4)];
	char more_fields[64] = "";
	struct piece *mine = any_piece(me);
	uint64_t id = wild();

	if (mine && one_in(2))
		id = mine->id;
	else if (others_count && one_in(2))
		id = others[below(others_count)].id;
	if (strcmp(what, "progress") == 0)
		snprintf(more_fields, sizeof more_fields, " upto=%" PRIu64,
			 one_in(2) ? below(64) : wild());
	else if (strcmp(what, "back") == 0 && one_in(2))
		snprintf(more_fields, sizeof more_fields, " begin=%" PRIu64 " length=%" PRIu64,
			 mine && one_in(2) ? mine->begin : wild(), one_in(2) ? 1 : wild());
	(void)ask(&me->shardd, "%s worker=%s generation=%" PRIu64 " id=%" PRIu64 "%s", what,
		  me->name, one_in(8) ? wild() : me->generation, id, more_fields);
	if (mine && mine->id == id) /* some of it may have gone back */
		forget(me, mine);
}

/* As if it were the lead, but late, of another incarnation, or no settle at all. */
static void act_settle(struct self *me)
{
	const struct piece *p = others_count ? &others[below(others_count)] : any_piece(me);
	uint64_t number = wild(), incarnation = me->incarnation;
	char text[512];
	int n = snprintf(text, sizeof text,
			 "apply worker=%s generation=%" PRIu64 " id=%" PRIu64 " begin=%" PRIu64
			 " length=1\n",
			 me->name, me->generation, p ? p->id : 0, p ? p->begin : 0);

	switch (below(3)) {
	case 0:
		number = below(1000);
		break;
	case 1:
		incarnation += 1 + below(5);
		break;
	case 2:
		memcpy(text, "apple", 5);
		break;
	}
	(void)ask_bulk(&me->shardd, text, (size_t)n,
		       "settle number=%" PRIu64 " iteration=%" PRIu64 " incarnation=%" PRIu64
		       " bytes=%d",
		       number, wild(), incarnation, n);
}

static void act_look(struct self *me)
{
	static const char *const question[] = {"stat",	   "help",   "counters",
					       "who worker=w0", "rows", "partitions",
					       "list state=held", "moves worker=w0"};

	(void)ask(&me->shardd, "%s", question[below(sizeof question / sizeof *question)]);
	(void)ask(&odd[1 + below(parts)], "%s", one_in(2) ? "stat" : "members");
	if (ask(&me->shardd, "list state=doing max=12") != OK)
		return;
	others_count = 0;
	for (size_t i = 0; i < got_count; i++)
		if (got[i].of_others)
			others[others_count++] = got[i];
}

/* ---- noise ---- */

static void act_pull(struct self *me)
{
	struct talk *t = &me->part[below(parts)];
	uint32_t key[64];
	size_t n = 1 + below(64);

	for (size_t i = 0; i < n; i++)
		key[i] = (uint32_t)(one_in(8) ? splitmix(&chance) : below(samples));
	if (one_in(6)) { /* when that is applied, or never */
		t = &odd[1 + below(parts)];
		say(t,
		    "pull worker=%s generation=1 incarnation=%" PRIu64 " iteration=%" PRIu64
		    " dense=0 rows=0",
		    me->name, me->incarnation, UINT64_MAX - below(100));
		t->stuck = 1;
		return;
	}
	(void)ask_bulk(t, key, n * sizeof *key,
		       "pull worker=%s generation=%" PRIu64 " incarnation=%" PRIu64
		       " iteration=0 dense=%d rows=%zu%s bytes=%zu",
		       me->name, me->generation, me->incarnation, (int)below(2), n,
		       one_in(5) ? " into-offset-bytes=8 into-bytes=99999" : "", n * sizeof *key);
}

static void act_noise(struct self *me)
{
	struct talk *t = &odd[below(parts + 1)];
	unsigned char bytes[6000];
	size_t n = 1 + below(sizeof bytes);

	if (t->stuck || one_in(2))
		talk_close(t);
	talk_open(t);
	for (size_t i = 0; i < n; i++)
		bytes[i] = (unsigned char)splitmix(&chance);
	switch (below(8)) {
	case 0: /* whatever the bytes say */
		messages++;
		put(t, bytes, n);
		break;
	case 1: /* half a line */
		messages++;
		put(t, "push worker=", 12);
		talk_close(t);
		return;
	case 2: /* a line without an end */
		memset(bytes, 'a', sizeof bytes);
		messages++;
		put(t, bytes, sizeof bytes);
		break;
	case 3: /* what is never sent */
		say(t,
		    t == &odd[0] ? "settle number=1 iteration=1 incarnation=1 bytes=%" PRIu64
				 : "push worker=s0 generation=1 incarnation=1 sequence=1 "
				   "iteration=0 count=1 dense=0 rows=1 ranges= bytes=%" PRIu64,
		    t == &odd[0] ? UINT64_C(4) << 20 : UINT64_C(1) << (20 + below(15)));
		put(t, bytes, n);
		break;
	case 4:
		say(t, "%s", one_in(2) ? "watch" : "no-such-request a=1");
		break;
	case 5: /* a descriptor that is none, a payload where none is taken */
		say(t, one_in(2) ? "map bytes=%d" : "stat bytes=%d", 100);
		put(t, bytes, below(100));
		break;
	case 7: /* many who say nothing */
		for (int i = 0; i < 50; i++) {
			talk_close(t);
			talk_open(t);
		}
		break;
	case 6: /* every answer at once, none read */
		for (int i = 0; i < 20; i++)
			say(t, "help worker=%s", me->name);
		talk_close(t);
		return;
	}
	t->stuck = 1;
}

/* What only the lead says, of an incarnation that is over, or nonsense; parts of gradients. */
static void act_order(struct self *me)
{
	static const char *const order[] = {
		"sum incarnation=%" PRIu64 " round=%" PRIu64 " iteration=0 replicas=r0",
		"apply incarnation=%" PRIu64 " round=%" PRIu64 " iteration=0 units=1 divisor=1",
		"fill incarnation=%" PRIu64 " round=%" PRIu64 " iteration=0 from=/none",
		"hold incarnation=%" PRIu64 " round=%" PRIu64,
		"throw incarnation=%" PRIu64 " generation=%" PRIu64 " worker=w0",
		"cut incarnation=%" PRIu64 " iteration=%" PRIu64 " path=/none",
		"copy incarnation=%" PRIu64 " iteration=%" PRIu64,
	};
	struct talk *t = &me->part[1];

	if (!with_replica)
		return;
	switch (below(4)) {
	case 0:
		(void)ask(t, order[below(sizeof order / sizeof *order)],
			  me->incarnation + 1 + below(5), wild());
		break;
	case 1: /* nobody has such parameters, and then not even their size is right */
		(void)ask(t, one_in(2) ? "look" : "pull worker=x generation=1 incarnation=1 "
						  "iteration=0 dense=1 rows=0");
		break;
	default:
		if (!share(me))
			return;
		me->pushed = 1;
		(void)ask(t,
			  "part worker=%s generation=%" PRIu64 " incarnation=%" PRIu64
			  " sequence=%" PRIu64 " iteration=%" PRIu64 " begin=%" PRIu64
			  " length=%" PRIu64 " map-offset-bytes=%" PRIu64 " map-bytes=%" PRIu64,
			  me->name, me->generation, me->incarnation, me->sequence + below(3),
			  one_in(3) ? wild() : me->iteration, one_in(2) ? 0 : wild(),
			  one_in(2) ? 0 : wild(), one_in(2) ? 0 : wild(), one_in(2) ? 0 : wild());
	}
}

/* ---- the whole ---- */

static const struct act {
	void (*act)(struct self *me);
	uint64_t weight;
} acts[] = {{act_good, 16},   {act_lie, 24},   {act_half, 6},	{act_when, 4},
	    {act_cut_short, 3}, {act_member, 6}, {act_hello, 8}, {act_get, 10},
	    {act_claim, 16},  {act_settle, 6}, {act_look, 4},	{act_pull, 10},
	    {act_noise, 12},	{act_order, 8}};

static void anything(void)
{
	struct self *me = &self[below(SELVES)];
	uint64_t sum = 0, at;

	for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
		sum += acts[i].weight;
	at = below(sum);
	for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
		if (at < acts[i].weight) {
			acts[i].act(me);
			return;
		}
		at -= acts[i].weight;
	}
}

static void close_all(void)
{
	for (size_t s = 0; s < SELVES; s++) {
		talk_close(&self[s].shardd);
		for (size_t i = 0; i < parts; i++)
			talk_close(&self[s].part[i]);
		self[s].member = 0;
	}
	for (size_t i = 0; i < parts; i++)
		talk_close(&ghost.part[i]);
	for (size_t i = 0; i <= parts; i++)
		talk_close(&odd[i]);
}

static void pause_here(void)
{
	char line[64];

	close_all();
	puts("pause");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		exit(1);
}

static void talk_init(struct talk *t, const char *path)
{
	t->path = path;
	t->fd = -1;
}

int main(int argc, char **argv)
{
	if (argc < 9 || argc - 7 > PARTS_MAX) {
		fprintf(stderr, "usage: stranger SEED MESSAGES PAUSE bye|gone SAMPLES SHARDD "
				"LEAD SERVER...\n");
		return 64;
	}
	uint64_t limit = strtoull(argv[2], NULL, 10), first = strtoull(argv[3], NULL, 10);
	chance = strtoull(argv[1], NULL, 10);
	samples = strtoull(argv[5], NULL, 10);
	parts = (size_t)argc - 7;
	if (strncmp(argv[8], "replica:", 8) == 0) {
		with_replica = 1;
		argv[8] += 8;
	}
	talk_init(&odd[0], argv[6]);
	for (size_t i = 0; i < parts; i++)
		talk_init(&odd[1 + i], argv[7 + i]);
	snprintf(ghost.name, sizeof ghost.name, NAME "-ghost");
	for (size_t i = 0; i < parts; i++)
		talk_init(&ghost.part[i], argv[7 + i]);
	for (size_t s = 0; s < SELVES; s++) {
		snprintf(self[s].name, sizeof self[s].name, NAME "%zu", s);
		talk_init(&self[s].shardd, argv[6]);
		for (size_t i = 0; i < parts; i++)
			talk_init(&self[s].part[i], argv[7 + i]);
		hello(&self[s]);
	}
	while (messages < first)
		anything();
	pause_here();
	while (messages < limit)
		anything();
	pause_here();
	for (size_t s = 0; s < SELVES; s++) {
		hello(&self[s]);
		get(&self[s]);
		if (strcmp(argv[4], "bye") == 0)
			(void)ask(&self[s].shardd, "bye worker=%s generation=%" PRIu64,
				  self[s].name, self[s].generation);
	}
	printf("stranger messages=%" PRIu64 " ok=%" PRIu64 " err=%" PRIu64 " applied=%" PRIu64
	       " rows=%" PRIu64 " denied=%" PRIu64 " wrong=%" PRIu64 "\n",
	       messages, oks, errs, applied, rows_applied, denied, wrong);
	fflush(stdout);
	if (strcmp(argv[4], "gone") == 0 && wrong == 0 && join(&self[0]))
		raise(SIGKILL);
	return wrong > 0 || strcmp(argv[4], "gone") == 0;
}
