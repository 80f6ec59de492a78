/* hosts_look: see hosts.h. All hosts are asked at once, each all its questions without waiting for
 * answers in between. */
#include "job/hosts.h"

#include "base/boot.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/grow.h"
#include "base/human.h"
#include "base/log.h"
#include "data/schema.h"
#include "job/deadline.h"
#include "job/dirs.h"
#include "job/job.h"
#include "job/kind.h"
#include "param/layout.h"
#include "param/opt.h"
#include "proc/host_test.h"
#include "proc/process.h"
#include "proc/remote.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A file here that tells whether a host sees our state directory. */
struct token {
	char path[DIRS_PATH_MAX], text[96];
};

struct wrong {
	size_t place;
	struct error err;
};

struct look {
	struct hosts *hosts;
	const struct job *job;
	const struct dirs *dirs;
	struct token run, state;
	uint64_t bytes;    /* room for so many */
	int room;          /* ask only for room */
	struct wrong *wrong; /* in the order in which they were found */
	size_t wrongs, wrong_room;
	uint64_t *sum; /* checksum of each data file here; 0: not computed yet */
	int lost; /* some errors, for want of memory */
};

/* One host. */
struct asked {
	struct look *look;
	size_t place;
	struct remote *remote;
	struct asked *all; /* of all hosts */
	char is[HOST_NAME_MAX_BYTES + BOOT_ID_MAX]; /* the machine's id, as it says; "": not known
						     * yet */
	int began; /* its questions are on their way */
	size_t question, of_data;
	int over;
};

/* ---- what is wrong ---- */

int hosts_comes_again(int code)
{
	return code != ERROR_UNAVAILABLE && code != ERROR_OS && code != ERROR_IO &&
	       code != ERROR_TEMPFAIL;
}

static void is_wrong(struct look *l, size_t place, const struct error *err)
{
	if (GROW(l->wrong, l->wrong_room, l->wrongs + 1) != 0)
		l->lost = 1;
	else
		l->wrong[l->wrongs++] = (struct wrong){.place = place, .err = *err};
}

__attribute__((format(printf, 4, 5))) static void wrong_at(struct asked *a, int code,
							  const char *path, const char *fmt, ...)
{
	char place[ERROR_PLACE_MAX], text[ERROR_TEXT_MAX];
	struct error err;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	snprintf(place, sizeof place, "%.200s: %.300s", a->look->hosts->place[a->place].host, path);
	error_set(&err, code, place, "%s", text);
	is_wrong(a->look, a->place, &err);
}

/* Reports in the order of hosts, not of answers. The exit status is that of the first error that
 * would come again, else of the first error. */
static int sum_up(struct look *l, struct error *err)
{
	char text[ERROR_PLACE_MAX + ERROR_TEXT_MAX + 8];
	int code = l->lost ? ERROR_OS : 0;
	for (size_t place = 0; place < l->hosts->count; place++)
		for (size_t i = 0; i < l->wrongs; i++) {
			const struct error *one = &l->wrong[i].err;
			if (l->wrong[i].place != place)
				continue;
			error_format(one, text, sizeof text);
			log_say(LOG_LEVEL_ERROR, "%s", text);
			if (code == 0 || (hosts_comes_again(one->code) && !hosts_comes_again(code)))
				code = one->code;
		}
	size_t count = l->wrongs;
	free(l->wrong);
	if (code == 0)
		return 0;
	return error_set(err, code, "HOSTS", "%zu thing%s wrong on the hosts, %s above", count,
			 count == 1 ? " is" : "s are", count == 1 ? "named" : "all named");
}

/* ---- tokens ---- */

