/* option: see option.h. */
#include "model/option.h"

#include "base/number.h"
#include "model/kind.h"

#include <stdio.h>
#include <string.h>

const struct model_option *model_options(const char *name)
{
	const struct model_kind *kind = model_kind_find(name);
	return kind ? kind->options : NULL;
}

static int option_is_before(size_t model, const char *name)
{
	for (size_t i = 0; i < model; i++)
		for (const struct model_option *o = model_kind_at(i)->options; o && o->name; o++)
			if (strcmp(o->name, name) == 0)
				return 1;
	return 0;
}

const struct model_option *model_option_at(size_t i)
{
	const struct model_kind *kind;
	for (size_t m = 0; (kind = model_kind_at(m)); m++)
		for (const struct model_option *o = kind->options; o && o->name; o++)
			if (o->given && !option_is_before(m, o->name) && i-- == 0)
				return o;
	return NULL;
}

void model_option_owners(const char *name, char *out, size_t max)
{
	const struct model_kind *kind;
	size_t len = 0;
	out[0] = '\0';
	for (size_t m = 0; (kind = model_kind_at(m)); m++)
		for (const struct model_option *o = kind->options; o && o->name; o++)
			if (strcmp(o->name, name) == 0 && len < max)
				len += (size_t)snprintf(out + len, max - len, "%s%s",
							len ? "|" : "", kind->name);
}

/* ---- values ---- */

static int option_widths(struct model_widths *w, const struct model_option *o, const char *text,
			 struct error *err)
{
	struct model_widths got = {0};
	for (const char *p = text;; p++) {
		size_t len = strcspn(p, "-,");
		uint64_t width;
		if (got.count == MODEL_WIDTHS_MAX)
			return error_set(err, ERROR_CONFIG, o->name, "'%s': more than %d layers",
					 text, MODEL_WIDTHS_MAX);
		if (number_u64_span(p, len, &width) != 0 || (double)width < o->min ||
		    (double)width > o->max)
			return error_set(err, ERROR_CONFIG, o->name,
					 "'%.*s' is no width of a layer (%.0f..%.0f)", (int)len,
					 p, o->min, o->max);
		got.width[got.count++] = (uint32_t)width;
		p += len;
		if (!*p)
			break;
	}
	*w = got;
	return 0;
}

static int option_choice(uint32_t *out, const struct model_option *o, const char *text,
			 struct error *err)
{
	size_t len = strlen(text);
	*out = 0;
	for (const char *word = o->words; *word; (*out)++) {
		size_t n = strcspn(word, "|");
		if (n == len && memcmp(word, text, n) == 0)
			return 0;
		word += n + (word[n] == '|');
	}
	return error_set(err, ERROR_CONFIG, o->name, "'%.80s' is none of %s", text, o->words);
}

/* Not of a program's options, which is what the functions that read numbers think. */
static int option_number(int result, struct error *err)
{
	if (result != 0 && err)
		err->code = ERROR_CONFIG;
	return result;
}

int model_option_set(struct model_spec *spec, const struct model_option *o, const char *text,
		     struct error *err)
{
	void *at = (char *)spec + o->at;
	uint64_t count;
	switch (o->kind) {
	case MODEL_NUMBER:
		return option_number(number_real(text, o->min, o->max, at, o->name, err), err);
	case MODEL_LONG:
		return option_number(number_u64(text, 0, UINT64_MAX, at, o->name, err), err);
	case MODEL_COUNT:
		if (number_u64(text, (uint64_t)o->min, (uint64_t)o->max, &count, o->name, err) != 0)
			return option_number(-1, err);
		*(uint32_t *)at = (uint32_t)count;
		return 0;
	case MODEL_WIDTHS:
		return option_widths(at, o, text, err);
	case MODEL_CHOICE:
		return option_choice(at, o, text, err);
	}
	return -1;
}

void model_option_text(const struct model_spec *spec, const struct model_option *o, char separator,
		       char out[MODEL_OPTION_TEXT_MAX])
{
	const void *at = (const char *)spec + o->at;
	const struct model_widths *w = at;
	const char *word = o->words;
	switch (o->kind) {
	case MODEL_NUMBER:
		number_format_real(*(const double *)at, out);
		break;
	case MODEL_LONG:
		number_format_u64(*(const uint64_t *)at, out);
		break;
	case MODEL_COUNT:
		number_format_u64(*(const uint32_t *)at, out);
		break;
	case MODEL_WIDTHS:
		for (uint32_t i = 0; i < w->count; i++) {
			if (i > 0)
				*out++ = separator;
			out += number_format_u64(w->width[i], out);
		}
		*out = '\0';
		break;
	case MODEL_CHOICE:
		for (uint32_t i = *(const uint32_t *)at; i > 0; i--)
			word += strcspn(word, "|") + 1;
		snprintf(out, MODEL_OPTION_TEXT_MAX, "%.*s", (int)strcspn(word, "|"), word);
		break;
	}
}

int model_option_normal(const struct model_option *o, const char *text,
			char out[MODEL_OPTION_TEXT_MAX], struct error *err)
{
	struct model_spec spec = {0};
	if (model_option_set(&spec, o, text, err) != 0)
		return -1;
	model_option_text(&spec, o, '-', out);
	return 0;
}
