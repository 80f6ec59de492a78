/*
 * spec: the description of a model as a record, so that a checkpoint says what it has.  It must
 * never guess: a value that is missing or out of range is an error with the file's name.
 */
#include "base/fs.h"
#include "base/number.h"
#include "model/model.h"
#include "record/record.h"

#include <stdlib.h>
#include <string.h>

void model_spec_default(struct model_spec *spec)
{
	*spec = (struct model_spec){.name = "lr",
				    .embed = 16,
				    .hidden = {64, 32},
				    .hidden_count = 2,
				    .hash_bits = 20,
				    .topics = 100,
				    .alpha = 0.1,
				    .beta = 0.01,
				    .seed = 1};
}

int model_spec_hidden(struct model_spec *spec, const char *text, struct error *err)
{
	uint32_t hidden[MODEL_HIDDEN_MAX];
	uint32_t count = 0;
	for (const char *p = text;; p++) {
		size_t len = strcspn(p, ",");
		uint64_t width;
		if (count == MODEL_HIDDEN_MAX)
			return error_set(err, ERROR_CONFIG, "hidden", "\"%s\": more than %d layers",
					 text, MODEL_HIDDEN_MAX);
		if (number_u64_span(p, len, &width) != 0 || width < 1 || width > 65536)
			return error_set(err, ERROR_CONFIG, "hidden",
					 "\"%.*s\" is no width of a layer (1..65536)", (int)len, p);
		hidden[count++] = (uint32_t)width;
		p += len;
		if (!*p)
			break;
	}
	memset(spec->hidden, 0, sizeof(spec->hidden));
	memcpy(spec->hidden, hidden, count * sizeof(*hidden));
	spec->hidden_count = count;
	return 0;
}

static void hidden_text(const struct model_spec *spec, char *out)
{
	for (uint32_t i = 0; i < spec->hidden_count; i++) {
		if (i)
			*out++ = ',';
		out += number_format_u64(spec->hidden[i], out);
	}
	*out = '\0';
}

static int get_u32(const struct record *r, const char *key, uint32_t *out, struct error *err)
{
	uint64_t value;
	if (record_u64(r, key, 0, UINT32_MAX, &value, err) != 0)
		return -1;
	*out = (uint32_t)value;
	return 0;
}

/* Only lda has these. */
static int parse_topics(const struct record *r, struct model_spec *s, struct error *err)
{
	if (!record_get(r, "topics"))
		return 0;
	return get_u32(r, "topics", &s->topics, err) != 0 ||
			       record_real(r, "alpha", 0, 1e30, &s->alpha, err) != 0 ||
			       record_real(r, "beta", 0, 1e30, &s->beta, err) != 0 ||
			       record_u64(r, "words", 0, UINT64_MAX, &s->words, err) != 0 ||
			       record_u64(r, "longest", 0, UINT64_MAX, &s->longest, err) != 0
		       ? -1
		       : 0;
}

static int spec_parse(const struct record *r, struct model_spec *s, struct error *err)
{
	uint64_t version, counts = 0;
	const char *name, *hidden;
	if (!record_is(r, "model"))
		return error_set(err, ERROR_DATA, "", "a \"%s\" record where \"model\" belongs",
				 r->type);
	if (record_u64(r, "version", 1, 1, &version, err) != 0 ||
	    record_text(r, "name", &name, err) != 0 ||
	    get_u32(r, "dense-inputs", &s->dense_inputs, err) != 0 ||
	    get_u32(r, "fields", &s->fields, err) != 0 || get_u32(r, "embed", &s->embed, err) != 0 ||
	    get_u32(r, "hash-bits", &s->hash_bits, err) != 0 ||
	    record_text(r, "hidden", &hidden, err) != 0 ||
	    record_real(r, "l2", 0, 1e30, &s->l2, err) != 0 ||
	    record_u64(r, "seed", 0, UINT64_MAX, &s->seed, err) != 0 ||
	    record_u64(r, "samples", 0, UINT64_MAX, &s->samples, err) != 0 ||
	    record_u64_opt(r, "counts", 0, UINT32_MAX, &counts, err) != 0 ||
	    parse_topics(r, s, err) != 0)
		return -1;
	if (strlen(name) >= sizeof(s->name))
		return error_set(err, ERROR_CONFIG, "model", "\"%s\" is not known; there are %s",
				 name, MODEL_NAMES);
	strcpy(s->name, name);
	s->counts = (uint32_t)counts;
	if (*hidden && model_spec_hidden(s, hidden, err) != 0)
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
	char hidden[MODEL_HIDDEN_MAX * 12];
	hidden_text(spec, hidden);
	struct record_out *o = RECORD(
		"model", F("version", 1), F("name", spec->name),
		F("dense-inputs", spec->dense_inputs), F("fields", spec->fields),
		F("embed", spec->embed), F("hidden", hidden), F("hash-bits", spec->hash_bits),
		F_REAL("l2", spec->l2), F("seed", spec->seed), F("samples", spec->samples),
		spec->counts > 0 ? F("counts", spec->counts) : F_NONE);
	if (model_keys(spec).own_rows > 0) {
		record_add_u64(o, "topics", spec->topics);
		record_add_real(o, "alpha", spec->alpha);
		record_add_real(o, "beta", spec->beta);
		record_add_u64(o, "words", spec->words);
		record_add_u64(o, "longest", spec->longest);
	}
	size_t len = record_end(o, NULL);
	return fs_replace_file(path, o->data, len, err);
}
