/*
 * crash-states: every state of a directory that a power cut may leave, from the calls that
 * crash-record.c has written down; each is made anew and a promise is checked.
 *
 *     crash-states PROMISE LOG DIR WORK SEED BOUND KEEP [ARGUMENT...]
 *
 * DIR is the directory as it was before the first call, WORK a directory for states. One state in
 * KEEP is kept in WORK/kept-N, and what was found to be wrong in WORK/wrong-N; five of them end it.
 * The last line:
 *
 *     crash-states program= states= distinct= violations= seconds=
 *
 * The model of the disk (the strictest of those in Pillai et al., "All File Systems Are Not Created
 * Equal", OSDI 2014, but for the last two points):
 *   - a write is sectors of 512 bytes and, where the file becomes longer, its size. Each of them is
 *     on the disk or not, in any combination, until an fsync of this file;
 *   - a name made, replaced or removed is on the disk or not, in any combination, until an fsync of
 *     its directory. An fsync of a file does nothing for its name;
 *   - the last write may have ended at any byte;
 *   - a rename is one change: the new name is there and the old one is not, or the other way round;
 *   - a sector is old or new.
 *
 * After each call all combinations are made if not more than BOUND changes are pending; else none
 * and all of them, each of the newest 2 BOUND alone, all but each of those, and 2^BOUND / 4 at
 * random.
 */
#include "crash-states.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/grow.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SECTOR 512
#define WRONG_ENOUGH 5

/* A file or a directory; names are entries of directories. */
struct bytes {
	char *data;
	size_t len, room;
};

struct entry {
	char *name;
	struct node *node;
};

struct names {
	struct entry *item;
	size_t count, room;
};

struct node {
	int is_dir;
	uint64_t inode;                 /* files: as the log knows it */
	struct bytes firm;              /* what is on the disk in any case */
	uint64_t firm_hash;             /* 0: not known */
	struct names firm_names, names; /* of a directory: on the disk, and as programs see it */
	size_t size;                    /* as programs see it */
	/* In the state that is being made, where it differs from firm. */
	int is_changed;
	uint64_t hash; /* of a file's content */
	struct bytes view;
	struct names view_names;
};

/* What is pending. */
struct change {
	enum { DATA, GROW_TO, CUT_TO, NAME } kind;
	struct node *node; /* DATA, ..._TO: the file. NAME: the directory */
	size_t at, len;
	const char *data;    /* in the log */
	struct node *target; /* NAME: what the name means from now on; NULL: nothing */
	char *name;
	/* The other half of a rename, which makes a name free. */
	struct node *from;
	char *from_name;
};

static struct node *root;
static struct node **node_of; /* all of them */
static size_t nodes, nodes_room;
static struct change *pending;
static size_t pendings, pending_room;
static uint8_t *is_on; /* of each change that is pending: it is on the disk */
static size_t is_on_room;

static const struct promise *const promises[] = {&promise_shardd, &promise_job};
static const struct promise *promise;
static const char *work;
static uint64_t seed, bound, keep_one_in;
static uint64_t states, distinct, violations, kept;
static double began;
static char *call_text; /* the record at which the power is cut */

void crash_die(const char *what, const char *why)
{
	fprintf(stderr, "crash-states: %s: %s\n", what, why);
	exit(70);
}

static void *need(void *memory)
{
	if (!memory)
		crash_die("memory", "there is none left");
	return memory;
}

#define ADD(array, room, count)                                                                    \
	(GROW(array, room, (count) + 1) != 0 ? need(NULL) : (void *)0, &(array)[(count)++])

/* ---- nodes ---- */

static struct node *node_new(int is_dir, uint64_t inode)
{
	struct node *n = need(calloc(1, sizeof *n));
	n->is_dir = is_dir;
	n->inode = inode;
	*ADD(node_of, nodes_room, nodes) = n;
	return n;
}