/* Looks at the directory, or at the one in which it is to be made. */
static int make_token(struct token *t, const char *dir, struct error *err)
{
	char at[DIRS_PATH_MAX], boot[BOOT_ID_MAX], up[DIRS_PATH_MAX];
	snprintf(at, sizeof at, "%.3900s", dir);
	while (access(at, F_OK) != 0 && strcmp(at, "/") != 0) {
		fs_dirname(at, up, sizeof up);
		memcpy(at, up, sizeof at);
	}
	snprintf(t->path, sizeof t->path, "%.3900s/.paceline-token.XXXXXX", at);
	int fd = mkstemp(t->path);
	if (fd < 0) {
		t->path[0] = '\0';
		return error_errno(err, ERROR_CANTCREAT, at, "can't be written");
	}
	boot_id(boot);
	int n = snprintf(t->text, sizeof t->text, "%s-%ld-%.6f", boot, (long)getpid(),
			 clock_mono());
	int result = fs_write_all(fd, t->text, (size_t)n, t->path, err);
	close(fd);
	return result;
}

static void remove_token(struct token *t)
{
	if (t->path[0])
		unlink(t->path);
}

/* ---- questions ---- */

/* orted comes last; mpirun starts it by ssh or srun. */
static const char *const programs_of_ours[] = {"fabricd", "ps-server", "worker", "orted", NULL};
static const char *const programs_of_foreign[] = {"fabricd", "agent", "orted", NULL};

static const char *const *programs(const struct look *l)
{
	return job_kind(l->job)->foreign ? programs_of_foreign : programs_of_ours;
}

static size_t program_count(const struct look *l)
{
	size_t count = 0;
	while (programs(l)[count])
		count++;
	return count;
}

/* The next file of the data that this host needs, from index *i on. NULL: none. */
static const char *next_data(const struct asked *a, size_t *i)
{
	const struct job *job = a->look->job;
	for (; *i < job->data.count; ++*i)
		if (!job_is_local(job) || hosts_worker(a->look->hosts, *i) == a->place)
			return job->data.item[*i];
	return NULL;
}

static int ask_programs(struct asked *a, struct error *err)
{
	for (const char *const *name = programs(a->look); *name; name++) {
		if (remote_ask(a->remote, RECORD("program", F("name", *name)), NULL, 0, err) != 0)
			return -1;
	}
	return 0;
}

/* Bytes of a file that are read on each host: not so many that the deadline of all is missed. */
static uint64_t sample_bytes(const struct look *l)
{
	return (UINT64_C(64) << 20) / (l->job->data.count ? l->job->data.count : 1) + 1;
}

static int ask_data(struct asked *a, const char *path, struct error *err)
{
	return remote_ask(a->remote,
			  RECORD("look", F("path", path), F("sample", sample_bytes(a->look))), NULL,
			  0, err);
}

#define FIXED 6 /* questions, before those for programs */

/* The way in which nodes would be limited there; if the job limits none, the answer says so. */
static int ask_limits(struct asked *a, struct error *err)
{
	const struct limits want = job_limits(a->look->job);
	return remote_ask(a->remote,
			  RECORD("limits", F_REAL("cores", want.cores), F("memory", want.memory)),
			  NULL, 0, err);
}

static int hosts_look_ask(struct asked *a, struct error *err)
{
	struct look *l = a->look;
	const char *path;
	char journal[DIRS_PATH_MAX];
	dirs_state(l->dirs, "journal", journal);
	a->began = 1;
	if (l->room)
		return remote_ask_path(a->remote, "room", l->dirs->state, err);
	if (remote_ask_path(a->remote, "read", l->run.path, err) != 0 ||
	    remote_ask_path(a->remote, "read", l->state.path, err) != 0 ||
	    remote_ask_path(a->remote, "could", l->dirs->run, err) != 0 ||
	    remote_ask_path(a->remote, "could", l->dirs->state, err) != 0 ||
	    remote_ask_path(a->remote, "look", journal, err) != 0 ||
	    ask_limits(a, err) != 0 ||
	    ask_programs(a, err) != 0)
		return -1;
	for (size_t i = 0; (path = next_data(a, &i)); i++)
		if (ask_data(a, path, err) != 0)
			return -1;
	return 0;
}

/* ---- answers ---- */

