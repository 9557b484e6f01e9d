/* correct twin of hotspot_safepoint_membar: the state and the safepoint flag are stored and loaded sequentially consistent */
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

enum ThreadState { in_native, in_vm, blocked };

struct JavaThread {
    std::atomic<int> state{in_native};
    unsigned allocated = 0, transitions = 0;
    const int id;
    explicit JavaThread(int n) : id(n) {}
};

class Heap {
    std::atomic<bool> gc_active_{false};
    std::atomic<unsigned> top_{0};

public:
    unsigned collections = 0, reclaimed = 0;
    unsigned allocate(unsigned words) {
        if (gc_active_.load(std::memory_order_acquire)) {
            std::fprintf(stderr, "assert(!Universe::heap()->is_gc_active()) failed\n");
            std::abort();
        }
        return top_.fetch_add(words);
    }
    void collect() {
        gc_active_.store(true, std::memory_order_release);
        unsigned live = 0;
        for (unsigned used = top_.load(), i = 0; i < used; i++)
            live += (i & 7) == 0;
        reclaimed += top_.exchange(live) - live;
        collections++;
        gc_active_.store(false, std::memory_order_release);
    }
};

class SafepointSynchronize {
    std::atomic<bool> state_{false};
    std::mutex lock_;
    std::condition_variable resumed_;
    std::vector<JavaThread *> threads_;

public:
    void add(JavaThread *t) { threads_.push_back(t); }

    void transition_to_vm(JavaThread *t) {
        t->transitions++;
        for (;;) {
            t->state.store(in_vm, std::memory_order_seq_cst);
            if (!state_.load(std::memory_order_seq_cst))
                return;
            t->state.store(blocked, std::memory_order_release);
            std::unique_lock<std::mutex> g(lock_);
            resumed_.wait(g, [this] { return !state_.load(std::memory_order_acquire); });
        }
    }
    void transition_to_native(JavaThread *t) { t->state.store(in_native, std::memory_order_release); }

    void begin() {
        state_.store(true, std::memory_order_seq_cst);
        for (JavaThread *t : threads_)
            while (t->state.load(std::memory_order_seq_cst) == in_vm)
                std::this_thread::yield();
    }
    void end() {
        std::lock_guard<std::mutex> g(lock_);
        state_.store(false, std::memory_order_release);
        resumed_.notify_all();
    }
};

static Heap heap;
static SafepointSynchronize safepoint;

static void run_java(JavaThread *t) {
    enum { CALLS = 8 };
    for (int i = 0; i < CALLS; i++) {
        safepoint.transition_to_vm(t);
        unsigned words = 2 + unsigned(i % 3);
        heap.allocate(words);
        t->allocated += words;
        safepoint.transition_to_native(t);
    }
}

static void run_vm_operations() {
    enum { COLLECTIONS = 3 };
    for (int i = 0; i < COLLECTIONS; i++) {
        safepoint.begin();
        heap.collect();
        safepoint.end();
    }
}

int main() {
    JavaThread a(1), b(2);
    safepoint.add(&a);
    safepoint.add(&b);
    std::thread ta(run_java, &a), tb(run_java, &b), vm(run_vm_operations);
    ta.join();
    tb.join();
    vm.join();
    std::printf("allocated %u words in %u transitions, %u collections\n", a.allocated + b.allocated,
                a.transitions + b.transitions, heap.collections);
    return heap.collections == 3 && a.allocated == b.allocated ? 0 : 1;
}
