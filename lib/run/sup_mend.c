/*
 * sup_mend: what a worker's death leaves behind is removed before it starts again (the life of a
 * batch, 5): shardd says which generation it had; the lead settles or discards what it holds of it
 * and refuses it from then on; shardd gives it up; only then a new process says hello.  The order
 * is what keeps a batch from counting twice, so a step is never left out: an answer that did not
 * come (the lead is being rolled back, shardd restarts) begins again with the question.
 */
#include "run/sup.h"

#include <string.h>

static void begin(struct record_out *o, char *line, const char *type, const struct sup_node *n)
{
	record_begin(o, line, RECORD_LINE_MAX, type);
	record_add(o, "worker", n->id);
}

static int current(const struct sup_node *n, enum mend_step step)
{
	return n->stage == STAGE_MENDING && n->mend == step;
}

/* An answer that is neither expected nor lost: said, and asked again a little later. */
static void again(struct sup_node *n, const struct record *r)
{
	n->mend = MEND_ASK;
	if (r) {
		const char *code = record_get(r, "code");
		sup_note(n->sup, "retry", "%s can't be mended yet: %s%s%s", n->id,
			 code ? code : r->type, r->text ? ": " : "", r->text ? r->text : "");
		sup_kick_after(n->sup, 1);
	}
	sup_kick(n->sup);
}

static void mended(struct sup_node *n)
{
	n->mend = MEND_ASK;
	sup_node_event(n, EVENT_MENDED);
}

static void on_who(const struct record *r, int closing, const void *payload, size_t bytes,
		   void *arg)
{
	struct sup_node *n = arg;
	(void)payload;
	(void)bytes;
	if (!closing || !current(n, MEND_ASKED))
		return;
	if (r && record_is(r, "ok") &&
	    record_u64(r, "generation", 0, UINT64_MAX, &n->generation, NULL) == 0) {
		/* None in force: a rollback or a person fenced it; the lead may still hold the
		 * last. */
		if (n->generation == 0)
			record_u64_opt(r, "last", 0, UINT64_MAX, &n->generation, NULL);
		n->mend = n->generation > 0 ? MEND_FENCE : MEND_FAIL;
		sup_kick(n->sup);
		return;
	}
	const char *code = r ? record_get(r, "code") : NULL;
	/* It never said hello: there is nothing of it anywhere. */
	if (code && strcmp(code, "unknown-worker") == 0)
		mended(n);
	else
		again(n, r);
}

static void on_fence(const struct record *r, int closing, const void *payload, size_t bytes,
		     void *arg)
{
	struct sup_node *n = arg;
	(void)payload;
	(void)bytes;
	if (!closing || !current(n, MEND_FENCED))
		return;
	if (!r || !record_is(r, "ok")) {
		again(n, r);
		return;
	}
	n->mend = MEND_FAIL;
	sup_kick(n->sup);
}

static void on_fail(const struct record *r, int closing, const void *payload, size_t bytes,
		    void *arg)
{
	struct sup_node *n = arg;
	(void)payload;
	(void)bytes;
	if (!closing || !current(n, MEND_FAILED))
		return;
	const char *code = r ? record_get(r, "code") : NULL;
	if (r && (record_is(r, "ok") ||
		  (code && (strcmp(code, "unknown-worker") == 0 || strcmp(code, "fenced") == 0))))
		mended(n);
	else
		again(n, r);
}

void sup_mend_step(struct sup_node *n)
{
	struct supervisor *s = n->sup;
	char line[RECORD_LINE_MAX];
	struct record_out o;
	if (n->stage != STAGE_MENDING)
		return;
	switch (n->mend) {
	case MEND_ASK:
		begin(&o, line, "who", n);
		if (sup_link_send(&s->shardd->link, &o, NULL, 0, on_who, n) == 0)
			n->mend = MEND_ASKED;
		break;
	case MEND_FENCE:
		begin(&o, line, "fence", n);
		record_add_u64(&o, "generation", n->generation);
		if (sup_link_send(&s->servers[0].link, &o, NULL, 0, on_fence, n) == 0)
			n->mend = MEND_FENCED;
		break;
	case MEND_FAIL:
		/* A restart by intention is nobody's fault: shards must not be held for it. */
		begin(&o, line, n->restart_from > 0 ? "bye" : "fail", n);
		if (n->restart_from > 0)
			record_add_u64(&o, "generation", n->generation);
		if (sup_link_send(&s->shardd->link, &o, NULL, 0, on_fail, n) == 0)
			n->mend = MEND_FAILED;
		break;
	case MEND_ASKED:
	case MEND_FENCED:
	case MEND_FAILED:
		break; /* the answer, or its loss, comes */
	}
}
