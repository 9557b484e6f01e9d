/* class: order violation (used before created); fails by: abort; cause: Main, in the new thread, sees mStarted and uses mThread before
 * Init, in the creating thread, has assigned it.
 * Modelled on Mozilla's nsThread.cpp (bug 61369: mThread = PR_CreateThread(...)). */
#include <atomic>
#include <cassert>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

struct PRThread {
    std::thread handle;
    int state = 0;
};

class nsThread {
public:
    void Init()
    {
        PRThread *p = new PRThread;
        p->handle = std::thread(&nsThread::Main, this);
        mStarted.store(true); // CAUSE
        mThread = p; // CAUSE
    }

    void Main()
    {
        while (!mStarted.load()) // CAUSE
            std::this_thread::yield();
        int n = 0;
        for (const char *c = "timer thread"; *c; c++)
            n += *c != ' ';
        PRThread *self = mThread; // CAUSE
        assert(self != nullptr);
        self->state = n;
        Finish();
    }

    void Finish()
    {
        std::lock_guard<std::mutex> l(mLock);
        mDone = true;
        mCond.notify_all();
    }

    int WaitDone()
    {
        {
            std::unique_lock<std::mutex> l(mLock);
            while (!mDone)
                mCond.wait(l);
        }
        mThread->handle.join();
        int s = mThread->state;
        delete mThread;
        return s;
    }

private:
    PRThread *mThread = nullptr;
    std::atomic<bool> mStarted{false};
    bool mDone = false;
    std::mutex mLock;
    std::condition_variable mCond;
};

int main()
{
    nsThread t, u;
    t.Init();
    u.Init();
    int s = t.WaitDone() + u.WaitDone();
    std::printf("state %d\n", s);
    return s != 22;
}
