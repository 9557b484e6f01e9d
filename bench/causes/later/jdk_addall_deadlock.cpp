/* class: deadlock (lock order through an argument); fails by: deadlock; cause: (after addAll of JDK's synchronized
 * collections) addAll holds the lock of its own list while it takes that of the other, so that two lists which are
 * added to one another at once wait for each other */
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kRounds = 3;

class AddressBook {
public:
    explicit AddressBook(const char *owner) : owner_(owner) {}

    void Add(const std::string &name)
    {
        std::lock_guard<std::mutex> l(mutex_);
        names_.insert(name);
    }

    std::vector<std::string> Names()
    {
        std::lock_guard<std::mutex> l(mutex_);    // CAUSE
        return std::vector<std::string>(names_.begin(), names_.end());
    }

    int AddAll(AddressBook &other)
    {
        int added = 0;
        std::lock_guard<std::mutex> l(mutex_);    // CAUSE
        for (const auto &name : other.Names())
            if (names_.insert(name).second)
                added++;
        return added;
    }

    bool Has(const std::string &name)
    {
        std::lock_guard<std::mutex> l(mutex_);
        return names_.count(name) != 0;
    }

    const std::string &Owner() const { return owner_; }

private:
    const std::string owner_;
    std::mutex mutex_;
    std::set<std::string> names_;
};

void Sync(AddressBook &mine, AddressBook &theirs, int *added)
{
    for (int i = 0; i < kRounds; i++) {
        mine.Add(mine.Owner() + std::to_string(i));
        *added += mine.AddAll(theirs);
    }
}

} // namespace

int main()
{
    AddressBook phone("phone"), laptop("laptop");
    int added[2] = {};
    int missing = 0;
    phone.Add("mother");
    laptop.Add("office");
    std::thread a([&] { Sync(phone, laptop, &added[0]); });
    std::thread b([&] { Sync(laptop, phone, &added[1]); });
    a.join();
    b.join();
    if (!phone.Has("office") || !laptop.Has("mother"))
        missing++;
    for (int i = 0; i < kRounds; i++)
        if (!phone.Has("phone" + std::to_string(i)) || !laptop.Has("laptop" + std::to_string(i)))
            missing++;
    std::printf("%d and %d added, %d missing\n", added[0], added[1], missing);
    return missing != 0;
}
