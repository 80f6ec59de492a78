/*
 * plrec: from-json: one object a line to records.
 */
#include "cmd/plrec.h"

#include "record/json.h"

static int add_member(struct record_out *o, const char *key, const json_t *value, const char *place,
		      struct error *err)
{
	char number[40];
	if (!rec_is_name(key))
		return error_set(err, ERROR_DATA, place, "member '%.80s' is no key (a-z, 0-9, -)",
				 key);
	switch (json_typeof(value)) {
	case JSON_NULL:
		return 0;
	case JSON_STRING:
		record_add(o, key, json_string_value(value));
		return 0;
	case JSON_INTEGER:
		snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		record_add(o, key, number);
		return 0;
	case JSON_REAL:
		record_add_real(o, key, json_real_value(value));
		return 0;
	case JSON_TRUE:
	case JSON_FALSE:
		record_add(o, key, json_is_true(value) ? "1" : "0");
		return 0;
	default:
		return error_set(err, ERROR_DATA, place, "member '%.80s' is an array or object",
				 key);
	}
}

static int put_object(json_t *object, const char *place, struct error *err)
{
	const char *type = json_string_value(json_object_get(object, "type"));
	const char *text = json_string_value(json_object_get(object, "text"));
	char line[RECORD_LINE_MAX + 1];
	struct record_out o;
	if (!type)
		type = rec_default_type;
	if (!type || !rec_is_name(type))
		return error_set(err, ERROR_DATA, place, type ? "type '%.80s' is no name"
							      : "no member \"type\"%s",
				 type ? type : "");
	record_begin(&o, line, sizeof line, type);
	const char *key;
	json_t *value;
	json_object_foreach(object, key, value)
		if (strcmp(key, "type") != 0 && !(rec_with_text && strcmp(key, "text") == 0) &&
		    add_member(&o, key, value, place, err) != 0)
			return -1;
	return rec_put(&o, rec_with_text ? text : NULL, place, err);
}

int rec_from_json(struct error *err)
{
	struct rec_lines in = {0};
	char *line;
	size_t len;
	int whole, got, result = 0;
	while (result == 0 && (got = rec_next_line(&in, &line, &len, &whole, err)) != 0) {
		if (got < 0) {
			result = -1;
			break;
		}
		if (strspn(line, " \t\r") == len)
			continue;
		json_error_t why;
		json_t *object = json_read(line, len, &why);
		if (!object)
			result = error_set(err, ERROR_DATA, in.place, "column %d: %s", why.column,
					   why.text);
		else if (!json_is_object(object))
			result = error_set(err, ERROR_DATA, in.place, "no JSON object");
		else
			result = put_object(object, in.place, err);
		json_decref(object);
	}
	free(in.data);
	return result;
}
