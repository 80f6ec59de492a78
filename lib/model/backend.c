/*
 * backend: finds and loads a plug-in.  It must never use one whose structs are not ours.
 */
#include "model/backend.h"

#include "base/fs.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int model_backend_check(const struct model_backend *b, const char *path, struct error *err)
{
	if (b->abi == MODEL_BACKEND_ABI && b->spec_bytes == sizeof(struct model_spec) &&
	    b->batch_bytes == sizeof(struct model_batch) && b->error_bytes == sizeof(struct error))
		return 0;
	return error_set(err, ERROR_UNAVAILABLE, path,
			 "it belongs to another version of Paceline: install both anew");
}

int model_backend_load(const char *path, const struct model_backend **out, struct error *err)
{
	if (access(path, F_OK) != 0)
		return error_set(err, ERROR_UNAVAILABLE, path,
				 "not there: Paceline was built without CUDA");
	/* It is never closed: the libraries it loads do not bear it. */
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return error_set(err, ERROR_UNAVAILABLE, path, "can't be loaded: %s", dlerror());
	const struct model_backend *b = dlsym(library, MODEL_BACKEND_SYMBOL);
	if (!b)
		return error_set(err, ERROR_UNAVAILABLE, path, "is no backend: it has no %s",
				 MODEL_BACKEND_SYMBOL);
	if (model_backend_check(b, path, err) != 0)
		return -1;
	*out = b;
	return 0;
}

/* Beside a program that only others start, or one that people start, or of a build. */
int model_backend_find(const struct model_backend **out, struct error *err)
{
	static const char *const places[] = {"model-cuda.so", "../libexec/paceline/model-cuda.so",
					     "../cuda/model-cuda.so"};
	char self[PATH_MAX], dir[PATH_MAX], path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (len < 0)
		return error_errno(err, ERROR_OS, "/proc/self/exe", "can't be read");
	self[len] = '\0';
	fs_dirname(self, dir, sizeof(dir));
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		if (fs_join(path, sizeof(path), dir, places[i], err) != 0)
			return -1;
		if (access(path, F_OK) == 0)
			break;
	}
	return model_backend_load(path, out, err);
}

int model_device_is_card(const char *name)
{
	return strncmp(name, "cuda", 4) == 0 || strcmp(name, "auto") == 0;
}

int model_device_ok(const char *name)
{
	if (strncmp(name, "cuda", 4) != 0)
		return strcmp(name, "cpu") == 0 || strcmp(name, "auto") == 0;
	const char *rest = name + 4;
	int cards = 0;
	for (long last = -1; *rest == (cards ? '+' : ':') && strcmp(rest, "+tf32") != 0; cards++) {
		size_t digits = strspn(rest + 1, "0123456789");
		if (digits == 0 || digits > 3 || atol(rest + 1) <= last || cards == MODEL_CARDS_MAX)
			return 0;
		last = atol(rest + 1);
		rest += 1 + digits;
	}
	return *rest == '\0' || strcmp(rest, "+tf32") == 0;
}

int model_device_look(const struct model_spec *spec, const char *name, struct error *err)
{
	const struct model_backend *b;
	return model_backend_find(&b, err) != 0 ? -1 : b->look(spec, name, err);
}
