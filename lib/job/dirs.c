/* dirs: see dirs.h. Reads no environment: main() hands it over. */
#include "job/dirs.h"

#include "base/fs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int dirs_given(const char *text)
{
	return text && text[0];
}

/* A path from an environment variable: the XDG Base Directory Specification says that relative
 * paths are to be ignored. */
static int given_path(const char *text)
{
	return text && text[0] == '/';
}

static int dirs_fill(char *out, struct error *err, const char *a, const char *b, const char *c)
{
	int n = snprintf(out, DIRS_MAX, "%s%s%s", a, b, c);
	if (n < 0 || n >= DIRS_MAX)
		return error_set(err, ERROR_CONFIG, a, "path too long");
	return 0;
}

/* Makes the path absolute, but resolves no links, so that ps(1) shows the path as the user wrote
 * it. */
static int absolute(char *path, struct error *err)
{
	char here[DIRS_PATH_MAX], full[2 * DIRS_PATH_MAX];
	if (path[0] != '/') {
		if (!getcwd(here, sizeof here))
			return error_errno(err, ERROR_OS, path, "current directory");
		int n = snprintf(full, sizeof full, "%s/%s", here, path);
		if (n < 0 || n >= DIRS_MAX)
			return error_set(err, ERROR_CONFIG, path, "path too long");
		memcpy(path, full, (size_t)n + 1);
	}
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	return 0;
}

#define BASE_MAX 64

/* The directory of run directories that the user did not choose. */
static void base_of(char out[BASE_MAX])
{
	snprintf(out, BASE_MAX, "/tmp/paceline-%lu", (unsigned long)getuid());
}

static int resolve_run(struct dirs *p, const char *job, const char *run_dir,
		       const struct dirs_environment *env, struct error *err)
{
	char base[BASE_MAX];
	if (dirs_given(run_dir))
		return dirs_fill(p->run, err, run_dir, "", "");
	if (dirs_given(env->runtime_directory)) {
		size_t n = strcspn(env->runtime_directory, ":");
		snprintf(p->run, sizeof p->run, "%.*s", (int)n, env->runtime_directory);
		return 0;
	}
	base_of(base);
	return dirs_fill(p->run, err, base, "/", job);
}

int dirs_base(char *base, const struct dirs_environment *env)
{
	if (given_path(env->xdg_state_home))
		return dirs_fill(base, NULL, env->xdg_state_home, "/paceline", "");
	if (given_path(env->home))
		return dirs_fill(base, NULL, env->home, "/.local/state/paceline", "");
	return -1;
}

static int resolve_state(struct dirs *p, const char *job, const char *run_dir,
			 const char *state_dir, const struct dirs_environment *env,
			 struct error *err)
{
	if (dirs_given(state_dir))
		return dirs_fill(p->state, err, state_dir, "", "");
	if (dirs_given(run_dir))
		return dirs_fill(p->state, err, run_dir, "/state", "");
	if (dirs_given(env->state_directory)) {
		size_t n = strcspn(env->state_directory, ":");
		snprintf(p->state, sizeof p->state, "%.*s", (int)n, env->state_directory);
		return 0;
	}
	char base[DIRS_MAX];
	if (dirs_base(base, env) == 0)
		return dirs_fill(p->state, err, base, "/", job);
	return error_set(err, ERROR_CONFIG, "--state-dir",
			 "not given, and the environment has neither XDG_STATE_HOME nor HOME");
}

/* Whether the directory can hold sockets. The monitor's has the longest name, and the wire room
 * adds ".lock" for its lock. */
static int dirs_check_name(const char *run, struct error *err)
{
	if (strchr(run, ','))
		return error_set(err, ERROR_CONFIG, run,
				 "has a comma, which separates sockets in lists: choose another "
				 "--run-dir");
	if (strlen(run) + sizeof "/bpt-monitor.sock" > DIRS_SOCKET_MAX)
		return error_set(err, ERROR_CONFIG, run,
				 "run directory too long for a socket (%d bytes at most): choose "
				 "a shorter --run-dir",
				 (int)(DIRS_SOCKET_MAX - sizeof "/bpt-monitor.sock"));
	return 0;
}

static int resolve(struct dirs *p, const char *job, const char *run_dir,
		   const struct dirs_environment *env, struct error *err)
{
	if (!job && !dirs_given(run_dir))
		return error_set(err, ERROR_USAGE, NULL,
				 "which job? give -j NAME or --run-dir DIR");
	if (resolve_run(p, job ? job : "", run_dir, env, err) != 0 || absolute(p->run, err) != 0)
		return -1;
	return dirs_check_name(p->run, err);
}

int dirs_resolve(struct dirs *p, const char *job, const char *run_dir, const char *state_dir,
		 const struct dirs_environment *env, struct error *err)
{
	if (resolve(p, job, run_dir, env, err) != 0 ||
	    resolve_state(p, job ? job : "", dirs_given(run_dir) ? p->run : NULL, state_dir, env,
			  err) != 0)
		return -1;
	return absolute(p->state, err);
}