static int sees(const struct record *r, const struct token *t)
{
	const char *text = record_get(r, "text");
	return record_is(r, "ok") && text && strcmp(text, t->text) == 0;
}

static void hosts_look_refused(struct asked *a, const struct record *r)
{
	struct error err;
	remote_refused(a->remote, r, &err);
	is_wrong(a->look, a->place, &err);
}

static void hosts_look_take_data(struct asked *a, const struct record *r)
{
	struct look *l = a->look;
	const char *path = next_data(a, &a->of_data), *self = l->hosts->place[0].host;
	uint64_t size = 0, sum = 0;
	struct stat here;
	size_t file = a->of_data++;
	if (!path)
		return;
	if (!record_is(r, "ok"))
		hosts_look_refused(a, r);
	else if (record_u64(r, "size", 0, UINT64_MAX, &size, NULL) != 0 || stat(path, &here) != 0)
		return;
	else if ((uint64_t)here.st_size != size)
		wrong_at(a, ERROR_CONFIG, path, "DATA has %llu bytes there, and %llu on %.200s",
			 (unsigned long long)size, (unsigned long long)here.st_size, self);
	else if (record_u64(r, "sum", 0, UINT64_MAX, &sum, NULL) == 0 &&
		 (l->sum[file] || fs_sample_sum(path, sample_bytes(l), &l->sum[file], NULL) == 0) &&
		 sum != l->sum[file])
		wrong_at(a, ERROR_CONFIG, path,
			 "DATA has as many bytes there as on %.200s, but other content: copy it "
			 "again, so that all hosts train on the same rows", self);
}

static void take_room(struct asked *a, const struct record *r)
{
	uint64_t free = 0;
	char has[HUMAN_MAX], needs[HUMAN_MAX];
	struct look *l = a->look;
	if (!record_is(r, "ok"))
		hosts_look_refused(a, r);
	else if (record_u64(r, "bytes-free", 0, UINT64_MAX, &free, NULL) == 0 && free < l->bytes)
		wrong_at(a, ERROR_IO, l->dirs->state,
			 "has room for %s there, and a checkpoint may need %s",
			 human_bytes((double)free, has), human_bytes((double)l->bytes, needs));
}

static void hosts_look_take_limits(struct node_place *place, const struct record *r)
{
	const char *cores = record_get(r, "cores-by"), *memory = record_get(r, "memory-by");
	if (cores)
		limits_way_find(cores, &place->by.cores);
	if (memory)
		limits_way_find(memory, &place->by.memory);
}

/* In the order of hosts_look_ask(). */
static void hosts_look_take(struct asked *a, const struct record *r)
{
	struct look *l = a->look;
	struct node_place *place = &l->hosts->place[a->place];
	size_t question = a->question++;
	if (l->room) {
		take_room(a, r);
		return;
	}
	size_t count = program_count(l);
	if (question == 0 && sees(r, &l->run))
		wrong_at(a, ERROR_CONFIG, l->dirs->run,
			 "is the same directory as here, but each host needs its own for sockets: "
			 "choose a --run-dir on a local disk, like /tmp");
	else if (question == 1)
		place->apart = !sees(r, &l->state);
	else if ((question == 2 || (question == 3 && place->apart)) && !record_is(r, "ok"))
		hosts_look_refused(a, r);
	else if (question == 4 && place->apart && record_is(r, "ok"))
		wrong_at(a, ERROR_CONFIG, l->dirs->state,
			 "holds a run of that host's own: choose another --state-dir");
	else if (question == 5)
		hosts_look_take_limits(place, r);
	else if (question >= FIXED && question < FIXED + count && !record_is(r, "ok"))
		hosts_look_refused(a, r);
	else if (question >= FIXED + count)
		hosts_look_take_data(a, r);
}

static int hosts_look_has_all(const struct asked *a)
{
	size_t i = a->of_data;
	if (a->look->room)
		return a->question == 1;
	return a->question >= FIXED + program_count(a->look) && !next_data(a, &i);
}

/* ---- a host ---- */

