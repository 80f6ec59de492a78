/* targets: see targets.h. */
#include "tests/fuzz/targets.h"

#include "account/account.h"
#include "agent/words.h"
#include "base/fs.h"
#include "base/number.h"
#include "ckpt/ckpt.h"
#include "ckpt/import.h"
#include "ckpt/part.h"
#include "data/dataset.h"
#include "data/index.h"
#include "data/origin.h"
#include "data/parse.h"
#include "data/rowcache.h"
#include "fabric/routes.h"
#include "job/hosts.h"
#include "job/job.h"
#include "job/jobtext.h"
#include "lead/order.h"
#include "param/layout.h"
#include "param/stream.h"
#include "plan/usage.h"
#include "predict/file.h"
#include "record/drag.h"
#include "record/framer.h"
#include "record/record.h"
#include "run/said.h"
#include "run/sup.h"
#include "shard/queue.h"
#include "shard/scan.h"
#include "sim/sim.h"
#include "solve/balance_log.h"
#include "solve/decision.h"
#include "solve/snapshot.h"
#include "straggle/schedule.h"
#include "survey/survey.h"
#include "wire/answers.h"

#include <event2/event.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

static struct record record; /* one at a time */
static struct error why;

void fuzz_must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz: %s: %s\n", what, why.text);
	abort();
}

/* ---- checksums that fit; linked with --wrap ---- */

static int sums_fit;

XXH64_hash_t __real_XXH3_64bits(const void *data, size_t len);
XXH64_hash_t __real_XXH3_64bits_withSeed(const void *data, size_t len, XXH64_hash_t seed);
XXH64_hash_t __real_XXH3_64bits_digest(const XXH3_state_t *state);
XXH64_hash_t __wrap_XXH3_64bits(const void *data, size_t len);
XXH64_hash_t __wrap_XXH3_64bits_withSeed(const void *data, size_t len, XXH64_hash_t seed);
XXH64_hash_t __wrap_XXH3_64bits_digest(const XXH3_state_t *state);

XXH64_hash_t __wrap_XXH3_64bits(const void *data, size_t len)
{
	return sums_fit ? 0 : __real_XXH3_64bits(data, len);
}

XXH64_hash_t __wrap_XXH3_64bits_withSeed(const void *data, size_t len, XXH64_hash_t seed)
{
	return sums_fit ? 0 : __real_XXH3_64bits_withSeed(data, len, seed);
}

XXH64_hash_t __wrap_XXH3_64bits_digest(const XXH3_state_t *state)
{
	return sums_fit ? 0 : __real_XXH3_64bits_digest(state);
}

/* ---- files ---- */

static char dir[64];

static void fuzz_remove_dir(void)
{
	fs_remove_tree(dir, NULL);
}

const char *fuzz_dir(void)
{
	if (!*dir) {
		snprintf(dir, sizeof dir, "/dev/shm/paceline-fuzz.XXXXXX");
		fuzz_must(mkdtemp(dir) != NULL, "mkdtemp");
		atexit(fuzz_remove_dir);
	}
	return dir;
}

const char *fuzz_path(char out[128], const char *name)
{
	snprintf(out, 128, "%s/%s", fuzz_dir(), name);
	return out;
}

static const char *fuzz_file(char out[128], const char *name, const void *data, size_t size)
{
	fuzz_path(out, name);
	int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	fuzz_must(fd >= 0 && write(fd, data, size) == (ssize_t)size, "write");
	close(fd);
	return out;
}

