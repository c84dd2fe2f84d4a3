// Public C++ interface: calls over C-contiguous memory [outer, depth, height, width, inner]. Nothing here checks sizes of memory;
// the caller does. Every function throws std::invalid_argument for a kind it has no kernel for and std::bad_alloc without memory.
#pragma once

#include "axis.h"
#include "dtype.h"

namespace poolgrad {

struct AverageCall {
    const void* source;
    void* destination;
    Layout layout;
    int workers;
    Kind kind, destination_kind;  // the same but for means
};

struct MaxCall {
    Layout layout;
    int workers;
    Kind kind;
    int winner_bytes;
    bool minimum = false;
    const void* source = nullptr;       // forward and from-input: the input; take: what is taken from
    const void* grad = nullptr;         // gradients
    void* values = nullptr;             // forward: the maxima, if wanted
    void* winners = nullptr;            // forward: written, if wanted; gradient and take: read
    const void* expected = nullptr;     // from-input: the maxima that must come out, if they are to be checked
    void* destination = nullptr;        // gradients and take
};

struct IndexCall {
    const void* source;
    const int64_t* indices;
    void* destination;
    int64_t outer, count, size;
    int workers;
    Kind kind;
};

struct CopyCall {
    const void* source;
    void* destination;
    int64_t read_bytes, write_bytes;
    bool streaming;
    int workers;
};

// One set of kernels per instruction set.
struct Kernels {
    const char* name;
    void (*avg_pool)(const AverageCall&);
    void (*mean_pool)(const AverageCall&);
    void (*avg_pool_grad)(const AverageCall&);
    void (*max_pool)(const MaxCall&);
    // These return -1, or the first flat index of a winner, maximum or index that is not right.
    // The gradient takes the winners it is given, or finds them where it is given the input.
    int64_t (*max_pool_grad)(const MaxCall&);
    int64_t (*take_winners)(const MaxCall&);
    int64_t (*scatter_indices)(const IndexCall&);
    int64_t (*gather_indices)(const IndexCall&);
    // Reads and writes so many bytes: the time no kernel with that traffic can beat.
    void (*limit_copy)(const CopyCall&);
};

// The best set this CPU has, or the one that the environment variable POOLGRAD_ISA names; chosen at the first call.
const Kernels& kernels();

}  // namespace poolgrad
