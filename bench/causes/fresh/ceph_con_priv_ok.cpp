/* correct twin of ceph_con_priv: the dispatcher reads the session once */
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr int kMessages = 6;
constexpr int kConnections = 2;

struct Session {
    long seq[2] = {0, 0};
    std::atomic<int> ops{0};
    std::atomic<bool> closed{false};
};

struct Connection {
    std::atomic<Session *> priv{nullptr};
    int peer = 0;
};

class Osd {
public:
    Session *NewSession()
    {
        std::lock_guard<std::mutex> l(lock_);
        sessions_.push_back(std::make_unique<Session>());
        return sessions_.back().get();
    }

    int TotalOps()
    {
        std::lock_guard<std::mutex> l(lock_);
        int n = 0;
        for (auto &s : sessions_)
            n += s->ops;
        return n;
    }

private:
    std::mutex lock_;
    std::vector<std::unique_ptr<Session>> sessions_;
};

Osd osd;
Connection cons[kConnections];
std::atomic<int> dropped{0};

void Dispatch(Connection &con)
{
    Session *s = con.priv.load();
    if (s != nullptr) {
        s->ops.fetch_add(1);
    } else {
        dropped++;
    }
}

void HandleReset(Connection &con)
{
    Session *s = con.priv.exchange(nullptr);
    if (s != nullptr)
        s->closed = true;
}

void Messenger()
{
    for (int i = 0; i < kMessages; i++)
        Dispatch(cons[i % kConnections]);
}

void ResetThread()
{
    HandleReset(cons[1]);
    cons[1].priv.store(osd.NewSession());
    HandleReset(cons[0]);
}

} // namespace

int main()
{
    for (int i = 0; i < kConnections; i++) {
        cons[i].peer = i;
        cons[i].priv.store(osd.NewSession());
    }
    std::thread m(Messenger), r(ResetThread);
    m.join();
    r.join();
    int n = osd.TotalOps() + dropped;
    std::printf("%d messages\n", n);
    return n != kMessages;
}
