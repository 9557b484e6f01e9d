/* class: two-phase operation undone in between; fails by: wrong result; cause: (after Linux CVE-2016-5195) a forced
 * write makes the private copy of a page and then, no longer asking for a writable page, looks the page up again;
 * when another thread has discarded the copy in between, the second look-up gives the page of the file itself */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define PAGE 32
#define WRITES 4
#define DISCARDS 4
#define FOLL_WRITE 1
#define FOLL_COW 2

struct page { int anon; char data[PAGE]; };

static struct page file_page = { 0, "read-only file contents" };
static struct page copies[WRITES * 8];
static int ncopies;

static struct {
    pthread_mutex_t lock;
    struct page *pte;
} mm = { PTHREAD_MUTEX_INITIALIZER, NULL };

static void fault_in(int *flags)
{
    pthread_mutex_lock(&mm.lock);
    if (mm.pte == NULL)
        mm.pte = &file_page;
    if (*flags & FOLL_WRITE && !mm.pte->anon && ncopies < WRITES * 8) {
        struct page *copy = &copies[ncopies++];
        memcpy(copy->data, mm.pte->data, PAGE);
        copy->anon = 1;
        mm.pte = copy;                            // CAUSE
    }
    if (*flags & FOLL_WRITE && mm.pte->anon)
        *flags = (*flags & ~FOLL_WRITE) | FOLL_COW;
    pthread_mutex_unlock(&mm.lock);
}

static int may_take(const struct page *p, int flags)
{
    if (p == NULL || flags & FOLL_WRITE)
        return 0;
    return 1;
}

static struct page *get_page_forced(void)
{
    int flags = FOLL_WRITE;
    for (;;) {
        pthread_mutex_lock(&mm.lock);
        struct page *p = mm.pte;                  // CAUSE
        int take = may_take(p, flags);
        pthread_mutex_unlock(&mm.lock);
        if (take)
            return p;
        fault_in(&flags);
    }
}

static void *writer(void *arg)
{
    (void)arg;
    for (int i = 0; i < WRITES; i++) {
        struct page *p = get_page_forced();
        snprintf(p->data, PAGE, "private write %d", i);
    }
    return NULL;
}

static void *discarder(void *arg)
{
    (void)arg;
    for (int i = 0; i < DISCARDS; i++) {
        pthread_mutex_lock(&mm.lock);
        mm.pte = NULL;                            // CAUSE
        pthread_mutex_unlock(&mm.lock);
        pthread_mutex_lock(&mm.lock);
        if (mm.pte == NULL)
            mm.pte = &file_page;
        pthread_mutex_unlock(&mm.lock);
    }
    return NULL;
}

static int check_file(void)
{
    printf("file: %s\n", file_page.data);
    return strcmp(file_page.data, "read-only file contents") != 0;
}

int main(void)
{
    pthread_t w, d;
    pthread_create(&w, NULL, writer, NULL);
    pthread_create(&d, NULL, discarder, NULL);
    pthread_join(w, NULL);
    pthread_join(d, NULL);
    return check_file();
}
