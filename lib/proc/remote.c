/* remote: see remote.h. */
#include "proc/remote.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/version.h"
#include "base/words.h"
#include "proc/opening.h"
#include "proc/process.h"
#include "record/framer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK 65536          /* bytes written at once */
#define NOISE_MAX (1u << 20) /* bytes before the greeting: what login scripts print */
#define WORDS_MAX 512        /* bytes kept of the last output of the launcher's program */
#define REAP_SECONDS 2.0     /* from the end of its output to its own */
#define OPENING_SECONDS 10.0 /* seconds until a connection is opened beside all others */
#define OPENING_POLL 0.05

enum { IN, OUT, SAID };

/* Bytes that are to be sent: of memory, or of a file. */
struct piece {
	struct piece *next;
	int fd; /* -1: of memory */
	uint64_t left;
	size_t at;
	char data[];
};

struct remote {
	const struct launcher *launcher;
	char *host;
	char *program;
	struct argv argv; /* of what is started */
	char path[PATH_MAX];
	int quiet;
	int opening; /* its place among the connections that are being opened (opening.h), or -1 */
	pid_t pid;   /* 0: it has not been started, or has ended */
	double opens_by;
	int has_started;
	int fd[REMOTE_POLLS];
	struct framer framer;
	char in[2 * CHUNK], chunk[CHUNK];
	size_t chunk_at, chunk_len; /* of a file: read, and not sent yet */
	struct piece *first, **last;
	int has_greeted;
	struct remote_greeting greeting;
	size_t noise;
	double heard, beat; /* clock_mono(): last sign from there, last one from here */
	size_t open;        /* requests without an answer */
	int into;
	struct inspect_motion motion; /* of its node, as its last sign of life said */
	struct record answer; /* whose payload is on its way */
	int answering;
	char words[WORDS_MAX];
	size_t words_len;
};

/* ---- beginning and end ---- */

/* Starts the launcher's program (ssh, srun), which ends with us and gets signals only from us. */
static void remote_become(char **argv, const char *path, int pipes[REMOTE_POLLS][2], int quiet)
{
	process_signals_reset();
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(pipes[OUT][0], 0) < 0 || dup2(pipes[IN][1], 1) < 0 ||
	    (quiet && dup2(pipes[SAID][1], 2) < 0))
		_exit(ERROR_OS);
	execv(path, argv);
	_exit(ERROR_OS);
}

static int remote_start(struct remote *r, struct error *err)
{
	int pipes[REMOTE_POLLS][2] = {{-1, -1}, {-1, -1}, {-1, -1}}, result = 0;
	r->has_started = 1;
	r->heard = r->beat = clock_mono();
	for (int i = 0; result == 0 && i < REMOTE_POLLS; i++)
		if ((i != SAID || r->quiet) && pipe2(pipes[i], O_CLOEXEC) != 0)
			result = error_errno(err, ERROR_OS, r->host, "pipe");
	if (result == 0) {
		r->pid = process_fork();
		if (r->pid == 0)
			remote_become(r->argv.word, r->path, pipes, r->quiet);
		if (r->pid < 0)
			result = error_errno(err, ERROR_OS, r->host, "fork");
	}
	fs_close(&pipes[IN][1]);
	fs_close(&pipes[OUT][0]);
	fs_close(&pipes[SAID][1]);
	r->fd[IN] = pipes[IN][0];
	r->fd[OUT] = pipes[OUT][1];
	r->fd[SAID] = pipes[SAID][0];
	for (int i = 0; i < REMOTE_POLLS; i++)
		if (r->fd[i] >= 0)
			fcntl(r->fd[i], F_SETFL, O_NONBLOCK);
	return result;
}

/* Waits for its turn to connect. A connection that hangs while it is opened delays the others only
 * for a time. */
static int start_in_turn(struct remote *r, struct error *err)
{
	if (r->launcher->openings > 0)
		r->opening = opening_take(r->host, r->launcher->openings);
	if (r->launcher->openings > 0 && r->opening < 0 && clock_mono() < r->opens_by)
		return 0;
	return remote_start(r, err);
}

