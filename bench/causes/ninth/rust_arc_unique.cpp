/* class: atomicity violation (two counters); fails by: wrong result; cause: between the two loads with which get_mut finds the strong and the weak count to be one, a reader turns its weak reference into a strong one, so the shared value is changed in place */
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

struct Style {
    int generation = 0;
    int width[4] = {0, 0, 0, 0};
};

struct Inner {
    std::atomic<size_t> strong{1};
    std::atomic<size_t> weak{1}; /* all strong references together hold one */
    Style data;
};

static void drop_weak(Inner *p) {
    if (p->weak.fetch_sub(1) == 1) // CAUSE
        delete p;
}

class Arc {
public:
    Arc() : p_(nullptr) {}
    explicit Arc(const Style &s) : p_(new Inner) { p_->data = s; }
    explicit Arc(Inner *p) : p_(p) {}
    Arc(Arc &&o) : p_(o.p_) { o.p_ = nullptr; }
    Arc &operator=(Arc &&o) {
        reset();
        p_ = o.p_;
        o.p_ = nullptr;
        return *this;
    }
    ~Arc() { reset(); }
    void reset() {
        Inner *p = p_;
        p_ = nullptr;
        if (p && p->strong.fetch_sub(1) == 1)
            drop_weak(p);
    }
    explicit operator bool() const { return p_ != nullptr; }
    const Style &get() const { return p_->data; }
    Inner *downgrade() const {
        p_->weak.fetch_add(1);
        return p_;
    }
    Style *get_mut() { return is_unique() ? &p_->data : nullptr; }
    Style *make_mut() {
        Style *s = get_mut();
        if (!s) {
            *this = Arc(p_->data);
            s = &p_->data;
        }
        return s;
    }

private:
    bool is_unique() {
        if (p_->strong.load() != 1) // CAUSE
            return false;
        return p_->weak.load() == 1; // CAUSE
    }
    Inner *p_;
};

static Arc upgrade(Inner *p) {
    size_t n = p->strong.load();
    do {
        if (n == 0)
            return Arc();
    } while (!p->strong.compare_exchange_weak(n, n + 1)); // CAUSE
    return Arc(p);
}

enum { NODES = 4 };

static Arc style[NODES];
static Inner *observed[NODES];
static Arc kept[NODES];
static int kept_generation[NODES];
static int restyled, painted;

static void restyle() {
    for (int i = 0; i < NODES; i++) {
        Style *s = style[i].make_mut();
        s->generation++;
        for (int w = 0; w < 4; w++)
            s->width[w] += i + w;
        restyled++;
    }
}

static void paint() {
    for (int i = 0; i < NODES; i++) {
        kept[i] = upgrade(observed[i]);
        if (kept[i]) {
            kept_generation[i] = kept[i].get().generation;
            painted++;
        }
        drop_weak(observed[i]);
    }
}

int main() {
    int changed = 0;
    for (int i = 0; i < NODES; i++) {
        style[i] = Arc(Style());
        observed[i] = style[i].downgrade();
    }
    std::thread painter(paint), layout(restyle);
    painter.join();
    layout.join();
    for (int i = 0; i < NODES; i++) {
        if (kept[i] && kept[i].get().generation != kept_generation[i]) {
            fprintf(stderr, "style of node %d changed under its reader\n", i);
            changed++;
        }
    }
    printf("%d restyled, %d painted\n", restyled, painted);
    return restyled == NODES && changed == 0 ? 0 : 1;
}
