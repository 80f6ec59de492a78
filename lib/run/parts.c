/* parts: see parts.h. */
#include "run/sup.h"

#include "base/clock.h"
#include "ckpt/ckpt.h"
#include "proc/child.h"

#include <stdio.h>
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

int sup_parts_are_away(const struct supervisor *s, const char *dir)
{
	return next_away(s, dir, NULL) != NULL;
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

static void on_end(const struct node_end *end, enum child_cut cut, const char *output,
		   size_t bytes, void *arg);

/* -1: it could not even be started. */
static int start(struct supervisor *s)
{
	struct sup_parts *p = &s->parts;
	const struct node_place *place = &p->node->place;
	char pair[2 * sizeof p->file + 2], all[DIRS_PATH_MAX];
	struct error err;
	char *argv[12];
	size_t n = 0;
	const char *const way[] = {place->node_host, "--by", place->launcher->name};
	const char *const fetch[] = {"--fetch", pair, place->host, NULL};
	/* With what was brought there for a server to begin with, which runs by now. */
	const char *const removal[] = {place->host, "/bin/sh", "-c", "rm -rf -- \"$0\"/[0-9]*",
				       all, NULL};
	dirs_state(&s->dirs, "checkpoints", all);
	snprintf(pair, sizeof pair, "%s=%s", p->file, p->file);
	for (size_t i = 0; i < sizeof way / sizeof *way; i++)
		argv[n++] = (char *)(size_t)way[i];
	for (const char *const *word = p->removes ? removal : fetch; *word; word++)
		argv[n++] = (char *)(size_t)*word;
	argv[n] = NULL;
	const struct child_options options = {.argv = argv,
					      .seconds = deadline_seconds(DEADLINE_CUT),
					      .output_bytes_max = OUTPUT_BYTES_MAX,
					      .done = on_end,
					      .arg = s};
	if (child_start(&p->child, s->base, &options, &err) == 0)
		return 0;
	p->child = NULL;
	sup_note(s, "warning", "%s can't be brought: %s", p->file, err.text);
	return -1;
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
	if (!p->removes && access(p->file, F_OK) == 0) {
		log_part(s);
		p->removes = 1;
		if (start(s) == 0)
			return;
	}
	go_on(s, p->node);
}

static void go_on(struct supervisor *s, const struct sup_node *after)
{
	struct sup_parts *p = &s->parts;
	p->node = next_away(s, p->dir, after);
	p->removes = 0;
	p->began = clock_mono();
	if (p->node)
		name_part(p->node, p->dir, p->file, sizeof p->file);
	if (!p->node || start(s) != 0)
		sup_checkpoint_parts(s, !sup_parts_are_away(s, p->dir));
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
