/* class: atomicity violation (check then set of an atomic); fails by: wrong result; cause: the responder and the health check thread both find the state of a query in use before either has marked it free, so both take the query off the outstanding counter */
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

    void markAsUnused() {
        usageIndicator.store(unusedIndicator); // CAUSE
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
        if (!ids.isInUse()) // CAUSE
            continue;
        ids.markAsUnused();
        --dss.outstanding;
        ++dss.responses;
    }
}

static void healthChecksThread(DownstreamState &dss) {
    for (int slot = maxOutstanding - 1; slot >= 0; slot--) {
        IDState &ids = dss.idStates[slot];
        if (ids.isInUse() && ids.age++ >= udpTimeout) { // CAUSE
            ids.markAsUnused();
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
