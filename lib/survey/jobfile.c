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

static int jobfile_no_memory(struct error *err)
{
	return error_set(err, ERROR_OS, NULL, "out of memory");
}

void jobfile_free(struct jobfile *f)
{
	for (size_t i = 0; i < f->count; i++) {
		free(f->setting[i].key);
		free(f->setting[i].value);
		free(f->setting[i].section);
		free(f->setting[i].reason);
	}
	free(f->setting);
	free(f->head);
	free(f->tail);
	free(f->section);
	*f = (struct jobfile){0};
}

static int jobfile_replace(char **at, const char *text, struct error *err)
{
	free(*at);
	*at = strdup(text);
	return *at ? 0 : jobfile_no_memory(err);
}

int jobfile_head(struct jobfile *f, const char *lines, struct error *err)
{
	return jobfile_replace(&f->head, lines, err);
}

int jobfile_tail(struct jobfile *f, const char *lines, struct error *err)
{
	return jobfile_replace(&f->tail, lines, err);
}

int jobfile_section(struct jobfile *f, const char *title, struct error *err)
{
	return jobfile_replace(&f->section, title, err);
}

static struct jobfile_setting *jobfile_find(const struct jobfile *f, const char *key)
{
	for (size_t i = 0; i < f->count; i++)
		if (strcmp(f->setting[i].key, key) == 0)
			return &f->setting[i];
	return NULL;
}

const char *jobfile_get(const struct jobfile *f, const char *key)
{
	const struct jobfile_setting *s = jobfile_find(f, key);
	return s ? s->value : NULL;
}

int jobfile_add(struct jobfile *f, const char *key, const char *value, const char *reason,
		struct error *err)
{
	if (GROW(f->setting, f->room, f->count + 1) != 0)
		return jobfile_no_memory(err);
	struct jobfile_setting *s = &f->setting[f->count++];
	*s = (struct jobfile_setting){.key = strdup(key),
				      .value = strdup(value),
				      .section = f->section,
				      .reason = strdup(reason)};
	f->section = NULL;
	return s->key && s->value && s->reason ? 0 : jobfile_no_memory(err);
}

int jobfile_set(struct jobfile *f, const char *key, const char *value, const char *reason,
		struct error *err)
{
	struct jobfile_setting *s = jobfile_find(f, key);
	if (!s)
		return jobfile_add(f, key, value, reason, err);
	return jobfile_replace(&s->value, value, err) == 0
		       ? jobfile_replace(&s->reason, reason, err)
		       : -1;
}

/* '?' for each byte that is no UTF-8: editors refuse a whole file for one. */
static void jobfile_print_line(FILE *out, const char *line, size_t len)
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
		jobfile_print_line(out, p, n);
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
	if (s->section)
		fprintf(out, "\n# ---- %s\n", s->section);
	print_comment(out, s->reason);
	if (jobtext_format(s->key, s->value, line, max) > 0)
		fprintf(out, "%s\n", line);
	free(line);
	return 0;
}

int jobfile_text(const struct jobfile *f, char **text, size_t *len, struct error *err)
{
	int result = 0;
	*text = NULL;
	FILE *out = grow_stream(text, len);
	if (!out)
		return jobfile_no_memory(err);
	print_comment(out, f->head ? f->head : "");
	for (size_t i = 0; result == 0 && i < f->count; i++)
		result = print_setting(out, &f->setting[i]);
	fputs(f->tail ? f->tail : "", out);
	if (fclose(out) != 0 || result != 0) {
		free(*text);
		*text = NULL;
		return jobfile_no_memory(err);
	}
	return 0;
}

/* "#CHECKPOINT=60,keep:3,..."; key is its first. */
static void print_defaults(FILE *out, const struct job_key *key, size_t i)
{
	struct job_key part = *key;
	size_t count = 0;
	fprintf(out, "#%.*s=", (int)key->key_len, key->name);
	do {
		if (part.given[0] && (!part.part || part.is_head))
			fprintf(out, "%s", part.given);
		else if (part.given[0])
			fprintf(out, "%s%s:%s", count > 0 ? "," : "", part.part, part.given);
		count += part.given[0] != '\0';
	} while (job_key(++i, &part) == 0 && !part.is_first);
	fputc('\n', out);
}

int jobfile_keys(char **text, size_t *len, struct error *err)
{
	struct job_key key;
	*text = NULL;
	FILE *out = grow_stream(text, len);
	if (!out)
		return jobfile_no_memory(err);
	fprintf(out, "# Every key of a job file with its defaults, parts below it; see paceline-job(5).\n");
	for (size_t i = 0; job_key(i, &key) == 0; i++) {
		if (key.section)
			fprintf(out, "\n# ---- %s\n", key.section);
		if (key.is_first)
			print_defaults(out, &key, i);
		if (key.part)
			fprintf(out, "#   %-11s ", key.part);
		else
			fprintf(out, "#   ");
		fprintf(out, "%s%s%s\n", key.help, key.values[0] ? ": " : "", key.values);
	}
	if (fclose(out) == 0)
		return 0;
	free(*text);
	*text = NULL;
	return jobfile_no_memory(err);
}
