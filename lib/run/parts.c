/* parts: see parts.h. */
#include "run/sup.h"

#include "base/argv.h"
#include "base/clock.h"
#include "base/fs.h"
#include "ckpt/ckpt.h"
#include "proc/child.h"
#include "proc/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The path of the part that n writes. A server's part has its number; a replica writes part 0,
 * which has all parameters. */
static void name_part(const struct sup_node *n, const char *dir, char *out, size_t max)
{
	char name[CKPT_NAME_MAX];
	ckpt_part_name(n->role == &role_replica ? 0 : (uint32_t)sup_rank(n), name);
	snprintf(out, max, "%.4000s/%s", dir, name);
}

/* How many parts the manifest names: while servers come and go, it is not the number of servers.
 * SIZE_MAX: the manifest can't be read. */
static size_t parts_in_manifest(const char *dir)
{
	struct ckpt_manifest m;
	size_t parts = ckpt_manifest_read(&m, dir, NULL) == 0 ? m.parts : SIZE_MAX;
	ckpt_manifest_free(&m);
	return parts;
}

/* The next node, behind `after` (NULL: from the first one on), whose part is not here and whose
 * host does not see our state. NULL: none. */
static struct sup_node *next_away(const struct supervisor *s, const char *dir,
				  const struct sup_node *after)
{
	char path[DIRS_PATH_MAX + 32];
	int passed = after == NULL;
	size_t parts = parts_in_manifest(dir);
	EACH_OF (n, s, sup_holders(s)) {
		if (n->role == &role_server && sup_rank(n) >= parts)
			break;
		name_part(n, dir, path, sizeof path);
		if (passed && n->place.apart && access(path, F_OK) != 0)
			return n;
		passed |= n == after;
	}
	return NULL;
}

/* The trainer that saved the file `name`, if the file is not here yet and its host does not see our
 * state; else NULL. path: where the file is to be here. */
static struct sup_node *saver_away(const struct supervisor *s, const char *dir, const char *name,
				   char *path, size_t max)
{
	size_t len = strcspn(name, "/");
	int fits = snprintf(path, max, "%s/%s", dir, name) < (int)max;
	if (!fits || name[len] != '/' || len == 0 || access(path, F_OK) == 0)
		return NULL;
	EACH_OF (n, s, &role_agent)
		if (n->place.apart && strlen(n->id) == len && memcmp(n->id, name, len) == 0)
			return n;
	return NULL;
}

/* The trainer of the next saved file that is to be brought, and the path of this file. NULL:
 * none. */
static struct sup_node *next_saved_away(const struct supervisor *s, const char *dir, char *path,
					size_t max)
{
	struct sup_node *found = NULL;
	struct ckpt_manifest m;
	ckpt_manifest_read(&m, dir, NULL);
	for (size_t i = 0; !found && i < m.count; i++)
		found = saver_away(s, dir, m.file[i].name, path, max);
	ckpt_manifest_free(&m);
	return found;
}

int sup_parts_are_away(const struct supervisor *s, const char *dir)
{
	char path[sizeof s->parts.file];
	if (job_kind(s->job)->cut == CUT_SAVED)
		return next_saved_away(s, dir, path, sizeof path) != NULL;
	return next_away(s, dir, NULL) != NULL;
}

/* ---- hosts that do not see ours ---- */

static int has_learnt(const struct supervisor *s, size_t host)
{
	if (!sup_workers_learn(s))
		return 0;
	EACH_OF (n, s, sup_trainers(s))
		if (n->at == host)
			return 1;
	return 0;
}

/* One that Slurm has taken back is not the job's any more. */
static int is_to_be_swept(const struct sup_host *h)
{
	return h->place->apart && h->state != HOST_NONE && !h->swept;
}

static int parts_is_due(const struct supervisor *s, enum parts_doing doing, size_t host)
{
	const struct sup_host *h = &s->hosts.host[host];
	if (h->state != HOST_THERE)
		return 0;
	/* While the job trains, it does not wait for a host that it does not use. */
	if (h->use == HOST_UNUSED && s->parts.end == PARTS_OPEN)
		return 0;
	if (doing == PARTS_LEARNT)
		return h->place->apart && has_learnt(s, host);
	return is_to_be_swept(h) || (s->parts.end == PARTS_ENDING && s->hosts.killed && !h->swept);
}

/* The next host behind `after` on which that is to be done; if there is none, the number of
 * hosts. */
static size_t next_host(const struct supervisor *s, enum parts_doing doing, size_t after)
{
	size_t i = after + 1;
	while (i < s->hosts.count && !parts_is_due(s, doing, i))
		i++;
	return i;
}