static int remote_prepare(struct remote *r, const struct remote_options *o, struct error *err)
{
	char quoted[WORDS_QUOTED(PATH_MAX)], line[sizeof quoted + 16];
	const struct node_reach to = {.host = o->host,
				      .line = line,
				      .memory_mib = o->memory_mib,
				      .slurm_job = o->slurm_job};
	if (!r->host || !r->program)
		return error_set(err, ERROR_OS, o->host, "out of memory");
	snprintf(line, sizeof line, "exec %s --serve",
		 words_quote(o->program, quoted, sizeof quoted));
	if (o->launcher->reach(&to, &r->argv, err) != 0)
		return -1;
	return process_find(r->argv.word[0], o->search_path, r->path, sizeof r->path, err);
}

int remote_open(struct remote **out, const struct remote_options *options, struct error *err)
{
	struct remote *r = calloc(1, sizeof *r);
	*out = NULL;
	if (!r)
		return error_set(err, ERROR_OS, options->host, "out of memory");
	r->launcher = options->launcher;
	r->quiet = options->quiet;
	r->fd[IN] = r->fd[OUT] = r->fd[SAID] = r->into = r->opening = -1;
	r->last = &r->first;
	r->opens_by = clock_mono() + OPENING_SECONDS;
	r->host = strdup(options->host);
	r->program = strdup(options->program);
	framer_lend(&r->framer, r->in, sizeof r->in);
	int result = remote_prepare(r, options, err);
	if (result == 0)
		result = start_in_turn(r, err);
	if (result == 0)
		*out = r;
	else
		remote_close(r);
	return result;
}

static void drop_first(struct remote *r)
{
	struct piece *p = r->first;
	r->first = p->next;
	if (!r->first)
		r->last = &r->first;
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

void remote_close(struct remote *r)
{
	if (!r)
		return;
	if (r->pid > 0) {
		kill(r->pid, SIGKILL);
		waitpid(r->pid, NULL, 0);
	}
	while (r->first)
		drop_first(r);
	for (int i = 0; i < REMOTE_POLLS; i++)
		fs_close(&r->fd[i]);
	fs_close(&r->opening);
	argv_free(&r->argv);
	free(r->host);
	free(r->program);
	free(r);
}

/* ---- what goes there ---- */

static struct piece *add_piece(struct remote *r, size_t bytes, struct error *err)
{
	struct piece *p = malloc(sizeof *p + bytes);
	if (!p) {
		error_set(err, ERROR_OS, r->host, "out of memory");
		return NULL;
	}
	*p = (struct piece){.fd = -1, .left = bytes};
	*r->last = p;
	r->last = &p->next;
	return p;
}

int remote_ask(struct remote *r, struct record_out *request, const void *payload, size_t bytes,
	       struct error *err)
{
	size_t len = record_end(request, NULL);
	if (len == 0)
		return error_set(err, ERROR_CONFIG, r->host, "a name is too long to be sent");
	struct piece *p = add_piece(r, len + bytes, err);
	if (!p)
		return -1;
	memcpy(p->data, request->data, len);
	if (bytes > 0)
		memcpy(p->data + len, payload, bytes);
	r->open++;
	return 0;
}

int remote_ask_path(struct remote *r, const char *verb, const char *path, struct error *err)
{
	return remote_ask(r, RECORD(verb, F("path", path)), NULL, 0, err);
}

static int remote_bring_file(struct remote *r, const char *path, struct error *err)
{
	struct stat st; /* the file that is sent: another one may have its name now */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return error_errno(err, 0, path, "can't be read");
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return error_set(err, ERROR_CONFIG, path, "is no file any more");
	}
	struct piece *p =
		remote_ask(r, RECORD("file", F("path", path), F("bytes", (uint64_t)st.st_size)),
			   NULL, 0, err) == 0
			? add_piece(r, 0, err)
			: NULL;
	if (!p) {
		close(fd);
		return -1;
	}
	p->fd = fd;
	p->left = (uint64_t)st.st_size;
	return 0;
}

static int bring_dir(struct remote *r, const char *path, size_t *asked, struct error *err)
{
	char name[PATH_MAX];
	int result = remote_ask_path(r, "make", path, err);
	DIR *d = result == 0 ? opendir(path) : NULL;
	if (result != 0)
		return -1;
	++*asked;
	if (!d)
		return error_errno(err, 0, path, "can't be read");
	for (struct dirent *e; result == 0 && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
			result = fs_join(name, sizeof name, path, e->d_name, err);
			if (result == 0)
				result = remote_bring(r, name, asked, err);
		}
	closedir(d);
	return result;
}

