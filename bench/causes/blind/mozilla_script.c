/* class: atomicity violation, write-write-read; fails by: segv; cause: a load sets gCurrentScript and reads it
 * again when it compiles, while another thread's unload has set it to NULL in between.
 * Modelled on Mozilla bug 73761 (nsXULDocument: gCurrentScript). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct script {
    int len;
    char text[24];
};

static struct script scripts[3] = { { 3, "a=1" }, { 7, "b=a+1;c" }, { 2, ";;" } };
static struct script *volatile gCurrentScript;
static pthread_mutex_t gCacheLock = PTHREAD_MUTEX_INITIALIZER;
static int gLoads, gCompiled;

static void launch_load(void)
{
    pthread_mutex_lock(&gCacheLock);
    gLoads++;
    pthread_mutex_unlock(&gCacheLock);
}

static int on_load_complete(void)
{
    struct script *s = gCurrentScript; // CAUSE
    int sum = 0;
    for (int i = 0; i < s->len; i++)
        sum += s->text[i] == ';' ? 0 : 1;
    return sum;
}

static void *loader(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        gCurrentScript = &scripts[i]; // CAUSE
        launch_load();
        gCompiled += on_load_complete();
    }
    return NULL;
}

static void *unloader(void *arg)
{
    (void)arg;
    launch_load();
    gCurrentScript = NULL; // CAUSE
    return NULL;
}

int main(void)
{
    pthread_t a, b;
    pthread_create(&a, NULL, loader, NULL);
    pthread_create(&b, NULL, unloader, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    printf("%d loads, %d compiled\n", gLoads, gCompiled);
    return gLoads != 4 || gCompiled != 9;
}
