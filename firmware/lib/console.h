/* Printing on the machine's console. One core at a time, please: bytes of two printers interleave. */
#ifndef CONSOLE_H
#define CONSOLE_H

void print_string(const char *text);
void print_number(long value);
void print_hex(unsigned long value);

/* Prints `label`, then the number in decimal: the usual step of a result line. */
void print_field(const char *label, long value);

#endif
