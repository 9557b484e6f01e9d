/* class: reference count; fails by: exit; cause: lookup hands out a pointer from the table and takes the reference only
 * after the lock, so that the last Unref by another thread can destroy the object in between.
 * Modelled on GLib's weak reference / toggle-ref races (bug 548954) and LevelDB's cache handles. */
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

struct Object {
    std::atomic<int> refs{1};
    std::atomic<bool> disposed{false};
    int value = 42;
};

class Registry {
public:
    explicit Registry(Object *o) : object_(o) {}

    Object *Lookup()
    {
        std::unique_lock<std::mutex> l(lock_);
        Object *o = object_; // CAUSE
        l.unlock();
        if (o)
            o->refs.fetch_add(1); // CAUSE
        return o;
    }

    void Unref(Object *o)
    {
        if (o->refs.fetch_sub(1) != 1) // CAUSE
            return;
        std::lock_guard<std::mutex> l(lock_);
        object_ = nullptr; // CAUSE
        o->value = 0; // CAUSE
        o->disposed.store(true);
        disposals_++;
    }

    int Disposals()
    {
        std::lock_guard<std::mutex> l(lock_);
        return disposals_;
    }

private:
    std::mutex lock_;
    Object *object_;
    int disposals_ = 0;
};

int main()
{
    Object obj;
    Registry reg(&obj);
    std::atomic<int> wrong(0), used(0);
    std::thread user([&] {
        for (int i = 0; i < 2; i++)
            if (Object *o = reg.Lookup()) {
                used++;
                if (o->value != 42) // CAUSE
                    wrong++;
                reg.Unref(o);
            }
    });
    std::thread owner([&] { reg.Unref(&obj); });
    user.join();
    owner.join();
    std::printf("used %d times, %d wrong, %d disposals\n", used.load(), wrong.load(), reg.Disposals());
    return wrong.load() != 0 || reg.Disposals() != 1 || !obj.disposed.load();
}
