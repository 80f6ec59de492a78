/* metrics_page: what a job's page of metrics says. It reads the supervisor and changes nothing. */
#ifndef PACELINE_RUN_METRICS_PAGE_H
#define PACELINE_RUN_METRICS_PAGE_H

#include "base/error.h"
#include "monitor/metrics.h"

struct supervisor;

/* As it is now; the page is filled anew. */
int sup_metrics_page(const struct supervisor *s, struct metrics_page *page, struct error *err);

#endif
