// Scratch memory of a call: counted, so that a test can hold the promise of 4 MiB a worker.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POOLGRAD_FENCES 1
#define POOLGRAD_MEMORY fenced
#else
#define POOLGRAD_MEMORY plain
#endif

namespace poolgrad {

inline std::atomic<int64_t> scratch_now{0}, scratch_most{0};

struct NoScratch : std::bad_alloc {
    const char* what() const noexcept override { return "poolgrad: no memory for scratch, which is at most 4 MiB a worker; fewer workers need less"; }
};

// Kernels with fences and kernels without may be linked together, and must not take each other's functions.
inline namespace POOLGRAD_MEMORY {

class Scratch {
  public:
    explicit Scratch(int64_t bytes) : bytes_(bytes) {
        if (!bytes_) return;
        data_ = static_cast<std::byte*>(::operator new(std::size_t(bytes_), std::align_val_t(64), std::nothrow));
        if (!data_) throw NoScratch();
        const int64_t now = scratch_now.fetch_add(bytes_, std::memory_order_relaxed) + bytes_;
        int64_t most = scratch_most.load(std::memory_order_relaxed);
        while (now > most && !scratch_most.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
        }
    }
    ~Scratch() {
        if (!bytes_) return;
        scratch_now.fetch_sub(bytes_, std::memory_order_relaxed);
#if defined(POOLGRAD_FENCES)
        __asan_unpoison_memory_region(data_, std::size_t(bytes_));
#endif
        ::operator delete(data_, std::align_val_t(64));
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    std::byte* data() const { return data_; }

  private:
    std::byte* data_ = nullptr;
    int64_t bytes_;
};

// Hands out aligned pieces of a worker's scratch. Built over nullptr it only measures: a kernel lays out its pieces with the
// same function for both, so that size and use cannot drift apart. AddressSanitizer sees a fence between any two.
class Arena {
  public:
    explicit Arena(std::byte* base) : base_(base) {}
    template <class T>
    T* take(int64_t count) {
        const int64_t at = used_, bytes = count * int64_t(sizeof(T));
        used_ += (bytes + 63) / 64 * 64;
#if defined(POOLGRAD_FENCES)
        used_ += 64;
        if (base_) {
            __asan_unpoison_memory_region(base_ + at, std::size_t(bytes));
            __asan_poison_memory_region(base_ + at + bytes, std::size_t(used_ - at - bytes));
        }
#endif
        return base_ ? reinterpret_cast<T*>(base_ + at) : nullptr;
    }
    int64_t used() const { return used_; }

  private:
    std::byte* base_;
    int64_t used_ = 0;
};

}  // namespace POOLGRAD_MEMORY
}  // namespace poolgrad