static void hosts_look_end(struct asked *a, const struct error *err)
{
	if (err)
		is_wrong(a->look, a->place, err);
	a->over = 1;
	remote_close(a->remote);
	a->remote = NULL;
}

/* The name of this machine, or of a host that was asked before, if it is the same machine; NULL: it
 * is not. Their directories would be the same, too. */
static const char *other_name(struct asked *a, const struct remote_greeting *g,
			      const struct node_place *here)
{
	char boot[BOOT_ID_MAX];
	boot_id(boot);
	if (strcmp(g->host, here->host) == 0 && strcmp(g->boot, boot) == 0)
		return here->host;
	snprintf(a->is, sizeof a->is, "%s %s", g->boot, g->host);
	for (size_t i = 0; i + 1 < a->look->hosts->count; i++)
		if (&a->all[i] != a && strcmp(a->all[i].is, a->is) == 0)
			return a->look->hosts->place[i + 1].host;
	return NULL;
}

static void hosts_look_greeted(struct asked *a)
{
	struct error err;
	const struct remote_greeting *g = remote_greets(a->remote);
	struct node_place *place = &a->look->hosts->place[a->place];
	struct node_place here;
	launcher_here(&here);
	const char *other = other_name(a, g, &here);
	place->cores = g->cores;
	place->memory_mib = g->memory_mib;
	if (other) {
		wrong_at(a, ERROR_CONFIG, "HOSTS", "is the same machine as %.200s", other);
		hosts_look_end(a, NULL);
	} else if (hosts_look_ask(a, &err) != 0)
		hosts_look_end(a, &err);
}

static void hosts_look_turn(struct asked *a, const struct pollfd polls[REMOTE_POLLS])
{
	struct error err, over;
	const struct record *r;
	int got = 0, result = remote_turn(a->remote, polls, &over);
	while ((got = remote_take(a->remote, &r, &err)) > 0 && a->began && !hosts_look_has_all(a))
		hosts_look_take(a, r);
	if (got < 0)
		hosts_look_end(a, &err);
	else if (hosts_look_has_all(a) && a->began)
		hosts_look_end(a, NULL);
	else if (result != 0)
		hosts_look_end(a, &over);
	else if (remote_greets(a->remote) && !a->began)
		hosts_look_greeted(a);
}

/* ---- all of them ---- */

static int still_asked(const struct asked *asked, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!asked[i].over)
			return 1;
	return 0;
}

static void hosts_look_poll_all(struct asked *asked, size_t count, struct pollfd *polls,
				double left)
{
	int timeout = (int)(left * 1000) + 1;
	for (size_t i = 0; i < count; i++) {
		struct pollfd *p = polls + i * REMOTE_POLLS;
		for (size_t k = 0; k < REMOTE_POLLS; k++)
			p[k] = (struct pollfd){.fd = -1};
		if (asked[i].over)
			continue;
		remote_wants(asked[i].remote, p);
		int soon = remote_timeout(asked[i].remote);
		timeout = soon < timeout ? soon : timeout;
	}
	if (poll(polls, count * REMOTE_POLLS, timeout) < 0)
		return;
	for (size_t i = 0; i < count; i++)
		if (!asked[i].over)
			hosts_look_turn(&asked[i], polls + i * REMOTE_POLLS);
}

static void hosts_look_open_one(struct asked *a, const struct hosts_environment *env)
{
	struct error err;
	const struct node_place *place = &a->look->hosts->place[a->place];
	const struct remote_options options = {.launcher = place->launcher,
					       .host = place->host,
					       .program = place->node_host,
					       .search_path = env->search_path,
					       .quiet = 1};
	if (remote_open(&a->remote, &options, &err) != 0)
		hosts_look_end(a, &err);
}

