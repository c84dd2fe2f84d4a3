// Everything the kernels use from outside, for kernels_*.cpp to include before they set a target.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "memory.h"
#include "pool.h"
#include "workers.h"
