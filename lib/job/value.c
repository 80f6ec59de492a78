/* value: the values of keys, from text and as text; see keys.h. */
#include "job/keys.h"

#include "base/number.h"
#include "base/option.h"
#include "base/words.h"
#include "job/hosts.h"
#include "job/metrics_to.h"
#include "proc/launcher.h"
#include "proc/limits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 65536
#define BLANKS ", \t"
#define IN_MEMORY "/dev/shm" /* CHECKPOINT memory:on */

void *key_field(const struct job *job, const struct key_row *row)
{
	return (char *)(size_t)job + row->at;
}

static int key_is_list(const struct key_row *row)
{
	return row->kind == KEY_FILES || row->kind == KEY_METRICS ||
	       row->kind == KEY_HOSTS;
}

int key_is_file(const struct key_row *row)
{
	return row->kind == KEY_FILES || row->kind == KEY_PATH || row->kind == KEY_PLACE ||
	       row->kind == KEY_PROGRAM || row->kind == KEY_MEMORY;
}

int key_is_number(const struct key_row *row)
{
	return row->kind == KEY_COUNT || row->kind == KEY_REAL || row->kind == KEY_SECONDS ||
	       row->kind == KEY_BYTES;
}

int key_takes_colon(const struct key_row *row)
{
	return row->kind == KEY_PROGRAM || row->kind == KEY_BAD_ROWS || row->kind == KEY_SYNC;
}

static int has_auto(const struct key_row *row)
{
	return row->words && option_is_choice(row->words, "auto");
}

/* In struct job it is "". */
static int is_auto_unsaid(const struct key_row *row)
{
	return has_auto(row) && row->kind != KEY_DEADLINE && row->kind != KEY_DEVICE;
}

/* ---- lists ---- */

static void list_free(struct job_list *list)
{
	words_free(list->item, list->count);
	*list = (struct job_list){0};
}

static int list_split(struct job_list *list, const char *value, const char *separators,
		      const char *place, struct error *err)
{
	struct job_list made = {0};
	size_t room = 2;
	for (const char *p = value; *p; p++)
		room += strchr(separators, *p) != NULL;
	if (room > LIST_MAX)
		return error_set(err, ERROR_CONFIG, place, "more than %d items", LIST_MAX);
	made.item = calloc(room, sizeof *made.item);
	if (!made.item)
		return error_set(err, ERROR_OS, place, "out of memory");
	for (const char *p = value; *p;) {
		size_t n = strcspn(p, separators);
		if (n > 0 && !(made.item[made.count++] = strndup(p, n))) {
			made.count--;
			list_free(&made);
			return error_set(err, ERROR_OS, place, "out of memory");
		}
		p += n + (p[n] != '\0');
	}
	list_free(list);
	*list = made;
	return 0;
}

/* Names of files, which may hold blanks: quoted as for sh. */
static int files_split(struct job_list *list, const char *key, const char *value, const char *place,
		       struct error *err)
{
	struct job_list made = {0};
	struct error why = {0};
	int result = words_split(value, LIST_MAX, &made.item, &made.count, &why);
	for (size_t i = 0; result == 0 && i < made.count; i++)
		if (!made.item[i][0])
			result = error_set(&why, ERROR_CONFIG, NULL, "an empty name");
	if (result != 0) {
		list_free(&made);
		return error_set(err, why.code, place, "%s: %.400s", key, why.text);
	}
	list_free(list);
	*list = made;
	return 0;
}

static char *list_join(const struct job_list *list, char separator)
{
	size_t len = 1;
	for (size_t i = 0; i < list->count; i++)
		len += strlen(list->item[i]) + 1;
	char *text = malloc(len), *p = text;
	for (size_t i = 0; text && i < list->count; i++) {
		if (i > 0)
			*p++ = separator;
		p = stpcpy(p, list->item[i]);
	}
	if (text)
		*p = '\0';
	return text;
}

static int metrics_check(const struct key_row *row, const struct job_list *list, const char *place,
			 struct error *err)
{
	struct metrics_to to;
	struct error why;
	if (list->count > METRICS_TO_MAX)
		return error_set(err, ERROR_CONFIG, place, "%s: more than %d places", row->name,
				 METRICS_TO_MAX);
	for (size_t i = 0; i < list->count; i++)
		if (metrics_to_parse(&to, list->item[i], &why) != 0)
			return error_set(err, why.code, place, "%s: %.900s", row->name, why.text);
	return 0;
}

static int hosts_check(const struct key_row *row, const struct job_list *list, const char *place,
		       struct error *err)
{
	if (list->count > HOSTS_MAX)
		return error_set(err, ERROR_CONFIG, place, "%s: more than %d", row->name,
				 HOSTS_MAX);
	for (size_t i = 0; i < list->count; i++) {
		if (!launcher_host_ok(list->item[i]))
			return error_set(
				err, ERROR_CONFIG, place,
				"%s: '%.80s' is no name of a host (letters, digits, . _ - @ "
				": [ ])",
				row->name, list->item[i]);
		for (size_t k = 0; k < i; k++)
			if (strcmp(list->item[i], list->item[k]) == 0)
				return error_set(err, ERROR_CONFIG, place, "%s: %.80s is given "
									   "twice",
						 row->name, list->item[i]);
	}
	return 0;
}