static int fuzz_memory(const void *data, size_t size)
{
	static int fd = -1; /* the same each time: its pages are there */
	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	fuzz_must(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size && ftruncate(fd, (off_t)size) == 0, "memfd");
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* Whether there is a next record; bad lines are passed over. */
static int fuzz_next(struct record_walk *walk)
{
	int got;
	while ((got = record_next(walk, &record, &why)) < 0)
		;
	return got == RECORD_ONE;
}

static struct record_walk fuzz_walk(const uint8_t *data, size_t size)
{
	return record_walk((const char *)data, size);
}

/* ---- records ---- */

static void fuzz_record(const uint8_t *data, size_t size)
{
	static struct record again;
	struct record_walk walk = fuzz_walk(data, size);
	while (fuzz_next(&walk)) {
		static char line[RECORD_LINE_MAX];
		struct record_out o;
		record_begin(&o, line, sizeof line, record.type);
		record_add_fields(&o, &record, NULL);
		size_t len = record_end(&o, record.text);
		if (len == 0) /* encoded it is longer */
			continue;
		fuzz_must(record_parse(&again, line, len - 1, &why) == 0, "a record that was written is refused");
		fuzz_must(again.count == record.count && record_is(&again, record.type), "it has become another");
		for (size_t i = 0; i < record.count; i++) {
			const char *key = record.field[i].key, *text;
			uint64_t u;
			double x;
			fuzz_must(strcmp(again.field[i].key, key) == 0 &&
					  strcmp(again.field[i].value, record.field[i].value) == 0,
				  "a field has become another");
			record_id(&record, key, &text, &why);
			record_u64(&record, key, 0, UINT64_MAX, &u, &why);
			if (record_real(&record, key, -1e300, 1e300, &x, &why) == 0) {
				char shown[32];
				double y = 0;
				number_format_real(x, shown);
				fuzz_must(number_real(shown, -1e300, 1e300, &y, "x", &why) == 0 && x == y,
					  "a number has become another");
			}
			number_seconds(record.field[i].value, 0, 1e9, &x, "x", &why);
			number_bytes(record.field[i].value, 0, UINT64_MAX, &u, "x", &why);
		}
		struct drag drag;
		drag_fields(&record, &drag, &why);
	}
}

static void fuzz_drag(const uint8_t *data, size_t size)
{
	struct drag d;
	if (drag_parse((const char *)data, size, &d, &why) == 0) {
		fuzz_must(drag_pause(&d, 7, 3, 0.1) >= 0, "a drag that hastens");
		drag_fits(&d, 7, &why);
		struct drag again;
		struct record_out *o = RECORD_BARE("drag");
		drag_add(o, &d);
		size_t len = record_end(o, NULL);
		fuzz_must(len > 0 && drag_parse(o->data, len, &again, &why) == 0, "a drag that was written is refused");
	}
}

static void fuzz_reader(const uint8_t *data, size_t size)
{
	int fd = fuzz_memory(data, size);
	struct record_reader *in = record_reader_new(fd, "fuzz");
	if (size > 0 && data[0] & 1)
		record_reader_of_log(in);
	/* A bad line does not end it. */
	for (size_t i = 0; i <= size + 1; i++)
		if (record_read(in, &record, &why) == RECORD_END)
			break;
	record_reader_torn(in);
	record_reader_free(in);
}

/* Lines and payloads in pieces of any length are those of the whole. */
static void fuzz_framer(const uint8_t *data, size_t size)
{
	static char buffer[256];
	struct framer f = {0};
	size_t at = 0, step = size ? 1 + data[0] % 61 : 1;
	framer_lend(&f, buffer, sizeof buffer);
	while (at < size) {
		struct iovec piece[2];
		char direct[64];
		size_t n = framer_pieces(&f, direct, sizeof direct, piece), came = 0;
		for (size_t i = 0; i < n && came < step && at < size; i++) {
			size_t take = piece[i].iov_len;
			take = take < step - came ? take : step - came;
			take = take < size - at ? take : size - at;
			memcpy(piece[i].iov_base, data + at, take);
			at += take;
			came += take;
			if (take < piece[i].iov_len)
				break;
		}
		framer_came(&f, came);
		if (n == 0 && f.due == 0) {
			const char *line;
			size_t len;
			if (framer_line(&f, sizeof buffer, &line, &len) != FRAMER_LINE)
				break;
		}
		for (;;) {
			const char *line;
			size_t len;
			if (f.due > 0) {
				if (framer_take(&f, NULL, sizeof buffer) == 0)
					break;
				continue;
			}
			if (framer_line(&f, 128, &line, &len) != FRAMER_LINE)
				break;
			if (len > 1 && line[0] == '+')
				framer_expect(&f, (uint64_t)(unsigned char)line[1]);
		}
		if (framer_left(&f) >= 128 && f.due == 0 && !framer_has_line(&f))
			break; /* too long */
		if (at % 3 == 0 && framer_return(&f) == 0)
			framer_lend(&f, buffer, sizeof buffer);
	}
	framer_clear(&f);
}

/* ---- the job ---- */

static int fuzz_set(const char *key, const char *value, size_t line, void *job, struct error *err)
{
	char place[32];
	static char text[4096];
	snprintf(place, sizeof place, "job:%zu", line);
	if (strlen(value) < 1000)
		fuzz_must(jobtext_format(key, value, text, sizeof text) > 0, "a value has no text");
	return job_set(job, key, value, place, err);
}

static void fuzz_job(const uint8_t *data, size_t size)
{
	static struct job job;
	fuzz_must(job_init(&job, &why) == 0, "job_init");
	if (jobtext_parse("job", (const char *)data, size, fuzz_set, &job, &why) == 0 &&
	    job_finish(&job, "job", &why) == 0) {
		char keys[JOB_KEYS_MAX];
		fuzz_must(job_compare(&job, &job, 0, keys) == JOB_SAME, "a job is not the same as itself");
	}
	job_free(&job);
}

/* Names of hosts, a blank, and where workers are. */
static void fuzz_hosts(const uint8_t *data, size_t size)
{
	static struct job job;
	static struct hosts_environment env;
	char *text = strndup((const char *)data, size), *rest = text, *line[3] = {NULL};
	struct hosts h;
	for (int i = 0; i < 3; i++)
		line[i] = strsep(&rest, "\n");
	if (!env.search_path) { /* it is only looked for */
		char path[128];
		env.search_path = fuzz_dir();
		fuzz_must(chmod(fuzz_file(path, "node-host", "", 0), 0700) == 0, "chmod");
	}
	fuzz_must(job_init(&job, &why) == 0, "job_init");
	if (line[2] && job_set(&job, "HOSTS", line[0], "fuzz", &why) == 0 &&
	    job_set(&job, "PLACE", line[1], "fuzz", &why) == 0 &&
	    job_set(&job, "WORKERS", line[2], "fuzz", &why) == 0 && hosts_find(&h, &job, &env, &why) == 0) {
		for (uint64_t i = 0; i < job.workers && i < 2000; i++)
			fuzz_must(hosts_worker(&h, i) < h.count && hosts_holder(&h, i) < h.count,
				  "a host that there is not");
		hosts_free(&h);
	}
	job_free(&job);
	free(text);
}

/* ---- what a job leaves behind ---- */

static void fuzz_nothing(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what, (void)arg;
}

/* Of a job with two servers and three workers, of which nothing runs. */
static void fuzz_nothing_due(void *arg)
{
	(void)arg;
}

static struct supervisor *fuzz_supervisor(void)
{
	static struct job job;
	if (!job.batch_scaling)
		fuzz_must(job_init(&job, &why) == 0 && job_set(&job, "JOB", "j", "fuzz", &why) == 0 &&
				  job_set(&job, "WORKERS", "3", "fuzz", &why) == 0 &&
				  job_set(&job, "SERVERS", "2", "fuzz", &why) == 0,
			  "job");
	struct supervisor *s = calloc(1, sizeof *s);
	s->job = &job;
	s->log.file.fd = -1;
	s->base = event_base_new();
	s->phases.kick = event_new(s->base, -1, 0, fuzz_nothing, s);
	s->phases.retry = timer_new(s->base, fuzz_nothing_due, s);
	s->scale.now = s->scale.from = (struct sup_sizes){job.workers, job.servers};
	snprintf(s->dirs.state, sizeof s->dirs.state, "%s", fuzz_dir());
	fuzz_must(sup_hosts_init(s, &why) == 0 && sup_roster_fill(s, &why) == 0, "sup_roster_fill");
	return s;
}

static void fuzz_supervisor_end(struct supervisor *s)
{
	sup_log_close(s);
	sup_roster_free(s);
	sup_hosts_free(s);
	event_free(s->phases.kick);
	timer_free(s->phases.retry);
	event_base_free(s->base);
	free(s);
}

static void fuzz_kept(const uint8_t *data, size_t size)
{
	struct supervisor *s = fuzz_supervisor();
	char path[128];
	fuzz_file(path, DIRS_KEPT, data, size);
	if (sup_kept_read(s, KEPT_TIME, KEPT_IN_FORCE, &why) == 0)
		free(sup_in_force_lines(s));
	sup_kept_free(s);
	sup_in_force_free(s);
	fuzz_supervisor_end(s);
}

/* What is asked of a running job. Its phases do not go on, so that nothing is started or killed. */
static void fuzz_trainctl(const uint8_t *data, size_t size)
{
	static const char *const others[] = {"kill", "kill-restart", NULL};
	static struct verb verbs[64];
	char path[128];
	struct server *server;
	if (size < 1)
		return;
	struct supervisor *s = fuzz_supervisor();
	s->phases.now = data[0] & 1 ? PHASE_RUNNING : PHASE_SERVICES;
	fuzz_path(path, "trainctl.sock");
	fuzz_must(sup_verb_count <= sizeof verbs / sizeof *verbs, "too many verbs");
	memcpy(verbs, sup_verbs, sup_verb_count * sizeof *verbs);
	fuzz_tame(verbs, sup_verb_count, others);
	const struct server_options options = {
		.path = path, .role = "trainctl", .verbs = verbs, .verb_count = sup_verb_count, .owner = s};
	fuzz_must(server_new(&server, &options, &why) == 0 && server_listen(server, &why) == 0, "server_new");
	fuzz_talk(server, path, data + 1, size - 1);
	sup_answer_all(s);
	sup_scale_over(s);
	server_free(server);
	fuzz_supervisor_end(s);
}

static void fuzz_tell(const char *line, void *arg)
{
	(void)line, (void)arg;
}

static void fuzz_account(const uint8_t *data, size_t size)
{
	struct account *a;
	fuzz_must(account_new(&a, fuzz_tell, NULL, &why) == 0, "account_new");
	struct record_walk walk = fuzz_walk(data, size);
	while (fuzz_next(&walk))
		account_take(a, &record, &why);
	account_end(a);
	double seconds = account_seconds(a);
	fuzz_must(seconds >= 0 && account_at(a, seconds / 2) >= 0, "a job that ended before it began");
	for (size_t i = 0; i < a->nodes; i++)
		for (int state = ACCOUNT_AWAY; state <= ACCOUNT_AGAIN; state++)
			fuzz_must(account_state_seconds(&a->node[i], (enum account_state)state) >= 0,
				  "less than no time");
	account_free(a);
}

static void fuzz_said(const uint8_t *data, size_t size)
{
	char out[SAID_MAX];
	char *text = strndup((const char *)data, size), *again = strndup((const char *)data, size);
	said_end(text, out);
	fuzz_must(strlen(out) < SAID_MAX, "too long");
	said_stack(again, out);
	fuzz_must(strlen(out) < SAID_MAX, "too long");
	free(text);
	free(again);
}

/* ---- rows ---- */

static const char *rows_name = "fuzz";

static void fuzz_rows(const uint8_t *data, size_t size, struct schema_options options, const char *lists)
{
	struct schema *s;
	struct row_stream *in;
	if (size < 1)
		return;
	unsigned how = data[0];
	data++, size--;
	options.labels = (const char *const[]){"binary", "class", "real", NULL}[how & 3];
	options.dense_scale = how & 4 ? "none" : "log-z";
	options.hash_bits = 5;
	if (how & 8)
		options.positive = "yes";
	if (lists) {
		options.label = "y";
		options.dense = "a,b";
		options.sparse = "c,d";
		options.missing = how & 16 ? "NA,?" : NULL;
		options.weight = how & 32 ? "w" : NULL;
	}
	if (schema_new(&s, &options, &why) != 0)
		return;
	int fd = fuzz_memory(data, size);
	struct row_stream_options stream = {.name = rows_name,
					    .bad_rows_max = how & 64 ? 1000 : 0,
					    .label_optional = how >> 7 & 1};
	if (row_stream_open(&in, s, fd, &stream, &why) == 0) {
		struct rows rows = {0};
		while (row_stream_read(in, 16, &rows, &why) == 0 && rows.count > 0)
			for (size_t i = 0; i < rows.count; i++)
				for (size_t k = rows.offset[i]; k < rows.offset[i + 1]; k++)
					fuzz_must(rows.key[k] < 32 || options.format[0] == 'b',
						  "a key beyond hash_bits");
		rows_free(&rows);
		row_stream_close(in);
	}
	schema_free(s);
}

static void fuzz_csv(const uint8_t *data, size_t size)
{
	fuzz_rows(data, size, (struct schema_options){.format = "csv"}, "");
}

static void fuzz_tsv(const uint8_t *data, size_t size)
{
	fuzz_rows(data, size, (struct schema_options){.format = "tsv"}, "");
}

static void fuzz_libsvm(const uint8_t *data, size_t size)
{
	fuzz_rows(data, size, (struct schema_options){.format = "libsvm"}, NULL);
}

static void fuzz_criteo(const uint8_t *data, size_t size)
{
	fuzz_rows(data, size, (struct schema_options){.format = "criteo"}, NULL);
}

static void fuzz_bag(const uint8_t *data, size_t size)
{
	fuzz_rows(data, size, (struct schema_options){.format = "bag"}, NULL);
}

/* Labels of an idx file stand before it, and a form feed between them. */
static void fuzz_images(const uint8_t *data, size_t size)
{
	static char images[128];
	char labels[128];
	const uint8_t *end = size > 0 && !(data[0] & 48) ? memchr(data + 1, '\f', size - 1) : NULL;
	if (end) {
		static uint8_t rest[1 << 14];
		size_t left = size - (size_t)(end - data);
		if (left > sizeof rest)
			return;
		fuzz_file(labels, "labels", data + 1, (size_t)(end - data) - 1);
		memcpy(rest, end, left);
		rest[0] = data[0];
		rows_name = fuzz_path(images, "images");
		fuzz_rows(rest, left, (struct schema_options){.format = "idx", .pixels = 4}, NULL);
		rows_name = "fuzz";
	} else if (size > 0) {
		fuzz_rows(data, size, (struct schema_options){.format = data[0] & 16 ? "cifar10" : "cifar100", .pixels = 4}, NULL);
	}
}

static void fuzz_survey(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"survey.csv", "survey.tsv", "survey.libsvm", "survey"};
	char path[128], classes[SURVEY_CLASSES_MAX];
	struct survey s;
	struct survey_label label[SURVEY_LABELS_MAX];
	if (size < 1)
		return;
	if (survey_file(&s, fuzz_file(path, names[data[0] & 3], data + 1, size - 1), 1 << 16, &why) != 0)
		return;
	size_t count = survey_labels(&s, label);
	for (size_t i = 0; i < s.count; i++) {
		struct column_verdict verdict;
		column_judge(&s.column[i], &verdict);
		column_rare(&s.column[i], &verdict);
	}
	for (size_t i = 0; i < count; i++) {
		fuzz_must(label[i].column < s.count, "a column that there is not");
		survey_classes(&s.column[label[i].column], classes);
		survey_positive(&s.column[label[i].column]);
		survey_sorted(&s.column[label[i].column]);
		if (i == 0)
			survey_tells(&s, path, label[i].column, NULL, &why);
	}
	survey_column(&s, path, "y", &why);
	survey_free(&s);
}

