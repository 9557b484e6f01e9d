/* correct twin of linux_rtc_irq_early: the rtc device is registered before the interrupt is requested */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALARMS = 3, RTC_AF = 0x20, RTC_IRQF = 0x80 };

struct rtc_device {
    char name[16];
    pthread_mutex_t irq_lock;
    unsigned long irq_data;
    unsigned irqs;
};

struct pcf_chip {
    unsigned char control[2];
    unsigned alarm_irqs;
    struct rtc_device *volatile rtc;
};

typedef int (*irq_handler_t)(int irq, void *dev_id);

static struct irq_desc {
    pthread_mutex_t lock;
    pthread_cond_t wait;
    irq_handler_t handler;
    void *dev_id;
    unsigned pending;
    int shutdown;
} desc = { .lock = PTHREAD_MUTEX_INITIALIZER, .wait = PTHREAD_COND_INITIALIZER };

static void request_irq(irq_handler_t handler, void *dev_id) {
    pthread_mutex_lock(&desc.lock);
    desc.handler = handler;
    desc.dev_id = dev_id;
    pthread_cond_signal(&desc.wait);
    pthread_mutex_unlock(&desc.lock);
}

static void free_irq(void) {
    pthread_mutex_lock(&desc.lock);
    desc.shutdown = 1;
    pthread_cond_signal(&desc.wait);
    pthread_mutex_unlock(&desc.lock);
}

static void raise_irq(void) {
    pthread_mutex_lock(&desc.lock);
    desc.pending++;
    pthread_cond_signal(&desc.wait);
    pthread_mutex_unlock(&desc.lock);
}

static void *irq_thread(void *arg) {
    (void)arg;
    pthread_mutex_lock(&desc.lock);
    for (;;) {
        if (desc.pending && desc.handler) {
            irq_handler_t handler = desc.handler;
            void *dev_id = desc.dev_id;
            desc.pending--;
            pthread_mutex_unlock(&desc.lock);
            handler(8, dev_id);
            pthread_mutex_lock(&desc.lock);
        } else if (desc.shutdown) {
            break;
        } else {
            pthread_cond_wait(&desc.wait, &desc.lock);
        }
    }
    pthread_mutex_unlock(&desc.lock);
    return NULL;
}

static void rtc_update_irq(struct rtc_device *rtc, unsigned long events) {
    pthread_mutex_lock(&rtc->irq_lock);
    rtc->irq_data = (rtc->irq_data + 0x100) | events;
    rtc->irqs++;
    pthread_mutex_unlock(&rtc->irq_lock);
}

static int pcf_rtc_irq(int irq, void *dev_id) {
    struct pcf_chip *chip = dev_id;
    struct rtc_device *rtc = chip->rtc;
    chip->alarm_irqs++;
    rtc_update_irq(rtc, RTC_AF | RTC_IRQF);
    return irq;
}

static struct rtc_device *rtc_device_register(const char *name) {
    struct rtc_device *rtc = calloc(1, sizeof *rtc);
    strncpy(rtc->name, name, sizeof rtc->name - 1);
    pthread_mutex_init(&rtc->irq_lock, NULL);
    return rtc;
}

static void pcf_probe(struct pcf_chip *chip) {
    memset(chip->control, 0, sizeof chip->control);
    chip->control[1] |= 2; /* alarm interrupt on */
    chip->rtc = rtc_device_register("rtc-pcf");
    request_irq(pcf_rtc_irq, chip);
}

/* the clock chip: its alarm goes off no matter how far the driver is */
static void *hardware(void *arg) {
    (void)arg;
    for (int i = 0; i < ALARMS; i++)
        raise_irq();
    return NULL;
}

int main(void) {
    static struct pcf_chip chip;
    pthread_t irq, hw;
    pthread_create(&irq, NULL, irq_thread, NULL);
    pthread_create(&hw, NULL, hardware, NULL);
    pcf_probe(&chip);
    pthread_join(hw, NULL);
    free_irq();
    pthread_join(irq, NULL);
    printf("%s: %u alarms, data %lx\n", chip.rtc->name, chip.rtc->irqs, chip.rtc->irq_data);
    return chip.rtc->irqs == ALARMS && chip.alarm_irqs == ALARMS ? 0 : 1;
}