int sup_parts_are_due(const struct supervisor *s, const char *dir)
{
	return sup_parts_are_away(s, dir) || next_host(s, PARTS_LEARNT, 0) < s->hosts.count ||
	       next_host(s, PARTS_SWEEP, 0) < s->hosts.count;
}

/* ---- what is run for it ---- */

static void add_way(struct argv *w, const struct node_place *place)
{
	argv_add(w, place->node_host, "--by", place->launcher->name);
	argv_u64(w, "--slurm-job", place->slurm_job);
}

static void add_pair(struct argv *w, const char *path)
{
	argv_add(w, "--fetch");
	argv_format(w, "%s=%s", path, path);
}

static void fetch_words(struct argv *w, const struct supervisor *s)
{
	const struct node_place *place = &s->parts.node->place;
	add_way(w, place);
	add_pair(w, s->parts.file);
	argv_add(w, place->host);
}

/* It takes long to read a large part, so a process of its own does it. */
static void check_words(struct argv *w, const struct supervisor *s)
{
	char ckpt[DIRS_PATH_MAX];
	if (process_find("ckpt", s->options.search_path, ckpt, sizeof ckpt, NULL) != 0)
		snprintf(ckpt, sizeof ckpt, "ckpt");
	argv_add(w, ckpt, "verify", job_kind(s->job)->cut == CUT_SAVED ? s->parts.dir : s->parts.file);
}

/* Removes this file and no other, because other files there may not be ours. The directory goes
 * with its last file. */
static void drop_words(struct argv *w, const struct supervisor *s)
{
	const struct node_place *place = &s->parts.node->place;
	static const char script[] = "rm -f -- \"$0\" || exit; rmdir -- \"$1\" 2>/dev/null || :";
	add_way(w, place);
	argv_add(w, place->host, "/bin/sh", "-c", script, s->parts.file, s->parts.dir);
}

static void learnt_words(struct argv *w, const struct supervisor *s)
{
	const struct node_place *place = s->hosts.host[s->parts.host].place;
	char path[DIRS_PATH_MAX];
	add_way(w, place);
	EACH_OF (n, s, sup_trainers(s)) {
		if (n->at != s->parts.host)
			continue;
		sup_learnt_path(n, path);
		add_pair(w, path);
	}
	argv_add(w, place->host);
}

/* $1: the state directory, or nothing: it is ours; $2: the directory in memory that is removed, or
 * nothing; $3: the run directory, whose dead sockets are removed, or nothing; then names of
 * checkpoints that stay. The path of a socket that is alive on that host is in /proc/net/unix. A
 * directory with the socket of trainctl, or with a file `kept`, is some supervisor's own, and is
 * not swept. A checkpoint is first renamed, so that another one can be brought under its name at
 * once. */
static const char sweep_script[] =
	"state=$1; [ -z \"$2\" ] || rm -rf -- \"$2\" || exit; "
	"[ -z \"$3\" ] || { [ -z \"$state\" ] && [ -S \"$3/trainctl.sock\" ]; } || "
	"for f in \"$3\"/*.sock \"$3\"/*.sock.standby; do [ ! -S \"$f\" ] || "
	"grep -qsF -- \" $f\" /proc/net/unix || rm -f -- \"$f\" || exit; done; shift 3; "
	"[ -n \"$state\" ] && [ ! -e \"$state/kept\" ] || exit 0; cd \"$state/checkpoints\" "
	"2>/dev/null || exit 0; "
	"for c in *; do for k; do [ \"$c\" != \"$k\" ] || continue 2; done; [ -e \"$c\" ] || "
	"continue; "
	"case $c in *.gone) ;; *) mv -- \"$c\" \"$c.gone\" || exit; c=$c.gone;; esac; "
	"rm -rf -- \"$c\" || exit; done";

static void sweep_words(struct argv *w, const struct supervisor *s)
{
	const struct node_place *place = s->hosts.host[s->parts.host].place;
	int ends = s->parts.end == PARTS_ENDING;
	char state[DIRS_PATH_MAX] = "", memory[DIRS_PATH_MAX] = "", base[DIRS_PATH_MAX];
	if (place->apart)
		dirs_state(&s->dirs, "", state);
	if (ends)
		sup_memory_dir(s, memory);
	add_way(w, place);
	argv_add(w, place->host, "/bin/sh", "-c", sweep_script, "sweep", state, memory,
		 ends ? s->dirs.run : "");
	if (ends || !s->recover.cut[0])
		return;
	argv_add(w, fs_basename(s->recover.cut));
	if (ckpt_find_base(s->recover.cut, base, sizeof base) == 0)
		argv_add(w, fs_basename(base));
}

static void parts_on_end(const struct child_end *e, void *arg);

