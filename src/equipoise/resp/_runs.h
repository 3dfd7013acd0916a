/* Runs of payloads, and the words of requests: what `_runs.c` and `_relays.c` share.

Each of the two is a module of its own, compiled alone, so everything here is static. The type of runs is that of
`_runs.c`: the other one sets `run_type` to it.
*/

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

typedef struct {
    uint32_t at, size;
} Place;

typedef struct {
    PyObject_VAR_HEAD
    /* The payloads as bulk strings. */
    PyObject *body;
    /* Of the payloads together. */
    Py_ssize_t size;
    Place places[];
} Run;

/* Words of one request that are read here; more of them are for `RequestReader`. */
#define WORDS_MAX 4096
#define BODY_MAX ((Py_ssize_t)UINT32_MAX)

static PyTypeObject *run_type;

/* --- spelling */

static inline int digits_of(size_t number, char *into) {
    char reversed[24];
    int count = 0;
    do
        reversed[count++] = '0' + number % 10;
    while (number /= 10);
    for (int i = 0; i < count; i++)
        into[i] = reversed[count - 1 - i];
    return count;
}

static inline int digit_count(size_t number) {
    int count = 1;
    while (number /= 10)
        count++;
    return count;
}

static inline char *put_line_end(char *to) {
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

static inline char *put_payload(char *to, const char *payload, Py_ssize_t size) {
    to = put_line_end(to + digits_of(size, to));
    memcpy(to, payload, size);
    return put_line_end(to + size);
}

/* A run of so many payloads in a body of so many bytes, both to be filled in. */
static inline Run *new_run(Py_ssize_t count, Py_ssize_t body_bytes) {
    if (body_bytes > BODY_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a run is too long");
        return NULL;
    }
    Run *run = PyObject_NewVar(Run, run_type, count);
    if (run == NULL)
        return NULL;
    run->size = 0;
    run->body = PyBytes_FromStringAndSize(NULL, body_bytes);
    if (run->body == NULL)
        Py_CLEAR(run);
    return run;
}

/* --- reading */

/* A number without leading zeros and the line's end; the place after it, or NULL. */
static inline const char *read_number(const char *from, const char *end, Py_ssize_t *number, int digits_max) {
    Py_ssize_t value = 0;
    const char *start = from;
    while (from < end && *from >= '0' && *from <= '9' && from - start < digits_max)
        value = 10 * value + (*from++ - '0');
    if (from == start || (*start == '0' && from - start > 1) || end - from < 2 || from[0] != '\r' || from[1] != '\n')
        return NULL;
    *number = value;
    return from + 2;
}

/* A bulk string; the place after it, or NULL. */
static inline const char *read_word(const char *from, const char *end, Py_ssize_t size_max, const char **word,
                             Py_ssize_t *size) {
    if (from >= end || *from != '$')
        return NULL;
    from = read_number(from + 1, end, size, 9);
    if (from == NULL || *size > size_max || end - from < *size + 2)
        return NULL;
    *word = from;
    from += *size;
    return from[0] == '\r' && from[1] == '\n' ? from + 2 : NULL;
}

typedef struct {
    const char *at;
    Py_ssize_t size;
} Word;

static inline PyObject *bytes_of(const Word *word) { return PyBytes_FromStringAndSize(word->at, word->size); }

/* Adjacent words as payloads. */
static inline PyObject *run_of_words(const Word *words, Py_ssize_t count) {
    if (count == 1) {
        PyObject *payload = bytes_of(words), *payloads = payload ? PyList_New(1) : NULL;
        if (payloads == NULL)
            Py_XDECREF(payload);
        else
            PyList_SET_ITEM(payloads, 0, payload);
        return payloads;
    }
    const char *begin = words[0].at - 3 - digit_count(words[0].size);
    const char *end = words[count - 1].at + words[count - 1].size + 2;
    Run *run = new_run(count, end - begin);
    if (run == NULL)
        return NULL;
    memcpy(PyBytes_AS_STRING(run->body), begin, end - begin);
    for (Py_ssize_t i = 0; i < count; i++) {
        run->places[i] = (Place){words[i].at - begin, words[i].size};
        run->size += words[i].size;
    }
    return (PyObject *)run;
}

/* One request; the place after it, or NULL. */
static inline const char *read_request(const char *from, const char *end, Py_ssize_t words_max, Py_ssize_t size_max,
                                Word *words, Py_ssize_t *count) {
    if (from >= end || *from != '*')
        return NULL;
    from = read_number(from + 1, end, count, 5);
    if (from == NULL || *count < 1 || *count > words_max)
        return NULL;
    for (Py_ssize_t i = 0; from != NULL && i < *count; i++)
        from = read_word(from, end, size_max, &words[i].at, &words[i].size);
    return from;
}
