/*
 * backend: loads a plug-in.  It must never use one whose structs are not ours.
 */
#include "model/backend.h"

#include <dlfcn.h>
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