/* The index of a text, and each row by its number as it comes in order. Returns whether there was one. */
static int fuzz_index_of(const void *data, size_t size, struct row_syntax syntax)
{
	static char path[128];
	static char row[64][64];
	static size_t len[64];
	struct source *source;
	struct index *ix = NULL;
	struct rowscan scan = {0};
	struct row_ref ref;
	size_t rows = 0;
	fuzz_file(path, "data", data, size);
	if (source_open(&source, path, &why) != 0)
		return 0;
	const struct index_bounds bounds = {.every = 2, .places_max = 8, .span = 64, .points_max = 8};
	int is = index_build_within(&ix, source, syntax, &bounds, NULL, NULL, &why) == 0;
	source_close(source);
	if (!is)
		return 0;
	if (source_open(&source, path, &why) == 0 && rowscan_init(&scan, syntax, &why) == 0 &&
	    rowscan_start(&scan, source, 1, &why) == 0) {
		/* Not the header of a csv. */
		if (syntax.format == ROW_CSV && ix->rows > 0)
			rowscan_next(&scan, &ref, 0, &why);
		while (rows < 64 && rows < ix->rows && rowscan_next(&scan, &ref, 0, &why) == ROWSCAN_ROW) {
			len[rows] = ref.len;
			memcpy(row[rows++], ref.data, ref.len < 64 ? ref.len : 64);
		}
		for (size_t i = rows; i-- > 0;) {
			uint64_t at = 0;
			fuzz_must(index_seek(ix, source, &scan, i, &at, &why) == 0, "a row can't be found");
			fuzz_must(at <= i, "a place behind its row");
			for (; at <= i; at++)
				fuzz_must(rowscan_next(&scan, &ref, 0, &why) == ROWSCAN_ROW, "a row is missing");
			fuzz_must(ref.len == len[i] && memcmp(ref.data, row[i], ref.len < 64 ? ref.len : 64) == 0,
				  "a row by its number is another");
		}
		source_close(source);
	}
	rowscan_free(&scan);
	index_free(ix);
	return 1;
}

