/*
 * spec: the description of a model as a record, so that a checkpoint says what it has.  It must
 * never guess: a value that is missing or out of range is an error with the file's name.
 */
#include "base/fs.h"
#include "model/option.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void model_spec_default(struct model_spec *spec, const char *name)
{
	*spec = (struct model_spec){.hash_bits = 20, .seed = 1};
	snprintf(spec->name, sizeof spec->name, "%s", name);
	for (const struct model_option *o = model_options(name); o && o->name; o++)
		if (o->given)
			(void)model_option_set(spec, o, o->given, NULL);
}

static int get_u32(const struct record *r, const char *key, uint32_t *out, struct error *err)
{
	uint64_t value;
	if (record_u64(r, key, 0, UINT32_MAX, &value, err) != 0)
		return -1;
	*out = (uint32_t)value;
	return 0;
}

static int spec_take_option(const struct record *r, const struct model_option *o,
			    struct model_spec *s, struct error *err)
{
	const char *text = record_get(r, o->name);
	if (text)
		return model_option_set(s, o, text, err);
	return o->given ? 0 : record_text(r, o->name, &text, err);
}

static int spec_parse(const struct record *r, struct model_spec *s, struct error *err)
{
	uint64_t version, classes = 0;
	const char *name;
	if (!record_is(r, "model"))
		return error_set(err, ERROR_DATA, "", "a \"%s\" record where \"model\" belongs",
				 r->type);
	if (record_u64(r, "version", 1, 1, &version, err) != 0 ||
	    record_text(r, "name", &name, err) != 0)
		return -1;
	if (strlen(name) >= sizeof(s->name))
		return error_set(err, ERROR_CONFIG, "model", "\"%s\" is not known; there are %s",
				 name, MODEL_NAMES);
	model_spec_default(s, name);
	if (get_u32(r, "dense-inputs", &s->dense_inputs, err) != 0 ||
	    get_u32(r, "fields", &s->fields, err) != 0 ||
	    get_u32(r, "hash-bits", &s->hash_bits, err) != 0 ||
	    record_real(r, "l2", 0, 1e30, &s->l2, err) != 0 ||
	    record_u64(r, "seed", 0, UINT64_MAX, &s->seed, err) != 0 ||
	    record_u64(r, "samples", 0, UINT64_MAX, &s->samples, err) != 0 ||
	    record_u64_opt(r, "classes", 0, UINT32_MAX, &classes, err) != 0)
		return -1;
	s->classes = (uint32_t)classes;
	for (const struct model_option *o = model_options(name); o && o->name; o++)
		if (spec_take_option(r, o, s, err) != 0)
			return -1;
	return model_spec_check(s, err);
}

int model_spec_read(const char *path, struct model_spec *spec, struct error *err)
{
	char *text;
	size_t len;
	if (fs_read_file(path, RECORD_LINE_MAX, &text, &len, err) != 0)
		return -1;
	struct record *r = malloc(sizeof(*r));
	struct model_spec s = {0};
	int result = -1;
	if (!r)
		error_set(err, ERROR_OS, "", "out of memory");
	else if (len == 0 || strcspn(text, "\n") != len - 1)
		error_set(err, ERROR_DATA, "", "not one line that ends with a newline");
	else if (record_parse(r, text, len - 1, err) == 0)
		result = spec_parse(r, &s, err);
	free(r);
	free(text);
	if (result < 0)
		return error_wrap(err, path);
	*spec = s;
	return 0;
}

int model_spec_write(const char *path, const struct model_spec *spec, struct error *err)
{
	if (model_spec_check(spec, err) != 0)
		return -1;
	char text[MODEL_OPTION_TEXT_MAX];
	struct record_out *o = RECORD(
		"model", F("version", 1), F("name", spec->name),
		F("dense-inputs", spec->dense_inputs), F("fields", spec->fields),
		F("hash-bits", spec->hash_bits), F_REAL("l2", spec->l2), F("seed", spec->seed),
		F("samples", spec->samples),
		spec->classes > 0 ? F("classes", spec->classes) : F_NONE);
	for (const struct model_option *p = model_options(spec->name); p && p->name; p++) {
		model_option_text(spec, p, ',', text);
		record_add(o, p->name, text);
	}
	size_t len = record_end(o, NULL);
	return fs_replace_file(path, o->data, len, err);
}
