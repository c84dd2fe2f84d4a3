#include "workers.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "memory.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace poolgrad {

namespace {

// Round to nearest, no flush to zero, no traps, whatever the caller has set; put back at the end.
class DefaultFloatMode {
#if defined(__x86_64__) || defined(_M_X64)
    static constexpr unsigned kDefault = 0x1F80;

  public:
    DefaultFloatMode() : saved_(_mm_getcsr()) {
        if (saved_ != kDefault) _mm_setcsr(kDefault);
    }
    ~DefaultFloatMode() {
        // Also drops the exception flags the kernels raised: they are not the caller's.
        if (_mm_getcsr() != saved_) _mm_setcsr(saved_);
    }

  private:
    unsigned saved_;
#else
  public:
    DefaultFloatMode() {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultFloatMode() { std::fesetenv(&saved_); }

  private:
    std::fenv_t saved_;
#endif
};

// Whether something happens within the time that waking takes: 5 us, in a virtual machine 30 to 50. When threads slept at once, two took as
// long as one for 40 us of work, call after call; now they take half of that.
template <class Happened>
bool soon(const Happened& happened) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    do {
        for (int i = 0; i < 32; ++i) {
            if (happened()) return true;
#if defined(__x86_64__) || defined(_M_X64)
            _mm_pause();
#endif
        }
    } while (std::chrono::steady_clock::now() < end);
    return false;
}

struct Job {
    Body body;
    void* context;
    int64_t items;
    int slots;                    // threads wanted, the caller's included
    int joined = 1;               // slots handed out; guarded by the pool's mutex
    std::atomic<int> helping{0};  // pool threads inside; changed under the pool's mutex
    std::atomic<int64_t> next{0};

    void work(int slot) {
        for (int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < items;) body(context, item, slot);
    }
};

class Pool {
  public:
    void run(Job& job) {
        int asleep = 0;  // of the threads wanted; those awake come by themselves
        {
            std::lock_guard<std::mutex> lock(mutex_);
            grow(job.slots - 1);
            try {
                jobs_.push_back(&job);
                posted_.fetch_add(1, std::memory_order_release);
                asleep = job.slots - 1 - awake_;
            } catch (const std::bad_alloc&) {  // then nobody helps
            }
        }
        if (asleep == 1)
            wake_.notify_one();
        else if (asleep > 1)
            wake_.notify_all();
        job.work(0);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            for (std::size_t i = 0; i < jobs_.size(); ++i)
                if (jobs_[i] == &job) jobs_.erase(jobs_.begin() + std::ptrdiff_t(i));
        }
        const auto done = [&] { return job.helping.load(std::memory_order_acquire) == 0; };
        if (soon(done)) return;
        std::unique_lock<std::mutex> lock(mutex_);
        done_.wait(lock, done);
    }

  private:
    // With fewer threads than wanted, for want of resources, the job just takes longer.
    void grow(int wanted) {
        sigset_t all, before;
        if (threads_ >= wanted) return;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);  // signals belong to the program's own threads
        try {
            for (; threads_ < wanted; ++threads_) std::thread([this] { serve(); }).detach();
        } catch (const std::exception&) {
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    void serve() {
        const DefaultFloatMode mode;
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            Job* job = nullptr;
            for (Job* candidate : jobs_)
                if (candidate->joined < candidate->slots) {
                    job = candidate;
                    break;
                }
            if (!job) {
                const int64_t seen = posted_.load(std::memory_order_relaxed);
                ++awake_;
                lock.unlock();
                soon([&] { return posted_.load(std::memory_order_acquire) != seen; });
                lock.lock();
                --awake_;
                if (posted_.load(std::memory_order_relaxed) == seen) wake_.wait(lock);
                continue;
            }
            const int slot = job->joined++;
            ++job->helping;
            lock.unlock();
            job->work(slot);
            lock.lock();
            if (job->helping.fetch_sub(1, std::memory_order_release) == 1) done_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::vector<Job*> jobs_;
    std::atomic<int64_t> posted_{0};  // jobs so far; changed under the mutex
    int threads_ = 0, awake_ = 0;     // awake: those of them that look out for a job
};

// Never destroyed: its threads outlive main. A forked child has none of them, so it forgets the pool (whose mutex another
// thread of the parent may have held) and starts its own.
std::atomic<Pool*> current{nullptr};

void forget_pool() {
    current.store(nullptr);
    scratch_now.store(0);
}

Pool& pool() {
    static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
    (void)registered;
    Pool* existing = current.load(std::memory_order_acquire);
    if (existing) return *existing;
    Pool* fresh = new Pool;
    if (current.compare_exchange_strong(existing, fresh)) return *fresh;
    delete fresh;
    return *existing;
}

}  // namespace

void run_parallel(int64_t items, int workers, Body body, void* context) noexcept {
    const DefaultFloatMode mode;
    if (workers <= 1 || items <= 1) {
        for (int64_t item = 0; item < items; ++item) body(context, item, 0);
        return;
    }
    Job job{body, context, items, int(items < workers ? items : workers)};
    pool().run(job);
}

}  // namespace poolgrad
