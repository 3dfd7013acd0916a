/* Runs of messages at the cost of copying them: read from requests and from frames of links, spelled again.

Optional. Where this module is not built, tuples and lists of payloads do the same, more slowly; the same tests run on
both. `runs.py` chooses.

A `Run` is a sequence of payloads that is kept as it is spelled between hubs, a bulk string each. A hub that passes a run
on copies it whole: a payload becomes an object of its own only where it is looked at.

`publishes` and `requests` read what is spelled in the ordinary way and is complete, and stop before anything else. What
they leave is for `RequestReader`, which says what is wrong with it, or waits for the rest.

Always true:
    the payloads of a run are adjacent in its body, and there is nothing else in it;
    what is read here is what `RequestReader` would read in its place.
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "_runs.h"

/* The shortest PUBLISH. */
#define PUBLISH_BYTES_MIN 29

static PyTypeObject RunType;

static PyObject *payload_at(Run *run, Py_ssize_t i) {
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(run->body) + run->places[i].at, run->places[i].size);
}

static PyObject *payloads_of(Run *run) {
    PyObject *payloads = PyTuple_New(Py_SIZE(run));
    for (Py_ssize_t i = 0; payloads != NULL && i < Py_SIZE(run); i++) {
        PyObject *payload = payload_at(run, i);
        if (payload == NULL)
            Py_CLEAR(payloads);
        else
            PyTuple_SET_ITEM(payloads, i, payload);
    }
    return payloads;
}

/* Where the bulk string of a payload begins; of the one behind the last, where the body ends. */
static Py_ssize_t begin_of(Run *run, Py_ssize_t i) {
    return i ? run->places[i - 1].at + run->places[i - 1].size + 2 : 0;
}

/* --- runs as sequences */

static PyObject *run_new(PyTypeObject *type, PyObject *args, PyObject *options) {
    PyObject *payloads, *words;
    if (!PyArg_ParseTuple(args, "O", &payloads))
        return NULL;
    words = PySequence_Fast(payloads, "payloads are a sequence");
    if (words == NULL)
        return NULL;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(words), size = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *word = PySequence_Fast_GET_ITEM(words, i);
        if (!PyBytes_CheckExact(word)) {
            PyErr_Format(PyExc_TypeError, "%R is no payload", word);
            Py_DECREF(words);
            return NULL;
        }
        size += digit_count(PyBytes_GET_SIZE(word)) + PyBytes_GET_SIZE(word) + 5;
    }
    Run *run = new_run(count, size);
    char *to = run ? PyBytes_AS_STRING(run->body) : NULL, *body = to;
    for (Py_ssize_t i = 0; run != NULL && i < count; i++) {
        PyObject *word = PySequence_Fast_GET_ITEM(words, i);
        Py_ssize_t length = PyBytes_GET_SIZE(word);
        *to++ = '$';
        to = put_payload(to, PyBytes_AS_STRING(word), length);
        run->places[i] = (Place){to - 2 - length - body, length};
        run->size += length;
    }
    Py_DECREF(words);
    return (PyObject *)run;
}

static void run_dealloc(Run *run) {
    Py_XDECREF(run->body);
    PyObject_Free(run);
}

static Py_ssize_t run_length(Run *run) { return Py_SIZE(run); }

static PyObject *run_item(Run *run, Py_ssize_t i) {
    if (i < 0 || i >= Py_SIZE(run)) {
        PyErr_SetString(PyExc_IndexError, "no such payload");
        return NULL;
    }
    return payload_at(run, i);
}

/* The payloads from one to before another, as a run. */
static PyObject *run_part(Run *run, Py_ssize_t start, Py_ssize_t stop) {
    if (start == 0 && stop == Py_SIZE(run))
        return Py_NewRef(run);
    stop = stop < start ? start : stop;
    Py_ssize_t begin = begin_of(run, start), size = begin_of(run, stop) - begin;
    Run *part = new_run(stop - start, size);
    if (part == NULL)
        return NULL;
    memcpy(PyBytes_AS_STRING(part->body), PyBytes_AS_STRING(run->body) + begin, size);
    for (Py_ssize_t i = start; i < stop; i++) {
        part->places[i - start] = (Place){run->places[i].at - begin, run->places[i].size};
        part->size += run->places[i].size;
    }
    return (PyObject *)part;
}