/* -1: its process could not even be started. */
static int parts_start(struct supervisor *s, enum parts_doing doing)
{
	static void (*const words_of[])(struct argv * w, const struct supervisor *s) = {
		[PARTS_FETCH] = fetch_words,   [PARTS_CHECK] = check_words,
		[PARTS_DROP] = drop_words,     [PARTS_LEARNT] = learnt_words,
		[PARTS_SWEEP] = sweep_words};
	struct sup_parts *p = &s->parts;
	struct argv w = {0};
	struct error err;
	p->doing = doing;
	words_of[doing](&w, s);
	const struct child_options options = {
		.seconds =
			deadline_seconds(p->end == PARTS_ENDING ? DEADLINE_FINISH : DEADLINE_CUT),
		/* A worker that has learnt nothing yet has no file. */
		.errors = doing == PARTS_LEARNT ? CHILD_ERRORS_DROPPED : CHILD_ERRORS_OURS,
		.done = parts_on_end,
		.arg = s};
	if (child_ask(&p->child, s->base, &w, options, &err) == 0)
		return 0;
	sup_note(s, "warning", "%s can't be brought: %s",
		 doing == PARTS_FETCH ? p->file : "what lies on other hosts", err.text);
	return -1;
}

/* ---- one after the other ---- */

static void log_part(struct supervisor *s)
{
	struct stat st;
	if (stat(s->parts.file, &st) != 0)
		return;
	sup_log(s, RECORD("part", F("path", s->parts.file), F("from", s->parts.node->place.host),
			  F("part-bytes", (uint64_t)st.st_size),
			  F_SECONDS("seconds", clock_mono() - s->parts.began)));
}

static void parts_over(struct supervisor *s, int here)
{
	if (s->parts.end == PARTS_ENDING)
		sup_kick(s); /* hosts may have answered since */
	else
		sup_checkpoint_parts(s, here);
}

/* This host is swept again the next time; at the end, if it was not reached and answers in time. */
static void note_not_swept(struct supervisor *s, const struct node_end *end)
{
	struct sup_host *h = &s->hosts.host[s->parts.host];
	char text[128];
	int again = s->parts.end != PARTS_ENDING ||
		    (launcher_lost_host(h->place, end) && sup_host_await(h));
	end_text(end, text, sizeof text);
	sup_note(s, "warning", "what was left on %s can't be removed%s: %s", h->place->host,
		 again ? " yet" : "", text);
	h->swept &= !again;
}

/* When all parts are here: this work on the hosts behind `after`, then the later kinds of work on
 * all hosts. A host for which no process can be started keeps what it has. One that is being swept
 * counts as swept, and no longer when something is left there meanwhile. */
static void go_hosts(struct supervisor *s, enum parts_doing doing, size_t after)
{
	struct sup_parts *p = &s->parts;
	for (; doing <= PARTS_SWEEP; doing++, after = 0) {
		while ((p->host = next_host(s, doing, after)) < s->hosts.count) {
			struct sup_host *h = &s->hosts.host[p->host];
			h->swept |= doing == PARTS_SWEEP;
			if (parts_start(s, doing) == 0)
				return;
			h->swept &= p->end == PARTS_ENDING;
			after = p->host;
		}
	}
	parts_over(s, 1);
}

/* Files that trainers have saved: all are brought, then all compared, then removed there in a
 * sweep. */
static void go_on_saved(struct supervisor *s)
{
	struct sup_parts *p = &s->parts;
	char dir[sizeof p->file];
	struct error err;
	p->began = clock_mono();
	p->node = next_saved_away(s, p->dir, p->file, sizeof p->file);
	if (!p->node) {
		if (parts_start(s, PARTS_CHECK) != 0)
			parts_over(s, 0);
		return;
	}
	fs_dirname(p->file, dir, sizeof dir);
	if (fs_make_dirs(dir, &err) != 0) {
		sup_note(s, "warning", "%s: %s", err.place, err.text);
		parts_over(s, 0);
	} else if (parts_start(s, PARTS_FETCH) != 0)
		parts_over(s, 0);
}

/* If a file can't be brought, the checkpoint fails: no other host has this file. */
static void on_end_saved(struct supervisor *s, const struct node_end *end)
{
	char text[128];
	struct sup_parts *p = &s->parts;
	if (p->doing == PARTS_FETCH && access(p->file, F_OK) == 0) {
		log_part(s);
		go_on_saved(s);
	} else if (p->doing == PARTS_CHECK && end_class_of(end) == END_CLEAN) {
		sup_parts_left(s);
		go_hosts(s, PARTS_SWEEP, 0);
	} else {
		end_text(end, text, sizeof text);
		if (p->doing == PARTS_CHECK)
			sup_note(s, "warning", "%s is not what trainers have saved (ckpt verify: %s)",
				 p->dir, text);
		parts_over(s, 0);
	}
}

