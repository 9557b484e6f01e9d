/* correct twin of linux_timerfd_cancel: a lock of the timer is held over the look at might_cancel and the change of the list */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { TFD_CANCEL_ON_SET = 1, TIMERS = 2 };

struct list_head {
    struct list_head *next, *prev;
};

struct timerfd_ctx {
    struct list_head clist;
    long expires;
    int might_cancel;
    int moffs;
    pthread_mutex_t cancel_lock;
};

static struct list_head cancel_list = { &cancel_list, &cancel_list };
static pthread_mutex_t cancel_list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct timerfd_ctx timers[TIMERS];

static void list_add(struct list_head *entry, struct list_head *head) {
    struct list_head *next = head->next;
    next->prev = entry;
    entry->next = next;
    entry->prev = head;
    head->next = entry;
}

static void list_del(struct list_head *entry) {
    entry->next->prev = entry->prev;
    entry->prev->next = entry->next;
}

static void timerfd_remove_cancel(struct timerfd_ctx *ctx) {
    if (ctx->might_cancel) {
        ctx->might_cancel = 0;
        pthread_mutex_lock(&cancel_list_lock);
        list_del(&ctx->clist);
        pthread_mutex_unlock(&cancel_list_lock);
    }
}

static void timerfd_setup_cancel(struct timerfd_ctx *ctx, int flags) {
    pthread_mutex_lock(&ctx->cancel_lock);
    if (flags & TFD_CANCEL_ON_SET) {
        if (!ctx->might_cancel) {
            ctx->might_cancel = 1;
            pthread_mutex_lock(&cancel_list_lock);
            list_add(&ctx->clist, &cancel_list);
            pthread_mutex_unlock(&cancel_list_lock);
        }
    } else {
        timerfd_remove_cancel(ctx);
    }
    pthread_mutex_unlock(&ctx->cancel_lock);
}

/* the wall clock has been set: tell all timers that asked for it */
static int clock_was_set(int moffs) {
    int n = 0;
    pthread_mutex_lock(&cancel_list_lock);
    for (struct list_head *p = cancel_list.next; p != &cancel_list; p = p->next) {
        struct timerfd_ctx *ctx = (struct timerfd_ctx *)p;
        assert(++n <= TIMERS);
        ctx->moffs = moffs;
    }
    pthread_mutex_unlock(&cancel_list_lock);
    return n;
}

static void *alarm_service(void *arg) {
    struct timerfd_ctx *ctx = arg;
    timerfd_setup_cancel(ctx, TFD_CANCEL_ON_SET);
    return NULL;
}

int main(void) {
    pthread_t services[2];
    for (int i = 0; i < TIMERS; i++)
        pthread_mutex_init(&timers[i].cancel_lock, NULL);
    timerfd_setup_cancel(&timers[1], TFD_CANCEL_ON_SET);
    for (int i = 0; i < 2; i++)
        pthread_create(&services[i], NULL, alarm_service, &timers[0]);
    for (int i = 0; i < 2; i++)
        pthread_join(services[i], NULL);
    int before = clock_was_set(3600);
    for (int i = 0; i < TIMERS; i++)
        timerfd_setup_cancel(&timers[i], 0);
    int after = clock_was_set(7200);
    printf("%d timers told, then %d, offset %d\n", before, after, timers[0].moffs);
    return before == TIMERS && after == 0 ? 0 : 1;
}
