/* class: semaphore misuse (sem_getvalue taken as a promise that sem_wait will not block); fails by: deadlock;
 * cause: the checkpointer holds the catalog lock and sees a ticket free; a reader takes that last ticket before the
 * checkpointer's sem_wait, which now blocks, while the readers who hold the tickets wait for the catalog lock. */
#include <semaphore.h>

#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

class TicketHolder {
public:
    explicit TicketHolder(unsigned n) { sem_init(&sem_, 0, n); }
    ~TicketHolder() { sem_destroy(&sem_); }

    void Wait() {
        while (sem_wait(&sem_) != 0) {} // CAUSE
    }

    bool TryAcquire() {
        int free = 0;
        sem_getvalue(&sem_, &free); // CAUSE
        if (free <= 0) return false;
        while (sem_wait(&sem_) != 0) {} // CAUSE
        return true;
    }

    void Release() { sem_post(&sem_); }

    int Available() {
        int v = 0;
        sem_getvalue(&sem_, &v);
        return v;
    }

private:
    sem_t sem_;
};

namespace {
constexpr unsigned kTickets = 2;
constexpr int kReaders = 3;
constexpr int kReads = 14;
constexpr int kCheckpoints = 10;

TicketHolder g_tickets(kTickets);
std::mutex g_catalog;
unsigned g_reads;
unsigned long g_bytes;
int g_checkpoints, g_skipped;

void Reader(int id) {
    for (int i = 0; i < kReads; ++i) {
        g_tickets.Wait();
        {
            std::lock_guard<std::mutex> g(g_catalog);
            ++g_reads;
            g_bytes += static_cast<unsigned long>(id * 100 + i);
        }
        g_tickets.Release();
    }
}

void Checkpointer() {
    for (int i = 0; i < kCheckpoints; ++i) {
        std::lock_guard<std::mutex> g(g_catalog);
        if (g_tickets.TryAcquire()) {
            ++g_checkpoints;
            g_tickets.Release();
        } else {
            ++g_skipped;
        }
    }
}
}  // namespace

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < kReaders; ++i) threads.emplace_back(Reader, i);
    threads.emplace_back(Checkpointer);
    for (auto& t : threads) t.join();

    if (g_reads != kReaders * kReads || g_checkpoints + g_skipped != kCheckpoints ||
        g_tickets.Available() != static_cast<int>(kTickets)) {
        std::printf("FAIL: %u reads, %d tickets at the end\n", g_reads, g_tickets.Available());
        return 1;
    }
    std::printf("ok: %u reads, %d checkpoints\n", g_reads, g_checkpoints);
    return 0;
}
