/*
 * option: what a model may be told by its job: its own numbers and words, in a table of its own file.
 * The parts of the key MODEL, and the fields of the record `model`, go by these tables.  Options of
 * one name are the same in all models that have them, but for their defaults.
 */
#ifndef PACELINE_MODEL_OPTION_H
#define PACELINE_MODEL_OPTION_H

#include "base/error.h"
#include "model/model.h"

#include <stddef.h>

enum model_option_kind {
	MODEL_COUNT,  /* uint32_t */
	MODEL_LONG,   /* uint64_t */
	MODEL_NUMBER, /* double */
	MODEL_WIDTHS, /* struct model_widths */
	MODEL_CHOICE, /* uint32_t: which of its words */
};

struct model_option {
	const char *name;
	enum model_option_kind kind;
	size_t at;         /* offset in struct model_spec */
	/* Its default, as a job file says it. NULL: it is a fact of the data, which a record must have
	 * and no job file says. */
	const char *given;
	double min, max;
	const char *words; /* of a choice: "a|b" */
	const char *help;
};

#define MODEL_OPTIONS_MAX 16      /* of a model, with the row without a name that ends its table */
#define MODEL_ALL_OPTIONS_MAX 32  /* with different names, that job files may say */
#define MODEL_OPTION_TEXT_MAX 128 /* bytes of a value, NUL included */

/* The table of a model, ended by a row without a name; NULL: it has none, or there is no such model. */
const struct model_option *model_options(const char *name);
/* The i-th of those that job files may say, each name once; NULL: there are no more. */
const struct model_option *model_option_at(size_t i);
/* "wdl|fm": the models that have an option of this name, as far as there is room. */
void model_option_owners(const char *name, char *out, size_t max);

/* Reads a value. ERROR_CONFIG, with the option's name as place. */
int model_option_set(struct model_spec *spec, const struct model_option *o, const char *text,
		     struct error *err);
/* Its value as text; separator: between widths, '-' in a job file, ',' in a record. */
void model_option_text(const struct model_spec *spec, const struct model_option *o, char separator,
		       char out[MODEL_OPTION_TEXT_MAX]);
/* Checks a value of a job file, and writes it as model_option_text() does. */
int model_option_normal(const struct model_option *o, const char *text,
			char out[MODEL_OPTION_TEXT_MAX], struct error *err);

#endif
