/* blas: what programs that train or score give their models; see kind.h. */
#include "model/kind.h"

const struct model_blas model_blas = {.gemm = cblas_sgemm, .gemv = cblas_sgemv};
