/* fabric/world: messages and bulk of a world of one rank: this process. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "fabric/world.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES 500
#define BULK_BYTES (3u << 20)

/* MPI keeps what it has to the end of the process: for the leak sanitizer. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}

static struct event_base *base;
static struct world *world;
static int heard, done;

static void run_until(const int *count, int wanted)
{
	while (*count < wanted)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
}

static void on_done(void *arg)
{
	(*(int *)arg)++;
}

/* Number i has i bytes of i. */
static void on_message(unsigned rank, const void *data, size_t bytes, void *arg)
{
	const unsigned char *byte = data;
	assert_int_equal(rank, 0);
	assert_ptr_equal(arg, &heard);
	assert_int_equal(bytes, heard * 7);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(byte[i], heard & 0xff);
	heard++;
}

static void messages_keep_their_order(void **state)
{
	(void)state;
	static unsigned char data[MESSAGES * 7];
	heard = 0;
	world_on(world, WORLD_RELAY, on_message, &heard);
	for (int i = 0; i < MESSAGES; i++) {
		size_t half = (size_t)i * 3, rest = (size_t)i * 7 - half;
		memset(data, i & 0xff, sizeof data);
		/* Copied: what comes next is written over it. */
		assert_int_equal(world_tell(world, 0, WORLD_RELAY, data, half, data + half, rest), 0);
	}
	run_until(&heard, MESSAGES);
	world_on(world, WORLD_RELAY, NULL, NULL);
}

static void bulk_goes_by_its_tag(void **state)
{
	(void)state;
	unsigned char *from[2], *to[2];
	done = 0;
	for (int i = 0; i < 2; i++) {
		from[i] = malloc(BULK_BYTES);
		to[i] = calloc(1, BULK_BYTES);
		assert_true(from[i] && to[i]);
		memset(from[i], 'a' + i, BULK_BYTES);
	}
	assert_int_equal(world_receive_bulk(world, 0, WORLD_SUM, 7, to[1], BULK_BYTES, on_done, &done),
			 0);
	assert_int_equal(world_send_bulk(world, 0, WORLD_SUM, 6, from[0], BULK_BYTES, on_done, &done),
			 0);
	assert_int_equal(world_receive_bulk(world, 0, WORLD_SUM, 6, to[0], BULK_BYTES, on_done, &done),
			 0);
	assert_int_equal(world_send_bulk(world, 0, WORLD_SUM, 7, from[1], BULK_BYTES, on_done, &done),
			 0);
	run_until(&done, 4);
	for (int i = 0; i < 2; i++) {
		assert_memory_equal(from[i], to[i], BULK_BYTES);
		free(from[i]);
		free(to[i]);
	}
}

static size_t came[2];

static void on_came(void *arg, size_t bytes)
{
	*(size_t *)arg = bytes;
	done++;
}

static void bulk_may_be_less(void **state)
{
	(void)state;
	char to[2][100] = {{0}};
	done = 0;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(world_receive_some(world, 0, WORLD_SUM, i, to[i], sizeof to[i],
						    on_came, &came[i]), 0);
		assert_int_equal(world_send_bulk(world, 0, WORLD_SUM, i, "less", i ? 5 : 0, NULL,
						 NULL), 0);
	}
	run_until(&done, 2);
	assert_int_equal(came[0], 0);
	assert_int_equal(came[1], 5);
	assert_string_equal(to[1], "less");
}

static void who_is_there(void **state)
{
	(void)state;
	assert_int_equal(world_size(world), 1);
	assert_int_equal(world_rank(world), 0);
	assert_string_equal(world_host(world, 0), "here");
	assert_int_equal(world_find(world, "here"), 0);
	assert_int_equal(world_find(world, "there"), -1);
}

static int enter(void **state)
{
	(void)state;
	struct error err = {0};
	setenv("OMPI_MCA_btl", "tcp,self", 1);
	setenv("OMPI_MCA_pml", "ob1", 1);
	base = event_base_new();
	struct world_options options = {.base = base, .host = "here", .version = "1"};
	return base ? world_open(&world, &options, &err) : -1;
}

static int leave(void **state)
{
	(void)state;
	int result = world_close(world, NULL);
	event_base_free(base);
	return result;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(who_is_there),
					   cmocka_unit_test(messages_keep_their_order),
					   cmocka_unit_test(bulk_goes_by_its_tag),
					   cmocka_unit_test(bulk_may_be_less)};
	return cmocka_run_group_tests_name("fabric_world", tests, enter, leave);
}