static void fuzz_packed_file(const uint8_t *data, size_t size)
{
	fuzz_index_of(data, size, row_syntax(ROW_LINES));
}

/* Text that is packed here, whole or with one byte changed: plain bytes never get behind the checksums. */
static void fuzz_packed(const uint8_t *data, size_t size)
{
	static uint8_t out[1 << 17];
	static const enum row_format formats[] = {ROW_LINES, ROW_CSV, ROW_LIBSVM, ROW_BAG};
	if (size < 4 || size > 1 << 15)
		return;
	unsigned how = data[0];
	size_t cut = data[1], bytes = 0, half = (size - 4) * (data[3] % 5) / 4;
	size_t harm = data[2];
	struct row_syntax syntax = row_syntax(formats[how >> 1 & 3]);
	data += 4, size -= 4;
	const struct {
		const uint8_t *data;
		size_t size;
	} piece[2] = {{data, half}, {data + half, size - half}};
	for (int i = 0; i < 2; i++)
		if (how & 1) {
			size_t n = ZSTD_compress(out + bytes, sizeof out - bytes, piece[i].data, piece[i].size, 1);
			bytes += ZSTD_isError(n) ? 0 : n;
		} else {
			z_stream z = {0};
			deflateInit2(&z, (int)(1 + how % 9), Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
			z.next_in = (Bytef *)(uintptr_t)piece[i].data;
			z.avail_in = (uInt)piece[i].size;
			z.next_out = out + bytes;
			z.avail_out = (uInt)(sizeof out - bytes);
			deflate(&z, Z_FINISH);
			bytes += z.total_out;
			deflateEnd(&z);
		}
	int is_whole = 1;
	if (how & 64 && cut > 0 && cut < bytes) {
		bytes -= cut;
		is_whole = 0;
	}
	if (how & 128 && bytes > 0) {
		out[harm % bytes] ^= (uint8_t)(1u << (how & 7));
		is_whole = 0;
	}
	/* (A text may be no csv, but a whole file of lines has an index.) */
	fuzz_must(fuzz_index_of(out, bytes, syntax) || !is_whole || syntax.format != ROW_LINES,
		  "a whole packed file is refused");
}

static void fuzz_index_text(const uint8_t *data, size_t size)
{
	static const enum row_format formats[] = {ROW_LINES, ROW_CSV, ROW_LIBSVM, ROW_BAG, ROW_CRITEO};
	if (size > 0)
		fuzz_index_of(data + 1, size - 1, row_syntax(formats[data[0] % 5]));
}

static void fuzz_index(const uint8_t *data, size_t size)
{
	char path[128], other[128];
	struct index *ix, *again;
	if (index_read(&ix, fuzz_file(path, "rowidx", data, size), 1, &why) != 0)
		return;
	if (ix->point_count == 0 && index_write(ix, fuzz_path(other, "rowidx2"), &why) == 0) {
		fuzz_must(index_read(&again, other, 1, &why) == 0, "an index that was written is refused");
		fuzz_must(index_same(ix, again, &why), "it has become another");
		index_free(again);
	}
	index_free(ix);
}

static void fuzz_schema(const uint8_t *data, size_t size)
{
	char path[128], other[128];
	struct schema *s, *again = NULL;
	if (schema_read(&s, fuzz_file(path, "schema", data, size), &why) != 0)
		return;
	fuzz_must(schema_write(s, fuzz_path(other, "schema2"), &why) == 0 && schema_read(&again, other, &why) == 0,
		  "a schema that was written is refused");
	fuzz_must(schema_equal(s, again, &why), "it has become another");
	schema_free(again);
	schema_free(s);
}

static void fuzz_origin(const uint8_t *data, size_t size)
{
	char path[128];
	struct origin origin;
	const struct origin_files files = {.file = (const char *const[]){"/nowhere"}, .count = 1};
	fuzz_file(path, "origin", data, size);
	origin_read(path, &origin, &why);
	origin_check(path, &files, &why);
}

static void fuzz_rowcache(const uint8_t *data, size_t size)
{
	char path[128];
	struct schema *s;
	struct rowcache *cache;
	if (size < 1)
		return;
	const struct schema_options options = {.format = data[0] & 1 ? "criteo" : "libsvm", .dense_scale = "none",
					       .hash_bits = 5};
	if (schema_new(&s, &options, &why) != 0)
		return;
	struct rowcache_seal seal = {.rows = data[0] >> 1, .owner = getuid()};
	/* The head has its record, and zeros, in 4096 bytes: here the newline ends it. */
	const uint8_t *end = memchr(data + 1, '\n', size - 1);
	size_t head = end ? (size_t)(end - data) : 0;
	static uint8_t file[1 << 16];
	if (end && head < 4096 && size - head - 1 < sizeof file - 4096) {
		memset(file, 0, 4096);
		memcpy(file, data + 1, head);
		memcpy(file + 4096, end + 1, size - head - 1);
		if (rowcache_open(&cache, fuzz_file(path, "rowcache", file, 4096 + size - head - 1), s, &seal, &why) == 0) {
			struct rows rows = {0};
			for (uint64_t begin = 0, length; begin < seal.rows; begin += length) {
				uint64_t most = seal.rows - begin < begin % 5 + 1 ? seal.rows - begin : begin % 5 + 1;
				length = most;
				rows_begin(&rows, s);
				int got = rowcache_read(cache, begin, &length, begin, &rows, &why);
				fuzz_must(length > 0 && length <= most, "a length that is none");
				for (size_t i = 0; got > 0 && i < rows.count; i++)
					fuzz_must(rows.offset[i] <= rows.offset[i + 1], "a row that ends before it begins");
				rowcache_rest(cache);
			}
			rows_free(&rows);
			rowcache_close(cache);
		}
	}
	schema_free(s);
}

/* ---- shards ---- */

struct fuzz_text {
	char *data;
	size_t len, room;
};

static void fuzz_gather(void *arg, const char *line, size_t len)
{
	struct fuzz_text *t = arg;
	if (t->len + len + 1 > t->room) {
		t->room = 2 * (t->len + len + 1);
		t->data = realloc(t->data, t->room);
	}
	memcpy(t->data + t->len, line, len);
	t->len += len;
	t->data[t->len++] = '\n';
}

static int fuzz_load(void *loader, const char *line, size_t len, struct error *err)
{
	return queue_loader_line(loader, line, len, err);
}

/* What was loaded says the same of itself, and is loaded again. */
static void fuzz_reload(struct queue_loader *l)
{
	struct queue *q, *again;
	if (queue_loader_finish(l, &q, &why) != 0)
		return;
	struct fuzz_text text = {0}, other = {0};
	queue_write(q, fuzz_gather, &text);
	l = queue_loader_new(NULL);
	for (char *at = text.data; at < text.data + text.len;) {
		char *end = memchr(at, '\n', text.len - (size_t)(at - text.data));
		fuzz_must(queue_loader_line(l, at, (size_t)(end - at), &why) >= 0, "a state that was written is refused");
		at = end + 1;
	}
	fuzz_must(queue_loader_finish(l, &again, &why) == 0, "a state that was written is not whole");
	queue_write(again, fuzz_gather, &other);
	fuzz_must(text.len == other.len && memcmp(text.data, other.data, text.len) == 0, "it has become another");
	free(text.data);
	free(other.data);
	queue_free(q);
	queue_free(again);
}

static void fuzz_state(const uint8_t *data, size_t size)
{
	struct queue_loader *l = queue_loader_new(NULL);
	const char *at = (const char *)data, *end = at + size, *newline;
	for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1)
		if (queue_loader_line(l, at, (size_t)(newline - at), &why) < 0) {
			queue_loader_free(l);
			return;
		}
	fuzz_reload(l);
}

