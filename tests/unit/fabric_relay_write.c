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

/* Guests (relay_far.c): what is no next part of the sum would keep the others of the group waiting. */
static void a_sum_comes_in_full_chunks_or_ends(void **state)
{
	enum { LAST = 4096 };
	static const struct head first = {.bytes = CHUNK_BYTES}, empty = {.offset = CHUNK_BYTES},
				 again = {.bytes = CHUNK_BYTES},
				 small = {.offset = CHUNK_BYTES, .bytes = LAST - 1},
				 last = {.offset = CHUNK_BYTES, .bytes = LAST},
				 behind = {.offset = CHUNK_BYTES + LAST};
	static const struct head *const wrong[] = {&empty, &again, &small, &behind};
	char *memory = calloc(1, CHUNK_BYTES + LAST);
	struct mapping mapping = {.references = 1, .base = memory, .bytes = CHUNK_BYTES + LAST};
	struct relay relay = {0};
	struct link link = {.relay = &relay};

	(void)state;
	for (size_t i = 0; i <= 3; i++) {
		struct conversation c = {.relay = &relay,
					 .link = &link,
					 .mapping = &mapping,
					 .fd = -1,
					 .is_sum = 1,
					 .dense_bytes = CHUNK_BYTES + LAST};
		left = swallowed = received = 0;
		conversation_take_chunk(&c, &first);
		if (wrong[i] == &behind)
			conversation_take_chunk(&c, &last);
		assert_int_equal(received, 1 + (wrong[i] == &behind));
		assert_int_equal(left, 0);
		conversation_take_chunk(&c, wrong[i]);
		assert_int_equal(swallowed, 1);
		assert_int_equal(left, 1);
		for (struct piece *p = c.first; p; p = p->next)
			p->is_here = 1;
		conversation_drop_pieces(&c);
	}
	free(memory);
}

/* The other side keeps to its window, or is none of ours. */
static void more_than_was_allowed_ends_its_conversation(void **state)
{
	static char data[DATA_MAX];
	struct relay relay = {0};
	struct link link = {.relay = &relay};
	struct conversation c = {.relay = &relay, .link = &link, .fd = -1};

	(void)state;
	left = 0;
	for (size_t n = 0; n < CONVERSATION_WINDOW + RECORD_LINE_MAX + DATA_MAX; n += DATA_MAX)
		conversation_take(&c, data, sizeof data, 0);
	assert_int_equal(left, 0);
	while (left == 0 && c.kept <= 3 * CONVERSATION_WINDOW)
		conversation_take(&c, data, sizeof data, 0);
	assert_int_equal(left, 1);
	assert_true(c.kept <= 2 * CONVERSATION_WINDOW);
	conversation_drop_pieces(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chunk_without_memory_ends_its_conversation),
		cmocka_unit_test(a_sum_comes_in_full_chunks_or_ends),
		cmocka_unit_test(more_than_was_allowed_ends_its_conversation),
	};
	return cmocka_run_group_tests_name("fabric_relay_write", tests, NULL, NULL);
}
