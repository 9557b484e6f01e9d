/* correct twin of mv_view: both are read and written under the view's lock */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct view {
    pthread_mutex_t lock;
    _Atomic(const char *) text;
    atomic_size_t len;
    int changes;
};

static const char *const titles[] = { "inbox (3 unread)", "drafts", "sent messages", "trash" };
static struct view view = { .lock = PTHREAD_MUTEX_INITIALIZER };
static atomic_int drawn;

static void set_text(struct view *v, const char *s)
{
    size_t n = strlen(s);
    pthread_mutex_lock(&v->lock);
    atomic_store(&v->text, s);
    v->changes++;
    atomic_store(&v->len, n);
    pthread_mutex_unlock(&v->lock);
}

static void draw(struct view *v)
{
    char screen[24];
    pthread_mutex_lock(&v->lock);
    const char *s = atomic_load(&v->text);
    size_t n = atomic_load(&v->len);
    pthread_mutex_unlock(&v->lock);
    memset(screen, 0, sizeof screen);
    strncpy(screen, s, n);
    assert(strlen(screen) == n && s[n] == 0);
    atomic_fetch_add(&drawn, 1);
}

static void *renderer(void *arg)
{
    for (int i = 0; i < 6; i++)
        draw(arg);
    return NULL;
}

int main(void)
{
    pthread_t t;
    set_text(&view, titles[0]);
    pthread_create(&t, NULL, renderer, &view);
    for (int i = 1; i < 4; i++)
        set_text(&view, titles[i]);
    pthread_join(t, NULL);
    assert(view.changes == 4);
    return atomic_load(&drawn) != 6;
}
