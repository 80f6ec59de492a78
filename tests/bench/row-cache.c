/*
 * row-cache: rows made up, of several formats (rows FORMAT COUNT), and how many rows a second a
 * worker's reading thread makes batches of, from the text and from the cache (speed SCHEMA FILE
 * ROUNDS).
 */
#include "data/dataset.h"
#include "data/rowcache.h"
#include "param/map.h"
#include "work/batch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rounds.h"

#define BATCH 4096
#define ROUNDS_MAX 100

static void must(int result, const struct error *err)
{
	if (result >= 0)
		return;
	fprintf(stderr, "row-cache: %s: %s\n", err->place, err->text);
	exit(1);
}

/* ---- rows ---- */

static uint64_t chance_state = 88172645463325252u;

static double chance(void)
{
	chance_state ^= chance_state << 13;
	chance_state ^= chance_state >> 7;
	chance_state ^= chance_state << 17;
	return (double)(chance_state >> 11) / 9007199254740992.0;
}

/* Columns of very different sizes, their values skewed, as in data of this kind. */
static unsigned category(unsigned column)
{
	static const double sizes[] = {10, 100, 1e3, 1e4, 1e5, 1e6};
	double r = chance();
	return column * 7919 + (unsigned)(r * r * r * r * sizes[column % 6]);
}

static void print_csv(uint64_t rows)
{
	static const char *const words[] = {"Private",      "Bachelors",     "Never-married",
					    "Adm-clerical", "Not-in-family", "White",
					    "Male",         "United-States"};
	printf("label");
	for (int i = 0; i < 6; i++)
		printf(",n%d", i);
	for (int i = 0; i < 8; i++)
		printf(",c%d", i);
	for (uint64_t i = 0; i < rows; i++) {
		printf("\n%d", chance() < 0.25);
		for (int n = 0; n < 6; n++)
			printf(",%.0f", chance() * chance() * (n % 2 ? 100 : 300000));
		for (unsigned c = 0; c < 8; c++)
			printf(",%s-%u", words[c], category(c % 2));
	}
	printf("\n");
}

static void print_criteo(uint64_t rows)
{
	for (uint64_t i = 0; i < rows; i++) {
		printf("%d", chance() < 0.25);
		for (int n = 0; n < 13; n++)
			printf("\t%.0f", chance() * chance() * 1000);
		for (unsigned c = 0; c < 26; c++)
			printf("\t%08x", category(c));
		printf("\n");
	}
}

/* Labels that a logistic model can learn: each index has a weight. */
static void print_libsvm(uint64_t rows)
{
	enum { KEYS = 39 };
	for (uint64_t i = 0; i < rows; i++) {
		unsigned index[KEYS];
		double z = -1;
		for (unsigned k = 0; k < KEYS; k++) {
			index[k] = 1 + k * 2000 + category(k) % 2000;
			z += (double)(index[k] * 2654435761u) / 4294967296.0 - 0.5;
		}
		printf("%d", chance() < 1 / (1 + exp(-z)));
		for (unsigned k = 0; k < KEYS; k++)
			printf(" %u:1", index[k]);
		printf("\n");
	}
}

/* ---- speed ---- */

/* Rows a second into batches. */
static double pass(struct dataset *ds, const struct schema *s, int finish)
{
	static struct map map;
	static const struct model_keys keys;
	struct rows rows = {0};
	struct batch batch = {0};
	struct error err = {0};
	uint64_t all = dataset_rows(ds), take;
	map_even(&map, 1, 0);
	double began = now();
	for (uint64_t at = 0; at < all; at += take) {
		take = all - at < BATCH ? all - at : BATCH;
		must(dataset_read(ds, at, take, &rows, &err), &err);
		batch_start(&batch, rows.dense_columns, rows.value != NULL);
		must(batch_reserve(&batch, rows.count, rows.offset[rows.count], &err), &err);
		for (size_t i = 0; i < rows.count; i++)
			batch_add_sample(&batch, &rows, i, &keys);
		if (finish)
			must(batch_finish(&batch, &map, UINT64_C(1) << s->hash_bits, &err), &err);
	}
	double seconds = now() - began;
	rows_free(&rows);
	batch_free(&batch);
	return (double)all / seconds;
}

static void speed(const char *schema_path, const char *path, size_t rounds)
{
	static double seconds[4][ROUNDS_MAX];
	struct schema *s;
	struct dataset *text, *cached;
	struct error err = {0};
	struct rowcache_made made;
	char cache[4096];
	struct dataset_options options = {.paths = &path, .path_count = 1};
	must(schema_read(&s, schema_path, &err), &err);
	must(dataset_open(&text, s, &options, &err), &err);
	if (schema_needs_fit(s))
		must(schema_fit(s, text, &err), &err);
	must(rowcache_path(cache, sizeof cache, path, NULL, &err), &err);
	const struct rowcache_making making = {.schema = s, .data_path = path, .path = cache};
	must(rowcache_make(&making, &made, &err), &err);
	options.caches = 1;
	must(dataset_open(&cached, s, &options, &err), &err);
	for (size_t i = 0; i < rounds; i++)
		for (int k = 0; k < 4; k++)
			seconds[k][i] = 1 / pass(k < 2 ? text : cached, s, k % 2);
	if (dataset_cached_rows(cached) != 2 * rounds * dataset_rows(cached))
		must(error_set(&err, ERROR_SOFTWARE, path, "not read from the cache"), &err);
	double rate[4];
	for (int k = 0; k < 4; k++)
		rate[k] = 1 / median(seconds[k], rounds);
	printf("bench name=row-cache data=%s rows=%" PRIu64 " text-rows-per-second=%.0f "
	       "cache-rows-per-second=%.0f ratio=%.2f ratio-batches=%.2f batches-per-second=%.0f "
	       "bytes-per-row=%.0f\n",
	       path, dataset_rows(text), rate[0], rate[2], rate[2] / rate[0], rate[3] / rate[1],
	       rate[3] / BATCH, (double)made.bytes / (double)made.rows);
	dataset_close(text);
	dataset_close(cached);
	schema_free(s);
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "rows") == 0) {
		uint64_t rows = strtoull(argv[3], NULL, 10);
		if (strcmp(argv[2], "csv") == 0)
			print_csv(rows);
		else if (strcmp(argv[2], "libsvm") == 0)
			print_libsvm(rows);
		else
			print_criteo(rows);
		return 0;
	}
	if (argc != 5 || strcmp(argv[1], "speed") != 0)
		return 64;
	speed(argv[2], argv[3], strtoul(argv[4], NULL, 10));
	return 0;
}
