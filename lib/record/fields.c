/* fields: see fields.h. */
#include "record/fields.h"

#include "base/number.h"

#include <string.h>

#define REAL_MAX 1e15
#define NUMBER_MAX 1e300

static int fields_read_name(const struct field *f, const struct record *r, void *to,
			    struct error *err)
{
	const char *value;
	if (record_text(r, f->key, &value, err) != 0)
		return -1;
	for (int i = 0; f->names[i]; i++)
		if (strcmp(value, f->names[i]) == 0) {
			memcpy(to, &i, sizeof i);
			return 0;
		}
	return error_set(err, ERROR_DATA, NULL, "%s=: '%.40s' is not known", f->key, value);
}

static int fields_read_one(const struct field *f, const struct record *r, void *to,
			   struct error *err)
{
	uint64_t wide;
	const char *id;
	switch (f->kind) {
	case FIELD_U64:
		return record_u64(r, f->key, f->min, UINT64_MAX, to, err);
	case FIELD_U32:
		if (record_u64(r, f->key, 0, UINT32_MAX, &wide, err) != 0)
			return -1;
		*(uint32_t *)to = (uint32_t)wide;
		return 0;
	case FIELD_REAL:
	case FIELD_TIME:
		return record_real(r, f->key, 0, REAL_MAX, to, err);
	case FIELD_NUMBER:
		return record_real(r, f->key, -NUMBER_MAX, NUMBER_MAX, to, err);
	case FIELD_FLAG:
		if (record_u64(r, f->key, 0, 1, &wide, err) != 0)
			return -1;
		*(int *)to = (int)wide;
		return 0;
	case FIELD_ID:
		return record_id(r, f->key, to, err);
	case FIELD_ID_COPY:
		if (record_id(r, f->key, &id, err) != 0)
			return -1;
		memcpy(to, id, strlen(id) + 1);
		return 0;
	default:
		return fields_read_name(f, r, to, err);
	}
}

static int is_missing(const struct field *f, const struct record *r)
{
	const char *value = record_get(r, f->key);
	return !value || (!*value && (f->kind == FIELD_ID || f->kind == FIELD_ID_COPY));
}

static void fields_leave_out(const struct field *f, void *to)
{
	if (f->kind == FIELD_U64)
		*(uint64_t *)to = f->none;
	else if (f->kind == FIELD_FLAG)
		*(int *)to = 0;
	else if (f->kind == FIELD_ID)
		*(const char **)to = NULL;
	else if (f->kind == FIELD_ID_COPY)
		*(char *)to = '\0';
}

int fields_read(const struct field *table, const struct record *r, void *to, struct error *err)
{
	for (const struct field *f = table; f->key; f++) {
		void *member = (char *)to + f->offset;
		if (f->is_optional && is_missing(f, r))
			fields_leave_out(f, member);
		else if (fields_read_one(f, r, member, err) != 0)
			return -1;
	}
	return 0;
}

static int is_left_out(const struct field *f, const void *from)
{
	const char *id;
	switch (f->kind) {
	case FIELD_U64:
		return *(const uint64_t *)from == f->none;
	case FIELD_ID:
		id = *(const char *const *)from;
		return !id || !*id;
	case FIELD_ID_COPY:
		return !*(const char *)from;
	default:
		return 0;
	}
}

static void write_one(const struct field *f, struct record_out *o, const void *from)
{
	int value;
	switch (f->kind) {
	case FIELD_U64:
		record_add_u64(o, f->key, *(const uint64_t *)from);
		break;
	case FIELD_U32:
		record_add_u64(o, f->key, *(const uint32_t *)from);
		break;
	case FIELD_FLAG:
		record_add_u64(o, f->key, *(const int *)from ? 1 : 0);
		break;
	case FIELD_REAL:
	case FIELD_NUMBER:
		record_add_real(o, f->key, *(const double *)from);
		break;
	case FIELD_TIME:
		fields_add_time(o, f->key, *(const double *)from);
		break;
	case FIELD_ID:
		record_add(o, f->key, *(const char *const *)from);
		break;
	case FIELD_ID_COPY:
		record_add(o, f->key, from);
		break;
	case FIELD_NAME:
		memcpy(&value, from, sizeof value);
		record_add(o, f->key, f->names[value]);
	}
}

void fields_write(const struct field *table, struct record_out *o, const void *from)
{
	for (const struct field *f = table; f->key; f++) {
		const void *member = (const char *)from + f->offset;
		if (!(f->is_optional && is_left_out(f, member)))
			write_one(f, o, member);
	}
}

double fields_milliseconds(double seconds)
{
	return (double)(uint64_t)(seconds * 1e3) / 1e3;
}

void fields_add_time(struct record_out *o, const char *key, double seconds)
{
	char text[40];
	uint64_t ms = (uint64_t)(seconds * 1e3 + 0.5);
	size_t n = number_format_u64(ms / 1000, text);
	memcpy(text + n, ".000", 5);
	for (int i = 3; i > 0; i--, ms /= 10)
		text[n + (size_t)i] = (char)('0' + ms % 10);
	record_add(o, key, text);
}
