/* correct twin of dnsdist_idstate_timeout: a state is marked free by compare-and-exchange, and only the thread that did it takes the query off the counter */
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>

constexpr int maxOutstanding = 3;
constexpr int udpTimeout = 1;

struct IDState {
    static constexpr int64_t unusedIndicator = -1;

    bool isInUse() const { return usageIndicator.load() != unusedIndicator; }

    bool tryMarkUnused(int64_t expected) {
        return usageIndicator.compare_exchange_strong(expected, unusedIndicator);
    }

    std::atomic<int64_t> usageIndicator{unusedIndicator};
    std::atomic<int> age{0};
    uint16_t origID{0};
};

struct DownstreamState {
    std::array<IDState, maxOutstanding> idStates;
    std::atomic<int64_t> outstanding{0};
    std::atomic<unsigned> reuseds{0}, responses{0};
    int64_t generation{0};

    void sendQuery(int slot, uint16_t id) {
        IDState &ids = idStates[slot];
        ids.origID = id;
        ids.age = udpTimeout;
        ids.usageIndicator = generation++;
        ++outstanding;
    }
};

static void responderThread(DownstreamState &dss) {
    for (int slot = 0; slot < maxOutstanding; slot++) {
        IDState &ids = dss.idStates[slot];
        int64_t usage = ids.usageIndicator.load();
        if (usage == IDState::unusedIndicator)
            continue;
        if (!ids.tryMarkUnused(usage))
            continue;
        --dss.outstanding;
        ++dss.responses;
    }
}

static void healthChecksThread(DownstreamState &dss) {
    for (int slot = maxOutstanding - 1; slot >= 0; slot--) {
        IDState &ids = dss.idStates[slot];
        int64_t usage = ids.usageIndicator.load();
        if (usage != IDState::unusedIndicator && ids.age++ >= udpTimeout) {
            if (!ids.tryMarkUnused(usage))
                continue;
            --dss.outstanding;
            ++dss.reuseds;
        }
    }
}

int main() {
    DownstreamState dss;
    for (int slot = 0; slot < maxOutstanding; slot++)
        dss.sendQuery(slot, static_cast<uint16_t>(1000 + slot));
    std::thread responder(responderThread, std::ref(dss));
    std::thread health(healthChecksThread, std::ref(dss));
    responder.join();
    health.join();
    std::printf("%u answered, %u timed out, %lld outstanding\n", dss.responses.load(), dss.reuseds.load(),
                static_cast<long long>(dss.outstanding.load()));
    return dss.outstanding.load() == 0 ? 0 : 1;
}
