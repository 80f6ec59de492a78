/*
 * own: the options of one model (struct model_spec, own): of those that cards compute, which read
 * them, too.
 */
#ifndef PACELINE_MODEL_OWN_H
#define PACELINE_MODEL_OWN_H

#include "model/model.h"

struct svm_options {
	uint32_t loss; /* 0: hinge, 1: squared hinge */
};

struct dcn_options {
	uint32_t cross; /* layers */
};

struct xdeepfm_options {
	struct model_widths cin; /* maps of the layers of the interaction network */
};

struct conv_options {
	struct model_widths channels; /* outputs of the convolutions */
	struct model_widths image;    /* height, width, channels */
};

#endif