/* An inode's number may come again: its last owner counts. */
static struct node *file_of(uint64_t inode)
{
	for (size_t i = nodes; i-- > 0;)
		if (!node_of[i]->is_dir && node_of[i]->inode == inode)
			return node_of[i];
	return NULL;
}

static struct node *names_get(const struct names *n, const char *name)
{
	for (size_t i = 0; i < n->count; i++)
		if (strcmp(n->item[i].name, name) == 0)
			return n->item[i].node;
	return NULL;
}

/* target NULL: the name is removed. Names are sorted. */
static void names_set(struct names *n, char *name, struct node *target)
{
	size_t i = 0;
	while (i < n->count && strcmp(n->item[i].name, name) < 0)
		i++;
	int is_there = i < n->count && strcmp(n->item[i].name, name) == 0;
	if (!target) {
		if (is_there)
			memmove(&n->item[i], &n->item[i + 1], (--n->count - i) * sizeof *n->item);
		return;
	}
	if (!is_there) {
		(void)ADD(n->item, n->room, n->count);
		memmove(&n->item[i + 1], &n->item[i], (n->count - 1 - i) * sizeof *n->item);
	}
	n->item[i] = (struct entry){name, target};
}

static void bytes_resize(struct bytes *b, size_t len)
{
	if (GROW(b->data, b->room, len + 1) != 0)
		need(NULL);
	if (len > b->len)
		memset(b->data + b->len, 0, len - b->len);
	b->len = len;
}

/* The node of a path, or its directory, as programs see them; *last is the last part of the path.
 */
static struct node *walk(const char *path, struct node **dir, const char **last)
{
	struct node *n = root;
	char part[NAME_MAX + 1];
	*dir = NULL;
	if (strcmp(path, ".") == 0)
		return root;
	for (const char *p = path;; p++) {
		size_t len = strcspn(p, "/");
		if (!n || !n->is_dir || len > NAME_MAX)
			crash_die(path, "lies in no directory that is known");
		memcpy(part, p, len);
		part[len] = '\0';
		*dir = n;
		*last = p;
		n = names_get(&n->names, part);
		p += len;
		if (*p == '\0')
			return n;
	}
}

static struct node *node_at(const char *path)
{
	struct node *dir;
	const char *last;
	return strcmp(path, "-") == 0 ? NULL : walk(path, &dir, &last);
}

/* ---- what a change does ---- */

static void change_bytes(struct bytes *b, const struct change *c)
{
	if (c->kind == CUT_TO || c->at + c->len > b->len)
		bytes_resize(b, c->at + c->len);
	if (c->kind == DATA)
		memcpy(b->data + c->at, c->data, c->len);
}

static void change_firm(const struct change *c)
{
	if (c->kind == NAME) {
		names_set(&c->node->firm_names, c->name, c->target);
		if (c->from)
			names_set(&c->from->firm_names, c->from_name, NULL);
		return;
	}
	change_bytes(&c->node->firm, c);
	c->node->firm_hash = 0;
}

static void view_begin(struct node *n)
{
	if (n->is_changed)
		return;
	n->is_changed = 1;
	n->view.len = 0;
	n->view_names.count = 0;
	bytes_resize(&n->view, n->firm.len);
	if (n->firm.len > 0)
		memcpy(n->view.data, n->firm.data, n->firm.len);
	for (size_t i = 0; i < n->firm_names.count; i++)
		*ADD(n->view_names.item, n->view_names.room, n->view_names.count) =
			n->firm_names.item[i];
}

static void change_view(const struct change *c)
{
	view_begin(c->node);
	if (c->kind != NAME) {
		change_bytes(&c->node->view, c);
		return;
	}
	names_set(&c->node->view_names, c->name, c->target);
	if (c->from) {
		view_begin(c->from);
		names_set(&c->from->view_names, c->from_name, NULL);
	}
}

