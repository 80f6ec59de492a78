/* json: see json.h. */
#include "record/json.h"

#include <stdio.h>
#include <stdlib.h>

static _Thread_local int json_lacked;

static void *json_malloc(size_t n)
{
	void *p = malloc(n);
	json_lacked |= !p;
	return p;
}

void json_watch_memory(void)
{
	json_set_alloc_funcs(json_malloc, free);
	json_lacked = 0;
}

int json_lacked_memory(void)
{
	return json_lacked;
}

json_t *json_read(const char *data, size_t len, json_error_t *why)
{
	json_watch_memory();
	json_t *result = json_loadb(data, len, JSON_REJECT_DUPLICATES, why);
	if (json_lacked) {
		json_decref(result);
		result = NULL;
		snprintf(why->text, sizeof why->text, "out of memory");
	}
	return result;
}