/* Asks the next node for its part. One of several replicas has written part 0, and it is not known
 * which one: they are asked one after the other. */
static void parts_go_on(struct supervisor *s, const struct sup_node *after)
{
	struct sup_parts *p = &s->parts;
	p->node = next_away(s, p->dir, after);
	p->began = clock_mono();
	if (!p->node && !sup_parts_are_away(s, p->dir)) {
		go_hosts(s, PARTS_LEARNT, 0);
		return;
	}
	if (p->node)
		name_part(p->node, p->dir, p->file, sizeof p->file);
	if (!p->node || parts_start(s, PARTS_FETCH) != 0)
		parts_over(s, 0);
}

/* If the part is not the one of the manifest, it may be an older one of the same name: the next
 * node is asked. */
static void on_end_compared(struct supervisor *s, const struct node_end *end)
{
	char text[128];
	struct sup_parts *p = &s->parts;
	if (end_class_of(end) == END_CLEAN) {
		log_part(s);
		if (parts_start(s, PARTS_DROP) != 0)
			parts_go_on(s, p->node);
		return;
	}
	end_text(end, text, sizeof text);
	sup_note(s, "warning", "%s, as %s has it, is not what was written (ckpt verify: %s)", p->file,
		 p->node->place.host, text);
	unlink(p->file);
	parts_go_on(s, p->node);
}

static void parts_on_end(const struct child_end *e, void *arg)
{
	struct supervisor *s = arg;
	struct sup_parts *p = &s->parts;
	const struct node_end *end = &e->end;
	int failed = end_class_of(end) != END_CLEAN;
	p->child = NULL;
	if (p->doing == PARTS_SWEEP && failed)
		note_not_swept(s, end);
	if (p->doing == PARTS_DROP && failed)
		sup_parts_left(s);
	if (p->doing >= PARTS_LEARNT)
		go_hosts(s, p->doing, p->host);
	else if (job_kind(s->job)->cut == CUT_SAVED)
		on_end_saved(s, end);
	else if (p->doing == PARTS_CHECK)
		on_end_compared(s, end);
	else if (p->doing != PARTS_FETCH || access(p->file, F_OK) != 0 ||
		 parts_start(s, PARTS_CHECK) != 0)
		parts_go_on(s, p->node);
}

void sup_parts_bring(struct supervisor *s, const char *dir)
{
	snprintf(s->parts.dir, sizeof s->parts.dir, "%s", dir);
	if (job_kind(s->job)->cut == CUT_SAVED && sup_parts_are_away(s, dir))
		go_on_saved(s);
	else if (job_kind(s->job)->cut == CUT_SAVED)
		go_hosts(s, PARTS_SWEEP, 0);
	else
		parts_go_on(s, NULL);
}

void sup_parts_stop(struct supervisor *s)
{
	struct sup_parts *p = &s->parts;
	if (p->child && p->doing == PARTS_SWEEP)
		s->hosts.host[p->host].swept = 0;
	child_free(p->child);
	p->child = NULL;
}

void sup_parts_left(struct supervisor *s)
{
	EACH_HOST (h, s, 0)
		h->swept = 0;
}

/* Nothing runs any more. Every host may have something, also one that does not answer just now. */
static void parts_begin_end(struct supervisor *s)
{
	s->parts.end = PARTS_ENDING;
	sup_parts_left(s);
	EACH_HOST (h, s, 1)
		if (is_to_be_swept(h) && h->state != HOST_THERE)
			sup_host_await(h);
	go_hosts(s, PARTS_LEARNT, 0);
}

/* Whether a host may still answer. If none may, people are told where something may lie. */
static int parts_wait(struct supervisor *s)
{
	EACH_HOST (h, s, 1) {
		if (is_to_be_swept(h) && sup_host_is_waited_for(h)) {
			sup_kick_after(s, 1);
			return 1;
		}
	}
	EACH_HOST (h, s, 1)
		if (is_to_be_swept(h))
			sup_note(s, "warning",
				 "%s does not answer: its sockets may be in %s, checkpoints in %s",
				 h->place->host, s->dirs.run, s->dirs.state);
	return 0;
}

int sup_parts_end(struct supervisor *s)
{
	struct sup_parts *p = &s->parts;
	if (s->phases.interrupted > 1) {
		sup_parts_stop(s);
		p->end = PARTS_ENDED;
	} else if (p->end == PARTS_OPEN && !p->child)
		parts_begin_end(s);
	else if (p->end == PARTS_ENDING && !p->child) {
		if (next_host(s, PARTS_SWEEP, 0) < s->hosts.count)
			go_hosts(s, PARTS_LEARNT, 0);
		else if (!parts_wait(s))
			p->end = PARTS_ENDED;
	}
	return p->end == PARTS_ENDED;
}
