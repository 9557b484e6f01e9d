/* class: process-wide state (environ changed while another thread walks it); fails by: crash; cause: the display thread removes the startup variables from the environment and so shifts all later entries down while the settings thread walks them in getenv, which misses its variable and returns a null pointer that is used */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct setting {
    const char *env, *key;
    char value[48];
    size_t len;
};

static struct {
    pthread_mutex_t lock;
    struct setting items[4];
    unsigned loaded;
} settings = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .items = {
        { "GDK_BACKEND", "backend", "", 0 },
        { "GDK_SCALE", "scale", "", 0 },
        { "XDG_DATA_HOME", "data-dir", "", 0 },
        { "GTK_THEME", "theme", "", 0 },
    },
};

static struct display {
    pthread_mutex_t lock;
    char startup_id[64];
    unsigned long startup_time;
    unsigned screens, roundtrips;
} display = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const char *const initial_env[][2] = {
    { "DESKTOP_STARTUP_ID", "gnome-shell-2212-host-editor-0_TIME8133" },
    { "XDG_ACTIVATION_TOKEN", "gnome-shell-2212-host-editor-0_TIME8133" },
    { "LANG", "C" },
    { "HOME", "/home/user" },
    { "DISPLAY", ":0" },
    { "GDK_BACKEND", "x11" },
    { "GDK_SCALE", "2" },
    { "XDG_DATA_HOME", "/home/user/.local/share" },
    { "GTK_THEME", "Adwaita:dark" },
};

static void stash_startup_id(void) {
    const char *id = getenv("DESKTOP_STARTUP_ID");
    if (!id)
        return;
    pthread_mutex_lock(&display.lock);
    snprintf(display.startup_id, sizeof display.startup_id, "%s", id);
    const char *t = strstr(display.startup_id, "_TIME");
    display.startup_time = t ? strtoul(t + 5, NULL, 10) : 0;
    pthread_mutex_unlock(&display.lock);
    unsetenv("DESKTOP_STARTUP_ID"); // CAUSE
    unsetenv("XDG_ACTIVATION_TOKEN"); // CAUSE
}

static void *open_display(void *arg) {
    unsigned screens = *(unsigned *)arg;
    for (unsigned i = 0; i < screens; i++) {
        pthread_mutex_lock(&display.lock);
        display.screens++;
        display.roundtrips += 2;
        pthread_mutex_unlock(&display.lock);
    }
    stash_startup_id();
    return NULL;
}

static void load_setting(struct setting *s) {
    const char *v = getenv(s->env); // CAUSE
    size_t n = strlen(v); // CAUSE
    if (n >= sizeof s->value)
        n = sizeof s->value - 1;
    pthread_mutex_lock(&settings.lock);
    memcpy(s->value, v, n);
    s->value[n] = 0;
    s->len = n;
    settings.loaded++;
    pthread_mutex_unlock(&settings.lock);
}

static void *load_settings(void *arg) {
    (void)arg;
    for (unsigned i = 0; i < sizeof settings.items / sizeof *settings.items; i++)
        load_setting(&settings.items[i]);
    return NULL;
}

int main(void) {
    pthread_t disp, conf;
    unsigned screens = 2;
    clearenv();
    for (unsigned i = 0; i < sizeof initial_env / sizeof *initial_env; i++)
        setenv(initial_env[i][0], initial_env[i][1], 1);
    pthread_create(&conf, NULL, load_settings, NULL);
    pthread_create(&disp, NULL, open_display, &screens);
    pthread_join(conf, NULL);
    pthread_join(disp, NULL);
    printf("startup time %lu, theme %s, scale %s\n", display.startup_time, settings.items[3].value,
           settings.items[1].value);
    return settings.loaded == 4 && display.startup_time == 8133 && display.screens == screens ? 0 : 1;
}