int dirs_recorded(const struct dirs *p, char *run, struct error *err)
{
	char path[DIRS_PATH_MAX], *text;
	dirs_state(p, "run-dir", path);
	if (fs_read_file(path, DIRS_MAX, &text, NULL, err) != 0)
		return -1;
	int n = snprintf(run, DIRS_MAX, "%.*s", (int)strcspn(text, "\n"), text);
	free(text);
	if (n > 0 && run[0] == '/')
		return dirs_check_name(run, err);
	return error_set(err, ERROR_DATA, path, "names no directory");
}

int dirs_guess(struct dirs *p, const char *job, const char *run_dir, const char *state_dir,
	       const struct dirs_environment *env, struct error *err)
{
	if (!job && !dirs_given(run_dir) && dirs_given(state_dir))
		p->run[0] = '\0';
	else if (resolve(p, job, run_dir, env, err) != 0)
		return -1;
	if (resolve_state(p, job ? job : "", dirs_given(run_dir) ? p->run : NULL, state_dir, env,
			  NULL) != 0)
		p->state[0] = '\0';
	return p->state[0] ? absolute(p->state, err) : 0;
}

/* In /tmp another user could have made the directory first, perhaps as a link. */
static int ours(const char *dir, int (*look)(const char *path, struct stat *st), struct error *err)
{
	struct stat st;
	if (look(dir, &st) != 0)
		return error_errno(err, 0, dir, "can't be seen");
	if (st.st_uid != geteuid())
		return error_set(err, ERROR_NOPERM, dir, "belongs to another user");
	return 0;
}

static int dirs_is_below(const char *path, const char *base)
{
	size_t len = strlen(base);
	return strncmp(path, base, len) == 0 && path[len] == '/';
}

/* For a directory below ours in /tmp: whether it belongs to us. */
static int base_is_ours(const struct dirs *p, struct error *err)
{
	char base[BASE_MAX];
	base_of(base);
	return dirs_is_below(p->run, base) ? ours(base, lstat, err) : 0;
}

static int could_be_made(const char *dir, struct error *err)
{
	return access(dir, F_OK) == 0 ? ours(dir, stat, err) : fs_could_make_dirs(dir, err);
}

int dirs_check(const struct dirs *p, struct error *err)
{
	char base[BASE_MAX];
	base_of(base);
	if (access(base, F_OK) == 0 && base_is_ours(p, err) != 0)
		return -1;
	return could_be_made(p->run, err) == 0 ? could_be_made(p->state, err) : -1;
}

int dirs_make(const struct dirs *p, struct error *err)
{
	static const char *const inside[] = {"journal", "checkpoints", "index", "nodes", "logs"};
	char path[DIRS_PATH_MAX], base[BASE_MAX];
	base_of(base);
	/* Check the owner before anything is made below it. */
	if (dirs_is_below(p->run, base) &&
	    (fs_make_dirs(base, err) != 0 || base_is_ours(p, err) != 0))
		return -1;
	if (fs_make_dirs(p->run, err) != 0 || fs_make_dirs(p->state, err) != 0 ||
	    ours(p->run, stat, err) != 0 ||
	    ours(p->state, stat, err) != 0)
		return -1;
	for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
		dirs_state(p, inside[i], path);
		if (fs_make_dirs(path, err) != 0)
			return -1;
	}
	return 0;
}

void dirs_run(const struct dirs *p, const char *name, char *out)
{
	snprintf(out, DIRS_PATH_MAX, "%s/%.250s", p->run, name);
}

void dirs_state(const struct dirs *p, const char *name, char *out)
{
	snprintf(out, DIRS_PATH_MAX, "%s/%.250s", p->state, name);
}

/* N of predict-wN, without what is just being written; NULL: another file. */
static const char *learnt_number(const char *name)
{
	const char *number = strncmp(name, "predict-w", 9) == 0 ? name + 9 : "";
	size_t len = strlen(number);
	return len > 0 && len <= 20 && strspn(number, "0123456789") == len ? number : NULL;
}

int dirs_learnt(const char *dir, const char *id, char *out)
{
	char first[32] = "";
	if (snprintf(out, DIRS_PATH_MAX, "%s/predict-%s", dir, id) < DIRS_PATH_MAX &&
	    access(out, F_OK) == 0)
		return 0;
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		const char *number = learnt_number(e->d_name);
		size_t len = number ? strlen(number) : 0, best = strlen(first);
		if (number && (!best || len < best || (len == best && strcmp(number, first) < 0)))
			snprintf(first, sizeof first, "%s", number);
	}
	if (d)
		closedir(d);
	if (!first[0] ||
	    snprintf(out, DIRS_PATH_MAX, "%s/predict-w%s", dir, first) >= DIRS_PATH_MAX)
		return -1;
	return 0;
}
