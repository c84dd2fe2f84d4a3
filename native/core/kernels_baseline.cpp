#include "kernels_headers.h"

#define POOLGRAD_ISA baseline
#define POOLGRAD_ISA_NAME "baseline"
#include "kernels.inl"
