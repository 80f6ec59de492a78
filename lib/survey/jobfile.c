/* jobfile: see jobfile.h.  Keys, defaults and what they do are those of lib/job, asked for one by one:
 * there is no second list. */
#include "survey/jobfile.h"

#include "base/grow.h"
#include "base/utf8.h"
#include "job/job.h"
#include "job/jobtext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct error *err)
{
	return error_set(err, ERROR_OS, NULL, "out of memory");
}

void jobfile_free(struct jobfile *f)
{
	for (size_t i = 0; i < f->count; i++) {
		free(f->setting[i].key);
		free(f->setting[i].value);
		free(f->setting[i].reason);
	}
	free(f->setting);
	free(f->head);
	*f = (struct jobfile){0};
}

int jobfile_head(struct jobfile *f, const char *lines, struct error *err)
{
	free(f->head);
	f->head = strdup(lines);
	return f->head ? 0 : no_memory(err);
}

static struct jobfile_setting *find(const struct jobfile *f, const char *key)
{
	for (size_t i = 0; i < f->count; i++)
		if (strcmp(f->setting[i].key, key) == 0)
			return &f->setting[i];
	return NULL;
}

const char *jobfile_get(const struct jobfile *f, const char *key)
{
	const struct jobfile_setting *s = find(f, key);
	return s ? s->value : NULL;
}

int jobfile_set(struct jobfile *f, const char *key, const char *value, const char *reason,
		struct error *err)
{
	struct jobfile_setting *s = find(f, key);
	if (!s) {
		if (GROW(f->setting, f->room, f->count + 1) != 0)
			return no_memory(err);
		s = &f->setting[f->count];
		*s = (struct jobfile_setting){.key = strdup(key)};
		if (!s->key)
			return no_memory(err);
		f->count++;
	}
	free(s->value);
	free(s->reason);
	s->value = strdup(value);
	s->reason = strdup(reason);
	return s->value && s->reason ? 0 : no_memory(err);
}

/* '?' for each byte that is no UTF-8: editors refuse a whole file for one. */
static void print_line(FILE *out, const char *line, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t n = utf8_length(line + i);
		if (n > 0)
			fwrite(line + i, 1, n, out);
		else
			fputc('?', out);
		i += n > 0 ? n : 1;
	}
}

/* Each line behind a #; what is in it can't end the comment. */
static void print_comment(FILE *out, const char *lines)
{
	for (const char *p = lines; *p;) {
		size_t n = strcspn(p, "\n");
		fputs(n > 0 ? "# " : "#", out);
		print_line(out, p, n);
		fputc('\n', out);
		p += n + (p[n] == '\n');
	}
}

static int print_setting(FILE *out, const struct jobfile_setting *s)
{
	size_t max = 2 * strlen(s->value) + strlen(s->key) + 80;
	char *line = malloc(max);
	if (!line)
		return -1;
	print_comment(out, s->reason);
	if (jobtext_format(s->key, s->value, line, max) > 0)
		fprintf(out, "%s\n", line);
	free(line);
	return 0;
}

static void print_others(const struct jobfile *f, FILE *out)
{
	const char *key, *given, *help;
	fprintf(out, "\n# ---- every other key, with its default; take the # away to change one ----\n");
	for (size_t i = 0; (key = job_key(i, &given, &help)); i++) {
		const char *values = job_key_values(i);
		int words = values && !(values[0] >= 'A' && values[0] <= 'Z');
		if (!find(f, key))
			fprintf(out, "\n# %s%s%s\n#%s=%s\n", help, words ? ": " : "",
				words ? values : "", key, given);
	}
}

int jobfile_text(const struct jobfile *f, char **text, size_t *len, struct error *err)
{
	int result = 0;
	*text = NULL;
	FILE *out = open_memstream(text, len);
	if (!out)
		return no_memory(err);
	print_comment(out, f->head ? f->head : "");
	for (size_t i = 0; result == 0 && i < f->count; i++) {
		if (f->setting[i].reason[0])
			fputc('\n', out);
		result = print_setting(out, &f->setting[i]);
	}
	print_others(f, out);
	if (fclose(out) != 0 || result != 0) {
		free(*text);
		*text = NULL;
		return no_memory(err);
	}
	return 0;
}
