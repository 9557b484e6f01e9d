/* class: data race on a shared_ptr object (copy against assignment); fails by: abort; cause: a callback copies the shared_ptr of the current parameters while set_parameters assigns to it, it has loaded the old pointer and not yet counted its reference when the old map is released and destroyed */
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

class ParamMap {
    volatile uint32_t state_ = 0x900d;
    std::map<std::string, long> values_;

public:
    const unsigned version;
    ParamMap(unsigned v, long rate) : version(v) {
        values_["rate"] = rate;
        values_["rate_check"] = rate * 3;
    }
    ~ParamMap() { state_ = 0xdead; } // CAUSE
    long get(const char *key) const {
        if (state_ != 0x900d) { // CAUSE
            std::fprintf(stderr, "parameter map used after its release\n");
            std::abort();
        }
        auto it = values_.find(key);
        return it == values_.end() ? -1 : it->second;
    }
};

class ParamNode {
    std::shared_ptr<const ParamMap> current_;
    std::mutex stats_;

public:
    unsigned updates = 0, callbacks = 0;
    ParamNode() : current_(new ParamMap(0, 10)) {}
    std::shared_ptr<const ParamMap> snapshot() {
        std::shared_ptr<const ParamMap> p = current_; // CAUSE
        return p;
    }
    void set_parameters(unsigned version, long rate) {
        std::shared_ptr<const ParamMap> next(new ParamMap(version, rate));
        current_ = std::move(next); // CAUSE
        std::lock_guard<std::mutex> g(stats_);
        updates++;
    }
    void count_callback() {
        std::lock_guard<std::mutex> g(stats_);
        callbacks++;
    }
};

static long spin_timer(ParamNode &node, int ticks) {
    long sum = 0;
    unsigned seen = 0;
    for (int i = 0; i < ticks; i++) {
        auto p = node.snapshot();
        long rate = p->get("rate");
        if (p->version < seen || p->get("rate_check") != rate * 3)
            return -1;
        seen = p->version;
        sum += rate;
        node.count_callback();
    }
    return sum;
}

int main() {
    enum { TIMERS = 2, TICKS = 5, UPDATES = 3 };
    ParamNode node;
    long sums[TIMERS];
    std::vector<std::thread> timers;
    for (int i = 0; i < TIMERS; i++)
        timers.emplace_back([&node, &sums, i] { sums[i] = spin_timer(node, TICKS); });
    std::thread service([&node] {
        for (unsigned v = 1; v <= UPDATES; v++)
            node.set_parameters(v, 10 + long(v));
    });
    for (auto &t : timers)
        t.join();
    service.join();
    bool ok = node.updates == UPDATES && node.callbacks == TIMERS * TICKS && node.snapshot()->version == UPDATES;
    for (long s : sums)
        ok = ok && s >= 10 * TICKS && s <= (10 + UPDATES) * TICKS;
    std::printf("updates %u callbacks %u\n", node.updates, node.callbacks);
    return ok ? 0 : 1;
}