static void fuzz_journal(const uint8_t *data, size_t size)
{
	struct scan scan;
	struct queue_loader *l = queue_loader_new(NULL);
	if (scan_lines((const char *)data, size, "journal", fuzz_load, l, &scan, &why) == 0) {
		fuzz_must(scan.end <= size, "an end behind the end");
		fuzz_reload(l);
	} else {
		queue_loader_free(l);
	}
}

/* Changes of a queue, as clients ask for them; then its log makes the same queue. */
static void fuzz_queue(const uint8_t *data, size_t size)
{
	static const struct queue_parameters parameters = {.samples = 60, .batch = 4, .batches = 3, .epochs = 2,
							   .shuffle = QUEUE_SHUFFLE_SHARDS};
	struct queue *q;
	struct fuzz_text log = {0}, state = {0}, again = {0};
	fuzz_must(queue_new(&q, &parameters, &why) == 0, "queue_new");
	queue_write(q, fuzz_gather, &log);
	queue_set_log(q, fuzz_gather, &log);
	struct record_walk walk = fuzz_walk(data, size);
	double now = 1;
	while (fuzz_next(&walk)) {
		struct queue_change c = {.begin = QUEUE_UNSAID};
		const struct queue_kind *kind = queue_kind(record.type);
		queue_clock(q, now, now);
		now += 1;
		if (kind && fields_read(kind->fields, &record, &c, &why) == 0 && strcmp(record.type, "time") != 0)
			queue_make(q, kind, &c, &why);
	}
	struct queue_loader *l = queue_loader_new(&parameters);
	struct queue *loaded;
	for (char *at = log.data; at < log.data + log.len;) {
		char *end = memchr(at, '\n', log.len - (size_t)(at - log.data));
		fuzz_must(queue_loader_line(l, at, (size_t)(end - at), &why) >= 0, "a line of the log is refused");
		at = end + 1;
	}
	fuzz_must(queue_loader_finish(l, &loaded, &why) == 0, "the log is not whole");
	struct queue_stat a, b;
	queue_stat(q, &a);
	queue_stat(loaded, &b);
	fuzz_must(a.todo == b.todo && a.doing == b.doing && a.held == b.held && a.samples_done == b.samples_done &&
			  a.incarnation == b.incarnation,
		  "its log makes another queue");
	free(log.data);
	free(state.data);
	free(again.data);
	queue_free(q);
	queue_free(loaded);
}

/* ---- checkpoints ---- */

static void fuzz_manifest(const uint8_t *data, size_t size)
{
	static struct ckpt_manifest m;
	char path[128];
	fuzz_file(path, "MANIFEST", data, size);
	if (ckpt_manifest_read(&m, fuzz_dir(), &why) == 0) {
		static char where[CKPT_PATH_MAX];
		const struct ckpt_saved *saved = ckpt_find_saved(&m, "w0");
		if (saved)
			ckpt_check_saved(&m, fuzz_dir(), saved, where, sizeof where, &why);
	}
	ckpt_manifest_free(&m);
	struct ckpt *c;
	if (ckpt_open(&c, fuzz_dir(), &why) == 0)
		ckpt_close(c);
	unlink(path);
}