static int hosts_look_ask_all(struct look *l, const struct hosts_environment *env, double seconds,
			      struct error *err)
{
	size_t count = l->hosts->count - 1;
	struct asked *asked = calloc(count, sizeof *asked);
	struct pollfd *polls = calloc(count * REMOTE_POLLS, sizeof *polls);
	double until = clock_mono() + seconds, left;
	int result = asked && polls ? 0 : error_set(err, ERROR_OS, "HOSTS", "out of memory");
	for (size_t i = 0; result == 0 && i < count; i++) {
		asked[i] = (struct asked){.look = l, .place = i + 1, .all = asked};
		if (l->room && l->hosts->place[i + 1].cores == 0)
			asked[i].over = 1; /* it did not answer before, which was reported */
		else
			hosts_look_open_one(&asked[i], env);
	}
	while (result == 0 && still_asked(asked, count) && (left = until - clock_mono()) > 0)
		hosts_look_poll_all(asked, count, polls, left);
	for (size_t i = 0; result == 0 && i < count; i++)
		if (!asked[i].over) {
			wrong_at(&asked[i], ERROR_UNAVAILABLE, "node-host",
				 "has not answered a question for %g s", seconds);
			hosts_look_end(&asked[i], NULL);
		}
	free(asked);
	free(polls);
	return result;
}

static void need_here(struct look *l, const char *program, const struct hosts_environment *env,
		      const char *where_from)
{
	struct error err;
	char path[DIRS_PATH_MAX], place[ERROR_PLACE_MAX];
	if (process_find(program, env->search_path, path, sizeof path, NULL) == 0)
		return;
	snprintf(place, sizeof place, "%.200s: %s", l->hosts->place[0].host, program);
	error_set(&err, ERROR_CONFIG, place, "is needed between hosts, and is not there: %s",
		  where_from);
	is_wrong(l, 0, &err);
}

/* Programs that start the world between hosts: Open MPI's, and in an allocation those that it
 * starts others with. */
static void look_here(struct look *l, const struct hosts_environment *env)
{
	static const char open_mpi[] = "install Open MPI (scripts/deps)";
	need_here(l, "fabricd", env, "it is built where Open MPI is (scripts/deps)");
	need_here(l, "mpirun", env, open_mpi);
	if (strcmp(l->hosts->launcher->name, "slurm") == 0)
		need_here(l, "srun", env, "install Slurm");
}

int hosts_look(struct hosts *h, const struct job *job, const struct dirs *dirs,
	       const struct hosts_environment *env, double seconds, struct error *err)
{
	static struct look l; /* large */
	if (h->count == 1)
		return 0;
	l = (struct look){.hosts = h, .job = job, .dirs = dirs};
	l.sum = calloc(job->data.count + 1, sizeof *l.sum);
	if (!l.sum)
		return error_set(err, ERROR_OS, "DATA", "out of memory");
	look_here(&l, env);
	int result = make_token(&l.run, dirs->run, err);
	if (result == 0)
		result = make_token(&l.state, dirs->state, err);
	if (result == 0)
		result = hosts_look_ask_all(&l, env, seconds, err);
	remove_token(&l.run);
	remove_token(&l.state);
	free(l.sum);
	if (result == 0)
		return sum_up(&l, err);
	free(l.wrong);
	return -1;
}

/* ---- a test ---- */

int hosts_test(struct hosts *h, const struct hosts_environment *env,
	       void (*each)(const struct host_test *t), struct error *err)
{
	size_t count = h->count - h->first;
	struct host_test *t = calloc(count, sizeof *t);
	int bad = 0;
	if (!t)
		return error_set(err, ERROR_OS, "HOSTS", "out of memory");
	for (size_t i = 0; i < count; i++) {
		const struct node_place *p = &h->place[h->first + i];
		t[i] = (struct host_test){
			.host = p->host, .launcher = p->launcher, .program = p->node_host};
	}
	int result = host_tests_run(t, count, env->search_path, err);
	for (size_t i = 0; result == 0 && i < count; i++) {
		struct node_place *p = &h->place[h->first + i];
		snprintf(p->bad, sizeof p->bad, "%s", t[i].why);
		bad += t[i].why[0] != '\0';
		if (each)
			each(&t[i]);
	}
	free(t);
	return result == 0 ? bad : -1;
}