static void sync_node(const struct node *n)
{
	size_t left = 0;
	for (size_t i = 0; i < pendings; i++)
		if (pending[i].node == n || pending[i].from == n)
			change_firm(&pending[i]);
		else
			pending[left++] = pending[i];
	pendings = left;
}

/* ---- a state ---- */

static uint64_t hash_tree(const struct node *dir, uint64_t hash)
{
	const struct names *names = dir->is_changed ? &dir->view_names : &dir->firm_names;
	for (size_t i = 0; i < names->count; i++) {
		struct node *n = names->item[i].node;
		const char *name = names->item[i].name;
		hash = XXH3_64bits_withSeed(name, strlen(name) + 1, hash);
		if (n->is_dir) {
			hash = hash_tree(n, hash + 1);
			continue;
		}
		const struct bytes *b = n->is_changed ? &n->view : &n->firm;
		if (n->is_changed)
			n->hash = XXH3_64bits(b->data, b->len);
		else if (n->firm_hash == 0)
			n->firm_hash = XXH3_64bits(b->data, b->len);
		if (!n->is_changed)
			n->hash = n->firm_hash;
		uint64_t both[] = {n->hash, b->len};
		hash = XXH3_64bits_withSeed(both, sizeof both, hash);
	}
	return XXH3_64bits_withSeed("/", 1, hash);
}

/* What is to lie in a directory, and what lies there. */
struct made {
	char path[PATH_MAX / 4];
	const struct node *node;
	int is_dir;
	uint64_t hash;
};

struct tree {
	struct made *item;
	size_t count, room;
};

static void tree_list(struct tree *t, const struct node *dir, const char *path)
{
	const struct names *names = dir->is_changed ? &dir->view_names : &dir->firm_names;
	for (size_t i = 0; i < names->count; i++) {
		const struct node *n = names->item[i].node;
		struct made *m = ADD(t->item, t->room, t->count);
		size_t at = t->count - 1;
		*m = (struct made){.node = n, .is_dir = n->is_dir, .hash = n->is_dir ? 0 : n->hash};
		if (snprintf(m->path, sizeof m->path, "%s/%s", path, names->item[i].name) >=
		    (int)sizeof m->path)
			crash_die(path, "is too long");
		if (n->is_dir) {
			char below[sizeof m->path];
			memcpy(below, t->item[at].path, sizeof below);
			tree_list(t, n, below);
		}
	}
}

static struct made *tree_find(const struct tree *t, const char *path, int is_dir)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->item[i].is_dir == is_dir && strcmp(t->item[i].path, path) == 0)
			return &t->item[i];
	return NULL;
}

static void write_file(const struct made *m)
{
	const struct bytes *b = m->node->is_changed ? &m->node->view : &m->node->firm;
	struct error err;
	int fd = open(m->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || fs_write_all(fd, b->data, b->len, m->path, &err) != 0)
		crash_die(m->path, "can't be written");
	close(fd);
}

/* Makes the state in the directory, where `there` lies, or nothing. */
static void make_tree(const char *dir, struct tree *there)
{
	struct tree t = {0};
	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		crash_die(dir, strerror(errno));
	tree_list(&t, root, dir);
	for (size_t i = there->count; i-- > 0;)
		if (!tree_find(&t, there->item[i].path, there->item[i].is_dir) &&
		    remove(there->item[i].path) != 0)
			crash_die(there->item[i].path, strerror(errno));
	for (size_t i = 0; i < t.count; i++) {
		const struct made *m = &t.item[i], *is = tree_find(there, m->path, m->is_dir);
		if (m->is_dir && !is && mkdir(m->path, 0700) != 0)
			crash_die(m->path, strerror(errno));
		if (!m->is_dir && (!is || is->hash != m->hash))
			write_file(m);
	}
	free(there->item);
	*there = t;
}

static void keep_tree(const char *name, uint64_t number)
{
	char dir[PATH_MAX];
	struct tree none = {0};
	snprintf(dir, sizeof dir, "%s/%s-%llu", work, name, (unsigned long long)number);
	make_tree(dir, &none);
	free(none.item);
}

