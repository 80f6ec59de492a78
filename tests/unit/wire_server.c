/* wire/server: conversations as a client has them, friendly and hostile. */
#include "wire_daemon.h"

#include "wire/transport.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>

static void test_answers(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	assert_true(record_is(call_greeting(c), "paceline"));
	assert_string_equal(record_get(call_greeting(c), "role"), "test");
	say(c, "echo n=7\nsing\necho\necho n=1 n=2\nNoise\necho  n=1\n\nnothing\necho n=8\n");
	hear(c, "ok n=7");
	hear(c, "err code=unknown-request");
	for (int i = 0; i < 5; i++)
		hear(c, "err code=bad-request");
	hear(c, "err code=internal");
	hear(c, "ok n=8");
	say(c, "counters\n");
	hear(c, "counter verb=echo requests=2 errors=1");
	for (size_t i = 1; i < sizeof daemon_verbs / sizeof *daemon_verbs + 3; i++) {
		static struct record r;
		assert_int_equal(call_receive(c, &r, NULL), 0);
		assert_true(record_is(&r, "counter"));
	}
	hear(c, "ok");
	say(c, "help\n");
	hear(c, "verb name=echo required=n optional=");
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
}

/* The text of an error names what is wrong. */
static void test_error_names_the_key(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	static struct record r;
	say(c, "into into-bytes=3\nsing a=1\n");
	assert_int_equal(call_receive(c, &r, NULL), 0);
	assert_non_null(strstr(r.text, "into-offset-bytes="));
	assert_int_equal(call_receive(c, &r, NULL), 0);
	assert_non_null(strstr(r.text, "sing"));
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_order_with_deferred(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial(), *other = dial();
	say(c, "echo n=1\nlater key=1\necho n=2\nlater key=2\necho n=3\n");
	hear(c, "ok n=1");
	hear(c, "begun");
	/* The second first: its answer must wait for the first. */
	say(other, "release key=2\n");
	hear(other, "ok");
	say(other, "release key=1\n");
	hear(other, "ok");
	hear(c, "ok released=1");
	hear(c, "ok n=2");
	hear(c, "begun");
	hear(c, "ok released=2");
	hear(c, "ok n=3");
	call_close(c);
	call_close(other);
	assert_int_equal(daemon_stop(pid), 0);
}

/* More deferred requests than are taken at once, and answers that are not read meanwhile. */
static void test_many_pipelined(void **state)
{
	(void)state;
	enum { COUNT = 30000 };
	pid_t pid = daemon_start(NULL);
	struct call *c = dial(), *other = dial();
	size_t room = COUNT * 24 + 64, len = 0;
	char *lines = malloc(room), expected[64];
	len += (size_t)snprintf(lines, room, "later key=5\n");
	for (int i = 0; i < COUNT; i++)
		len += (size_t)snprintf(lines + len, room - len, "echo n=%d\n", i);
	fflush(NULL);
	pid_t writer = fork();
	if (writer == 0) {
		/* Not call_send(): that one reads, too. */
		struct pollfd p = {.fd = call_fd(c), .events = POLLOUT};
		for (size_t at = 0; at < len && poll(&p, 1, (int)(PATIENCE * 1e3)) == 1;) {
			ssize_t n = send(p.fd, lines + at, len - at, MSG_NOSIGNAL);
			at += n > 0 ? (size_t)n : 0;
		}
		_exit(0);
	}
	hear(c, "begun");
	say(other, "release key=5\n");
	hear(other, "ok");
	hear(c, "ok released=5");
	for (int i = 0; i < COUNT; i++) {
		snprintf(expected, sizeof expected, "ok n=%d", i);
		hear(c, expected);
	}
	assert_int_equal(daemon_wait(writer), 0);
	free(lines);
	call_close(c);
	call_close(other);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_half_lines(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	/* The answer shows a field of the request: it must outlive other clients' requests. */
	static const char text[] = "echo n=12\nload tag=5 bytes=11\nhello world" "echo n=13\n";
	for (const char *p = text; *p; p++) {
		assert_int_equal(call_send(c, p, 1, NULL, 0, NULL), 0);
		/* Others in between use the same buffers of the server. */
		if (p - text == 33) {
			struct call *other = dial();
			say(other, "echo n=99\n");
			hear(other, "ok n=99");
			call_close(other);
		}
	}
	char expected[96];
	hear(c, "ok n=12");
	snprintf(expected, sizeof expected, "ok tag=5 got=11 sum=%llu",
		 (unsigned long long)sum_of("hello world", 11));
	hear(c, expected);
	hear(c, "ok n=13");
	/* Half a line, then the end: nothing is done, and that is said. */
	say(c, "echo n=1\necho n=");
	shutdown(call_fd(c), SHUT_WR);
	hear(c, "ok n=1");
	hear(c, "err code=bad-request");
	hear_closed(c);
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
}

/* printf | socat: what was asked before the end is answered, also what takes long. */
static void test_half_closed(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial(), *other = dial();
	say(c, "later key=8\necho n=3\n");
	shutdown(call_fd(c), SHUT_WR);
	hear(c, "begun");
	for (int i = 0; i < 3; i++) {
		say(other, "echo n=1\n");
		hear(other, "ok n=1");
	}
	say(other, "release key=8\n");
	hear(other, "ok");
	hear(c, "ok released=8");
	hear(c, "ok n=3");
	hear_closed(c);
	call_close(c);
	/* So much that the rest is not read before the first is answered. */
	c = dial();
	say(c, "later key=9\necho n=4\nbig n=3000000 copy=1\n");
	shutdown(call_fd(c), SHUT_WR);
	hear(c, "begun");
	say(other, "release key=9\n");
	hear(other, "ok");
	hear(c, "ok released=9");
	hear(c, "ok n=4");
	hear(c, "data bytes=3000000");
	hear(c, "ok");
	hear_closed(c);
	call_close(c);
	call_close(other);
	assert_int_equal(daemon_stop(pid), 0);
}

/* Asks until the daemon's counter says so: there is no other way to see a close from outside. */
static void wait_state(struct call *c, const char *key, uint64_t least)
{
	static struct record r;
	uint64_t value = 0;
	for (int i = 0; i < 2000 && value < least; i++) {
		assert_int_equal(call_request(c, "state\n", 6, &r, NULL, NULL, NULL), CALL_OK);
		assert_int_equal(record_u64(&r, key, 0, UINT64_MAX, &value, NULL), 0);
		if (value < least)
			usleep(5000);
	}
	assert_true(value >= least);
}

static void test_close_cancels(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *watcher = dial();
	struct call *c = dial();
	say(c, "later key=1\nlater key=2\necho n=1\n");
	hear(c, "begun");
	call_close(c);
	wait_state(watcher, "cancelled", 2);
	wait_state(watcher, "closed", 1);
	say(watcher, "release key=1\n");
	hear(watcher, "err code=nothing");
	/* The same for a client that had shut down its sending side before it went. */
	c = dial();
	say(c, "later key=3\n");
	hear(c, "begun");
	shutdown(call_fd(c), SHUT_WR);
	usleep(1000);
	call_close(c);
	wait_state(watcher, "cancelled", 3);
	/* And one that leaves answers unread, which the kernel reports as an error. */
	c = dial();
	say(c, "later key=3\n");
	shutdown(call_fd(c), SHUT_WR);
	for (int i = 0; i < 3; i++) {
		say(watcher, "echo n=1\n");
		hear(watcher, "ok n=1");
	}
	call_close(c);
	wait_state(watcher, "cancelled", 4);
	call_close(watcher);
	/* Deferred ones at the end of the server are cancelled, too: it would leak otherwise. */
	c = dial();
	say(c, "later key=4\necho n=1\n");
	hear(c, "begun");
	assert_int_equal(daemon_stop(pid), 0);
	call_close(c);
}

static int raw(void)
{
	int fd;
	assert_int_equal(transport_connect(daemon_path, &fd, NULL), 0);
	return fd;
}

static void put(int fd, const char *bytes)
{
	assert_int_equal(write(fd, bytes, strlen(bytes)), strlen(bytes));
}

static void stop(pid_t pid)
{
	int status;
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
}

/* What tells and asks nothing is carried out although its client has gone before it was greeted, or
 * before it was answered; other requests are not, nor half a line. */
static void test_last_words(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *watcher = dial();
	stop(pid);
	int fd = raw();
	put(fd,
	    "note n=1\nlater key=5\necho n=1\nload bytes=3\nabcnote n=2\nsing\nnote n=4\nnote n=8");
	close(fd);
	kill(pid, SIGCONT);
	wait_state(watcher, "notes", 7);
	wait_state(watcher, "closed", 1);
	say(watcher, "counters\n");
	hear(watcher, "counter verb=echo requests=0 errors=0");
	hear(watcher, "counter verb=note requests=3 errors=0");
	hear(watcher, "counter verb=later requests=0 errors=0");
	static struct record r;
	do
		assert_int_equal(call_receive(watcher, &r, NULL), 0);
	while (!record_is(&r, "ok"));
	/* More than one read takes, from one who was greeted. */
	char line[64], *many = calloc(3000, 50);
	for (int i = 0; i < 3000; i++) {
		snprintf(line, sizeof line, "note n=1 pad=%030d\n", i);
		strcat(many + (size_t)i * strlen(line), line);
	}
	struct call *c = dial();
	stop(pid);
	assert_int_equal(write(call_fd(c), many, strlen(many)), strlen(many));
	put(call_fd(c), "later key=6\n");
	call_close(c);
	kill(pid, SIGCONT);
	wait_state(watcher, "notes", 7 + 3000);
	wait_state(watcher, "closed", 2);
	say(watcher, "release key=6\n");
	hear(watcher, "err code=nothing");
	free(many);
	call_close(watcher);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_bye(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	say(c, "echo n=1\nbye\n");
	hear(c, "ok n=1");
	hear(c, "ok bye=1");
	hear_closed(c);
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
}

/* ---- payloads ---- */

static void load(struct call *c, const char *data, size_t bytes, size_t step)
{
	char line[128];
	int len = snprintf(line, sizeof line, "load bytes=%zu\n", bytes);
	say(c, line);
	(void)len;
	for (size_t at = 0; at < bytes; at += step) {
		size_t n = bytes - at < step ? bytes - at : step;
		assert_int_equal(call_send(c, data + at, n, NULL, 0, NULL), 0);
	}
	snprintf(line, sizeof line, "ok tag=0 got=%zu sum=%llu", bytes,
		 (unsigned long long)sum_of(data, bytes));
	hear(c, line);
}

static void test_payloads(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	size_t bytes = 5000001;
	char *data = malloc(bytes);
	for (size_t i = 0; i < bytes; i++)
		data[i] = (char)(i % 251);
	load(c, data, 0, 1);
	load(c, data, 1, 1);
	load(c, data, 3000, 7);
	load(c, data, 200000, 1000);
	load(c, data, bytes, bytes);
	load(c, data, bytes, 99999);
	/* Two in one write, a request behind. */
	say(c, "load bytes=3\nabcload bytes=2\n\n\necho n=1\n");
	char expected[96];
	static struct record r;
	snprintf(expected, sizeof expected, "ok tag=0 got=3 sum=%llu",
		 (unsigned long long)sum_of("abc", 3));
	hear(c, expected);
	assert_int_equal(call_receive(c, &r, NULL), 0);
	assert_string_equal(record_get(&r, "got"), "2");
	hear(c, "ok n=1");
	free(data);
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_payload_refused(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	/* Nobody wants it: it is skipped, what follows is found. */
	say(c, "echo n=1 bytes=9\nrelease \nsing bytes=5\nabcd\nbig bytes=2\nxyecho n=2\n");
	hear(c, "err code=bad-request");
	hear(c, "err code=unknown-request");
	hear(c, "err code=bad-request");
	hear(c, "ok n=2");
	call_close(c);
	/* Where the next request begins is not known: closed. */
	static const char *const bad[] = {
		"load bytes=99999999999\n",  "load bytes=70000000\n",
		"load bytes=x\n",            "load bytes=-1\n",
		"load bytes=7 more=1\n",     "load a=1 a=1 bytes=7\n",
		"echo n=1 bytes=3000000\n",  "sing bytes=3000000\n",
		"load map-bytes=1 bytes=8\n", "load bytes=18446744073709551615\n",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		c = dial();
		say(c, bad[i]);
		hear(c, i == 7 ? "err code=unknown-request" : "err code=bad-request");
		hear_closed(c);
		call_close(c);
	}
	/* The end in the middle of a payload. */
	c = dial();
	say(c, "echo n=3\nload bytes=100\nabc");
	shutdown(call_fd(c), SHUT_WR);
	hear(c, "ok n=3");
	hear_closed(c);
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_big_answers(void **state)
{
	(void)state;
	/* One answer may be larger than the limit; what was read counts no more. */
	struct daemon_options o = {.server.output_bytes_max = 1 << 20};
	pid_t pid = daemon_start(&o);
	struct call *c = dial();
	size_t bytes = 8000003;
	unsigned char *data = malloc(bytes);
	for (int copy = 0; copy < 2; copy++) {
		char line[64];
		snprintf(line, sizeof line, "big n=%zu%s\necho n=5\n", bytes,
			 copy ? " copy=1" : "");
		say(c, line);
		snprintf(line, sizeof line, "data bytes=%zu", bytes);
		hear(c, line);
		assert_int_equal(call_bytes(c, data, 1000, NULL), 0);
		assert_int_equal(call_bytes(c, data + 1000, bytes - 1000, NULL), 0);
		for (size_t i = 0; i < bytes; i++)
			assert_int_equal(data[i], (unsigned char)(i * 7 + i / 251));
		hear(c, "ok");
		hear(c, "ok n=5");
	}
	/* A payload that the client does not take is skipped. */
	say(c, "big n=300000\nbig n=3\necho n=6\n");
	hear(c, "data bytes=300000");
	hear(c, "ok");
	hear(c, "data bytes=3");
	hear(c, "ok");
	hear(c, "ok n=6");
	free(data);
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
}

/* ---- shared memory ---- */

static void test_map(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial(), *other = dial();
	char *memory, expected[96];
	struct error err;
	say(c, "load map-offset-bytes=0 map-bytes=8\n");
	hear(c, "err code=bad-request");
	assert_int_equal(call_map(c, 100000, (void **)&memory, &err), 0);
	memset(memory, 'q', 100000);
	memcpy(memory + 4096, "hello world", 11);
	say(c, "load map-offset-bytes=4096 map-bytes=11\n");
	snprintf(expected, sizeof expected, "ok tag=0 got=11 sum=%llu",
		 (unsigned long long)sum_of("hello world", 11));
	hear(c, expected);
	say(c, "load map-offset-bytes=99992 map-bytes=8\nload map-offset-bytes=99992 map-bytes=9\n"
	       "load map-offset-bytes=18446744073709551608 map-bytes=16\n"
	       "load map-offset-bytes=4097 map-bytes=1\nload map-bytes=1\n"
	       "echo n=1 map-offset-bytes=0 map-bytes=8\n"
	       "map bytes=5\n"
	       "into into-offset-bytes=8 into-bytes=16\ninto into-offset-bytes=99992 into-bytes=9\n");
	static struct record r;
	assert_int_equal(call_receive(c, &r, NULL), 0);
	assert_string_equal(record_get(&r, "got"), "8");
	for (int i = 0; i < 6; i++)
		hear(c, "err code=bad-request");
	hear(c, "ok");
	hear(c, "err code=bad-request");
	assert_memory_equal(memory + 7, "qmmmmmmmmmmmmmmmmq", 18);
	/* A payload that is held outlives its connection. */
	say(c, "hold map-offset-bytes=4096 map-bytes=11\n");
	hear(c, "ok");
	call_close(c);
	wait_state(other, "closed", 1);
	say(other, "held\n");
	snprintf(expected, sizeof expected, "ok got=11 sum=%llu",
		 (unsigned long long)sum_of("hello world", 11));
	hear(other, expected);
	call_close(other);
	assert_int_equal(daemon_stop(pid), 0);
}

/* Sends text with these descriptors. */
static void pass(struct call *c, const char *text, const int *fds, size_t count)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(16 * sizeof(int))];
	} control;
	memset(&control, 0, sizeof control);
	struct iovec piece = {(char *)(uintptr_t)text, strlen(text)};
	struct msghdr message = {.msg_iov = &piece,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *h = CMSG_FIRSTHDR(&message);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(h), fds, count * sizeof(int));
	assert_int_equal(sendmsg(call_fd(c), &message, MSG_NOSIGNAL), strlen(text));
}

static size_t descriptors_of(pid_t pid)
{
	char path[64];
	size_t count = 0;
	for (int fd = 0; fd < 256; fd++) {
		struct stat st;
		snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid, fd);
		count += lstat(path, &st) == 0;
	}
	return count;
}

static void test_map_refused(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	say(c, "echo n=1\n");
	hear(c, "ok n=1");
	size_t before = descriptors_of(pid);
	int unsealed = memfd_create("a", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int sealed = memfd_create("b", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int file = open("/dev/null", O_RDWR);
	assert_int_equal(ftruncate(unsealed, 4096), 0);
	assert_int_equal(ftruncate(sealed, 4096), 0);
	assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	say(c, "map bytes=4096\nmap\nmap bytes=x\n");
	pass(c, "map bytes=4096\n", &unsealed, 1);
	pass(c, "map bytes=4096\n", &file, 1);
	pass(c, "map bytes=4097\n", &sealed, 1);
	pass(c, "map bytes=0\n", &sealed, 1);
	for (int i = 0; i < 7; i++)
		hear(c, "err code=bad-request");
	int many[7] = {file, file, sealed, sealed, file, file, file};
	pass(c, "echo n=2\n", many, 7);
	hear(c, "ok n=2");
	pass(c, "echo n=", many, 2);
	pass(c, "3\n", many, 2);
	hear(c, "ok n=3");
	assert_int_equal(descriptors_of(pid), before);
	int two[2] = {sealed, file};
	pass(c, "map bytes=4096\n", two, 2);
	hear(c, "ok");
	pass(c, "map bytes=4096\n", two, 2); /* once a connection */
	hear(c, "err code=bad-request");
	assert_int_equal(descriptors_of(pid), before);
	close(unsealed);
	close(sealed);
	close(file);
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
}

/* ---- hostile clients ---- */

static void test_long_line(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial(), *other = dial();
	char line[RECORD_LINE_MAX + 1];
	/* The longest that is allowed. */
	memset(line, 'a', sizeof line);
	memcpy(line, "echo n=1 x=", 11);
	line[RECORD_LINE_MAX - 1] = '\n';
	line[RECORD_LINE_MAX] = '\0';
	say(c, line);
	hear(c, "ok n=1");
	line[RECORD_LINE_MAX - 1] = 'a';
	say(c, line);
	hear(c, "err code=bad-request");
	hear_closed(c);
	say(other, "echo n=2\n");
	hear(other, "ok n=2");
	call_close(c);
	call_close(other);
	assert_int_equal(daemon_stop(pid), 0);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Words of the protocol in any order, and plain noise. */
static size_t make_noise(char *out, size_t max)
{
	static const char *const word[] = {
		"echo",  "load",   " bytes=",    "map",      "\n",   "\n", " n=",   "1", "17",
		"later", " key=",  " map-bytes=", " map-offset-bytes=", "\t", "%", "%00", "%41",
		" ",     "=",      "release",    "watch",    "tick", "big", " copy=1", "-", "hold",
		"help",  "counters", "bye",      "\0",       "nothing", "into", "99999999999999999999"};
	size_t len = 0;
	while (len + 32 < max && next_random() % 40 != 0) {
		if (next_random() % 8 == 0) {
			out[len++] = (char)next_random();
		} else {
			const char *w = word[next_random() % (sizeof word / sizeof *word)];
			size_t n = *w ? strlen(w) : 1;
			memcpy(out + len, w, n);
			len += n;
		}
	}
	return len;
}

static void test_noise(void **state)
{
	(void)state;
	struct daemon_options o = {.server.output_bytes_max = 1 << 20};
	pid_t pid = daemon_start(&o);
	char *noise = malloc(20000), sink[4096];
	for (int i = 0; i < 3000; i++) {
		int fd;
		while (transport_connect(daemon_path, &fd, NULL) != 0)
			;
		for (uint64_t k = next_random() % 4; k > 0; k--) {
			size_t len = make_noise(noise, 20000);
			(void)!send(fd, noise, len, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (next_random() % 2)
				(void)!recv(fd, sink, sizeof sink, MSG_DONTWAIT);
		}
		if (next_random() % 3 == 0)
			shutdown(fd, SHUT_WR);
		close(fd);
	}
	free(noise);
	struct call *c = dial();
	say(c, "echo n=1\n");
	hear(c, "ok n=1");
	wait_state(c, "closed", 3000);
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_slow_reader(void **state)
{
	(void)state;
	struct daemon_options o = {.server.output_bytes_max = 1 << 20};
	pid_t pid = daemon_start(&o);
	struct call *slow = dial(), *other = dial();
	say(slow, "watch\n");
	/* Until what the socket takes and the limit are full; then it is closed. */
	static struct record r;
	uint64_t closed = 0;
	for (int i = 0; i < 200 && closed == 0; i++) {
		say(other, "tick n=50\nstate\n");
		hear(other, "ok");
		assert_int_equal(call_receive(other, &r, NULL), 0);
		assert_int_equal(record_u64(&r, "closed", 0, 9, &closed, NULL), 0);
	}
	assert_int_equal(closed, 1);
	assert_string_equal(record_get(&r, "cancelled"), "1");
	/* It reads what had been sent, then the end. */
	struct error err;
	while (call_receive(slow, &r, &err) == 0)
		assert_true(record_is(&r, "tick"));
	assert_true(err.code == ERROR_UNAVAILABLE || err.code == ERROR_DATA);
	call_close(slow);
	call_close(other);
	assert_int_equal(daemon_stop(pid), 0);
}

/* One that asks and never reads is not read from any more, and costs others nothing. */
static void test_asks_and_never_reads(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *deaf = dial(), *other = dial();
	static char lines[65536];
	for (size_t i = 0; i + 10 <= sizeof lines; i += 10)
		memcpy(lines + i, "echo n=12\n", 10);
	size_t sent = 0;
	for (int full = 0; !full;) {
		ssize_t n = send(call_fd(deaf), lines, sizeof lines / 10 * 10,
				 MSG_DONTWAIT | MSG_NOSIGNAL);
		struct pollfd p = {.fd = call_fd(deaf), .events = POLLOUT};
		assert_true(n > 0 || errno == EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		say(other, "echo n=1\n");
		hear(other, "ok n=1");
		full = n < 0 && poll(&p, 1, 100) == 0;
	}
	assert_true(sent < 8u << 20);
	/* When it reads after all, it goes on. */
	static char answer[65536];
	size_t got = 0, wanted = sent / 10 * 8;
	while (got < wanted) {
		struct pollfd p = {.fd = call_fd(deaf), .events = POLLIN};
		assert_int_equal(poll(&p, 1, (int)(PATIENCE * 1e3)), 1);
		ssize_t n = recv(call_fd(deaf), answer, sizeof answer, 0);
		assert_true(n > 0);
		got += (size_t)n;
	}
	assert_int_equal(got, wanted);
	call_close(deaf);
	call_close(other);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_descriptors_run_out(void **state)
{
	(void)state;
	struct daemon_options o = {.descriptors = 24};
	pid_t pid = daemon_start(&o);
	int fd[40];
	struct call *first = dial();
	for (int i = 0; i < 40; i++)
		while (transport_connect(daemon_path, &fd[i], NULL) != 0)
			;
	say(first, "echo n=1\n");
	hear(first, "ok n=1");
	/* Each that goes makes room for one that waits: all are greeted in the end. */
	for (int i = 0; i < 40; i++) {
		struct pollfd p = {.fd = fd[i], .events = POLLIN};
		char line[64];
		assert_int_equal(poll(&p, 1, (int)(PATIENCE * 1e3)), 1);
		assert_true(recv(fd[i], line, sizeof line, 0) > 0);
		assert_memory_equal(line, "paceline ", 9);
		close(fd[i]);
	}
	call_close(first);
	assert_int_equal(daemon_stop(pid), 0);
}

/* Thousands who have come and gone meanwhile are in nobody's way. */
static void test_descriptors_run_out_by_who_has_gone(void **state)
{
	(void)state;
	struct daemon_options o = {.descriptors = 24};
	pid_t pid = daemon_start(&o);
	struct call *first = dial();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	for (int i = 0; i < 4000; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		struct sockaddr_un name = {.sun_family = AF_UNIX};
		snprintf(name.sun_path, sizeof name.sun_path, "%s", daemon_path);
		(void)connect(fd, (struct sockaddr *)&name, sizeof name); /* as many as can wait */
		close(fd);
	}
	assert_int_equal(kill(pid, SIGCONT), 0);
	struct call *next = dial();
	call_close(next);
	call_close(first);
	assert_int_equal(daemon_stop(pid), 0);
}

/* A low soft limit is no limit. */
static void test_soft_limit_is_raised(void **state)
{
	(void)state;
	struct daemon_options o = {.descriptors_soft = 24};
	pid_t pid = daemon_start(&o);
	struct call *first = dial(), *c[60];
	for (int i = 0; i < 60; i++)
		c[i] = dial();
	say(first, "echo n=1\n");
	hear(first, "ok n=1");
	for (int i = 0; i < 60; i++)
		call_close(c[i]);
	call_close(first);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_clients_max(void **state)
{
	(void)state;
	struct daemon_options o = {.server.clients_max = 2};
	pid_t pid = daemon_start(&o);
	struct call *a = dial(), *b = dial(), *third = NULL;
	struct error err;
	assert_int_equal(call_open(&third, daemon_path, 0, PATIENCE, &err), -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
	call_close(a);
	third = dial();
	say(third, "echo n=1\n");
	hear(third, "ok n=1");
	call_close(b);
	call_close(third);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_idle(void **state)
{
	(void)state;
	struct daemon_options o = {.server.idle_seconds = 0.2};
	pid_t pid = daemon_start(&o);
	struct call *idle = dial(), *half = dial(), *waiting = dial();
	say(half, "echo n=");
	say(waiting, "later key=1\n");
	hear(waiting, "begun");
	hear_closed(idle);
	hear_closed(half);
	/* Who waits for an answer is not idle. */
	struct call *other = dial();
	say(other, "release key=1\n");
	hear(other, "ok");
	hear(waiting, "ok released=1");
	call_close(idle);
	call_close(half);
	call_close(waiting);
	call_close(other);
	assert_int_equal(daemon_stop(pid), 0);
}

/* What was begun must end; who has nothing begun may stay as long as it likes. */
static void test_begun_has_a_deadline(void **state)
{
	(void)state;
	struct daemon_options o = {.server.begun_seconds = 0.3};
	pid_t pid = daemon_start(&o);
	static const char *const begun[] = {"echo n=", "load bytes=100\nabc", "load bytes=9\n",
					    "echo n=1 bytes=9\nabc"};
	struct call *idle = dial(), *waiting = dial();
	say(waiting, "later key=1\n");
	hear(waiting, "begun");
	for (size_t i = 0; i < sizeof begun / sizeof *begun; i++) {
		struct call *c = dial();
		say(c, "echo n=7\n");
		say(c, begun[i]);
		hear(c, "ok n=7");
		if (i == 3)
			hear(c, "err code=bad-request");
		hear(c, "err code=slow");
		hear_closed(c);
		call_close(c);
	}
	say(idle, "echo n=1\nrelease key=1\n");
	hear(idle, "ok n=1");
	hear(idle, "ok");
	hear(waiting, "ok released=1");
	call_close(idle);
	call_close(waiting);
	assert_int_equal(daemon_stop(pid), 0);
}

static char megabytes[4 << 20];

static void say_bytes(struct call *c, size_t len)
{
	struct error err;
	assert_int_equal(call_send(c, megabytes, len, NULL, 0, &err), 0);
}

static void hear_loaded(struct call *c, const char *tag, const char *got)
{
	static struct record r;
	struct error err;
	assert_int_equal(call_receive(c, &r, &err), 0);
	assert_string_equal(record_get(&r, "tag"), tag);
	assert_string_equal(record_get(&r, "got"), got);
}

static int is_silent(struct call *c, struct call *other)
{
	struct pollfd p = {.fd = call_fd(c), .events = POLLIN};
	say(other, "echo n=5\n");
	hear(other, "ok n=5");
	return poll(&p, 1, 0) == 0;
}

/* Who does not fit waits, and comes when there is room; the short ones never wait. */
static void test_payloads_wait_for_room(void **state)
{
	(void)state;
	struct daemon_options o = {.server.payloads_bytes_max = 1 << 20};
	pid_t pid = daemon_start(&o);
	struct call *first = dial(), *second = dial(), *third = dial(), *gone = dial(),
		    *other = dial();
	/* One alone may be longer. */
	say(first, "load tag=1 bytes=4194304\n");
	say_bytes(first, sizeof megabytes);
	hear_loaded(first, "1", "4194304");
	say(first, "load tag=2 bytes=1000000\n");
	say_bytes(first, 500000);
	assert_true(is_silent(first, other));
	say(gone, "load bytes=900000\n");
	assert_true(is_silent(gone, other));
	say(second, "load tag=3 bytes=60000\n");
	say_bytes(second, 60000);
	say(second, "echo n=8\n");
	say(third, "echo n=9\nload tag=4 bytes=1000000\nxx");
	hear(third, "ok n=9");
	assert_true(is_silent(second, other));
	assert_true(is_silent(third, other));
	say(other, "load tag=5 bytes=100\n");
	say_bytes(other, 100);
	hear_loaded(other, "5", "100");
	call_close(gone);
	say_bytes(first, 500000);
	hear_loaded(first, "2", "1000000");
	hear_loaded(second, "3", "60000");
	hear(second, "ok n=8");
	say_bytes(third, 999998);
	hear_loaded(third, "4", "1000000");
	call_close(first);
	call_close(second);
	call_close(third);
	call_close(other);
	assert_int_equal(daemon_stop(pid), 0);
}

/* What a client said while it waited comes before what it says when there is room: both may be there
 * in the same turn of the loop. */
static void test_payload_keeps_its_order(void **state)
{
	(void)state;
	struct daemon_options o = {.server.payloads_bytes_max = 1 << 20};
	pid_t pid = daemon_start(&o);
	struct call *first = dial(), *second = dial(), *other = dial();
	static struct record r;
	struct error err;
	char sum[32], said[60000];
	say(first, "load tag=1 bytes=1000000\n");
	say_bytes(first, 999999);
	assert_true(is_silent(first, other));
	say(second, "echo n=2\nload tag=2 bytes=60000\nbegin");
	hear(second, "ok n=2");
	assert_true(is_silent(second, other));
	memset(said, 'x', sizeof said);
	memcpy(said, "begin", 5);
	stop(pid);
	say(first, "\n");
	assert_int_equal(call_send(second, said + 5, sizeof said - 5, NULL, 0, &err), 0);
	kill(pid, SIGCONT);
	hear_loaded(first, "1", "1000000");
	assert_int_equal(call_receive(second, &r, &err), 0);
	snprintf(sum, sizeof sum, "%llu", (unsigned long long)sum_of(said, sizeof said));
	assert_string_equal(record_get(&r, "sum"), sum);
	call_close(first);
	call_close(second);
	call_close(other);
	assert_int_equal(daemon_stop(pid), 0);
}

/* One that announces, takes all the room and says nothing more is closed, not those who wait. */
static void test_who_is_in_the_way_goes(void **state)
{
	(void)state;
	struct daemon_options o = {.server = {.payloads_bytes_max = 1 << 20, .begun_seconds = 3}};
	static struct record r;
	struct error err;
	pid_t pid = daemon_start(&o);
	struct call *hostile[3], *good = dial();
	for (int i = 0; i < 3; i++) {
		hostile[i] = dial();
		say(hostile[i], "echo n=1\nload bytes=1000000\nabc");
		hear(hostile[i], "ok n=1"); /* they come in this order */
	}
	say(good, "load tag=1 bytes=100000\n");
	say_bytes(good, 100000);
	hear_loaded(good, "1", "100000");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(call_receive(hostile[i], &r, &err), 0);
		assert_string_equal(record_get(&r, "code"), "slow");
		assert_non_null(strstr(r.text, "other clients wait"));
		hear_closed(hostile[i]);
		call_close(hostile[i]);
	}
	call_close(good);
	assert_int_equal(daemon_stop(pid), 0);
}

/* However many announce and send: what the daemon has taken from them is bounded. */
static void test_payloads_are_bounded(void **state)
{
	(void)state;
	enum { CLIENTS = 20 };
	struct daemon_options o = {.server.payloads_bytes_max = 4 << 20};
	pid_t pid = daemon_start(&o);
	struct call *c[CLIENTS];
	size_t sent = 0;
	for (int i = 0; i < CLIENTS; i++) {
		c[i] = dial();
		say(c[i], "load bytes=4194304\n");
		for (size_t at = 0; at < 1 << 20;) {
			struct pollfd p = {.fd = call_fd(c[i]), .events = POLLOUT};
			if (poll(&p, 1, 100) == 0)
				break;
			ssize_t n = send(p.fd, megabytes, 1 << 14, MSG_DONTWAIT | MSG_NOSIGNAL);
			assert_true(n > 0 || errno == EAGAIN);
			at += n > 0 ? (size_t)n : 0;
			sent += n > 0 ? (size_t)n : 0;
		}
	}
	assert_true(sent < (size_t)CLIENTS << 19);
	for (int i = 0; i < CLIENTS; i++)
		call_close(c[i]);
	assert_int_equal(daemon_stop(pid), 0);
}

/* ---- the owner's hook, the end ---- */

static void test_flush_fails(void **state)
{
	(void)state;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	say(c, "echo n=1\n");
	hear(c, "ok n=1");
	/* The answer of the turn whose hook fails is never seen. */
	say(c, "poison\n");
	hear_closed(c);
	assert_int_equal(daemon_wait(pid), ERROR_IO);
	call_close(c);
}

static void test_shutdown(void **state)
{
	(void)state;
	struct stat st;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	size_t bytes = 4000000;
	say(c, "big n=4000000\n");
	hear(c, "data bytes=4000000");
	/* An answer that is under way is drained. */
	kill(pid, SIGTERM);
	char *data = malloc(bytes);
	assert_int_equal(call_bytes(c, data, bytes, NULL), 0);
	free(data);
	hear(c, "ok");
	hear_closed(c);
	assert_int_equal(daemon_wait(pid), 0);
	assert_int_equal(lstat(daemon_path, &st), -1);
	call_close(c);
	/* One that does not read is waited for only so long. */
	struct daemon_options o = {.server.drain_seconds = 0.05};
	pid = daemon_start(&o);
	c = dial();
	say(c, "big n=4000000\n");
	hear(c, "data bytes=4000000");
	assert_int_equal(daemon_stop(pid), 0);
	call_close(c);
}

static void test_second_instance(void **state)
{
	(void)state;
	struct stat st;
	char dir[160];
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	snprintf(dir, sizeof dir, "%s/run", daemon_dir);
	assert_int_equal(stat(daemon_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(daemon_wait(daemon_start(NULL)), ERROR_TEMPFAIL);
	say(c, "echo n=1\n");
	hear(c, "ok n=1");
	/* Not even when somebody has removed the lock. */
	snprintf(dir, sizeof dir, "%s.lock", daemon_path);
	assert_int_equal(unlink(dir), 0);
	assert_int_equal(daemon_wait(daemon_start(NULL)), ERROR_TEMPFAIL);
	say(c, "echo n=2\n");
	hear(c, "ok n=2");
	call_close(c);
	/* The socket of one that was killed is taken over. */
	kill(pid, SIGKILL);
	assert_int_equal(daemon_wait(pid), 1000 + SIGKILL);
	assert_int_equal(stat(daemon_path, &st), 0);
	pid = daemon_start(NULL);
	c = dial();
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
	/* A file that is no socket is left alone. */
	close(open(daemon_path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(daemon_wait(daemon_start(NULL)), ERROR_CANTCREAT);
	assert_int_equal(stat(daemon_path, &st), 0);
	unlink(daemon_path);
	/* So is a socket at which somebody hears datagrams: it refuses connections, and lives. */
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(strlen(daemon_path) < sizeof name.sun_path);
	memcpy(name.sun_path, daemon_path, strlen(daemon_path));
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
	assert_int_equal(daemon_wait(daemon_start(NULL)), ERROR_CANTCREAT);
	assert_int_equal(stat(daemon_path, &st), 0);
	close(fd);
	unlink(daemon_path);
}

/* A child that saves a checkpoint must not keep the name of a daemon that was killed. */
static void test_forked_child(void **state)
{
	(void)state;
	static struct record r;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	uint64_t child;
	assert_int_equal(call_request(c, "fork\n", 5, &r, NULL, NULL, NULL), CALL_OK);
	assert_int_equal(record_u64(&r, "pid", 1, INT32_MAX, &child, NULL), 0);
	/* Its signals are its own: the parent stays. */
	say(c, "echo n=1\n");
	hear(c, "ok n=1");
	kill(pid, SIGKILL);
	daemon_wait(pid);
	hear_closed(c);
	call_close(c);
	pid = daemon_start(NULL);
	c = dial();
	say(c, "echo n=2\n");
	hear(c, "ok n=2");
	call_close(c);
	assert_int_equal(kill((pid_t)child, SIGKILL), 0);
	assert_int_equal(daemon_stop(pid), 0);
}

static void test_long_path(void **state)
{
	(void)state;
	char saved[sizeof daemon_path];
	memcpy(saved, daemon_path, sizeof saved);
	int n = snprintf(daemon_path, sizeof daemon_path, "%.40s/%070d/%010d/s", daemon_dir, 1, 2);
	assert_true(n > 0 && (size_t)n < sizeof daemon_path);
	assert_true(strlen(daemon_path) > 108);
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	say(c, "echo n=1\n");
	hear(c, "ok n=1");
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
	memcpy(daemon_path, saved, sizeof saved);
}

/* The service manager listens before we are there, and keeps the name when we go. */
static void test_inherited_socket(void **state)
{
	(void)state;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct stat st;
	char dir[160];
	snprintf(dir, sizeof dir, "%s/run", daemon_dir);
	assert_int_equal(fs_make_dirs(dir, NULL), 0);
	snprintf(a.sun_path, sizeof a.sun_path, "%.100s", daemon_path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	/* Not listening yet: refused. */
	struct daemon_options o = {.listen_fd = fd};
	assert_int_equal(daemon_wait(daemon_start(&o)), ERROR_CONFIG);
	assert_int_equal(listen(fd, 5), 0);
	int early;
	assert_int_equal(transport_connect(daemon_path, &early, NULL), 0);
	pid_t pid = daemon_start(&o);
	char line[64];
	struct pollfd p = {.fd = early, .events = POLLIN};
	assert_int_equal(poll(&p, 1, (int)(PATIENCE * 1e3)), 1);
	assert_true(recv(early, line, sizeof line, 0) > 0);
	close(early);
	struct call *c = dial();
	say(c, "echo n=1\n");
	hear(c, "ok n=1");
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
	assert_int_equal(lstat(daemon_path, &st), 0);
	close(fd);
	/* Meant for another process, or not at all. */
	assert_int_equal(notify_listen_fd("1", "1"), -1);
	assert_int_equal(notify_listen_fd(NULL, "1"), -1);
	assert_int_equal(notify_listen_fd("x", NULL), -1);
	assert_true(notify_watchdog_seconds("3000000", NULL) == 3.0);
	assert_true(notify_watchdog_seconds("3000000", "1") == 0);
	assert_true(notify_watchdog_seconds(NULL, NULL) == 0);
}

static void hear_datagram(int fd, const char *expected)
{
	char text[64];
	struct pollfd p = {.fd = fd, .events = POLLIN};
	assert_int_equal(poll(&p, 1, (int)(PATIENCE * 1e3)), 1);
	ssize_t n = recv(fd, text, sizeof text - 1, 0);
	assert_true(n > 0);
	text[n] = '\0';
	assert_string_equal(text, expected);
}

static void test_notify(void **state)
{
	(void)state;
	for (int abstract = 0; abstract < 2; abstract++) {
		char name[128];
		struct sockaddr_un a = {.sun_family = AF_UNIX};
		snprintf(name, sizeof name, "%s%s/notify", abstract ? "@" : "", daemon_dir);
		memcpy(a.sun_path, name, strlen(name));
		if (abstract)
			a.sun_path[0] = '\0';
		int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(fd, (struct sockaddr *)&a,
				      (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
						  strlen(name))),
				 0);
		struct daemon_options o = {.notify = name, .watchdog = 0.02};
		pid_t pid = daemon_start(&o);
		hear_datagram(fd, "READY=1");
		hear_datagram(fd, "WATCHDOG=1");
		hear_datagram(fd, "WATCHDOG=1");
		assert_int_equal(daemon_stop(pid), 0);
		char text[64] = "";
		while (strcmp(text, "STOPPING=1") != 0) {
			ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
			assert_true(n > 0);
			text[n] = '\0';
		}
		close(fd);
	}
}

/* ---- call ---- */

static void test_call_deadlines(void **state)
{
	(void)state;
	static struct record r;
	struct error err;
	struct call *c = NULL;
	assert_int_equal(call_open(&c, daemon_path, 0, 1, &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
	pid_t pid = daemon_start(NULL);
	c = dial();
	struct call *other = dial();
	say(c, "later key=1\n");
	hear(c, "begun");
	assert_int_equal(call_receive_within(c, &r, 0.01, &err), -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
	/* The connection is still good. */
	say(other, "release key=1\n");
	hear(other, "ok");
	hear(c, "ok released=1");
	assert_int_equal(call_bytes(c, &r, 1, &err), -1);
	/* A daemon that stands still takes only so much. */
	struct call *hasty = NULL;
	assert_int_equal(call_open(&hasty, daemon_path, 0, 0.05, &err), 0);
	kill(pid, SIGSTOP);
	size_t bytes = 8 << 20;
	char *data = calloc(1, bytes);
	assert_int_equal(call_send(hasty, "load bytes=8388608\n", 19, data, bytes, &err), -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL);
	free(data);
	kill(pid, SIGCONT);
	call_close(hasty);
	call_close(c);
	call_close(other);
	assert_int_equal(daemon_stop(pid), 0);
}

static int data_seen;

static void count_data(const struct record *r, void *arg)
{
	(void)arg;
	data_seen += record_is(r, "data");
}

static void test_call_request(void **state)
{
	(void)state;
	static struct record r;
	pid_t pid = daemon_start(NULL);
	struct call *c = dial();
	data_seen = 0;
	assert_int_equal(call_request(c, "big n=100000\n", 13, &r, count_data, NULL, NULL),
			 CALL_OK);
	assert_int_equal(data_seen, 1);
	assert_int_equal(call_request(c, "sing\n", 5, &r, NULL, NULL, NULL), CALL_ERR);
	assert_string_equal(record_get(&r, "code"), "unknown-request");
	say(c, "echo n=1\necho n=2\n");
	hear(c, "ok n=1");
	hear(c, "ok n=2");
	assert_false(call_buffered(c));
	call_close(c);
	assert_int_equal(daemon_stop(pid), 0);
}

/* Status of a process of this user that connects to the daemon's path: the error's code, or 0. */
static int dial_as(uid_t uid)
{
	pid_t pid = fork();
	if (pid == 0) {
		struct error err = {0};
		int fd;
		if (setuid(uid) != 0)
			_exit(1);
		_exit(transport_connect(daemon_path, &fd, &err) == 0 ? 0 : err.code);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Who may write to a directory can listen at a name in it: a server of another user is told nothing. */
static void test_server_of_another_user(void **state)
{
	(void)state;
	struct transport_listener l;
	struct error err;
	int ready[2];
	char byte;
	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(chmod(daemon_dir, 0755), 0);
	snprintf(daemon_path, sizeof daemon_path, "%s/open/test.sock", daemon_dir);
	char dir[96];
	snprintf(dir, sizeof dir, "%s/open", daemon_dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (setuid(1234) != 0 || transport_listen(&l, daemon_path, &err) != 0 ||
		    chmod(daemon_path, 0666) != 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(dial_as(1234), 0);
	assert_int_equal(dial_as(0), 0);
	assert_int_equal(dial_as(1235), ERROR_NOPERM);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(daemon_path);
	/* What root has is everybody's. */
	assert_int_equal(transport_listen(&l, daemon_path, &err), 0);
	assert_int_equal(chmod(daemon_path, 0666), 0);
	assert_int_equal(dial_as(1235), 0);
	transport_unlisten(&l, daemon_path);
	rmdir(dir);
}

static void test_inherits_a_name(void **state)
{
	(void)state;
	struct server *s;
	struct server_options o = {.path = daemon_path, .role = "test"};
	struct error err;
	assert_int_equal(server_new(&s, &o, &err), 0);
	assert_int_equal(server_inherit(daemon_path, "a", &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
	assert_int_equal(server_name_heir(s, "another", &err), 0);
	assert_int_equal(server_name_heir(s, "a", &err), 0);
	assert_int_equal(server_inherit(daemon_path, "a", &err), -1);
	assert_int_equal(err.code, ERROR_TEMPFAIL); /* it lives */
	assert_int_equal(server_inherit(daemon_path, "another", &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
	server_free(s); /* as if it were killed: its owner has not said that nobody takes over */
	assert_int_equal(server_inherit(daemon_path, "another", &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
	assert_int_equal(server_inherit(daemon_path, "a", &err), 0);
	assert_int_equal(server_inherit(daemon_path, "a", &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
	/* A new server leaves its name to nobody. */
	assert_int_equal(server_new(&s, &o, &err), 0);
	assert_int_equal(server_name_heir(s, "a", &err), 0);
	server_free(s);
	assert_int_equal(server_new(&s, &o, &err), 0);
	server_free(s);
	assert_int_equal(server_inherit(daemon_path, "a", &err), -1);
	assert_int_equal(err.code, ERROR_UNAVAILABLE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_answers),
		T(test_inherits_a_name),
		T(test_error_names_the_key),
		T(test_order_with_deferred),
		T(test_many_pipelined),
		T(test_half_lines),
		T(test_half_closed),
		T(test_close_cancels),
		T(test_last_words),
		T(test_bye),
		T(test_payloads),
		T(test_payload_refused),
		T(test_big_answers),
		T(test_map),
		T(test_map_refused),
		T(test_long_line),
		T(test_noise),
		T(test_slow_reader),
		T(test_asks_and_never_reads),
		T(test_descriptors_run_out),
		T(test_descriptors_run_out_by_who_has_gone),
		T(test_soft_limit_is_raised),
		T(test_clients_max),
		T(test_idle),
		T(test_begun_has_a_deadline),
		T(test_payloads_wait_for_room),
		T(test_payload_keeps_its_order),
		T(test_who_is_in_the_way_goes),
		T(test_payloads_are_bounded),
		T(test_flush_fails),
		T(test_shutdown),
		T(test_second_instance),
		T(test_forked_child),
		T(test_long_path),
		T(test_inherited_socket),
		T(test_server_of_another_user),
		T(test_notify),
		T(test_call_deadlines),
		T(test_call_request),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