static void fuzz_bad(const char *place, const char *text, void *arg)
{
	(void)place, (void)text, (void)arg;
}

static void fuzz_part(const uint8_t *data, size_t size)
{
	char path[128];
	struct part_reader *p;
	if (part_open(&p, fuzz_file(path, "part-0", data, size), &why) == 0) {
		part_verify(p, fuzz_bad, NULL);
		part_close(p);
	}
}

struct fuzz_bytes {
	const uint8_t *data;
	size_t size;
};

static int fuzz_give(void *arg, void *to, size_t bytes, struct error *err)
{
	struct fuzz_bytes *b = arg;
	if (bytes > b->size)
		return error_set(err, ERROR_DATA, NULL, "no more");
	memcpy(to, b->data, bytes);
	b->data += bytes;
	b->size -= bytes;
	return 0;
}

static int fuzz_dense(void *owner, int slot, uint64_t begin, size_t count, const float *values, struct error *err)
{
	(void)owner, (void)slot, (void)begin, (void)err;
	fuzz_must(stream_not_finite(values, count) == count, "a value that is not finite");
	return 0;
}

static int fuzz_take_rows(void *owner, size_t rows, const uint32_t *keys, const float *values,
			  const float *const *slots, struct error *err)
{
	(void)owner, (void)slots, (void)err;
	fuzz_must(rows == 0 || (keys && isfinite(values[0])), "rows that are none");
	return 0;
}

static void fuzz_stream(const uint8_t *data, size_t size)
{
	struct stream_reader *reader = stream_reader_new();
	struct fuzz_bytes left = {data, size};
	const struct stream_source source = {fuzz_give, &left};
	const struct stream_taker taker = {.dense = fuzz_dense, .rows = fuzz_take_rows, .slots = 1};
	const uint8_t *newline;
	while ((newline = memchr(left.data, '\n', left.size))) {
		struct stream_block b;
		size_t len = (size_t)(newline - left.data);
		int bad = record_parse(&record, (const char *)left.data, len, &why) != 0;
		left.data += len + 1;
		left.size -= len + 1;
		if (bad)
			break;
		int kind = stream_record(reader, &record, &b, &why);
		if (kind < 0 || (kind == STREAM_BLOCK && stream_read(reader, &b, &source, &taker, &why) != 0))
			break;
	}
	stream_complete(reader, &why);
	stream_reader_free(reader);
}

static void fuzz_left_out(const char *name, void *arg)
{
	(void)name, (void)arg;
}

static void fuzz_safetensors(const uint8_t *data, size_t size)
{
	char file[128], out[128];
	/* Its first line is the header, so that its length need not be guessed. */
	static uint8_t whole[1 << 16];
	const uint8_t *end = memchr(data, '\n', size);
	uint64_t head = end ? (uint64_t)(end - data) : 0;
	if (size + 8 > sizeof whole)
		return;
	if (end && head > 8) {
		memcpy(whole, &head, 8);
		memcpy(whole + 8, data, head);
		memcpy(whole + 8 + head, end + 1, size - head - 1);
		size += 7;
	} else {
		memcpy(whole, data, size);
	}
	const struct ckpt_import how = {.file = fuzz_file(file, "safetensors", whole, size),
					.out = fuzz_path(out, "imported"), .parts = 2, .level = 1,
					.left_out = fuzz_left_out};
	if (ckpt_import(&how, &why) == 0) {
		fuzz_must(ckpt_verify(out, fuzz_bad, NULL, &why) == 0, "what was imported is damaged");
		fuzz_must(fs_remove_tree(out, &why) == 0, "can't be removed");
	} else {
		fuzz_must(access(out, F_OK) != 0, "half of an import is left");
	}
}

static void fuzz_layout(const uint8_t *data, size_t size)
{
	static struct layout l, again;
	char path[128], other[128];
	if (layout_read(&l, fuzz_file(path, "layout", data, size), &why) != 0)
		return;
	fuzz_must(layout_write(&l, fuzz_path(other, "layout2"), &why) == 0 && layout_read(&again, other, &why) == 0,
		  "a layout that was written is refused");
	fuzz_must(again.count == l.count && layout_dense_count(&again) == layout_dense_count(&l), "it has become another");
}

/* ---- decisions ---- */

static int fuzz_take_action(const struct action *a, void *arg, struct error *err)
{
	char line[RECORD_LINE_MAX];
	struct action again;
	(void)arg;
	size_t len = action_format(a, line, sizeof line);
	fuzz_must(len > 0 && record_parse(&record, line, len - 1, err) == 0 && action_parse(&again, &record, err) == 0,
		  "an action that was decided is refused");
	return 0;
}

static void fuzz_snapshot(const uint8_t *data, size_t size)
{
	static struct snapshot s;
	struct solution_options options;
	snapshot_init(&s);
	struct record_walk walk = fuzz_walk(data, size);
	while (fuzz_next(&walk))
		snapshot_add(&s, &record, &why);
	if (snapshot_check(&s, &why) == 0) {
		for (const struct solution *x = solution_table(); x->name; x++) {
			solution_options_init(&options);
			solution_decide(x, &s, &options, fuzz_take_action, NULL, &why);
		}
		for (size_t at = 0; snapshot_info_wrong(&s, &at);)
			;
	}
	snapshot_clear(&s);
}

static void fuzz_actions(const uint8_t *data, size_t size)
{
	struct decision d = {0};
	if (decision_parse(&d, (const char *)data, size, &why) == 0) {
		const struct decision_rules rules[] = {{.workers = 3, .has_rate = 1},
						       {.workers = 1, .is_balanced = 1, .no_backup = "asp"}};
		size_t count;
		for (size_t i = 0; i < d.count; i++) {
			for (int k = 0; k < 4; k++) {
				const char *word = action_nonsense(&d.item[i], &rules[k & 1], k & 2);
				fuzz_must(!word || *action_nonsense_words(word), "a reason without words");
			}
			fuzz_take_action(&d.item[i], NULL, &why);
		}
		free(decision_lead_lines(&d, ACTIONS_BYTES_MAX, &count, &why));
	}
	decision_free(&d);
}

static void fuzz_say(const char *text, size_t len, void *arg)
{
	(void)text, (void)len, (void)arg;
}