int remote_bring(struct remote *r, const char *path, size_t *asked, struct error *err)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return error_errno(err, 0, path, "can't be read");
	if (S_ISDIR(st.st_mode))
		return bring_dir(r, path, asked, err);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERROR_CONFIG, path, "is neither a file nor a directory");
	++*asked;
	return remote_bring_file(r, path, err);
}

/* The part of the first piece to write now; NULL: the file has become shorter. */
static const char *next_bytes(struct remote *r, size_t *len)
{
	struct piece *p = r->first;
	if (p->fd < 0) {
		*len = (size_t)p->left;
		return p->data + p->at;
	}
	if (r->chunk_at == r->chunk_len) {
		size_t want = p->left < sizeof r->chunk ? (size_t)p->left : sizeof r->chunk;
		ssize_t n = read(p->fd, r->chunk, want);
		if (n <= 0 && want > 0)
			return NULL;
		r->chunk_at = 0;
		r->chunk_len = (size_t)n;
	}
	*len = r->chunk_len - r->chunk_at;
	return r->chunk + r->chunk_at;
}

static void remote_sent(struct remote *r, size_t n)
{
	struct piece *p = r->first;
	p->left -= n;
	if (p->fd < 0)
		p->at += n;
	else
		r->chunk_at += n;
	if (p->left == 0)
		drop_first(r);
}

/* -1: nobody reads any more; the end of the process will say why. */
static int send_some(struct remote *r, struct error *err)
{
	while (r->first) {
		size_t len;
		const char *data = next_bytes(r, &len);
		if (!data)
			return error_set(err, ERROR_IO, r->host, "a file became shorter as it was sent there");
		ssize_t n = len > 0 ? write(r->fd[OUT], data, len) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			fs_close(&r->fd[OUT]);
			break;
		}
		remote_sent(r, (size_t)n);
		r->beat = clock_mono();
	}
	return 0;
}

static int beat(struct remote *r, struct error *err)
{
	static const char line[] = "beat\n";
	if (!r->has_greeted || r->first || clock_mono() - r->beat < REMOTE_BEAT_SECONDS)
		return 0;
	struct piece *p = add_piece(r, sizeof line - 1, err);
	if (!p)
		return -1;
	memcpy(p->data, line, sizeof line - 1);
	return 0;
}

/* ---- what comes from there ---- */

static void hear_words(struct remote *r)
{
	char text[WORDS_MAX / 2];
	ssize_t n;
	while ((n = read(r->fd[SAID], text, sizeof text)) > 0) {
		size_t len = (size_t)n;
		if (r->words_len + len >= sizeof r->words) {
			size_t drop = r->words_len + len - (sizeof r->words - 1);
			memmove(r->words, r->words + drop, r->words_len - drop);
			r->words_len -= drop;
		}
		memcpy(r->words + r->words_len, text, len);
		r->words_len += len;
	}
	if (n == 0)
		fs_close(&r->fd[SAID]);
}

static int read_greeting(struct remote *r, const struct record *rec, struct error *err)
{
	struct remote_greeting *g = &r->greeting;
	const char *version = record_get(rec, "program"), *host = record_get(rec, "host"),
		   *boot = record_get(rec, "boot");
	snprintf(g->version, sizeof g->version, "%s", version ? version : "?");
	snprintf(g->host, sizeof g->host, "%s", host ? host : "");
	snprintf(g->boot, sizeof g->boot, "%s", boot ? boot : "");
	if (strcmp(g->version, PACELINE_VERSION) != 0)
		return error_set(err, ERROR_CONFIG, r->host,
				 "has Paceline %s at %.200s, and here it is " PACELINE_VERSION
				 ": all hosts need the same",
				 g->version, r->program);
	if (record_u64(rec, "cores", 1, UINT64_MAX, &g->cores, err) != 0 ||
	    record_u64(rec, "memory-mib", 0, UINT64_MAX, &g->memory_mib, err) != 0)
		return error_wrap(err, r->host);
	r->has_greeted = 1;
	fs_close(&r->opening);
	return 0;
}