static int is_new_state(uint64_t hash)
{
	static uint64_t *seen;
	static size_t room;
	if (hash == 0)
		hash = 1;
	if (2 * (distinct + 1) > room) {
		size_t old_room = room;
		uint64_t *old = seen;
		room = room ? 2 * room : 1 << 16;
		seen = need(calloc(room, sizeof *seen));
		for (size_t i = 0; i < old_room; i++)
			if (old[i]) {
				size_t at = old[i] & (room - 1);
				while (seen[at])
					at = (at + 1) & (room - 1);
				seen[at] = old[i];
			}
		free(old);
	}
	size_t at = hash & (room - 1);
	for (; seen[at]; at = (at + 1) & (room - 1))
		if (seen[at] == hash)
			return 0;
	seen[at] = hash;
	return 1;
}

static void tell_change(const struct change *c)
{
	static const char *const kinds[] = {"write", "size", "cut", "name"};
	printf("#   not on the disk: %s", kinds[c->kind]);
	if (c->kind == NAME)
		printf(" %s%s%s%s\n", c->name, c->target ? "" : " removed", c->from ? ", was " : "",
		       c->from ? c->from_name : "");
	else
		printf(" of inode %llu at %zu, %zu bytes\n", (unsigned long long)c->node->inode,
		       c->at, c->len);
}

static void end(void)
{
	printf("crash-states program=%s states=%llu distinct=%llu violations=%llu seconds=%.1f\n",
	       promise->name, (unsigned long long)states, (unsigned long long)distinct,
	       (unsigned long long)violations, clock_mono() - began);
	exit(violations > 0);
}

static void tell_wrong(const char *why, size_t tear)
{
	int told = 0;
	violations++;
	printf("# %s, after: %s\n#   %s\n", promise->name, call_text, why);
	for (size_t i = 0; i < pendings; i++)
		if (!is_on[i] && told++ < 8)
			tell_change(&pending[i]);
	if (tear != SIZE_MAX)
		printf("#   the last write ended after %zu bytes\n", tear);
	keep_tree("wrong", violations);
	if (violations == WRONG_ENOUGH)
		end();
}

/* The state with those changes that are on. tear: if not SIZE_MAX, of the last write of the log
 * only so many bytes are, as in `torn`. */
static void try_state(const struct change *torn, size_t tear)
{
	static char dir[PATH_MAX];
	static struct tree there;
	for (size_t i = 0; i < nodes; i++)
		node_of[i]->is_changed = 0;
	for (size_t i = 0; i < pendings; i++)
		if (is_on[i])
			change_view(&pending[i]);
	if (torn)
		change_view(torn);
	states++;
	uint64_t hash = hash_tree(root, promise->said());
	if (!is_new_state(hash))
		return;
	distinct++;
	snprintf(dir, sizeof dir, "%s/state", work);
	make_tree(dir, &there);
	if (keep_one_in > 0 && distinct % keep_one_in == 0) {
		keep_tree("kept", ++kept);
		printf("kept %llu said=%llu\n", (unsigned long long)kept,
		       (unsigned long long)promise->said());
	}
	const char *why = promise->check(dir);
	if (why)
		tell_wrong(why, tear);
}

static void set_all(uint8_t on)
{
	memset(is_on, on, pendings);
}

