/* parts: see parts.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "base/fs.h"
#include "ckpt/ckpt.h"
#include "proc/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX 65536

/* Of n, which a server has by its number; one replica has written part 0. */
static void name_part(const struct sup_node *n, const char *dir, char *out, size_t max)
{
	char name[CKPT_NAME_MAX];
	ckpt_part_name(n->role == &role_replica ? 0 : (uint32_t)sup_rank(n), name);
	snprintf(out, max, "%.4000s/%s", dir, name);
}

/* The next part that is not here, and whose host does not see ours; after `after` (NULL: from the
 * first on). NULL: none. */
static struct sup_node *next_away(const struct supervisor *s, const char *dir,
				  const struct sup_node *after)
{
	char path[DIRS_PATH_MAX + 32];
	int passed = after == NULL;
	EACH_OF (n, s, sup_keepers(s)) {
		name_part(n, dir, path, sizeof path);
		if (passed && n->place.apart && access(path, F_OK) != 0)
			return n;
		passed |= n == after;
	}
	return NULL;
}

/* The next file that a trainer has saved where ours are not seen: file, and who. NULL: none. */
static struct sup_node *next_saved_away(const struct supervisor *s, const char *dir, char *file,
					size_t max)
{
	struct sup_node *found = NULL;
	struct ckpt_manifest *m = malloc(sizeof *m); /* large */
	if (!m || ckpt_manifest_read(m, dir, NULL) != 0) {
		free(m);
		return NULL;
	}
	for (size_t i = 0; !found && i < m->count; i++) {
		const char *name = m->file[i].name, *slash = strchr(name, '/');
		if (!slash || slash == name)
			continue;
		EACH_OF (n, s, &role_agent) {
			size_t len = strlen(n->id);
			if (!n->place.apart || len != (size_t)(slash - name) ||
			    memcmp(n->id, name, len) != 0)
				continue;
			int fits = snprintf(file, max, "%s/%s", dir, name) < (int)max;
			if (fits && access(file, F_OK) != 0)
				found = n;
		}
	}
	free(m);
	return found;
}

int sup_parts_are_away(const struct supervisor *s, const char *dir)
{
	char file[sizeof s->parts.file];
	if (job_is_foreign(s->job))
		return next_saved_away(s, dir, file, sizeof file) != NULL;
	return next_away(s, dir, NULL) != NULL;
}

/* Who leave something of a checkpoint on their hosts. */
static const struct role *writers(const struct supervisor *s)
{
	return job_is_foreign(s->job) ? &role_agent : sup_keepers(s);
}

/* The next whose host does not see ours; after `after` (NULL: from the first on). NULL: none. */
static struct sup_node *next_apart(const struct supervisor *s, const struct sup_node *after)
{
	int passed = after == NULL;
	EACH_OF (n, s, writers(s)) {
		if (passed && n->place.apart)
			return n;
		passed |= n == after;
	}
	return NULL;
}

int sup_parts_are_due(const struct supervisor *s, const char *dir)
{
	return sup_parts_are_away(s, dir) || (s->parts.left_count > 0 && next_apart(s, NULL));
}

static void log_part(struct supervisor *s)
{
	char line[RECORD_LINE_MAX];
	struct record_out o;
	struct stat st;
	if (stat(s->parts.file, &st) != 0)
		return;
	record_begin(&o, line, sizeof line, "part");
	record_add(&o, "path", s->parts.file);
	record_add(&o, "from", s->parts.node->place.host);
	record_add_u64(&o, "part-bytes", (uint64_t)st.st_size);
	record_add_seconds(&o, "seconds", clock_mono() - s->parts.began);
	sup_log(s, &o);
}

static void go_on(struct supervisor *s, const struct sup_node *after);
static void go_sweep(struct supervisor *s, const struct sup_node *after);

static void on_end(const struct node_end *end, enum child_cut cut, const char *output,
		   size_t bytes, void *arg);