/* Output of login scripts comes before the greeting. */
static int take_greeting(struct remote *r, const char *line, size_t len, struct error *err)
{
	static const char head[] = "paceline role=node-host ";
	static struct record rec;
	r->noise += len + 1;
	if (r->noise > NOISE_MAX)
		return error_set(err, ERROR_CONFIG, r->host,
				 "login scripts there print too much before the greeting");
	if (len < sizeof head - 1 || memcmp(line, head, sizeof head - 1) != 0)
		return 0;
	if (record_parse(&rec, line, len, err) != 0)
		return error_wrap(err, r->host);
	return read_greeting(r, &rec, err);
}

/* A line of what came before the greeting may be of any length. */
static int skip_noise(struct remote *r, struct error *err)
{
	const char *line;
	size_t len;
	while (!r->has_greeted) {
		enum framer_found found = framer_line(&r->framer, RECORD_LINE_MAX, &line, &len);
		if (found == FRAMER_MORE)
			return 0;
		if (found == FRAMER_LONG) {
			framer_expect(&r->framer, 1);
			framer_take(&r->framer, NULL, 1);
			r->noise++;
		} else if (take_greeting(r, line, len, err) != 0)
			return -1;
	}
	return 0;
}

static int remote_hear(struct remote *r, struct error *err)
{
	struct iovec piece[2];
	size_t count = framer_pieces(&r->framer, NULL, 0, piece);
	ssize_t n = count > 0 ? readv(r->fd[IN], piece, (int)count) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0) {
		framer_came(&r->framer, (size_t)n);
		r->heard = clock_mono();
		return r->has_greeted ? 0 : skip_noise(r, err);
	}
	if (count > 0)
		fs_close(&r->fd[IN]);
	return 0;
}

/* Takes as much of an answer's payload as has arrived. 1: all of it. */
static int remote_take_payload(struct remote *r, struct error *err)
{
	char some[CHUNK];
	size_t n;
	while (r->framer.due > 0 && (n = framer_take(&r->framer, some, sizeof some)) > 0)
		if (r->into >= 0 && fs_write_all(r->into, some, n, r->host, err) != 0)
			return -1;
	return r->framer.due == 0;
}

static int remote_begin_answer(struct remote *r, struct record *rec, struct error *err)
{
	uint64_t bytes = 0;
	int closes = record_is(rec, "ok") || record_is(rec, "err");
	if (closes && r->open == 0)
		return error_set(err, ERROR_DATA, r->host, "sent an answer without a question");
	r->open -= (size_t)closes;
	if (record_u64_opt(rec, "bytes", 0, UINT64_MAX, &bytes, err) != 0)
		return error_wrap(err, r->host);
	framer_expect(&r->framer, bytes);
	r->answering = 1;
	return 0;
}

static void take_beat(struct remote *r, const struct record *beat)
{
	r->motion = (struct inspect_motion){0};
	record_real_opt(beat, "still", 0, 1e9, &r->motion.still, NULL);
	record_real_opt(beat, "stopped", 0, 1e9, &r->motion.stopped, NULL);
}

const struct inspect_motion *remote_motion(const struct remote *r)
{
	return &r->motion;
}

int remote_take(struct remote *r, const struct record **out, struct error *err)
{
	const char *line;
	size_t len;
	while (r->has_greeted && !r->answering) {
		enum framer_found found = framer_line(&r->framer, RECORD_LINE_MAX, &line, &len);
		if (found == FRAMER_MORE)
			return 0;
		if (found == FRAMER_LONG)
			return error_set(err, ERROR_DATA, r->host, "sent a line that is too long");
		if (record_parse(&r->answer, line, len, err) != 0)
			return error_wrap(err, r->host);
		if (record_is(&r->answer, "beat"))
			take_beat(r, &r->answer);
		else if (remote_begin_answer(r, &r->answer, err) != 0)
			return -1;
	}
	int whole = r->answering ? remote_take_payload(r, err) : 0;
	if (whole <= 0)
		return whole;
	r->answering = 0;
	*out = &r->answer;
	return 1;
}

const struct remote_greeting *remote_greets(const struct remote *r)
{
	return r->has_greeted ? &r->greeting : NULL;
}

void remote_done(struct remote *r)
{
	fs_close(&r->fd[OUT]);
}

void remote_into(struct remote *r, int fd)
{
	r->into = fd;
}