static int list_store(struct job_list *list, const struct key_row *row, const char *value,
		      const char *place, struct error *err)
{
	switch (row->kind) {
	case KEY_FILES:
		return files_split(list, row->name, value, place, err);
	case KEY_METRICS:
		return files_split(list, row->name, value, place, err) == 0
			       ? metrics_check(row, list, place, err)
			       : -1;
	default:
		return list_split(list, value, BLANKS, place, err) == 0
			       ? hosts_check(row, list, place, err)
			       : -1;
	}
}

/* ---- numbers ---- */

/* Of a node: enough to start in. */
static int bytes_parse(const struct key_row *row, const char *value, uint64_t *out,
		       struct error *err)
{
	if (number_bytes(value, 0, (uint64_t)row->max, out, NULL, err) != 0)
		return -1;
	if (*out > 0 && *out < LIMITS_LEAST_MEMORY)
		return error_set(
			err, ERROR_CONFIG, NULL,
			"'%.40s' is less than %uM, too little to start anything (suffixes are K, "
			"M, G, T)",
			value, LIMITS_LEAST_MEMORY >> 20);
	return 0;
}

static int number_store(struct job *job, const struct key_row *row, const char *value,
			const char *place, struct error *err)
{
	union {
		uint64_t count;
		double real;
	} got = {0};
	struct error why;
	int result = 0, is_whole = row->kind == KEY_COUNT || row->kind == KEY_BYTES;
	int is_word = strcmp(value, row->words ? row->words : "") == 0;
	if (is_word && has_auto(row))
		got.real = NAN;
	else if (is_word && !is_whole)
		got.real = 0;
	else if (is_word)
		got.count = 0;
	else if (row->kind == KEY_COUNT)
		result = number_u64(value, (uint64_t)row->min,
				    row->max > 0 ? (uint64_t)row->max : UINT64_MAX, &got.count,
				    NULL, &why);
	else if (row->kind == KEY_BYTES)
		result = bytes_parse(row, value, &got.count, &why);
	else if (row->kind == KEY_SECONDS)
		result = number_seconds(value, row->min, row->max, &got.real, NULL, &why);
	else
		result = number_real(value, row->min, row->max, &got.real, NULL, &why);
	int is_zero =
		is_whole ? got.count == 0 : !(got.real < 0) && !(got.real > 0) && !isnan(got.real);
	if (result == 0 && !is_word && is_zero && row->words && !has_auto(row))
		result = error_set(&why, ERROR_CONFIG, NULL, "'%.40s' is not a value here: write "
							     "%s",
				   value, row->words);
	if (result != 0)
		return error_set(err, ERROR_CONFIG, place, "%s: %.400s", row->name, why.text);
	if (is_whole)
		*(uint64_t *)key_field(job, row) = got.count;
	else
		*(double *)key_field(job, row) = got.real;
	return 0;
}

static char *number_text(const struct job *job, const struct key_row *row)
{
	char number[40];
	const void *at = key_field(job, row);
	int is_whole = row->kind == KEY_COUNT || row->kind == KEY_BYTES;
	uint64_t count = is_whole ? *(const uint64_t *)at : 1;
	double real = is_whole ? 1 : *(const double *)at;
	if (isnan(real) ||
	    ((row->words || !row->given[0]) && !has_auto(row) && (count == 0 || !(real > 0))))
		return strdup(row->words ? row->words : "");
	if (is_whole)
		number_format_u64(count, number);
	else
		number_format_real(real, number);
	return strdup(number);
}

/* ---- words ---- */

/* word, or word:N */
static int prefixed_count(const char *value, const char *word, uint64_t max, uint64_t *out)
{
	size_t n = strlen(word);
	if (strncmp(value, word, n) != 0 || value[n] != ':')
		return -1;
	return number_u64(value + n + 1, 0, max, out, NULL, NULL);
}

static int sync_ok(const char *value)
{
	uint64_t bound;
	return strcmp(value, "bsp") == 0 || strcmp(value, "asp") == 0 ||
	       strcmp(value, JOB_ALLREDUCE) == 0 ||
	       prefixed_count(value, "ssp", 1000000, &bound) == 0;
}

static int bad_rows_ok(struct job *job, const char *value)
{
	uint64_t most = 0;
	if (strcmp(value, "stop") != 0 && prefixed_count(value, "skip", UINT64_MAX, &most) != 0)
		return 0;
	job->bad_rows_max = most;
	return 1;
}

/* As deadline_rules() reads it: plain seconds. */
static int deadline_plain(const struct key_row *row, const char *value, char out[40])
{
	double seconds;
	if (!value[0] || strcmp(value, "auto") == 0 || strcmp(value, "never") == 0)
		return snprintf(out, 40, "%s", value) < 0 ? -1 : 0;
	if (number_seconds(value, 0, row->max, &seconds, NULL, NULL) != 0 || !(seconds > 0))
		return -1;
	number_format_real(seconds, out);
	return 0;
}