static void fuzz_balance(const uint8_t *data, size_t size)
{
	struct balance_replay *b;
	fuzz_must(balance_replay_new(&b, NULL, fuzz_say, NULL, &why) == 0, "balance_replay_new");
	struct record_walk walk = fuzz_walk(data, size);
	int bad = 0;
	while (!bad && fuzz_next(&walk))
		bad = balance_replay_record(b, &record, &why) != 0;
	if (!bad)
		balance_replay_end(b, &why);
	balance_replay_free(b);
}

static void fuzz_usage(const uint8_t *data, size_t size)
{
	struct usage u = {0};
	struct record_walk walk = fuzz_walk(data, size);
	while (fuzz_next(&walk))
		if (record_is(&record, "job"))
			usage_take_job(&u, &record, &why);
		else
			usage_take_node(&u, &record, &why);
	usage_clear(&u);
}

/* ---- clusters, patterns ---- */

static int fuzz_put(const char *line, size_t len, void *count, struct error *err)
{
	fuzz_must(len > 0 && line[len - 1] == '\n', "no whole line");
	return ++*(unsigned *)count > 2000 ? error_set(err, ERROR_OS, NULL, "enough") : 0;
}

static void fuzz_cluster(const uint8_t *data, size_t size)
{
	struct sim *s;
	unsigned lines = 0;
	struct sim_result result;
	const struct sim_options options = {.until = 50, .put = fuzz_put, .arg = &lines};
	fuzz_must(sim_new(&s, &options, &why) == 0, "sim_new");
	struct record_walk walk = fuzz_walk(data, size);
	int bad = 0;
	while (!bad && fuzz_next(&walk)) {
		uint64_t nodes = 0, epochs = 0, samples = 0;
		/* What is meant to be large costs time as it should. */
		record_u64_opt(&record, "workers", 0, UINT64_MAX, &nodes, NULL);
		record_u64_opt(&record, "epochs", 0, UINT64_MAX, &epochs, NULL);
		record_u64_opt(&record, "samples", 0, UINT64_MAX, &samples, NULL);
		bad = nodes > 64 || epochs > 64 || samples > 10000 || sim_add(s, &record, &why) != 0;
	}
	if (!bad)
		sim_run(s, &result, &why);
	sim_free(s);
}

static void fuzz_ask(struct schedule *s)
{
	struct schedule_state state;
	double t = 0;
	for (int i = 0; i < 50 && t < INFINITY; i++) {
		for (size_t slot = 0; slot < schedule_slots(s); slot++) {
			schedule_at(s, slot, t, &state);
			fuzz_must(state.drag.delay >= 0 && !isnan(state.slowdown), "a state that is none");
		}
		double next = schedule_next(s, t);
		fuzz_must(next > t, "a next moment that is not later");
		t = next;
	}
}

static void fuzz_schedule(const uint8_t *data, size_t size, const char *trace)
{
	static const char *const node[] = {"w0", "w1", "w2", "s0"};
	struct schedule *s;
	if (size < 1)
		return;
	const struct schedule_options options = {.seed = 7, .scale = 1, .delay_scale = 1, .intensity = 0.8,
						 .life = data[0] & 1 ? SCHEDULE_EVERY_LIFE : 0,
						 .processes = !trace && data[0] & 2, .node = node, .workers = 3, .servers = 1};
	fuzz_must(schedule_new(&s, &options, &why) == 0, "schedule_new");
	if (trace) {
		static char file[160];
		snprintf(file, sizeof file, "file=%s", trace);
		char *words[] = {"replay", file, "own=1", "nodes=workers"};
		if (schedule_add(s, words, 3, &why) == 0)
			fuzz_ask(s);
	} else {
		char *text = strndup((const char *)data + 1, size - 1), *words[64], *rest = text;
		size_t count = 0;
		while (count < 64 && (words[count] = strsep(&rest, " \n")))
			count++;
		size_t at = 0;
		while (at < count) {
			size_t n = schedule_words(words + at, count - at);
			if (n == 0 || schedule_add(s, words + at, n, &why) != 0)
				break;
			at += n;
		}
		fuzz_ask(s);
		free(text);
	}
	schedule_free(s);
}

static void fuzz_pattern(const uint8_t *data, size_t size)
{
	fuzz_schedule(data, size, NULL);
}

static void fuzz_trace(const uint8_t *data, size_t size)
{
	char path[128];
	if (size > 0)
		fuzz_schedule(data, size, fuzz_file(path, "trace", data + 1, size - 1));
}

/* ---- conversations ---- */

static void fuzz_order(const uint8_t *data, size_t size)
{
	const uint8_t *newline = memchr(data, '\n', size);
	struct order o;
	if (!newline || record_parse(&record, (const char *)data, (size_t)(newline - data), &why) != 0)
		return;
	size_t bytes = size - (size_t)(newline - data) - 1;
	if (order_read(&o, &record, newline + 1, bytes, &why) == 0) {
		size_t head, more;
		free(order_write(&o, &head, &more));
	}
	order_clear(&o);
}

static void fuzz_words(const uint8_t *data, size_t size)
{
	static struct words w;
	int pipes[2];
	if (size > 1 << 15 || pipe2(pipes, O_NONBLOCK | O_CLOEXEC) != 0)
		return;
	fuzz_must(write(pipes[1], data, size) == (ssize_t)size, "pipe");
	close(pipes[1]);
	words_start(&w, -1, pipes[0]);
	int found;
	do
		found = words_read(&w, &record, &why);
	while (found == WORDS_ONE);
	fuzz_must(found != WORDS_NONE, "the end of a pipe is not seen");
	words_end(&w);
	close(pipes[0]);
}

static void fuzz_answers(const uint8_t *data, size_t size)
{
	static struct answers a;
	int fd[2];
	if (size > 1 << 15 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) != 0)
		return;
	fuzz_must(write(fd[1], data, size) == (ssize_t)size, "socket");
	close(fd[1]);
	answers_begin(&a, fd[0], "fuzz");
	int bad = 0, first = 1;
	while (!bad && answers_read(&a, NULL, 100, &why) >= 0) {
		int got = RECORD_END;
		while (answers_due(&a) == 0 && (got = answers_next(&a, &record, &why)) == RECORD_ONE) {
			if (first)
				answers_greeting(&record, "fuzz", &why);
			first = 0;
			answers_is_last(&record);
		}
		bad = got < 0;
		if (answers_due(&a) > 0)
			framer_take(&a.in, NULL, answers_due(&a));
	}
	answers_end(&a);
}