/* -1: it could not even be started. */
static int start(struct supervisor *s)
{
	struct sup_parts *p = &s->parts;
	const struct node_place *place = &p->node->place;
	char pair[2 * sizeof p->file + 2];
	struct error err;
	char *argv[12 + PARTS_LEFT_MAX];
	size_t n = 0;
	const char *const way[] = {place->node_host, "--by", place->launcher->name};
	const char *const fetch[] = {"--fetch", pair, place->host, NULL};
	/* By name: what else lies there is not ours. The directory goes with its last part. */
	const char *const drop[] = {place->host, "/bin/sh", "-c",
				    "rm -f -- \"$0\"; rmdir -- \"$1\" 2>/dev/null || :", p->file, p->dir,
				    NULL};
	const char *const sweep[] = {place->host, "rm", "-rf", "--", NULL};
	const char *const *const words[] = {
		[PARTS_FETCH] = fetch, [PARTS_DROP] = drop, [PARTS_SWEEP] = sweep};
	snprintf(pair, sizeof pair, "%s=%s", p->file, p->file);
	for (size_t i = 0; i < sizeof way / sizeof *way; i++)
		argv[n++] = (char *)(size_t)way[i];
	for (const char *const *word = words[p->doing]; *word; word++)
		argv[n++] = (char *)(size_t)*word;
	for (size_t i = 0; p->doing == PARTS_SWEEP && i < p->left_count; i++)
		argv[n++] = p->left[i];
	argv[n] = NULL;
	const struct child_options options = {.argv = argv,
					      .seconds = deadline_seconds(DEADLINE_CUT),
					      .output_bytes_max = OUTPUT_BYTES_MAX,
					      .done = on_end,
					      .arg = s};
	if (child_start(&p->child, s->base, &options, &err) == 0)
		return 0;
	p->child = NULL;
	if (p->doing == PARTS_FETCH)
		sup_note(s, "warning", "%s can't be brought: %s", p->file, err.text);
	return -1;
}

/* Another one may lie there under the same name, of a time before. */
static int has_come(struct supervisor *s)
{
	struct sup_parts *p = &s->parts;
	struct error err;
	if (access(p->file, F_OK) != 0)
		return 0;
	if (ckpt_check_sum(p->dir, p->file + strlen(p->dir) + 1, &err) == 0)
		return 1;
	sup_note(s, "warning", "%s: what %s has is another one: %s", p->file, p->node->place.host,
		 err.text);
	unlink(p->file);
	return 0;
}

/* Of several replicas the first that has written it is asked first; the others have nothing. */
static void on_end(const struct node_end *end, enum child_cut cut, const char *output,
		   size_t bytes, void *arg)
{
	struct supervisor *s = arg;
	struct sup_parts *p = &s->parts;
	(void)end;
	(void)cut;
	(void)output;
	(void)bytes;
	p->child = NULL;
	if (p->doing == PARTS_SWEEP) {
		go_sweep(s, p->node);
		return;
	}
	int came = p->doing == PARTS_FETCH && has_come(s);
	if (came)
		log_part(s);
	if (job_is_foreign(s->job)) {
		if (came)
			go_on(s, NULL);
		else
			sup_checkpoint_parts(s, 0);
		return;
	}
	if (came) {
		p->doing = PARTS_DROP;
		if (start(s) == 0)
			return;
	}
	go_on(s, p->node);
}

/* What a trainer has saved goes from its host when all of it is here, in one sweep. */
static void fetch_saved(struct supervisor *s)
{
	struct sup_parts *p = &s->parts;
	char dir[sizeof p->file];
	struct error err;
	p->node = next_saved_away(s, p->dir, p->file, sizeof p->file);
	if (!p->node) {
		sup_parts_left(s, p->dir);
		go_sweep(s, NULL);
		return;
	}
	fs_dirname(p->file, dir, sizeof dir);
	if (fs_make_dirs(dir, &err) != 0) {
		sup_note(s, "warning", "%s: %s", err.place, err.text);
		sup_checkpoint_parts(s, 0);
	} else if (start(s) != 0)
		sup_checkpoint_parts(s, 0);
}

static void go_on(struct supervisor *s, const struct sup_node *after)
{
	struct sup_parts *p = &s->parts;
	p->doing = PARTS_FETCH;
	p->began = clock_mono();
	if (job_is_foreign(s->job)) {
		fetch_saved(s);
		return;
	}
	p->node = next_away(s, p->dir, after);
	if (!p->node && !sup_parts_are_away(s, p->dir)) {
		go_sweep(s, NULL);
		return;
	}
	if (p->node)
		name_part(p->node, p->dir, p->file, sizeof p->file);
	if (!p->node || start(s) != 0)
		sup_checkpoint_parts(s, 0);
}

/* All parts are here. A host that can't be reached keeps what it has. */
static void go_sweep(struct supervisor *s, const struct sup_node *after)
{
	struct sup_parts *p = &s->parts;
	p->doing = PARTS_SWEEP;
	p->node = p->left_count > 0 ? next_apart(s, after) : NULL;
	while (p->node && start(s) != 0)
		p->node = next_apart(s, p->node);
	if (p->node)
		return;
	p->left_count = 0;
	sup_checkpoint_parts(s, 1);
}

void sup_parts_bring(struct supervisor *s, const char *dir)
{
	snprintf(s->parts.dir, sizeof s->parts.dir, "%s", dir);
	go_on(s, NULL);
}

void sup_parts_stop(struct supervisor *s)
{
	child_free(s->parts.child);
	s->parts.child = NULL;
}

void sup_parts_left(struct supervisor *s, const char *dir)
{
	struct sup_parts *p = &s->parts;
	if (p->left_count < PARTS_LEFT_MAX)
		snprintf(p->left[p->left_count++], sizeof p->left[0], "%s", dir);
}
