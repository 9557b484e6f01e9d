/* correct twin of chromium_observer_lock: the monitor copies the list and calls the observers without its lock */
#include <algorithm>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

namespace {

class Observer {
public:
    virtual ~Observer() = default;
    virtual void OnDeviceChange(int device) = 0;
};

class DeviceMonitor {
public:
    void Add(Observer *o)
    {
        std::lock_guard<std::mutex> l(lock_);
        observers_.push_back(o);
    }

    void Remove(Observer *o)
    {
        std::lock_guard<std::mutex> l(lock_);
        observers_.erase(std::remove(observers_.begin(), observers_.end(), o), observers_.end());
    }

    void Notify(int device)
    {
        std::vector<Observer *> copy;
        {
            std::lock_guard<std::mutex> l(lock_);
            copy = observers_;
        }
        for (Observer *o : copy)
            o->OnDeviceChange(device);
    }

private:
    std::mutex lock_;
    std::vector<Observer *> observers_;
};

DeviceMonitor monitor;

class AudioStream : public Observer {
public:
    void Open()
    {
        monitor.Add(this);
        open_ = true;
    }

    void OnDeviceChange(int device) override
    {
        std::lock_guard<std::mutex> l(lock_);
        if (open_)
            device_ = device;
        changes_++;
    }

    void Close()
    {
        std::lock_guard<std::mutex> l(lock_);
        open_ = false;
        monitor.Remove(this);
    }

    int changes() const { return changes_; }

private:
    std::mutex lock_;
    bool open_ = false;
    int device_ = 0;
    int changes_ = 0;
};

AudioStream streams[3];

void AudioThread()
{
    for (int d = 1; d <= 3; d++)
        monitor.Notify(d);
}

void UiThread()
{
    streams[1].Close();
    streams[2].Close();
}

} // namespace

int main()
{
    for (AudioStream &s : streams)
        s.Open();
    std::thread audio(AudioThread), ui(UiThread);
    audio.join();
    ui.join();
    std::printf("%d changes\n", streams[0].changes());
    return streams[0].changes() != 3;
}
