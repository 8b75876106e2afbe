/* Simple case mapping of Unicode (one code point to one code point, without regard to language or neighbours). */
#ifndef TENON_TEXT_UNICODE_H
#define TENON_TEXT_UNICODE_H

#include <stdint.h>

uint32_t tn__text_to_lower(uint32_t code);
uint32_t tn__text_to_upper(uint32_t code);

#endif
