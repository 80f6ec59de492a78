/*
 * json: JSON of others, by jansson.
 */
#ifndef PACELINE_RECORD_JSON_H
#define PACELINE_RECORD_JSON_H

#include <jansson.h>

/* jansson drops bytes of a text that it reads, or gives NULL where a text is no UTF-8, without a word also
 * when it gets no memory. So who uses it begins here, and asks in the end. Each thread for itself. */
void json_watch_memory(void);
int json_lacked_memory(void);

/* json_loadb() without duplicate keys; NULL, and why->text, also when memory was lacking. */
json_t *json_read(const char *data, size_t len, json_error_t *why);

#endif