static void try_combinations(void)
{
	if (GROW(is_on, is_on_room, pendings + 1) != 0)
		need(NULL);
	if (pendings <= bound) {
		for (uint64_t set = 0; set < UINT64_C(1) << pendings; set++) {
			for (size_t i = 0; i < pendings; i++)
				is_on[i] = set >> i & 1;
			try_state(NULL, SIZE_MAX);
		}
		return;
	}
	for (uint8_t on = 0; on < 2; on++) {
		set_all(on);
		try_state(NULL, SIZE_MAX);
		for (size_t i = pendings > 2 * bound ? pendings - 2 * bound : 0; i < pendings;
		     i++) {
			is_on[i] = !on;
			try_state(NULL, SIZE_MAX);
			is_on[i] = on;
		}
	}
	for (uint64_t round = 0; round < UINT64_C(1) << bound >> 2; round++) {
		double share = random_uniform(&seed);
		for (size_t i = 0; i < pendings; i++)
			is_on[i] = random_uniform(&seed) < share;
		try_state(NULL, SIZE_MAX);
	}
}

/* The last write, which is not yet pending, ends at each of its bytes, with all and with none of
 * what is pending, and with some of it. */
static void try_tears(struct node *n, size_t at, const char *data, size_t len)
{
	struct change torn = {.kind = DATA, .node = n, .at = at, .data = data};
	if (GROW(is_on, is_on_room, pendings + 1) != 0)
		need(NULL);
	/* Of a long one: each byte of the first and of the last sectors, and some between. */
	size_t ends = bound * SECTOR / 2;
	int choices = pendings == 0 ? 1 : bound < 8 ? 2 : 3;
	for (torn.len = 1; torn.len < len; torn.len++) {
		if (torn.len > ends && len - torn.len > ends)
			torn.len += random_next(&seed) % (2 * SECTOR);
		for (int others = 0; others < choices && torn.len < len; others++) {
			for (size_t i = 0; i < pendings; i++)
				is_on[i] = others < 2 ? (uint8_t)others : random_next(&seed) & 1;
			try_state(&torn, torn.len);
		}
	}
}

/* ---- the log ---- */

static void add_change(struct change c)
{
	*ADD(pending, pending_room, pendings) = c;
}

static void add_size(struct node *n, size_t size)
{
	if (size != n->size)
		add_change((struct change){
			.kind = size > n->size ? GROW_TO : CUT_TO, .node = n, .at = size});
	n->size = size;
}

static void add_write(struct node *n, size_t at, const char *data, size_t len)
{
	try_tears(n, at, data, len);
	if (at + len > n->size)
		add_size(n, at + len);
	for (size_t i = 0, part; i < len; i += part) {
		part = SECTOR - (at + i) % SECTOR;
		if (part > len - i)
			part = len - i;
		add_change((struct change){
			.kind = DATA, .node = n, .at = at + i, .data = data + i, .len = part});
	}
}

static void add_name(const char *path, struct node *target, const char *from)
{
	struct node *dir = NULL, *from_dir = NULL;
	const char *last = NULL, *from_last = NULL;
	struct change c = {.kind = NAME, .target = target};
	if (strcmp(path, "-") != 0)
		walk(path, &dir, &last);
	if (from) {
		walk(from, &from_dir, &from_last);
		c.from = from_dir;
		c.from_name = need(strdup(from_last));
		names_set(&from_dir->names, c.from_name, NULL);
	}
	if (dir) {
		c.node = dir;
		c.name = need(strdup(last));
		names_set(&dir->names, c.name, target);
	} else { /* it has left for elsewhere */
		c.node = c.from;
		c.name = c.from_name;
		c.from = NULL;
		c.target = NULL;
	}
	add_change(c);
}

