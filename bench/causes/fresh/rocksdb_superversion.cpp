/* class: reference count (use after free); fails by: assert; cause: a reader loads the current super version and takes its reference afterwards, so that an install between the two drops the last reference and deletes it */
#include <atomic>
#include <cassert>
#include <cstdio>
#include <mutex>
#include <thread>

namespace {

constexpr int kAlive = 0x5e5e5e5e;
constexpr int kReaders = 2;
constexpr int kGets = 4;
constexpr int kFlushes = 4;

struct SuperVersion {
    long arena[2] = {0, 0};
    std::atomic<int> magic{kAlive};
    std::atomic<int> refs{1};
    long number = 0;
    int mem[4] = {1, 2, 3, 4};
};

std::mutex db_mutex;
std::atomic<SuperVersion *> current{nullptr};
std::atomic<int> created{0}, deleted{0};
long sums[kReaders];

SuperVersion *NewVersion(long number)
{
    auto *sv = new SuperVersion;
    sv->number = number;
    created++;
    return sv;
}

void Unref(SuperVersion *sv)
{
    if (sv->refs.fetch_sub(1) == 1) {
        sv->magic.store(0);
        deleted++;
        delete sv;                                // CAUSE
    }
}

SuperVersion *GetReferenced()
{
    SuperVersion *sv = current.load();            // CAUSE
    sv->refs.fetch_add(1);                        // CAUSE
    return sv;
}

void InstallSuperVersion(long number)
{
    SuperVersion *fresh = NewVersion(number);
    SuperVersion *old;
    {
        std::lock_guard<std::mutex> l(db_mutex);
        old = current.exchange(fresh);            // CAUSE
    }
    Unref(old);
}

void Reader(int id)
{
    long last = 0;
    for (int i = 0; i < kGets; i++) {
        SuperVersion *sv = GetReferenced();
        assert(sv->magic.load() == kAlive);
        assert(sv->number >= last);
        last = sv->number;
        for (int v : sv->mem)
            sums[id] += v;
        Unref(sv);
    }
}

void Flusher()
{
    for (int i = 1; i <= kFlushes; i++)
        InstallSuperVersion(i);
}

} // namespace

int main()
{
    current = NewVersion(0);
    std::thread r0(Reader, 0), r1(Reader, 1), f(Flusher);
    r0.join();
    r1.join();
    f.join();
    Unref(current.exchange(nullptr));
    assert(created == deleted);
    assert(sums[0] == 10 * kGets && sums[1] == 10 * kGets);
    std::printf("%d versions\n", created.load());
    return 0;
}
