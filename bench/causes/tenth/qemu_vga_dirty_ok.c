/* correct twin of qemu_vga_dirty: the dirty bit of a page is taken and cleared before the page is copied */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { PAGES = 3, WORDS = 2, FRAMES = 2 };

static struct vga_state {
    atomic_uint vram[PAGES][WORDS];
    atomic_uint dirty; /* one bit for each page */
    unsigned surface[PAGES][WORDS];
    unsigned updates;
} vga;

static void memory_region_write(int page, int word, unsigned value) {
    atomic_store_explicit(&vga.vram[page][word], value, memory_order_release);
    atomic_fetch_or(&vga.dirty, 1u << page);
}

static void draw_page(int page) {
    for (int w = 0; w < WORDS; w++)
        vga.surface[page][w] = atomic_load_explicit(&vga.vram[page][w], memory_order_acquire);
    vga.updates++;
}

static void vga_draw_graphic(void) {
    unsigned dirty = atomic_exchange(&vga.dirty, 0);
    for (int page = 0; page < PAGES; page++) {
        if (dirty & 1u << page)
            draw_page(page);
    }
}

static void *vcpu_thread(void *arg) {
    (void)arg;
    for (unsigned frame = 1; frame <= FRAMES; frame++) {
        for (int page = 0; page < PAGES; page++) {
            for (int w = 0; w < WORDS; w++)
                memory_region_write(page, w, 100 * frame + 10 * (unsigned)page + (unsigned)w);
        }
    }
    return NULL;
}

static void *display_thread(void *arg) {
    (void)arg;
    for (int i = 0; i < FRAMES; i++)
        vga_draw_graphic();
    return NULL;
}

int main(void) {
    pthread_t vcpu, display;
    int stale = 0;
    pthread_create(&vcpu, NULL, vcpu_thread, NULL);
    pthread_create(&display, NULL, display_thread, NULL);
    pthread_join(vcpu, NULL);
    pthread_join(display, NULL);
    vga_draw_graphic(); /* the guest is stopped, one last refresh */
    for (int page = 0; page < PAGES; page++) {
        for (int w = 0; w < WORDS; w++)
            stale += vga.surface[page][w] != atomic_load(&vga.vram[page][w]);
    }
    printf("%u page updates, %d stale words\n", vga.updates, stale);
    return stale == 0 ? 0 : 1;
}