/* ---- room ---- */

static void room_here(struct look *l)
{
	struct statvfs st;
	struct error err;
	char has[HUMAN_MAX], needs[HUMAN_MAX];
	if (statvfs(l->dirs->state, &st) != 0)
		return; /* it does not exist yet, or the process that writes there reports the
			 * error */
	double free = (double)st.f_bavail * (double)st.f_frsize;
	if (free >= (double)l->bytes)
		return;
	error_set(&err, ERROR_IO, l->dirs->state, "has room for %s, and a checkpoint may need %s",
		  human_bytes(free, has), human_bytes((double)l->bytes, needs));
	is_wrong(l, 0, &err);
}

int hosts_room(const struct hosts *h, const struct dirs *dirs, uint64_t bytes,
	       const struct hosts_environment *env, struct error *err)
{
	static struct look l; /* large */
	if (h->count == 1)
		return 0;
	l = (struct look){
		.hosts = (struct hosts *)(size_t)h, .dirs = dirs, .bytes = bytes, .room = 1};
	room_here(&l);
	if (hosts_look_ask_all(&l, env, deadline_seconds(DEADLINE_HOSTS), err) == 0)
		return sum_up(&l, err);
	free(l.wrong);
	return -1;
}

int hosts_dense_bytes(const struct dirs *dirs, uint64_t *bytes, struct error *err)
{
	char path[DIRS_PATH_MAX];
	static struct layout layout; /* large */
	dirs_state(dirs, "layout", path);
	if (layout_read(&layout, path, err) != 0)
		return -1;
	*bytes = layout_dense_count(&layout) * sizeof(float);
	return 0;
}

/* Rows that the data can touch, not all rows for which keys have room. */
int hosts_checkpoint_bytes(const struct job *job, const struct dirs *dirs, uint64_t samples,
			   uint64_t *bytes, struct error *err)
{
	char path[DIRS_PATH_MAX];
	struct schema *schema;
	static struct layout layout; /* large */
	struct opt opt;
	*bytes = 0;
	if (job_kind(job)->cut != CUT_PARTS)
		return 0; /* nobody knows in advance how much a trainer saves */
	dirs_state(dirs, "layout", path);
	if (opt_by_name(&opt, job->optimizer, err) != 0 || layout_read(&layout, path, err) != 0)
		return -1;
	double each = (double)(1 + opt_slots(&opt)) * sizeof(float);
	double all = (double)layout_dense_count(&layout) * each;
	dirs_state(dirs, "schema", path);
	if (layout.has_table && schema_read(&schema, path, err) != 0)
		return -1;
	if (layout.has_table) {
		double rows = (double)samples * (double)schema_fields(schema);
		schema_free(schema);
		if (layout.table.rows > 0 && (double)layout.table.rows < rows)
			rows = (double)layout.table.rows;
		all += rows * (layout.table.width * each + sizeof(uint32_t));
	}
	*bytes = all < 1e18 ? (uint64_t)all : (uint64_t)1e18;
	return 0;
}

void hosts_text(const struct hosts *h, size_t i, char out[HOSTS_TEXT_MAX])
{
	char memory[HUMAN_MAX];
	const struct node_place *p = &h->place[i];
	const char *files = i == 0 ? "" : p->apart ? "; does not see the state directory"
						   : "; sees the state directory";
	if (p->cores == 0)
		snprintf(out, HOSTS_TEXT_MAX, "%s: %s, not asked yet", p->host, p->launcher->name);
	else
		snprintf(out, HOSTS_TEXT_MAX, "%s: %s, %llu core%s, %s%s%s", p->host,
			 i == 0 ? "this machine" : p->launcher->name, (unsigned long long)p->cores,
			 p->cores == 1 ? "" : "s",
			 human_bytes((double)p->memory_mib * 1048576, memory), files,
			 i < h->first ? "; trains nothing" : "");
}
