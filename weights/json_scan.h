/* json_scan.h - stepping over JSON text without making a tree of it. Private to weights/.
 *
 * Every function steps over white space first; the others return false, and stay in front of it, where it is not what they want. */
#ifndef TALLY_JSON_SCAN_H
#define TALLY_JSON_SCAN_H

#include <stdbool.h>

typedef struct {
    const char *at, *end;
} json_scan;

void json_scan_space(json_scan *s);
bool json_scan_char(json_scan *s, char c); /* this character, which is stepped over */
bool json_scan_peek(json_scan *s, char c); /* this character, which is not */
bool json_scan_number(json_scan *s);       /* a number as JSON writes it */
bool json_scan_text(json_scan *s);         /* a text in quotation marks; what is inside is not checked */
bool json_scan_value(json_scan *s);        /* any value up to its closing bracket; what is inside is not checked */

#endif
