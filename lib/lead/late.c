/* late: see late.h. */
#include "lead/late.h"

#include <stdlib.h>

#define NS_MAX 1e18 /* what is longer never ends */

static int late_compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Those that have not computed any batch count as slower than all others. INT64_MAX: there is none.
 */
static int64_t late_median(const struct late_batch *batch, size_t count)
{
	int64_t *took = malloc((count + 1) * sizeof *took), low, high;

	if (!took)
		return INT64_MAX;
	for (size_t i = 0; i < count; i++)
		took[i] = batch[i].took > 0 ? batch[i].took : INT64_MAX;
	qsort(took, count, sizeof *took, late_compare);
	low = count ? took[(count - 1) / 2] : INT64_MAX;
	high = count ? took[count / 2] : INT64_MAX;
	free(took);
	return high == INT64_MAX ? high : low + (high - low) / 2;
}

static int may_be_late(const struct late_batch *b)
{
	return b->state == LATE_COMPUTES && !b->was_late && !b->is_late;
}

int64_t late_mark(struct late_batch *batch, size_t count, double times, int64_t now)
{
	int64_t median, next = INT64_MAX;
	size_t ready = 0, asked = 0;

	for (size_t i = 0; i < count; i++) {
		ready += batch[i].state == LATE_READY;
		asked += (size_t)may_be_late(&batch[i]);
	}
	if (asked == 0 || 2 * ready < count)
		return INT64_MAX;
	median = late_median(batch, count);
	if (median == INT64_MAX || (double)median * times > NS_MAX)
		return INT64_MAX;
	for (size_t i = 0; i < count; i++) {
		struct late_batch *b = &batch[i];
		int64_t at = b->began + (int64_t)((double)median * times);
		if (!may_be_late(b))
			continue;
		if (at <= now)
			b->is_late = 1;
		else if (at < next)
			next = at;
	}
	return next;
}
