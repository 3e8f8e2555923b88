/* status.h - how every part of Tally says that something failed.
 *
 * The library never prints and never exits: a function that can fail returns a status, and fills an error with one line
 * that names the file, the thing in it, the value found, and what to do. Only tools print it, as "tally: MESSAGE".
 * On failure out-parameters are zeroed, and what was taken on the way has been given back. */
#ifndef TALLY_STATUS_H
#define TALLY_STATUS_H

/* X(code, text): one list for the enum, and for the words used where a message has none of its own. */
#define STATUS_LIST(X)                                                                                                         \
    X(OK, "ok")                                                                                                                \
    X(ERR_IO, "cannot be read or written")                                                                                     \
    X(ERR_FORMAT, "is malformed")                                                                                              \
    X(ERR_UNSUPPORTED, "asks for something that Tally does not do")                                                            \
    X(ERR_MISMATCH, "does not fit the configuration")                                                                          \
    X(ERR_MEMORY, "needs more memory than there is")                                                                           \
    X(ERR_ARGUMENT, "is not a valid argument")                                                                                 \
    X(ERR_LIMIT, "is beyond a limit")                                                                                          \
    X(ERR_NUMERIC, "gave a number that is not finite")

typedef enum {
#define STATUS_ENUM(code, text) code,
    STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
} status;

typedef struct {
    status code;
    char message[1024]; /* one line, without "tally: " and without a newline; control characters of hostile names escaped */
} error;

/* The words of a status, for messages. */
const char *status_text(status code);

/* Fills e (which may be NULL) and returns code, so that a failure is one statement: return error_set(e, ERR_IO, ...).
 * Bytes of the formatted text that are not printable are written as \xNN: names out of a hostile file reach a terminal this way. */
status error_set(error *e, status code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "WHERE: " in front of e's message (the file's name, when a lower function did not know it). Returns e->code. */
status error_prefix(error *e, const char *where);

#endif
