/*
 * card: a batch is computed on a card: whole where it fits its memory, else in parts.  A part
 * brings the rows of its own keys only, or it would need as much memory as the batch.  It must
 * never add a sum twice: train() adds all of a part, or nothing.
 */
#include "model/kind.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CARD_NAME_MAX 96

/* ---- which card ---- */

/* Without a number: the card of this rank, else one behind it. */
static int card_take(struct card *c, const struct model_spec *spec, const char *name, uint64_t rank,
		     struct error *err)
{
	char one[CARD_NAME_MAX];
	const struct model_backend *b;
	if (model_backend_find(&b, err) != 0)
		return -1;
	int cards = b->look(spec, name, err), result = -1;
	for (int i = 0; result != 0 && i < cards; i++) {
		int is_last = i + 1 == cards || strchr(name, ':');
		if (strchr(name, ':'))
			snprintf(one, sizeof(one), "%s", name);
		else
			snprintf(one, sizeof(one), "cuda:%d%s",
				 (int)((rank + (uint64_t)i) % (uint64_t)cards), name + 4);
		result = b->open(&c->state, spec, one, err);
		if (result != 0 && is_last)
			return -1;
		if (result != 0)
			log_say(LOG_LEVEL_WARNING, "%s: %s; another card is tried", one, err->text);
		else
			log_say(LOG_LEVEL_INFO, "%s computes: %s", one, b->about(c->state));
	}
	c->backend = result == 0 ? b : NULL;
	return result;
}

int card_open(struct card *c, const struct model_spec *spec, const struct model_device *device,
	      struct error *err)
{
	struct error why = {0};
	int is_auto = strcmp(device->name, "auto") == 0;
	if (!model_device_is_card(device->name) ||
	    card_take(c, spec, is_auto ? "cuda" : device->name, device->rank, &why) == 0)
		return 0;
	if (is_auto)
		log_say(LOG_LEVEL_INFO, "the CPU computes: %s: %s", why.place, why.text);
	else
		error_set(err, why.code, why.place, "%s", why.text);
	return is_auto ? 0 : -1;
}

void card_close(struct card *c)
{
	if (c->backend)
		c->backend->free(c->state);
	free(c->place.data);
	free(c->row.data);
	free(c->index.data);
	free(c->rows.data);
}

const char *model_card(const struct model *m)
{
	return m->card.backend ? m->card.backend->about(m->card.state) : NULL;
}

size_t model_card_left(const struct model *m)
{
	return m->card.backend ? m->card.backend->left(m->card.state) : 0;
}

size_t model_fits(const struct model *m)
{
	return m->card.fits;
}

void model_limit(struct model *m, size_t fits)
{
	m->card.fits = fits;
}

/* ---- a part of a batch ---- */

struct part {
	struct model_block block;
	struct model_load load;
	size_t own; /* rows of its own; 0: those of the whole batch */
};

/* A part with fewer keys than the batch has rows brings its own. */
static int part_own_rows(struct model *m, const float *rows, struct part *p, struct error *err)
{
	struct card *c = &m->card;
	struct model_batch *b = &p->block.batch;
	size_t end = b->offset[b->count], keys = end - b->offset[0], width = m->width;
	if (keys >= b->unique)
		return 0;
	if (words_grow(&c->place, b->unique, err) != 0 || words_grow(&c->row, keys, err) != 0 ||
	    words_grow(&c->index, end, err) != 0 || pool_grow(&c->rows, 2 * keys * width, err) != 0)
		return -1;
	memset(c->place.data, 0, b->unique * sizeof(*c->place.data));
	for (size_t i = b->offset[0]; i < end; i++) {
		uint32_t *place = &c->place.data[b->index[i]];
		if (*place == 0) {
			c->row.data[p->own] = b->index[i];
			memcpy(c->rows.data + p->own * width, rows + b->index[i] * width,
			       width * sizeof(float));
			*place = (uint32_t)++p->own;
		}
		c->index.data[i] = *place - 1;
	}
	b->index = c->index.data;
	p->load.rows = c->rows.data;
	p->load.unique = p->own;
	return 0;
}

static int part_begin(struct model *m, const struct model_step *s, size_t begin, size_t count,
		      struct part *p, struct error *err)
{
	*p = (struct part){0};
	model_block_take(m, s->batch, begin, count, &p->block);
	p->load = (struct model_load){.batch = &p->block.batch,
				      .unique = s->batch->unique,
				      .dense = s->dense,
				      .rows = s->rows,
				      .forward_only = !s->dense_gradient};
	if (count < s->batch->count) /* nor is that one computed whole */
		p->block.batch.next = NULL;
	if (part_own_rows(m, s->rows, p, err) != 0)
		return -1;
	return m->card.backend->begin(m->card.state, &p->load, err);
}

static int part_train(struct model *m, const struct model_step *s, const struct part *p,
		      double *loss_sum, struct error *err)
{
	struct card *c = &m->card;
	size_t width = m->width;
	float *own = c->rows.data + p->own * width;
	struct model_sums sums = {.dense_gradient = s->dense_gradient,
				  .row_gradient = p->own ? own : s->row_gradient,
				  .loss = loss_sum,
				  .final = p->block.is_last ? m->final : NULL,
				  .owner = m->final_owner};
	if (p->own)
		memset(own, 0, p->own * width * sizeof(float));
	if (c->backend->train(c->state, &sums, err) != 0)
		return -1;
	for (size_t i = 0; i < p->own; i++)
		for (size_t k = 0; k < width; k++)
			s->row_gradient[c->row.data[i] * width + k] += own[i * width + k];
	return 0;
}

/* z: where its logits go; NULL: it is trained. */
static int part_compute(struct model *m, const struct model_step *s, size_t begin, size_t count,
			double *loss_sum, float *z, struct error *err)
{
	struct part p;
	if (part_begin(m, s, begin, count, &p, err) != 0)
		return -1;
	return z ? m->card.backend->logits(m->card.state, z + begin * m->outputs, err)
		 : part_train(m, s, &p, loss_sum, err);
}

/* ---- a batch ---- */

static int card_compute(struct model *m, const struct model_step *s, double *loss_sum, float *z,
			struct error *err)
{
	struct card *c = &m->card;
	size_t all = s->batch->count, count;
	for (size_t begin = 0; begin < all; begin += count) {
		struct error why = {0};
		count = all - begin;
		if (c->fits > 0 && count > c->fits)
			count = c->fits;
		if (part_compute(m, s, begin, count, loss_sum, z, &why) == 0)
			continue;
		if (why.code != ERROR_OS || count == 1)
			return error_set(err, why.code, why.place, "%s", why.text);
		c->fits = count / 2;
		count = 0;
	}
	return 0;
}

int card_train(struct model *m, const struct model_step *s, double *loss_sum, struct error *err)
{
	return card_compute(m, s, loss_sum, NULL, err);
}

int card_logits(struct model *m, const struct model_step *s, float *z, struct error *err)
{
	return card_compute(m, s, NULL, z, err);
}
