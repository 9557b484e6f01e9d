/* A seeded bug in a program of some size: a shop's server that says what products cost and how many there
 * are. Clients put requests into a queue, a pool of workers takes them from there. What is known of products
 * lies in a slow store; a cache of few entries is in front of it. An entry that a worker reads must stay; of
 * the others the one that was not asked for longest makes room.
 *
 *   requests   a bounded queue, a mutex and two condition variables
 *   cache      hash chains, each with its lock; an entry counts who uses it
 *   ages       when each entry was asked for last, and who makes room, under a lock of its own
 *   journal    the last lines that were logged, under a lock
 *   counters   of each worker, added up at the end
 *
 * Argument: how many requests. Each answer is held against the store, long after it was given: exit code 1
 * when one is wrong.
 *
 * docs/hunt.md finds the bug. GOOD: without it. */
#include "guest.h"
#include <stdlib.h>

#define SHARDS 4
#define ENTRIES 4
#define PRODUCTS 6
#define WORKERS 3
#define WAITING 32
#define LINES 16
#define MOST_REQUESTS 4096

enum kind { LOOK, LOGGED };

struct request {
    enum kind kind;
    long key;
    long price, stock; /* the answer */
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    struct request *waiting[WAITING];
    long first, count;
    int closed;
};

struct entry {
    long key, price, stock;
    long users;         /* by the lock of the key's shard */
    long asked;         /* when it was asked for last, by the lock of ages */
    struct entry *next; /* in the chain of its shard */
};

struct shard {
    pthread_mutex_t lock;
    struct entry *chain;
};

struct ages {
    pthread_mutex_t lock;
    long now;
};

enum event { LOADED, EVICTED, FOUND_LATE };

struct line {
    enum event event;
    long key;
};

struct journal {
    pthread_mutex_t lock;
    long written;
    struct line lines[LINES];
};

struct counters {
    long requests, hits, misses, evictions;
} __attribute__((aligned(64)));

static struct queue queue = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .not_empty = PTHREAD_COND_INITIALIZER,
    .not_full = PTHREAD_COND_INITIALIZER,
};
static struct journal journal = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct shard shards[SHARDS];
static struct entry entries[ENTRIES];
static struct counters counters[WORKERS];
static struct request requests[MOST_REQUESTS];

static struct ages ages = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The store: to find something out takes some time. */

static NOINLINE long price_of(long key) {
    unsigned long state = (unsigned long)key * 2654435761UL + 1;
    for (int i = 0; i < 8; i++)
        next_random(&state);
    return (long)(state % 1000) * PRODUCTS + key;
}

static NOINLINE long stock_of(long key) {
    return price_of(key) % 89 * PRODUCTS + key;
}

/* The journal. */

static NOINLINE void log_event(enum event event, long key) {
    pthread_mutex_lock(&journal.lock);
    struct line *line = &journal.lines[journal.written++ % LINES];
    line->event = event;
    line->key = key;
    pthread_mutex_unlock(&journal.lock);
}

/* The queue of requests. */

static NOINLINE void submit(struct request *request) {
    pthread_mutex_lock(&queue.lock);
    while (queue.count == WAITING)
        pthread_cond_wait(&queue.not_full, &queue.lock);
    queue.waiting[(queue.first + queue.count++) % WAITING] = request;
    pthread_cond_signal(&queue.not_empty);
    pthread_mutex_unlock(&queue.lock);
}

/* The oldest request, or NULL when there will be no more. */
static NOINLINE struct request *next_request(void) {
    struct request *request = NULL;
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 0 && !queue.closed)
        pthread_cond_wait(&queue.not_empty, &queue.lock);
    if (queue.count > 0) {
        request = queue.waiting[queue.first++ % WAITING];
        queue.count--;
        pthread_cond_signal(&queue.not_full);
    }
    pthread_mutex_unlock(&queue.lock);
    return request;
}

static NOINLINE void close_queue(void) {
    pthread_mutex_lock(&queue.lock);
    queue.closed = 1;
    pthread_cond_broadcast(&queue.not_empty);
    pthread_mutex_unlock(&queue.lock);
}

/* The cache. A chain, and the users of the entries in it, belong to the lock of the shard. */

static struct shard *shard_of(long key) {
    return &shards[key % SHARDS];
}

static struct entry *find(const struct shard *shard, long key) {
    struct entry *entry = shard->chain;
    while (entry && entry->key != key)
        entry = entry->next;
    return entry;
}

static void unchain(struct shard *shard, const struct entry *entry) {
    struct entry **link = &shard->chain;
    while (*link && *link != entry)
        link = &(*link)->next;
    if (*link)
        *link = entry->next;
}

/* The entry of a key, which stays until it is released; NULL if there is none. */
static NOINLINE struct entry *acquire(long key) {
    struct shard *shard = shard_of(key);
    pthread_mutex_lock(&shard->lock);
    struct entry *entry = find(shard, key);
    if (entry)
        entry->users++;
    pthread_mutex_unlock(&shard->lock);
    return entry;
}

static NOINLINE void release(struct entry *entry) {
    struct shard *shard = shard_of(entry->key);
    pthread_mutex_lock(&shard->lock);
    entry->users--;
    pthread_mutex_unlock(&shard->lock);
}

/* It was asked for just now. */
static NOINLINE void touch(struct entry *entry) {
    pthread_mutex_lock(&ages.lock);
    entry->asked = ++ages.now;
    pthread_mutex_unlock(&ages.lock);
}

