/* repaired twin of icu_initonce_cycle.cpp */
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <unistd.h>

struct UInitOnce {
    int state = 0;                 /* 0 new, 1 running, 2 done */
    std::thread::id owner;
};

static std::recursive_mutex initMutex;

static void umtx_initOnce(UInitOnce &uio, void (*fn)()) {
    std::lock_guard<std::recursive_mutex> g(initMutex);   /* one lock for all inits */
    if (uio.state != 0)
        return;
    uio.state = 1;
    fn();
    uio.state = 2;
}

struct Converter {
    int id;
    int table[16];
};
struct AliasTable {
    int count;
    int hash[16];
};

static UInitOnce gConverterOnce, gAliasOnce;
static Converter gConverter;
static AliasTable gAlias;
static std::mutex statLock;
static int lookups;

static AliasTable *getAliasTable();
static Converter *getConverter();

static void initConverter() {
    gConverter.id = 7;
    AliasTable *a = getAliasTable();
    (void)a;
    for (int i = 0; i < 16; i++)
        gConverter.table[i] = i * 3;
}

static void initAlias() {
    gAlias.count = 16;
    Converter *c = getConverter();
    (void)c;
    for (int i = 0; i < 16; i++)
        gAlias.hash[i] = i * 5;
}

static AliasTable *getAliasTable() {
    umtx_initOnce(gAliasOnce, initAlias);
    return &gAlias;
}

static Converter *getConverter() {
    umtx_initOnce(gConverterOnce, initConverter);
    return &gConverter;
}

static void count() {
    std::lock_guard<std::mutex> g(statLock);
    lookups++;
}

static void convert(long *sum) {
    for (int i = 0; i < 16; i++) {
        *sum += getConverter()->table[i];
        count();
    }
}

static void canonical(long *sum) {
    for (int i = 0; i < 8; i++)
        count();
    for (int i = 0; i < 8; i++) {
        *sum += getAliasTable()->hash[i];
        count();
    }
}

int main() {
    long a = 0, b = 0;
    std::thread t1(convert, &a), t2(canonical, &b);
    t1.join();
    t2.join();
    std::printf("sums %ld %ld lookups %d\n", a, b, lookups);
    if (a != 360 || b != 140 || lookups != 32) {
        std::puts("tables are wrong");
        return 1;
    }
    return 0;
}