static PyObject *run_subscript(Run *run, PyObject *key) {
    if (PySlice_Check(key)) {
        Py_ssize_t start, stop, step;
        if (PySlice_Unpack(key, &start, &stop, &step) < 0)
            return NULL;
        PySlice_AdjustIndices(Py_SIZE(run), &start, &stop, step);
        if (step == 1)
            return run_part(run, start, stop);
        PyObject *payloads = payloads_of(run), *part = payloads ? PyObject_GetItem(payloads, key) : NULL;
        Py_XDECREF(payloads);
        return part;
    }
    Py_ssize_t i = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    return run_item(run, i < 0 ? i + Py_SIZE(run) : i);
}

static PyObject *run_iter(Run *run) {
    PyObject *payloads = payloads_of(run), *iterator = payloads ? PyObject_GetIter(payloads) : NULL;
    Py_XDECREF(payloads);
    return iterator;
}

/* Equal to a tuple, a list or a run of the same payloads. */
static PyObject *run_compare(PyObject *run, PyObject *other, int operation) {
    int is_known = Py_TYPE(other) == &RunType || PyTuple_CheckExact(other) || PyList_CheckExact(other);
    if (!is_known || (operation != Py_EQ && operation != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *one = PySequence_Tuple(run), *two = PySequence_Tuple(other), *result = NULL;
    if (one != NULL && two != NULL)
        result = PyObject_RichCompare(one, two, operation);
    Py_XDECREF(one);
    Py_XDECREF(two);
    return result;
}

static PyObject *run_repr(Run *run) {
    PyObject *payloads = payloads_of(run), *text = payloads ? PyUnicode_FromFormat("Run(%R)", payloads) : NULL;
    Py_XDECREF(payloads);
    return text;
}

/* A frame per message: the head, which ends before the digits of the length, and the payload. As plain_encoder. */
static PyObject *run_spell_behind(Run *run, PyObject *head) {
    if (!PyBytes_CheckExact(head)) {
        PyErr_SetString(PyExc_TypeError, "a head is bytes");
        return NULL;
    }
    /* In place of each dollar sign. */
    Py_ssize_t head_size = PyBytes_GET_SIZE(head), count = Py_SIZE(run);
    Py_ssize_t size = PyBytes_GET_SIZE(run->body) + count * (head_size - 1);
    PyObject *data = PyBytes_FromStringAndSize(NULL, size);
    if (data == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(data);
    const char *from = PyBytes_AS_STRING(run->body);
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t begin = begin_of(run, i) + 1, rest = begin_of(run, i + 1) - begin;
        memcpy(to, PyBytes_AS_STRING(head), head_size);
        memcpy(to + head_size, from + begin, rest);
        to += head_size + rest;
    }
    return data;
}

static PyMemberDef run_members[] = {
    {"body", T_OBJECT_EX, offsetof(Run, body), READONLY, NULL},
    {"size", T_PYSSIZET, offsetof(Run, size), READONLY, NULL},
    {NULL}};

static PyMethodDef run_methods[] = {{"spell_behind", (PyCFunction)run_spell_behind, METH_O, NULL}, {NULL}};

static PySequenceMethods run_as_sequence = {.sq_length = (lenfunc)run_length, .sq_item = (ssizeargfunc)run_item};
static PyMappingMethods run_as_mapping = {.mp_length = (lenfunc)run_length, .mp_subscript = (binaryfunc)run_subscript};

static PyTypeObject RunType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "equipoise.resp._runs.Run",
    .tp_basicsize = offsetof(Run, places),
    .tp_itemsize = sizeof(Place),
    .tp_dealloc = (destructor)run_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_SEQUENCE,
    .tp_doc = "Payloads of one topic, one after the other, as they are spelled between hubs.",
    .tp_as_sequence = &run_as_sequence,
    .tp_as_mapping = &run_as_mapping,
    .tp_iter = (getiterfunc)run_iter,
    .tp_repr = (reprfunc)run_repr,
    .tp_richcompare = run_compare,
    .tp_hash = PyObject_HashNotImplemented,
    .tp_members = run_members,
    .tp_methods = run_methods,
    .tp_new = run_new,
};

/* --- reading */

static const char PUBLISH_HEAD[] = "*3\r\n$7\r\nPUBLISH\r\n";
#define PUBLISH_HEAD_SIZE ((Py_ssize_t)sizeof PUBLISH_HEAD - 1)

typedef struct {
    const char *topic, *payload;
    Py_ssize_t topic_size, payload_size;
} Publish;

static const char *read_publish(const char *from, const char *end, Py_ssize_t size_max, Publish *found) {
    if (end - from < PUBLISH_HEAD_SIZE || memcmp(from, PUBLISH_HEAD, PUBLISH_HEAD_SIZE))
        return NULL;
    from = read_word(from + PUBLISH_HEAD_SIZE, end, size_max, &found->topic, &found->topic_size);
    return from ? read_word(from, end, size_max, &found->payload, &found->payload_size) : NULL;
}

static int is_same_topic(const Publish *one, const Publish *other) {
    return one->topic_size == other->topic_size && !memcmp(one->topic, other->topic, one->topic_size);
}

static PyObject *topics_of(const Publish *found, Py_ssize_t count) {
    PyObject *topics = PyTuple_New(count), *name = NULL;
    for (Py_ssize_t i = 0; topics != NULL && i < count; i++) {
        if (!i || !is_same_topic(&found[i], &found[i - 1]))
            Py_XSETREF(name, PyBytes_FromStringAndSize(found[i].topic, found[i].topic_size));
        if (name == NULL)
            Py_CLEAR(topics);
        else
            PyTuple_SET_ITEM(topics, i, Py_NewRef(name));
    }
    Py_XDECREF(name);
    return topics;
}

static PyObject *run_of(const Publish *found, Py_ssize_t count) {
    Py_ssize_t size = 0;
    if (count == 1) {
        PyObject *payload = PyBytes_FromStringAndSize(found->payload, found->payload_size);
        PyObject *payloads = payload ? PyTuple_Pack(1, payload) : NULL;
        Py_XDECREF(payload);
        return payloads;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        size += digit_count(found[i].payload_size) + found[i].payload_size + 5;
    Run *run = new_run(count, size);
    if (run == NULL)
        return NULL;
    char *body = PyBytes_AS_STRING(run->body), *to = body;
    for (Py_ssize_t i = 0; i < count; i++) {
        *to++ = '$';
        to = put_payload(to, found[i].payload, found[i].payload_size);
        run->places[i] = (Place){to - 2 - found[i].payload_size - body, found[i].payload_size};
        run->size += found[i].payload_size;
    }
    return (PyObject *)run;
}

/* The PUBLISH commands at the beginning: topics, payloads, and how many bytes they had; None if there are none. */
static PyObject *publishes(PyObject *module, PyObject *const *args, Py_ssize_t count_of_args) {
    if (count_of_args != 2 || !PyBytes_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "publishes(data, size_max)");
        return NULL;
    }
    Py_ssize_t size_max = PyLong_AsSsize_t(args[1]), count = 0;
    if (size_max == -1 && PyErr_Occurred())
        return NULL;
    Py_ssize_t size = PyBytes_GET_SIZE(args[0]);
    const char *data = PyBytes_AS_STRING(args[0]), *from = data, *end = data + size;
    if (size < PUBLISH_BYTES_MIN || memcmp(data, PUBLISH_HEAD, PUBLISH_HEAD_SIZE))
        Py_RETURN_NONE;
    Publish *found = PyMem_Malloc((size / PUBLISH_BYTES_MIN + 1) * sizeof(Publish));
    if (found == NULL)
        return PyErr_NoMemory();
    while (from < end) {
        const char *next = read_publish(from, end, size_max, &found[count]);
        if (next == NULL)
            break;
        from = next;
        count++;
    }
    PyObject *topics = count ? topics_of(found, count) : NULL, *payloads = topics ? run_of(found, count) : NULL;
    PyMem_Free(found);
    if (!count)
        Py_RETURN_NONE;
    if (payloads == NULL) {
        Py_XDECREF(topics);
        return NULL;
    }
    return Py_BuildValue("(NNn)", topics, payloads, (Py_ssize_t)(from - data));
}

/* As parse_number of codec.py: digits, up to 19 of them. NULL without an exception if it is anything else. */
static PyObject *number_of(const Word *word) {
    uint64_t number = 0;
    if (word->size < 1 || word->size > 19)
        return NULL;
    for (Py_ssize_t i = 0; i < word->size; i++) {
        if (word->at[i] < '0' || word->at[i] > '9')
            return NULL;
        number = 10 * number + (uint64_t)(word->at[i] - '0');
    }
    return PyLong_FromUnsignedLongLong(number);
}

/* One field of a frame, by its kind; NULL without an exception if the words are not of that kind. */
static PyObject *field_of(char kind, const Word *words, Py_ssize_t left) {
    switch (kind) {
    case 'b':
        return bytes_of(words);
    case 'n':
        return number_of(words);
    case 's': {
        PyObject *text = PyUnicode_DecodeUTF8(words->at, words->size, NULL);
        if (text == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
            PyErr_Clear();
        return text;
    }
    case 'e':
        return words->size ? NULL : PyTuple_New(0);
    case '*':
        return run_of_words(words, left);
    }
    return NULL;
}

#define FIELDS_MAX 8

/* The frame that the words are, by what is known of its verb; NULL without an exception if they are not as usual. */
static PyObject *frame_of(const Word *words, Py_ssize_t count, PyObject *known) {
    PyObject *fields[FIELDS_MAX], *frame = NULL;
    PyObject *kinds = PyTuple_Check(known) && PyTuple_GET_SIZE(known) == 2 ? PyTuple_GET_ITEM(known, 1) : Py_None;
    if (!PyBytes_Check(kinds) || PyBytes_GET_SIZE(kinds) > FIELDS_MAX || !PyBytes_GET_SIZE(kinds)) {
        PyErr_SetString(PyExc_TypeError, "of a verb are known a type and the kinds of its fields");
        return NULL;
    }
    Py_ssize_t wanted = PyBytes_GET_SIZE(kinds), made = 0;
    const char *kind = PyBytes_AS_STRING(kinds);
    int has_run = kind[wanted - 1] == '*';
    if (count - 1 < wanted || (count - 1 > wanted && !has_run))
        return NULL;
    for (; made < wanted; made++) {
        fields[made] = field_of(kind[made], words + 1 + made, count - 1 - made);
        if (fields[made] == NULL)
            break;
    }
    if (made == wanted)
        frame = PyObject_Vectorcall(PyTuple_GET_ITEM(known, 0), fields, wanted, NULL);
    while (made)
        Py_DECREF(fields[--made]);
    return frame;
}

static PyObject *command_of(const Word *words, Py_ssize_t count, PyObject *verbs) {
    PyObject *verb = bytes_of(words);
    PyObject *known = verb ? PyDict_GetItemWithError(verbs, verb) : NULL;
    PyObject *frame = known ? frame_of(words, count, known) : NULL;
    if (verb == NULL || frame != NULL || PyErr_Occurred()) {
        Py_XDECREF(verb);
        return frame;
    }
    PyObject *command = PyList_New(count);
    if (command == NULL) {
        Py_DECREF(verb);
        return NULL;
    }
    PyList_SET_ITEM(command, 0, verb);
    for (Py_ssize_t i = 1; i < count; i++) {
        PyObject *word = bytes_of(&words[i]);
        if (word == NULL) {
            Py_DECREF(command);
            return NULL;
        }
        PyList_SET_ITEM(command, i, word);
    }
    return command;
}

/* The requests at the beginning that are complete, and how many bytes they had.

A request is a list of words. Where its verb is in `verbs`, with a type and the kinds of its fields, and its words are of
these kinds, it is what the type makes of them: b bytes, n a number, s text, e an empty word as an empty tuple, and last *
a run of all others. */
static PyObject *requests(PyObject *module, PyObject *args) {
    PyObject *data, *verbs;
    Py_ssize_t words_max, size_max;
    if (!PyArg_ParseTuple(args, "SO!nn", &data, &PyDict_Type, &verbs, &words_max, &size_max))
        return NULL;
    words_max = words_max > WORDS_MAX ? WORDS_MAX : words_max;
    const char *begin = PyBytes_AS_STRING(data), *from = begin, *end = begin + PyBytes_GET_SIZE(data);
    Word words[WORDS_MAX];
    PyObject *found = PyList_New(0);
    while (found != NULL && from < end) {
        Py_ssize_t count;
        const char *next = read_request(from, end, words_max, size_max, words, &count);
        if (next == NULL)
            break;
        PyObject *command = command_of(words, count, verbs);
        if (command == NULL || PyList_Append(found, command) < 0)
            Py_CLEAR(found);
        Py_XDECREF(command);
        from = next;
    }
    return found ? Py_BuildValue("(Nn)", found, (Py_ssize_t)(from - begin)) : NULL;
}

/* --- spelling requests */

/* The bytes of a value as bulk strings, and how many those are; -1 with an exception. */
static Py_ssize_t spelled_size(PyObject *value, Py_ssize_t *count) {
    if (PyBytes_CheckExact(value)) {
        *count += 1;
        return digit_count(PyBytes_GET_SIZE(value)) + PyBytes_GET_SIZE(value) + 5;
    }
    if (Py_TYPE(value) == &RunType) {
        *count += Py_SIZE(value);
        return PyBytes_GET_SIZE(((Run *)value)->body);
    }
    if (PyLong_CheckExact(value)) {
        unsigned long long number = PyLong_AsUnsignedLongLong(value);
        if (number == (unsigned long long)-1 && PyErr_Occurred())
            return -1;
        int digits = digit_count((size_t)number);
        *count += 1;
        return digits + digit_count(digits) + 5;
    }
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
        Py_ssize_t size = 0;
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++) {
            PyObject *item = PySequence_Fast_GET_ITEM(value, i);
            if (!PyBytes_CheckExact(item)) {
                PyErr_Format(PyExc_TypeError, "%R is no payload", item);
                return -1;
            }
            size += spelled_size(item, count);
        }
        return size;
    }
    PyErr_Format(PyExc_TypeError, "%R cannot be spelled", value);
    return -1;
}