static void fuzz_routes(const uint8_t *data, size_t size)
{
	struct routes r = {0};
	if (routes_read(&r, (const char *)data, size, "routes", &why) == 0)
		routes_find(&r, "ps0.sock");
	routes_clear(&r);
}

static void fuzz_predict(const uint8_t *data, size_t size)
{
	char path[128];
	struct predictor *p;
	if (size < 1)
		return;
	fuzz_file(path, "predictor", data + 1, size - 1);
	if (predict_file_load(&p, path, (enum predict_model)(data[0] % PREDICT_MODELS), &why) == 0) {
		unsigned lines = 0;
		predictor_save(p, fuzz_put, &lines, &why);
		predictor_free(p);
	}
}

/* ---- all of them ---- */

const struct fuzz_target fuzz_targets[] = {
	{"record", fuzz_record, "record/record.c record/fields.c base/number.c", 1, 0},
	{"drag", fuzz_drag, "record/drag.c", 1, 0},
	{"reader", fuzz_reader, "record/reader.c", 1, 0},
	{"framer", fuzz_framer, "record/framer.c", 0, 0},
	{"job", fuzz_job, "job/jobtext.c job/keys.c job/value.c job/fit.c", 0, 0},
	{"csv", fuzz_csv, "data/parse.c data/stream.c data/rowscan.c data/classes.c", 0, 0},
	{"tsv", fuzz_tsv, "data/parse.c data/rowscan.c", 0, 0},
	{"libsvm", fuzz_libsvm, "data/parse_libsvm.c", 0, 0},
	{"criteo", fuzz_criteo, "data/parse_criteo.c", 0, 0},
	{"bag", fuzz_bag, "data/parse_libsvm.c", 0, 0},
	{"images", fuzz_images, "data/parse_image.c", 0, 0},
	{"packed", fuzz_packed, "data/source.c data/source_gzip.c data/source_zstd.c data/index.c", 0, 0},
	{"packed-file", fuzz_packed_file, "data/source_gzip.c data/source_zstd.c", 0, 0},
	{"index-text", fuzz_index_text, "data/index.c data/rowscan.c", 0, 0},
	{"index", fuzz_index, "data/index_file.c", 1, 1},
	{"schema", fuzz_schema, "data/schema.c data/schema_file.c", 1, 1},
	{"origin", fuzz_origin, "data/origin.c", 1, 0},
	{"rowcache", fuzz_rowcache, "data/rowcache.c", 0, 1},
	{"state", fuzz_state, "shard/state.c shard/settle.c shard/follow.c shard/moves.c partition/text.c", 1, 0},
	{"journal", fuzz_journal, "shard/scan.c record/sealed.c", 1, 1},
	{"queue", fuzz_queue, "shard/change.c shard/queue.c shard/piece.c", 1, 0},
	{"manifest", fuzz_manifest, "ckpt/manifest.c", 1, 1},
	{"part", fuzz_part, "ckpt/part_read.c", 1, 1},
	{"stream", fuzz_stream, "param/stream_read.c param/planes.c", 1, 1},
	{"safetensors", fuzz_safetensors, "ckpt/import.c", 0, 0},
	{"layout", fuzz_layout, "param/layout.c", 1, 0},
	{"snapshot", fuzz_snapshot, "solve/snapshot.c", 1, 0},
	{"actions", fuzz_actions, "solve/decision.c solve/solution.c", 1, 0},
	{"balance", fuzz_balance, "solve/balance_log.c", 1, 0},
	{"usage", fuzz_usage, "plan/usage.c", 1, 0},
	{"cluster", fuzz_cluster, "sim/cluster.c", 1, 0},
	{"pattern", fuzz_pattern, "straggle/pattern.c straggle/schedule.c", 0, 0},
	{"trace", fuzz_trace, "straggle/trace.c", 1, 0},
	{"order", fuzz_order, "lead/order.c", 1, 0},
	{"words", fuzz_words, "agent/words.c", 1, 0},
	{"answers", fuzz_answers, "wire/answers.c", 1, 0},
	{"routes", fuzz_routes, "fabric/routes.c", 1, 0},
	{"predictor", fuzz_predict, "predict/file.c predict/state.c", 1, 1},
	{"hosts", fuzz_hosts, "job/hosts.c", 0, 0},
	{"kept", fuzz_kept, "run/kept.c run/in_force.c job/spent.c", 1, 1},
	{"account", fuzz_account, "account/account.c account/account_node.c", 1, 0},
	{"said", fuzz_said, "run/said.c", 0, 0},
	{"survey", fuzz_survey, "survey/survey.c survey/column.c survey/value.c survey/label.c", 0, 0},
	{"monitor", fuzz_monitor, "monitor/monitor.c monitor/monitor_text.c monitor/node.c monitor/prometheus.c", 1, 0},
	{"http", fuzz_http, "wire/http.c", 0, 0},
	{"relay", fuzz_relay, "fabric/relay.c fabric/relay_read.c fabric/relay_write.c fabric/relay_link.c", 0, 0},
	{"shardd", fuzz_shardd,
	 "shard/verbs.c shard/reads.c shard/wait.c shard/change.c wire/input.c wire/request.c wire/verbs.c", 1, 0},
	{"lead", fuzz_lead, "lead/lead_requests.c lead/gate_members.c", 1, 0},
	{"ps", fuzz_ps, "ps/pull.c ps/push.c ps/stage.c ps/obey.c", 1, 0},
	{"ps-lead", fuzz_ps_lead, "lead/lead_requests.c lead/gate_pushes.c lead/gate_units.c", 1, 0},
	{"replica", fuzz_replica, "ps/round.c ps/early.c ps/room.c ps/state.c", 1, 0},
	{"trainctl", fuzz_trainctl, "run/verbs.c run/scale_wish.c run/scale_hosts.c", 1, 0},
	{"shards", fuzz_shards, "work/shards.c work/generation.c wire/call.c", 1, 0},
	{"servers", fuzz_servers, "work/servers.c work/part_client.c work/part_clients.c work/lead_client.c work/actions.c", 1, 0},
	{"replicas", fuzz_replicas, "work/replica.c work/conversation.c", 1, 0},
	{NULL, NULL, NULL, 0, 0},
};

const struct fuzz_target *fuzz_find(const char *name)
{
	const struct fuzz_target *t = fuzz_targets;
	while (t->name && strcmp(t->name, name) != 0)
		t++;
	return t->name ? t : NULL;
}

void fuzz_run(const struct fuzz_target *target, const uint8_t *data, size_t size)
{
	sums_fit = target->sums_fit;
	target->run(data, size);
	sums_fit = 0;
}
