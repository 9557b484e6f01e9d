/* correct twin of chromium_idmap_keys: a number that is not in the map any more is passed over */
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kTabs = 6;
constexpr int kBroadcasts = 3;

struct Tab {
    std::string title;
    int messages = 0;
};

class TabMap {
public:
    int Open(const std::string &title)
    {
        std::lock_guard<std::mutex> l(mutex_);
        int id = next_id_++;
        tabs_[id].title = title;
        return id;
    }

    int Close(int id)
    {
        std::lock_guard<std::mutex> l(mutex_);
        int messages = tabs_.at(id).messages;
        tabs_.erase(id);
        return messages;
    }

    int Broadcast()
    {
        std::vector<int> ids;
        int sent = 0;
        {
            std::lock_guard<std::mutex> l(mutex_);
            for (const auto &entry : tabs_)
                ids.push_back(entry.first);
        }
        for (int id : ids) {
            std::lock_guard<std::mutex> l(mutex_);
            auto it = tabs_.find(id);
            if (it == tabs_.end())
                continue;
            it->second.messages++;
            sent++;
        }
        return sent;
    }

private:
    std::mutex mutex_;
    std::map<int, Tab> tabs_;
    int next_id_ = 1;
};

} // namespace

int main()
{
    TabMap map;
    std::vector<int> ids;
    int sent = 0, received = 0;
    for (int i = 0; i < kTabs; i++)
        ids.push_back(map.Open("tab " + std::to_string(i)));

    std::thread browser([&map, &sent] {
        for (int i = 0; i < kBroadcasts; i++)
            sent += map.Broadcast();
    });
    std::thread user([&map, &ids, &received] {
        for (int i = 0; i < kTabs; i += 2)
            received += map.Close(ids[i]);
        int id = map.Open("a new tab");
        received += map.Close(id);
    });
    browser.join();
    user.join();
    for (int i = 1; i < kTabs; i += 2)
        received += map.Close(ids[i]);
    std::printf("%d sent, %d received\n", sent, received);
    return sent != received;
}