static char *put_value(char *to, PyObject *value) {
    if (PyBytes_CheckExact(value)) {
        *to++ = '$';
        return put_payload(to, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
    }
    if (Py_TYPE(value) == &RunType) {
        PyObject *body = ((Run *)value)->body;
        memcpy(to, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body));
        return to + PyBytes_GET_SIZE(body);
    }
    if (PyLong_CheckExact(value)) {
        char digits[24];
        int count = digits_of(PyLong_AsUnsignedLongLong(value), digits);
        *to++ = '$';
        return put_payload(to, digits, count);
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
        to = put_value(to, PySequence_Fast_GET_ITEM(value, i));
    return to;
}

/* A request of these values: bytes, numbers that are not negative, and runs of payloads. As spell_values of runs.py. */
static PyObject *spell_values(PyObject *module, PyObject *const *args, Py_ssize_t count_of_args) {
    Py_ssize_t size = 0, count = 0;
    for (Py_ssize_t i = 0; i < count_of_args; i++) {
        Py_ssize_t more = spelled_size(args[i], &count);
        if (more < 0)
            return NULL;
        size += more;
    }
    PyObject *data = PyBytes_FromStringAndSize(NULL, size + digit_count(count) + 3);
    if (data == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(data);
    *to++ = '*';
    to = put_line_end(to + digits_of(count, to));
    for (Py_ssize_t i = 0; i < count_of_args; i++)
        to = put_value(to, args[i]);
    return data;
}

static PyMethodDef module_methods[] = {
    {"publishes", (PyCFunction)(void (*)(void))publishes, METH_FASTCALL, NULL},
    {"requests", requests, METH_VARARGS, NULL},
    {"spell_values", (PyCFunction)(void (*)(void))spell_values, METH_FASTCALL, NULL},
    {NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "equipoise.resp._runs",
    .m_doc = "Runs of messages at the cost of copying them; see runs.py.",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__runs(void) {
    if (PyType_Ready(&RunType) < 0)
        return NULL;
    run_type = &RunType;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyModule_AddObjectRef(made, "Run", (PyObject *)&RunType) < 0)
        return NULL;
    return made;
}