/* The entry that is to make room: nobody uses it, and of those it was not asked for longest. */
static NOINLINE struct entry *choose(void) {
    struct entry *oldest = NULL;
    for (int i = 0; i < ENTRIES; i++) {
        struct entry *entry = &entries[i];
        if (entry->users <= 0 && (!oldest || entry->asked < oldest->asked))
            oldest = entry;
    }
    CHECK(oldest);
    return oldest;
}

/* Take an entry out of its shard: 1 if it is in no chain now and has one user, the caller. */
static NOINLINE int take_out(struct entry *entry) {
    struct shard *shard = shard_of(entry->key);
    int taken = 0;
    pthread_mutex_lock(&shard->lock);
#ifdef GOOD
    if (entry->users <= 0)
#endif
    {
        unchain(shard, entry);
        entry->users = 1;
        taken = 1;
    }
    pthread_mutex_unlock(&shard->lock);
    return taken;
}

/* An entry to be filled, for the caller alone. */
static NOINLINE struct entry *make_room(struct counters *mine) {
    struct entry *entry;
    pthread_mutex_lock(&ages.lock);
    do
        entry = choose();
    while (!take_out(entry));
    entry->asked = ++ages.now;
    mine->evictions++;
    pthread_mutex_unlock(&ages.lock);
    log_event(EVICTED, entry->key);
    return entry;
}

/* Put a filled entry into its shard. If another worker was faster, theirs is used, and ours is nobody's. */
static NOINLINE struct entry *publish(struct entry *entry) {
    struct shard *shard = shard_of(entry->key);
    pthread_mutex_lock(&shard->lock);
    struct entry *theirs = find(shard, entry->key);
    if (theirs) {
        theirs->users++;
        entry->users = 0;
    } else {
        entry->next = shard->chain;
        shard->chain = entry;
    }
    pthread_mutex_unlock(&shard->lock);
    return theirs ? theirs : entry;
}

/* The entry of a key, from the store if need be; to be released. */
static NOINLINE struct entry *get(long key, struct counters *mine) {
    struct entry *entry = acquire(key);
    if (entry) {
        touch(entry);
        mine->hits++;
        return entry;
    }
    mine->misses++;
    entry = make_room(mine);
    entry->key = key;
    entry->price = price_of(key);
    entry->stock = stock_of(key);
    struct entry *published = publish(entry);
    log_event(published == entry ? LOADED : FOUND_LATE, key);
    return published;
}

/* What workers do. */

static NOINLINE void look(struct request *request, struct counters *mine) {
    struct entry *entry = get(request->key, mine);
    request->price = entry->price;
    request->stock = entry->stock;
    release(entry);
}

/* How many lines of the journal are about a product; nobody looks at that answer. */
static NOINLINE void logged(struct request *request) {
    long lines = 0;
    pthread_mutex_lock(&journal.lock);
    for (int i = 0; i < LINES; i++)
        lines += journal.lines[i].key == request->key;
    pthread_mutex_unlock(&journal.lock);
    request->stock = lines;
}

static void *work(void *argument) {
    struct counters *mine = &counters[(long)argument];
    for (struct request *request; (request = next_request()); mine->requests++) {
        if (request->kind == LOOK)
            look(request, mine);
        else
            logged(request);
    }
    return argument;
}

/* The client. */

static void ask(long number) {
    unsigned long state = 88172645463325252UL;
    for (long i = 0; i < number; i++) {
        unsigned long drawn = next_random(&state) >> 20;
        requests[i].kind = drawn % 8 == 0 ? LOGGED : LOOK;
        requests[i].key = (long)(drawn / 8 % PRODUCTS);
        submit(&requests[i]);
    }
}

static int is_right(const struct request *request) {
    return request->kind == LOGGED ||
           (request->price == price_of(request->key) && request->stock == stock_of(request->key));
}

/* How many answers are wrong; the first of them is printed. */
static long count_wrong(long number) {
    long wrong = 0;
    for (long i = 0; i < number; i++) {
        const struct request *request = &requests[i];
        if (!is_right(request) && wrong++ == 0)
            printf(PROGRAM ": request %ld, product %ld: price %ld stock %ld\n", i, request->key,
                   request->price, request->stock);
    }
    return wrong;
}

/* Every request was answered by somebody, and looked up what it had to. */
static void check_counters(long number) {
    struct counters all = {0};
    long lookups = 0;
    for (int i = 0; i < WORKERS; i++) {
        all.requests += counters[i].requests;
        all.hits += counters[i].hits;
        all.misses += counters[i].misses;
    }
    for (long i = 0; i < number; i++)
        lookups += requests[i].kind == LOOK;
    CHECK(all.requests == number);
    CHECK(all.hits + all.misses == lookups);
}

int main(int argc, char **argv) {
    long number = argc > 1 ? strtol(argv[1], NULL, 10) : 24;
    pthread_t workers[WORKERS];
    CHECK(number >= 0 && number <= MOST_REQUESTS);
    for (int i = 0; i < SHARDS; i++)
        pthread_mutex_init(&shards[i].lock, NULL);
    for (long i = 0; i < WORKERS; i++)
        workers[i] = start(work, (void *)i);
    ask(number);
    close_queue();
    for (int i = 0; i < WORKERS; i++)
        join(workers[i]);
    check_counters(number);
    long wrong = count_wrong(number);
    printf(PROGRAM ": answers %ld wrong %ld\n", number, wrong);
    return wrong != 0;
}
