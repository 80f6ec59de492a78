/* fabric/relay_write: what comes for a conversation when there is no memory for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

static int lacks_memory;

static void *some_memory(size_t bytes)
{
	return lacks_memory ? NULL : malloc(bytes);
}

#define malloc some_memory
#include "lib/fabric/relay_write.c"
#undef malloc

/* ---- what it calls ---- */

static int left, swallowed, received;

void conversation_leave(struct conversation *c)
{
	(void)c;
	left++;
}

void link_swallow(struct link *l, unsigned tag, size_t bytes)
{
	(void)l;
	(void)tag;
	(void)bytes;
	swallowed++;
}

int world_receive_bulk(struct world *w, unsigned rank, enum world_channel channel, unsigned tag,
		       void *into, size_t bytes, world_done_fn *done, void *arg)
{
	(void)w;
	(void)rank;
	(void)channel;
	(void)tag;
	(void)into;
	(void)bytes;
	(void)done;
	(void)arg;
	received++;
	return 0;
}

struct conversation *relay_find(const struct relay *relay, uint32_t origin, uint64_t number)
{
	(void)relay;
	(void)origin;
	(void)number;
	return NULL;
}

int link_tell(struct conversation *c, struct head head, const void *data, size_t bytes)
{
	(void)c;
	(void)head;
	(void)data;
	(void)bytes;
	return 0;
}

void conversation_end(struct conversation *c)
{
	(void)c;
}

void conversation_hold(struct conversation *c)
{
	(void)c;
}

void conversation_release(struct conversation *c)
{
	(void)c;
}

void conversation_watch(struct conversation *c)
{
	(void)c;
}

/* ---- the tests ---- */

/* The line behind it says that the payload is in the memory: without it, the conversation ends. */
static void a_chunk_without_memory_ends_its_conversation(void **state)
{
	static const struct head chunk = {.kind = KIND_CHUNK, .offset = 8, .bytes = 24};
	char memory[64];
	struct mapping mapping = {.references = 1, .base = memory, .bytes = sizeof memory};
	struct relay relay = {0};
	struct link link = {.relay = &relay};
	struct conversation c = {.relay = &relay, .link = &link, .mapping = &mapping, .fd = -1};

	(void)state;
	lacks_memory = 1;
	conversation_take_chunk(&c, &chunk);
	assert_int_equal(swallowed, 1);
	assert_int_equal(left, 1);
	assert_null(c.first);
	/* Nobody reads there any more: nothing is wrong. */
	c.deaf = 1;
	conversation_take_chunk(&c, &chunk);
	assert_int_equal(swallowed, 2);
	assert_int_equal(left, 1);
	/* The daemon was told that there is no memory that is shared. */
	c.deaf = 0;
	c.mapping = NULL;
	conversation_take_chunk(&c, &chunk);
	assert_int_equal(swallowed, 3);
	assert_int_equal(left, 1);
	lacks_memory = 0;
	c.mapping = &mapping;
	conversation_take_chunk(&c, &chunk);
	assert_int_equal(received, 1);
	assert_int_equal(left, 1);
	free(c.first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chunk_without_memory_ends_its_conversation),
	};
	return cmocka_run_group_tests_name("fabric_relay_write", tests, NULL, NULL);
}
