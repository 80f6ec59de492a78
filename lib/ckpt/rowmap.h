/*
 * rowmap: all rows of a checkpoint in memory, found by key, for programs that score.
 *
 * Rows lie side by side in one array, so that a model can take the array as its rows and row numbers
 * as its index.  A key without a row gets one for a while, with its initial value, as a server would
 * make it on first touch.
 */
#ifndef PACELINE_CKPT_ROWMAP_H
#define PACELINE_CKPT_ROWMAP_H

#include "ckpt/ckpt.h"

struct rowmap;

/* l is the checkpoint's layout; it is copied. A row twice: ERROR_DATA. 2^32 - 1 rows at most. */
int rowmap_load(struct rowmap **out, struct ckpt *c, const struct layout *l, struct error *err);
void rowmap_free(struct rowmap *m); /* NULL is fine */

/* Number of the key's row in rowmap_values(). A row made for an absent key lasts until
 * rowmap_forget(). Moves rowmap_values(). */
int rowmap_find(struct rowmap *m, uint32_t key, uint32_t *row, struct error *err);
/* Ends the rows that were made for absent keys. */
void rowmap_forget(struct rowmap *m);
/* [rows][width]; never NULL */
const float *rowmap_values(const struct rowmap *m);

#endif