static void take(const char *kind, uint64_t inode, size_t at, const char *data, size_t len,
		 const char *path, const char *to)
{
	struct node *n;
	if (strcmp(kind, "create") == 0) {
		add_name(path, node_new(0, inode), NULL);
	} else if (strcmp(kind, "unnamed") == 0) {
		node_new(0, inode);
	} else if (strcmp(kind, "open") == 0) {
		if ((n = node_at(path)) != NULL)
			n->inode = inode;
	} else if (strcmp(kind, "write") == 0 || strcmp(kind, "size") == 0) {
		if ((n = file_of(inode)) == NULL)
			crash_die(call_text, "of a file that is not known");
		if (*kind == 'w')
			add_write(n, at, data, len);
		else
			add_size(n, at);
	} else if (strcmp(kind, "link") == 0) {
		if ((n = file_of(inode)) == NULL)
			crash_die(call_text, "of a file that is not known");
		add_name(to, n, NULL);
	} else if (strcmp(kind, "rename") == 0) {
		if (strcmp(path, "-") == 0 || (n = node_at(path)) == NULL)
			crash_die(call_text, "of a file that is not known");
		add_name(to, n, path);
	} else if (strcmp(kind, "unlink") == 0) {
		add_name(path, NULL, NULL);
	} else if (strcmp(kind, "mkdir") == 0) {
		add_name(path, node_new(1, 0), NULL);
	} else if (strcmp(kind, "sync") == 0) {
		n = node_at(path);
		if (!n || !n->is_dir)
			n = file_of(inode);
		if (n)
			sync_node(n);
	} else {
		crash_die(kind, "is no call that is known");
	}
}

static void read_log(char *data, size_t size)
{
	char kind[16], path[PATH_MAX], to[PATH_MAX];
	unsigned long long inode;
	long long at;
	size_t len;
	try_combinations();
	for (size_t i = 0; i < size; i += len) {
		char *newline = memchr(data + i, '\n', size - i);
		if (!newline)
			crash_die("log", "ends too early");
		*newline = '\0';
		call_text = data + i;
		if (sscanf(call_text, "%15s %llu %lld %zu %4095s %4095s", kind, &inode, &at, &len,
			   path, to) != 6 ||
		    len > size - (size_t)(newline + 1 - data))
			crash_die("log", call_text);
		i = (size_t)(newline + 1 - data);
		uint64_t said = promise->said();
		size_t before = pendings;
		if (strcmp(kind, "say") == 0)
			promise->say(path, data + i, len);
		else
			take(kind, inode, (size_t)at, data + i, len, path, to);
		if (pendings != before || promise->said() != said)
			try_combinations();
	}
}

static struct node *read_dir(const char *path)
{
	struct node *dir = node_new(1, 0);
	DIR *d = opendir(path);
	struct error err;
	if (!d)
		crash_die(path, strerror(errno));
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		char name[PATH_MAX];
		struct stat st;
		struct node *n;
		snprintf(name, sizeof name, "%s/%s", path, e->d_name);
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    lstat(name, &st) != 0)
			continue;
		if (S_ISDIR(st.st_mode)) {
			n = read_dir(name);
		} else if (S_ISREG(st.st_mode)) {
			n = node_new(0, 0);
			if (fs_read_file(name, SIZE_MAX / 2, &n->firm.data, &n->firm.len, &err) !=
			    0)
				crash_die(err.place, err.text);
			n->firm.room = n->size = n->firm.len;
		} else {
			continue; /* a socket */
		}
		char *own = need(strdup(e->d_name));
		names_set(&dir->names, own, n);
		names_set(&dir->firm_names, own, n);
	}
	closedir(d);
	return dir;
}

int main(int argc, char **argv)
{
	char *log;
	size_t len;
	struct error err;
	began = clock_mono();
	if (argc < 8)
		return 64;
	for (size_t i = 0; i < sizeof promises / sizeof *promises; i++)
		if (strcmp(promises[i]->name, argv[1]) == 0)
			promise = promises[i];
	if (!promise)
		crash_die(argv[1], "no such promise");
	work = argv[4];
	seed = strtoull(argv[5], NULL, 10);
	bound = strtoull(argv[6], NULL, 10);
	keep_one_in = strtoull(argv[7], NULL, 10);
	promise->begin(argc - 8, argv + 8);
	root = read_dir(argv[3]);
	if (fs_read_file(argv[2], SIZE_MAX / 2, &log, &len, &err) != 0)
		crash_die(err.place, err.text);
	read_log(log, len);
	end();
}