/* Characters that would need quotes in a job file, or that end a part, have names. */
static const struct {
	const char *name, *separator;
} separators[] = {{"comma", ","}, {"semicolon", ";"}, {"pipe", "|"}, {"space", " "}};
#define SEPARATORS (sizeof separators / sizeof *separators)

static const char *separator_of(const char *value)
{
	for (size_t i = 0; i < SEPARATORS; i++)
		if (strcmp(separators[i].name, value) == 0)
			return separators[i].separator;
	return value;
}

static const char *separator_name(const char *text)
{
	for (size_t i = 0; i < SEPARATORS; i++)
		if (strcmp(separators[i].separator, text) == 0)
			return separators[i].name;
	return text;
}

/* Converts value to its form in struct job, which may lie in plain; NULL: it is not of this kind,
 * and why is filled. */
static const char *text_of(struct job *job, const struct key_row *row, const char *value,
			   char plain[MODEL_OPTION_TEXT_MAX], struct error *why)
{
	int fits = 1, result = 0;
	switch (row->kind) {
	case KEY_ID:
		if (value[0] && !option_id_ok(value))
			result = error_set(why, ERROR_CONFIG, NULL,
					   "'%.80s' is no id (1 to 64 of letters, digits, . _ -)",
					   value);
		break;
	case KEY_CHOICE:
		fits = option_is_choice(row->words, value);
		break;
	case KEY_SYNC:
		fits = sync_ok(value);
		break;
	case KEY_BAD_ROWS:
		fits = bad_rows_ok(job, value);
		break;
	case KEY_DEVICE:
		fits = model_device_ok(value);
		break;
	case KEY_SEPARATOR:
		value = separator_of(value);
		break;
	case KEY_DEADLINE:
		if (deadline_plain(row, value, plain) != 0)
			result = error_set(why, ERROR_CONFIG, NULL,
					   "'%.40s' is neither seconds nor never nor auto", value);
		value = plain;
		break;
	case KEY_OPTION:
		result = model_option_normal(
			model_option_at((row->at - offsetof(struct job, option)) / sizeof(char *)),
			value, plain, why);
		value = plain;
		break;
	case KEY_MEMORY:
		if (strcmp(value, "off") == 0)
			value = "";
		else if (strcmp(value, "on") == 0)
			value = IN_MEMORY;
		else if (!strchr(value, '/'))
			result = error_set(
				why, ERROR_CONFIG, NULL,
				"'%.80s' is neither off nor on nor a directory with a slash",
				value);
		break;
	case KEY_PLACING:
		result = hosts_place_check(value, why);
		break;
	case KEY_TEMPLATE:
		result = launcher_check(value, why);
		break;
	default:
		break;
	}
	if (!fits)
		result = error_set(why, ERROR_CONFIG, NULL, "'%.80s' is none of %s", value,
				   row->words);
	if (result != 0)
		return NULL;
	return is_auto_unsaid(row) && strcmp(value, "auto") == 0 ? "" : value;
}

int key_text_set(char **at, const char *value, const char *place, struct error *err)
{
	char *copy = strdup(value);
	if (!copy)
		return error_set(err, ERROR_OS, place, "out of memory");
	free(*at);
	*at = copy;
	return 0;
}

/* ---- all ---- */

int key_store(struct job *job, const struct key_row *row, const char *value, const char *place,
	      struct error *err)
{
	struct error why;
	char plain[MODEL_OPTION_TEXT_MAX];
	if (!value[0])
		value = row->given;
	if (row->kind == KEY_INCLUDE)
		return 0;
	if (key_is_number(row))
		return number_store(job, row, value, place, err);
	if (key_is_list(row))
		return list_store(key_field(job, row), row, value, place, err);
	const char *text = text_of(job, row, value, plain, &why);
	if (!text)
		return error_set(err, why.code, place, "%s: %.900s", row->name, why.text);
	return key_text_set(key_field(job, row), text, place, err);
}

char *key_text(const struct job *job, const struct key_row *row)
{
	const struct job_list *list = key_field(job, row);
	if (row->kind == KEY_INCLUDE)
		return strdup("");
	if (key_is_number(row))
		return number_text(job, row);
	if (row->kind == KEY_FILES || row->kind == KEY_METRICS)
		return words_join(list->item, list->count);
	if (key_is_list(row))
		return list_join(list, ',');
	const char *text = *(char *const *)key_field(job, row);
	if (row->kind == KEY_SEPARATOR)
		text = separator_name(text);
	if (row->kind == KEY_MEMORY)
		return strdup(!text[0] ? "off" : strcmp(text, IN_MEMORY) == 0 ? "on" : text);
	return strdup(!text[0] && is_auto_unsaid(row) ? "auto" : text);
}

void key_clear(struct job *job, const struct key_row *row)
{
	if (key_is_list(row))
		list_free(key_field(job, row));
	else if (!key_is_number(row) && row->kind != KEY_INCLUDE)
		free(*(char **)key_field(job, row));
}
