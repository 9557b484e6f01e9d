#include "console.h"

#include "machine.h"

void print_string(const char *text) {
    for (; *text; text++)
        machine_write(MACHINE_CONSOLE_TX, (unsigned char)*text);
}

void print_number(long value) {
    char digits[24];
    int place = sizeof digits - 1;
    unsigned long rest = value < 0 ? -(unsigned long)value : (unsigned long)value;
    digits[place] = 0;
    do {
        digits[--place] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (value < 0)
        digits[--place] = '-';
    print_string(digits + place);
}

void print_hex(unsigned long value) {
    for (int shift = 60; shift >= 0; shift -= 4)
        machine_write(MACHINE_CONSOLE_TX, (unsigned char)"0123456789abcdef"[(value >> shift) & 15]);
}

void print_field(const char *label, long value) {
    print_string(label);
    print_number(value);
}
