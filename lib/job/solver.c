/* solver: see solver.h. */
#include "job/solver.h"

#include "job/deadline.h"

#include <stdio.h>
#include <string.h>

struct child_options solver_child(struct solver *v, const char *path,
				  const struct solution_options *options, const char *snapshot,
				  size_t bytes)
{
	const char *slash = strrchr(path, '/');
	snprintf(v->path, sizeof v->path, "%s%s", slash ? "" : "./", path);
	snprintf(v->called, sizeof v->called, "solution %.60s", slash ? slash + 1 : path);
	solution_options_arguments(options, &v->given);
	v->argv[0] = v->path;
	memcpy(v->argv + 1, v->given.item, sizeof v->given.item);
	return (struct child_options){.argv = v->argv,
				      .called = v->called,
				      .input = snapshot,
				      .input_bytes = bytes,
				      .seconds = deadline_seconds(DEADLINE_SOLUTION)};
}