int remote_refused(const struct remote *r, const struct record *answer, struct error *err)
{
	char place[2 * ERROR_PLACE_MAX];
	uint64_t status = ERROR_SOFTWARE;
	const char *at = record_get(answer, "place");
	record_u64_opt(answer, "status", 1, 255, &status, NULL);
	snprintf(place, sizeof place, "%s%s%.500s", r->host, at && at[0] ? ": " : "", at ? at : "");
	return error_set(err, (int)status, place, "%s", answer->text ? answer->text : "refused");
}

/* ---- the end ---- */

/* The last line that the launcher's program wrote; "" when it wrote nothing. */
static const char *last_words(struct remote *r)
{
	if (r->fd[SAID] >= 0)
		hear_words(r);
	while (r->words_len > 0 && strchr("\r\n", r->words[r->words_len - 1]))
		r->words_len--;
	r->words[r->words_len] = '\0';
	const char *newline = strrchr(r->words, '\n');
	return newline ? newline + 1 : r->words;
}

/* Its output has ended, so the process is ending, too. */
static struct node_end reap(struct remote *r)
{
	struct node_end unseen = {0};
	int status;
	double until = clock_mono() + REAP_SECONDS;
	fs_close(&r->fd[OUT]);
	while (clock_mono() < until) {
		if (waitpid(r->pid, &status, WNOHANG) == r->pid) {
			r->pid = 0;
			return end_of(status);
		}
		clock_sleep(0.005);
	}
	return unseen;
}

/* Exit statuses of a shell that does not find the program or may not run it. */
static int is_not_there(const struct node_end *end)
{
	return end->seen && !end->signal && (end->status == 127 || end->status == 126);
}

static int remote_lost(struct remote *r, struct error *err)
{
	char how[128];
	struct node_end end = reap(r);
	const char *words = last_words(r);
	fs_close(&r->opening);
	end_text(&end, how, sizeof how);
	if (!r->has_greeted && is_not_there(&end))
		return error_set(err, ERROR_CONFIG, r->host,
				 "%.200s does not run there: the kit must lie at the same place on all "
				 "hosts%s%.200s",
				 r->program, words[0] ? ": " : "", words);
	return error_set(err, ERROR_UNAVAILABLE, r->host, "%s: %s ended: %s%s%.200s",
			 r->has_greeted ? "connection lost" : "not reached", r->launcher->name, how,
			 words[0] ? ": " : "", words);
}

static int remote_silent(struct remote *r, struct error *err)
{
	const char *words = last_words(r);
	return error_set(err, ERROR_UNAVAILABLE, r->host, "%s for %g s%s%.200s",
			 r->has_greeted ? "no sign of life" : "no answer", REMOTE_NEAR_SECONDS,
			 words[0] ? ": " : "", words);
}

/* ---- a turn ---- */

void remote_wants(const struct remote *r, struct pollfd polls[REMOTE_POLLS])
{
	polls[IN] = (struct pollfd){.fd = r->fd[IN], .events = POLLIN};
	polls[OUT] = (struct pollfd){.fd = r->first ? r->fd[OUT] : -1, .events = POLLOUT};
	polls[SAID] = (struct pollfd){.fd = r->fd[SAID], .events = POLLIN};
}

int remote_timeout(const struct remote *r)
{
	double now = clock_mono(), next = r->heard + REMOTE_NEAR_SECONDS;
	if (!r->has_started)
		return (int)(OPENING_POLL * 1000);
	if (r->has_greeted && r->beat + REMOTE_BEAT_SECONDS < next)
		next = r->beat + REMOTE_BEAT_SECONDS;
	return next <= now ? 0 : (int)((next - now) * 1000) + 1;
}

int remote_turn(struct remote *r, const struct pollfd polls[REMOTE_POLLS], struct error *err)
{
	if (!r->has_started)
		return start_in_turn(r, err);
	if (r->fd[SAID] >= 0 && polls[SAID].revents)
		hear_words(r);
	if (r->fd[IN] >= 0 && polls[IN].revents && remote_hear(r, err) != 0)
		return -1;
	if (r->fd[IN] < 0)
		return remote_lost(r, err);
	if (clock_mono() - r->heard >= REMOTE_NEAR_SECONDS)
		return remote_silent(r, err);
	if (beat(r, err) != 0)
		return -1;
	return r->fd[OUT] >= 0 ? send_some(r, err) : 0;
}
