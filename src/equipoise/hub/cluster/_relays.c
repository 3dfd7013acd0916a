/* Messages that one hub relays to another, at the cost of copying them.

Optional. Where this module is not built, `ingress.py`, `relay_merge.py` and `publish_route.py` do the same, more slowly;
`relays.py` chooses, and the same tests run on both.

A plain message passes through four frames: RUN to the home; FROM, EGRESS and NUMBERED back. Here they are executed and
written if nothing about them is special: the topic has no limit, log, filters or lanes, nothing of it waits, and its
home does not change. What is special in any way is left to the way in Python, with every byte from the first such frame
on. Every function first looks at all that it depends on, and changes nothing if it finds anything special.

Always true:
    state, frames, bytes to clients, and the order of all calls are those of the way in Python;
    Python code is called only by writing to links and clients, so nothing looked at changes between the look and that.
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../../resp/_runs.h"
#include "../_slots.h"

/* As PAYLOADS_MAX of codec.py. */
#define PAYLOADS_MAX 1000
/* As RECEIVERS_MAX of `_sockets.c`: what a frame costs has a bound. */
#define RECEIVERS_MAX 50
/* Frames that are executed in one go; then the caller looks at the clock. */
#define FRAMES_MAX 8

typedef struct {
    PyObject_HEAD
    PyObject *core, *cluster;
    /* Parts of both that are never replaced. */
    PyObject *out, *incoming, *news, *router, *feeders, *failover, *leaving, *metering, *backlogs, *epochs, *blocked,
        *accounts, *ways, *merging, *sessions;
    Py_ssize_t payload_bytes_max;
} Relays;

static PyObject *str_advance, *str_answer, *str_append, *str_appendleft, *str_dead, *str_fall, *str_hubs, *str_index,
    *str_is_on, *str_last, *str_latest, *str_link, *str_messages, *str_popleft, *str_publish, *str_sequence, *str_topic, *str_topics,
    *str_version, *str_write;

/* Where the attributes of the hub's objects are. Filled in by `learn`. */
static struct {
    int is_known;
    PyTypeObject *topic, *stream, *audience, *admission, *link, *account, *meter, *tag, *deque;
    /* Of the function that plain_encoder returns; its first cell holds the frame's head. */
    PyObject *encoder_code, *remote, *resend;
    Py_ssize_t t_name, t_limit, t_log, t_stream, t_content, t_hub_filters, t_audience, t_publisher, t_meter, t_news, t_epoch,
        t_n, t_published, t_bytes_in, t_bytes_out, t_delivered;
    Py_ssize_t s_state, s_peer, s_term, s_source, s_strays, s_pending, s_join_at, s_ending, s_again, s_interest, s_way, s_seen, s_admission,
        s_confirmed;
    Py_ssize_t a_version, a_is_plain, a_receivers, a_groups, a_stages, a_hubs, a_narrow, a_reply;
    Py_ssize_t d_waiting, d_in_flight, d_kept, d_unresolved, d_vouched, d_numbered_at, d_loss, d_tokens, d_gates, d_routing, d_is_doubtful;
    Py_ssize_t l_kept, l_unsent, l_send, l_bytes_max, l_base, l_end, l_written_to, l_is_over, l_is_fallen, l_is_paused, l_is_held,
        l_capabilities, l_incarnation;
    Py_ssize_t c_taken, c_acked, c_at, c_waiting;
    Py_ssize_t m_is_noted, m_ingress_messages, m_ingress_bytes, m_egress_messages, m_egress_bytes;
} at;

/* --- looking */

static int64_t number_in(PyObject *object, Py_ssize_t offset) { return PyLong_AsLongLong(SLOT(object, offset)); }

static int set_number(PyObject *object, Py_ssize_t offset, int64_t number) {
    PyObject *value = PyLong_FromLongLong(number);
    if (value == NULL)
        return -1;
    Py_SETREF(SLOT(object, offset), value);
    return 0;
}

static int is_empty(PyObject *container) { return PyObject_Size(container) == 0; }

static int is_same_name(PyObject *one, PyObject *other) {
    return one == other || (PyUnicode_Check(one) && PyUnicode_Check(other) && PyUnicode_Compare(one, other) == 0);
}

/* Digits, up to 18 of them; 0 if the word is anything else. */
static int read_count(const Word *word, int64_t *number) {
    int64_t value = 0;
    if (word->size < 1 || word->size > 18)
        return 0;
    for (Py_ssize_t i = 0; i < word->size; i++) {
        if (word->at[i] < '0' || word->at[i] > '9')
            return 0;
        value = 10 * value + (word->at[i] - '0');
    }
    *number = value;
    return 1;
}

/* The topic of a frame, borrowed: it exists, all events of other hubs are applied to it, and there is no limit, log or
filter. NULL if not, or with an exception. */
static PyObject *plain_topic(Relays *r, PyObject *topics, const Word *key) {
    PyObject *name = bytes_of(key), *topic = name ? PyDict_GetItemWithError(topics, name) : NULL;
    Py_XDECREF(name);
    if (topic == NULL || Py_TYPE(topic) != at.topic || SLOT(topic, at.t_limit) != Py_None ||
        SLOT(topic, at.t_log) != Py_None || SLOT(topic, at.t_content) != Py_None ||
        SLOT(topic, at.t_hub_filters) != Py_None)
        return NULL;
    PyObject *latest = PyObject_GetAttr(r->news, str_latest);
    int is_current = latest ? PyObject_RichCompareBool(SLOT(topic, at.t_news), latest, Py_EQ) : -1;
    Py_XDECREF(latest);
    return is_current > 0 ? topic : NULL;
}

/* The topic's audience, borrowed, if it is current and has only hubs that want everything, and few plain subscribers. */
static PyObject *plain_audience(PyObject *index, PyObject *topic) {
    PyObject *audience = SLOT(topic, at.t_audience);
    if (Py_TYPE(audience) != at.audience || !is_empty(SLOT(audience, at.a_stages)) ||
        !is_empty(SLOT(audience, at.a_narrow)) || number_in(audience, at.a_receivers) > RECEIVERS_MAX)
        return NULL;
    PyObject *version = PyObject_GetAttr(index, str_version);
    int is_current = version ? PyObject_RichCompareBool(SLOT(audience, at.a_version), version, Py_EQ) : -1;
    Py_XDECREF(version);
    return is_current > 0 ? audience : NULL;
}

/* The stream of a topic whose home is another hub, borrowed; NULL if there is none such. */
static PyObject *remote_stream(PyObject *topic) {
    PyObject *stream = SLOT(topic, at.t_stream);
    int is_remote = Py_TYPE(stream) == at.stream && SLOT(stream, at.s_state) == at.remote &&
                    Py_TYPE(SLOT(stream, at.s_admission)) == at.admission;
    return is_remote ? stream : NULL;
}

/* --- writing */

static int call(PyObject *object, PyObject *method, PyObject *argument) {
    PyObject *done = PyObject_CallMethodOneArg(object, method, argument);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* As OutLink.write. */
static int write_link(PyObject *link, PyObject *data) {
    if (Py_TYPE(link) != at.link)
        return call(link, str_write, data);
    if (SLOT(link, at.l_is_over) != Py_False || SLOT(link, at.l_is_fallen) != Py_False)
        return 0;
    if (add_to(link, at.l_end, PyBytes_GET_SIZE(data)) < 0)
        return -1;
    PyObject *send = SLOT(link, at.l_send);
    if (send != Py_None && SLOT(link, at.l_is_paused) == Py_False && SLOT(link, at.l_is_held) == Py_False) {
        if (call(SLOT(link, at.l_kept), str_append, data) < 0)
            return -1;
        set_slot(link, at.l_written_to, SLOT(link, at.l_end));
        Py_INCREF(send);
        PyObject *done = PyObject_CallOneArg(send, data);
        Py_DECREF(send);
        Py_XDECREF(done);
        if (done == NULL)
            return -1;
    } else if (call(SLOT(link, at.l_unsent), str_append, data) < 0) {
        return -1;
    }
    if (number_in(link, at.l_end) - number_in(link, at.l_base) <= number_in(link, at.l_bytes_max))
        return 0;
    PyObject *done = PyObject_CallMethodNoArgs(link, str_fall);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static Py_ssize_t word_size(Py_ssize_t size) { return digit_count(size) + size + 5; }

static Py_ssize_t number_size(int64_t number) { return word_size(digit_count(number)); }

static char *put_word(char *to, const char *word, Py_ssize_t size) {
    *to++ = '$';
    return put_payload(to, word, size);
}

static char *put_number(char *to, int64_t number) {
    char digits[24];
    return put_word(to, digits, digits_of(number, digits));
}

static char *put_head(char *to, Py_ssize_t words) {
    *to++ = '*';
    return put_line_end(to + digits_of(words, to));
}

/* A frame of a verb, a key, words that are spelled already, some numbers, and payloads that are spelled already. */
static PyObject *spell_frame(const char *verb, const Word *key, const Word *word, const int64_t *numbers, int count,
                             const char *payloads, Py_ssize_t payloads_size, Py_ssize_t payload_count) {
    Py_ssize_t verb_size = strlen(verb), words = 2 + (word != NULL) + count + payload_count;
    Py_ssize_t size = 3 + digit_count(words) + word_size(verb_size) + word_size(key->size) + payloads_size;
    size += word ? word_size(word->size) : 0;
    for (int i = 0; i < count; i++)
        size += number_size(numbers[i]);
    PyObject *frame = PyBytes_FromStringAndSize(NULL, size);
    if (frame == NULL)
        return NULL;
    char *to = put_word(put_head(PyBytes_AS_STRING(frame), words), verb, verb_size);
    to = put_word(to, key->at, key->size);
    if (word != NULL)
        to = put_word(to, word->at, word->size);
    for (int i = 0; i < count; i++)
        to = put_number(to, numbers[i]);
    if (payloads_size)
        memcpy(to, payloads, payloads_size);
    return frame;
}

/* --- delivering */

/* Payloads as words that follow each other in a frame. */
typedef struct {
    const Word *words;
    Py_ssize_t count;
    /* Of the payloads together. */
    Py_ssize_t bytes;
} Payloads;

static Payloads payloads_in(const Word *words, Py_ssize_t count) {
    Payloads found = {words, count, 0};
    for (Py_ssize_t i = 0; i < count; i++)
        found.bytes += words[i].size;
    return found;
}

/* Where the bulk strings of the payloads begin and end. */
static const char *begin_of(const Payloads *p) { return p->words[0].at - 3 - digit_count(p->words[0].size); }

static const char *end_of(const Payloads *p) { return p->words[p->count - 1].at + p->words[p->count - 1].size + 2; }

/* Whether they fit one frame: as `runs` of codec.py. */
static int fit_frame(Relays *r, Py_ssize_t count, Py_ssize_t bytes) {
    return count == 1 || (count <= PAYLOADS_MAX && bytes <= r->payload_bytes_max);
}

/* A frame per message, as plain_encoder does. */
static PyObject *spell_behind(PyObject *head, const Payloads *p) {
    Py_ssize_t head_size = PyBytes_GET_SIZE(head), size = end_of(p) - begin_of(p) + p->count * (head_size - 1);
    PyObject *data = PyBytes_FromStringAndSize(NULL, size);
    if (data == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(data);
    for (Py_ssize_t i = 0; i < p->count; i++) {
        memcpy(to, PyBytes_AS_STRING(head), head_size);
        to = put_payload(to + head_size, p->words[i].at, p->words[i].size);
    }
    return data;
}

static PyObject *encoded(PyObject *encoder, int64_t first, const Payloads *p) {
    if (PyFunction_Check(encoder) && PyFunction_GET_CODE(encoder) == at.encoder_code)
        return spell_behind(PyCell_GET(PyTuple_GET_ITEM(PyFunction_GET_CLOSURE(encoder), 0)), p);
    PyObject *number = PyLong_FromLongLong(first), *run = run_of_words(p->words, p->count), *data = NULL;
    if (number != NULL && run != NULL)
        data = PyObject_CallFunctionObjArgs(encoder, number, run, NULL);
    Py_XDECREF(number);
    Py_XDECREF(run);
    return data;
}

static int write_group(PyObject *topic, PyObject *sessions, PyObject *data) {
    Py_ssize_t count = PyList_GET_SIZE(sessions);
    if (add_to(topic, at.t_bytes_out, PyBytes_GET_SIZE(data) * count) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (call(PyList_GET_ITEM(sessions, i), str_write, data) < 0)
            return -1;
    return 0;
}

/* To this hub's clients: as HubCore.publish. */
static int deliver(Relays *r, PyObject *topic, PyObject *audience, int64_t first, const Payloads *p) {
    PyObject *count = PyLong_FromSsize_t(p->count), *groups = SLOT(audience, at.a_groups);
    int problem = count == NULL || PyObject_SetAttr(r->backlogs, str_topic, topic) < 0 ||
                  PyObject_SetAttr(r->backlogs, str_messages, count) < 0;
    Py_XDECREF(count);
    for (Py_ssize_t g = 0; !problem && g < PyList_GET_SIZE(groups); g++) {
        PyObject *group = PyList_GET_ITEM(groups, g), *data = encoded(PyTuple_GET_ITEM(group, 0), first, p);
        problem = data == NULL || write_group(topic, PyTuple_GET_ITEM(group, 1), data) < 0;
        Py_XDECREF(data);
    }
    return problem || PyObject_SetAttr(r->backlogs, str_topic, Py_None) < 0 ||
                   add_to(topic, at.t_delivered, number_in(audience, at.a_receivers) * p->count) < 0
               ? -1
               : 0;
}

/* --- frames: each function executes one; 1, 0 if it is not plain, or -1 with an exception */

typedef struct {
    Relays *r;
    PyObject *peer, *index, *topics;
} Chunk;

/* Whether this hub knows the peer as a feeder of the topic, and the peer's incarnation is alive. */
static int is_fed_by(Chunk *c, PyObject *topic, PyObject *link) {
    PyObject *topics = PyObject_GetAttr(c->r->feeders, str_topics), *dead = PyObject_GetAttr(c->r->router, str_dead);
    PyObject *life = PyTuple_Pack(2, c->peer, SLOT(link, at.l_incarnation));
    PyObject *fed = topics && PyDict_Check(topics) ? PyDict_GetItemWithError(topics, c->peer) : NULL;
    int is_fed = fed != NULL && PyAnySet_Check(fed) && PySet_Contains(fed, SLOT(topic, at.t_name)) > 0;
    int is_dead = dead == NULL || life == NULL || !PyDict_Check(dead) || PyDict_Contains(dead, life) != 0;
    Py_XDECREF(topics);
    Py_XDECREF(dead);
    Py_XDECREF(life);
    return is_fed && !is_dead;
}

/* Whether telemetry has nothing to note for messages of another hub. */
static int is_noted(Relays *r, PyObject *topic) {
    if (SLOT(topic, at.t_publisher) != Py_None)
        return 0;
    if (Py_TYPE(SLOT(topic, at.t_meter)) == at.meter)
        return 1;
    PyObject *is_on = SLOT(topic, at.t_meter) == Py_None ? PyObject_GetAttr(r->metering, str_is_on) : NULL;
    Py_XDECREF(is_on);
    return is_on == Py_False;
}

/* As name_origin. */
static int write_origin(Chunk *c, PyObject *hubs, const Word *key, PyObject *origin, int64_t last) {
    Word name;
    if ((name.at = PyUnicode_AsUTF8AndSize(c->peer, &name.size)) == NULL)
        return -1;
    int64_t numbers[] = {number_in(origin, at.l_incarnation), last};
    PyObject *frame = spell_frame("EQ.L.FROM", key, &name, numbers, 2, NULL, 0, 0);
    int problem = frame == NULL;
    for (Py_ssize_t i = 0; !problem && i < PyList_GET_SIZE(hubs); i++) {
        PyObject *link = PyList_GET_ITEM(hubs, i);
        int can = PySet_Contains(SLOT(link, at.l_capabilities), at.resend);
        problem = can < 0 || (can && write_link(link, frame) < 0);
    }
    Py_XDECREF(frame);
    return problem ? -1 : 0;
}

/* As deliver_to_hubs. */
static int write_hubs(PyObject *topic, PyObject *hubs, const Word *key, int64_t first, const Payloads *p) {
    Py_ssize_t count = PyList_GET_SIZE(hubs);
    if (!count)
        return 0;
    int64_t numbers[] = {number_in(topic, at.t_epoch), first};
    PyObject *frame = spell_frame("EQ.L.EGRESS", key, NULL, numbers, 2, begin_of(p), end_of(p) - begin_of(p), p->count);
    PyObject *meter = SLOT(topic, at.t_meter);
    int problem = frame == NULL;
    if (!problem && Py_TYPE(meter) == at.meter) {
        set_slot(meter, at.m_is_noted, Py_True);
        problem = add_to(meter, at.m_egress_messages, p->count * count) < 0 ||
                  add_to(meter, at.m_egress_bytes, PyBytes_GET_SIZE(frame) * count) < 0;
    }
    for (Py_ssize_t i = 0; !problem && i < count; i++)
        problem = write_link(PyList_GET_ITEM(hubs, i), frame) < 0;
    Py_XDECREF(frame);
    return problem ? -1 : 0;
}

static int are_links(PyObject *hubs) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hubs); i++)
        if (Py_TYPE(PyList_GET_ITEM(hubs, i)) != at.link)
            return 0;
    return 1;
}

/* RUN at the home of a topic: as Ingress._number. */
static int execute_run(Chunk *c, const Word *words, Py_ssize_t count) {
    Relays *r = c->r;
    int64_t version, sequence;
    if (count < 5 || !read_count(&words[2], &version) || !read_count(&words[3], &sequence))
        return 0;
    Payloads p = payloads_in(words + 4, count - 4);
    PyObject *topic = plain_topic(r, c->topics, &words[1]);
    PyObject *audience = topic && SLOT(topic, at.t_stream) == Py_None ? plain_audience(c->index, topic) : NULL;
    PyObject *link = audience ? PyDict_GetItemWithError(r->out, c->peer) : NULL;
    if (link == NULL || Py_TYPE(link) != at.link || !fit_frame(r, p.count, p.bytes) || !is_noted(r, topic) ||
        !is_fed_by(c, topic, link) || !are_links(SLOT(audience, at.a_hubs)))
        return PyErr_Occurred() ? -1 : 0;
    Py_INCREF(topic);
    Py_INCREF(audience);
    Py_INCREF(link);
    PyObject *hubs = SLOT(audience, at.a_hubs);
    int64_t first = number_in(topic, at.t_n) + 1;
    int problem = sequence && PyList_GET_SIZE(hubs) &&
                  write_origin(c, hubs, &words[1], link, sequence + p.count - 1) < 0;
    problem = problem || set_number(topic, at.t_n, first + p.count - 1) < 0 ||
              add_to(topic, at.t_published, p.count) < 0 || add_to(topic, at.t_bytes_in, p.bytes) < 0 ||
              write_hubs(topic, hubs, &words[1], first, &p) < 0 || deliver(r, topic, audience, first, &p) < 0;
    int64_t numbers[] = {p.count, number_in(topic, at.t_epoch), number_in(topic, at.t_n)};
    Word no_path = {"", 0};
    PyObject *frame = problem ? NULL : spell_frame("EQ.L.NUMBERED", &words[1], &no_path, numbers, 3, NULL, 0, 0);
    problem = frame == NULL || write_link(link, frame) < 0;
    Py_XDECREF(frame);
    Py_DECREF(topic);
    Py_DECREF(audience);
    Py_DECREF(link);
    return problem ? -1 : 1;
}

/* FROM at a hub that follows the topic: as FrameDispatch._from. */
static int execute_from(Chunk *c, const Word *words, Py_ssize_t count) {
    int64_t incarnation, sequence;
    if (count != 5 || !read_count(&words[3], &incarnation) || !read_count(&words[4], &sequence))
        return 0;
    PyObject *topic = plain_topic(c->r, c->topics, &words[1]), *stream = topic ? remote_stream(topic) : NULL;
    if (stream == NULL)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *hub = PyUnicode_DecodeUTF8(words[2].at, words[2].size, NULL);
    if (hub == NULL) {
        PyErr_Clear();
        return 0;
    }
    PyObject *key = Py_BuildValue("(O(NL))", c->peer, hub, (long long)incarnation);
    PyObject *number = PyLong_FromLongLong(sequence);
    int problem = key == NULL || number == NULL || PyDict_SetItem(SLOT(stream, at.s_seen), key, number) < 0;
    Py_XDECREF(key);
    Py_XDECREF(number);
    return problem ? -1 : 1;
}

/* Whether the delivery of messages changes nothing for the stream but its position: as RelayedStreams.advance. */
static int is_steady(Relays *r, PyObject *stream) {
    PyObject *again = SLOT(stream, at.s_again);
    return is_empty(SLOT(stream, at.s_pending)) && SLOT(stream, at.s_join_at) == Py_None &&
           SLOT(stream, at.s_ending) == Py_None && PyTuple_Check(again) && PyTuple_GET_SIZE(again) &&
           PyLong_AsLongLong(PyTuple_GET_ITEM(again, 0)) == 0 && is_empty(r->blocked) &&
           SLOT(stream, at.s_interest) == Py_None;
}

static int advance(Relays *r, PyObject *stream) {
    if (is_steady(r, stream))
        return 0;
    PyObject *names = Py_BuildValue("(ss)", "has_moved", "is_message"), *args[] = {r->merging, stream, Py_True, Py_True};
    PyObject *done = names ? PyObject_VectorcallMethod(str_advance, args, 2, names) : NULL;
    Py_XDECREF(names);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Whether messages from the peer continue the stream: as RelayedStreams.egress and RelayedStreams._deliver. */
static int continues(Chunk *c, PyObject *topic, PyObject *stream, int64_t epoch, int64_t first) {
    PyObject *source = SLOT(stream, at.s_source);
    return (source == Py_None || is_same_name(source, c->peer)) && is_empty(SLOT(stream, at.s_strays)) &&
           epoch == number_in(topic, at.t_epoch) && first == number_in(topic, at.t_n) + 1;
}

/* EGRESS at a hub that follows the topic, and that no other hub follows. */
static int execute_egress(Chunk *c, const Word *words, Py_ssize_t count) {
    Relays *r = c->r;
    int64_t epoch, first;
    if (count < 5 || !read_count(&words[2], &epoch) || !read_count(&words[3], &first))
        return 0;
    PyObject *last = PyObject_GetAttr(r->epochs, str_last);
    int64_t last_epoch = last ? PyLong_AsLongLong(last) : -1;
    Py_XDECREF(last);
    PyObject *topic = epoch <= last_epoch ? plain_topic(r, c->topics, &words[1]) : NULL;
    PyObject *stream = topic ? remote_stream(topic) : NULL;
    PyObject *audience = stream ? plain_audience(c->index, topic) : NULL;
    if (audience == NULL || SLOT(audience, at.a_is_plain) != Py_True || !is_steady(r, stream) ||
        !continues(c, topic, stream, epoch, first))
        return PyErr_Occurred() ? -1 : 0;
    Payloads p = payloads_in(words + 4, count - 4);
    Py_INCREF(topic);
    Py_INCREF(stream);
    Py_INCREF(audience);
    int problem = set_number(topic, at.t_n, first - 1 + p.count) < 0 || deliver(r, topic, audience, first, &p) < 0 ||
                  advance(r, stream) < 0;
    Py_DECREF(topic);
    Py_DECREF(stream);
    Py_DECREF(audience);
    return problem ? -1 : 1;
}

/* --- acknowledgements */

/* Whether nothing of the stream waits, or is in doubt. */
static int is_clear(PyObject *admission) {
    return is_empty(SLOT(admission, at.d_waiting)) && is_empty(SLOT(admission, at.d_routing)) &&
           is_empty(SLOT(admission, at.d_unresolved)) && number_in(admission, at.d_loss) == 0 &&
           SLOT(admission, at.d_tokens) == Py_None && is_empty(SLOT(admission, at.d_gates)) &&
           SLOT(admission, at.d_is_doubtful) == Py_False;
}

/* The messages in flight, borrowed, if all were sent to the peer in one term, and the oldest `messages` of them are of
this hub's clients. */
static PyObject *in_flight_to(PyObject *peer, PyObject *admission, int64_t messages, PyObject **way) {
    PyObject *sent, *in_flight = SLOT(admission, at.d_in_flight);
    Py_ssize_t place = 0;
    if (!PyDict_CheckExact(in_flight) || PyDict_GET_SIZE(in_flight) != 1 || !PyDict_Next(in_flight, &place, way, &sent) ||
        !is_same_name(PyTuple_GET_ITEM(*way, 0), peer))
        return NULL;
    Py_ssize_t length = PySequence_Size(sent);
    for (Py_ssize_t i = 0; messages > 0 && i < length; i++) {
        PyObject *entry = PySequence_GetItem(sent, i);
        if (entry == NULL)
            return NULL;
        int is_own = PyTuple_GET_SIZE(PyTuple_GET_ITEM(entry, 0)) == 0;
        messages -= PyLong_AsLongLong(PyTuple_GET_ITEM(entry, 1));
        Py_DECREF(entry);
        if (!is_own)
            return NULL;
    }
    return messages <= 0 ? sent : NULL;
}

static int append_left(PyObject *deque, PyObject *entry) {
    int problem = entry == NULL || call(deque, str_appendleft, entry) < 0;
    Py_XDECREF(entry);
    return problem ? -1 : 0;
}

/* The oldest messages are acknowledged: as Admission._forget. */
static int forget_kept(PyObject *kept, int64_t messages) {
    while (messages > 0 && !is_empty(kept)) {
        PyObject *entry = PyObject_CallMethodNoArgs(kept, str_popleft);
        if (entry == NULL)
            return -1;
        PyObject *payloads = PyTuple_GET_ITEM(entry, 1);
        Py_ssize_t count = PySequence_Size(payloads);
        int problem = count < 0;
        if (!problem && messages < count) {
            int64_t sequence = PyLong_AsLongLong(PyTuple_GET_ITEM(entry, 0)) + messages;
            PyObject *rest = PySequence_GetSlice(payloads, messages, count);
            problem = rest == NULL || append_left(kept, Py_BuildValue("(LN)", (long long)sequence, rest)) < 0;
        }
        messages -= count;
        Py_DECREF(entry);
        if (problem)
            return -1;
    }
    return 0;
}

/* As Admission.acked, for the oldest messages in flight. */
static int forget_sent(PyObject *sent, int64_t messages) {
    while (messages > 0) {
        PyObject *entry = PyObject_CallMethodNoArgs(sent, str_popleft);
        if (entry == NULL)
            return -1;
        int64_t left = PyLong_AsLongLong(PyTuple_GET_ITEM(entry, 1)) - messages;
        int problem = left > 0 && append_left(sent, Py_BuildValue("(OL)", PyTuple_GET_ITEM(entry, 0), (long long)left));
        messages = left < 0 ? -left : 0;
        Py_DECREF(entry);
        if (problem)
            return -1;
    }
    return 0;
}

/* A position of a topic's trunk, as a Tag. */
static PyObject *tag_of(PyObject *epoch, PyObject *n) {
    PyObject *fields = Py_BuildValue("(yOO)", "", epoch, n), *args = fields ? PyTuple_Pack(1, fields) : NULL;
    PyObject *tag = args ? PyTuple_Type.tp_new(at.tag, args, NULL) : NULL;
    Py_XDECREF(fields);
    Py_XDECREF(args);
    return tag;
}

/* As ClientAcks.acked, where no call waits. */
static int settle(Relays *r, PyObject *topic, PyObject *account, int64_t messages, PyObject *position) {
    PyObject *tag = tag_of(PyTuple_GET_ITEM(position, 0), PyTuple_GET_ITEM(position, 1));
    if (tag == NULL || add_to(account, at.c_acked, messages) < 0) {
        Py_XDECREF(tag);
        return -1;
    }
    Py_SETREF(SLOT(account, at.c_at), tag);
    if (number_in(account, at.c_acked) < number_in(account, at.c_taken))
        return 0;
    return PyDict_DelItem(r->accounts, topic);
}

/* NUMBERED at the hub whose clients have sent the messages: as Ingress.acked. */
static int execute_numbered(Chunk *c, const Word *words, Py_ssize_t count) {
    Relays *r = c->r;
    int64_t messages, epoch, n;
    if (count != 6 || words[2].size || !read_count(&words[3], &messages) || !read_count(&words[4], &epoch) ||
        !read_count(&words[5], &n) || !messages || !epoch)
        return 0;
    PyObject *topic = plain_topic(r, c->topics, &words[1]), *stream = topic ? remote_stream(topic) : NULL, *way = NULL;
    PyObject *admission = stream && SLOT(stream, at.s_way) == Py_None ? SLOT(stream, at.s_admission) : NULL;
    PyObject *sent = admission && is_clear(admission) ? in_flight_to(c->peer, admission, messages, &way) : NULL;
    PyObject *account = sent ? PyDict_GetItemWithError(r->accounts, topic) : NULL;
    if (sent == NULL || PyErr_Occurred() ||
        (account != NULL && (Py_TYPE(account) != at.account || !is_empty(SLOT(account, at.c_waiting)))))
        return PyErr_Occurred() ? -1 : 0;
    PyObject *position = Py_BuildValue("(LL)", (long long)epoch, (long long)n);
    if (position == NULL)
        return -1;
    set_slot(admission, at.d_vouched, way);
    int problem = forget_kept(SLOT(admission, at.d_kept), messages) < 0 || forget_sent(sent, messages) < 0 ||
                  (is_empty(sent) && PyDict_DelItem(SLOT(admission, at.d_in_flight), SLOT(admission, at.d_vouched)) < 0);
    set_slot(admission, at.d_numbered_at, position);
    problem = problem || (account != NULL && settle(r, topic, account, messages, position) < 0);
    Py_DECREF(position);
    return problem ? -1 : 1;
}

/* --- chunks */

static int is_verb(const Word *word, const char *verb) {
    return word->size == (Py_ssize_t)strlen(verb) && !memcmp(word->at, verb, word->size);
}

static int execute_frame(Chunk *c, const Word *words, Py_ssize_t count) {
    if (is_verb(words, "EQ.L.EGRESS"))
        return execute_egress(c, words, count);
    if (is_verb(words, "EQ.L.RUN"))
        return execute_run(c, words, count);
    if (is_verb(words, "EQ.L.FROM"))
        return execute_from(c, words, count);
    if (is_verb(words, "EQ.L.NUMBERED"))
        return execute_numbered(c, words, count);
    return 0;
}

/* Execute the plain frames at the beginning of a chunk that a link has received; return how many bytes they had. */
static PyObject *relays_execute(Relays *r, PyObject *args) {
    PyObject *peer, *link, *data;
    Py_ssize_t start, words_max, size_max;
    if (!PyArg_ParseTuple(args, "UOSnnn", &peer, &link, &data, &start, &words_max, &size_max))
        return NULL;
    words_max = words_max > WORDS_MAX ? WORDS_MAX : words_max;
    Chunk c = {r, peer, PyObject_GetAttr(r->core, str_index), NULL};
    c.topics = c.index ? PyObject_GetAttr(c.index, str_topics) : NULL;
    if (c.topics == NULL || !PyDict_CheckExact(c.topics) || start < 0 || start > PyBytes_GET_SIZE(data)) {
        Py_XDECREF(c.index);
        Py_XDECREF(c.topics);
        return PyErr_Occurred() ? NULL : PyLong_FromLong(0);
    }
    const char *begin = PyBytes_AS_STRING(data) + start, *from = begin, *end = begin + PyBytes_GET_SIZE(data) - start;
    Word words[WORDS_MAX];
    int done = 1;
    for (int frames = 0; from < end && frames < FRAMES_MAX; frames++) {
        Py_ssize_t count;
        /* The link may have begun anew by what was written. */
        if (PyDict_GetItemWithError(r->incoming, peer) != link)
            break;
        const char *next = read_request(from, end, words_max, size_max, words, &count);
        done = next ? execute_frame(&c, words, count) : 0;
        if (done <= 0)
            break;
        from = next;
    }
    Py_DECREF(c.index);
    Py_DECREF(c.topics);
    return done < 0 || PyErr_Occurred() ? NULL : PyLong_FromSsize_t(from - begin);
}

/* --- sending */

/* The link to the home, borrowed, if a message may go there at once: as Ingress._route and Admission.waiting_for. */
static PyObject *open_link(Relays *r, PyObject *stream) {
    PyObject *peer = SLOT(stream, at.s_peer), *link = peer != Py_None ? PyDict_GetItemWithError(r->out, peer) : NULL;
    if (link == NULL || Py_TYPE(link) != at.link || SLOT(link, at.l_is_fallen) != Py_False ||
        2 * (number_in(link, at.l_end) - number_in(link, at.l_base)) > number_in(link, at.l_bytes_max) ||
        PySet_Contains(SLOT(link, at.l_capabilities), at.resend) <= 0)
        return NULL;
    PyObject *leaving = PyObject_GetAttr(r->leaving, str_hubs);
    int is_leaving = leaving == NULL || PySet_Contains(leaving, peer) != 0;
    Py_XDECREF(leaving);
    return is_leaving ? NULL : link;
}

/* Whether the topic's last publisher is a plain client: links of smart ones are noted in accounts. */
static int is_plain_publisher(Relays *r, PyObject *topic) {
    PyObject *publisher = SLOT(topic, at.t_publisher);
    PyObject *session = publisher == Py_None ? NULL : PyDict_GetItemWithError(r->sessions, publisher);
    PyObject *link = session ? PyObject_GetAttr(session, str_link) : Py_NewRef(Py_None);
    Py_XDECREF(link);
    return link == Py_None;
}

/* Count messages that are about to be sent: as ClientAcks.take. */
static int take(Relays *r, PyObject *topic, PyObject *stream, Py_ssize_t count) {
    PyObject *account = PyDict_GetItemWithError(r->accounts, topic);
    if (account != NULL)
        return add_to(account, at.c_taken, count);
    PyObject *numbered = SLOT(SLOT(stream, at.s_admission), at.d_numbered_at), *confirmed = SLOT(stream, at.s_confirmed);
    int is_later = PyErr_Occurred() ? -1 : PyObject_RichCompareBool(confirmed, numbered, Py_GT);
    PyObject *position = is_later > 0 ? confirmed : numbered;
    PyObject *tag = is_later < 0 ? NULL : tag_of(PyTuple_GET_ITEM(position, 0), PyTuple_GET_ITEM(position, 1));
    account = tag ? PyObject_CallOneArg((PyObject *)at.account, tag) : NULL;
    int problem = account == NULL || add_to(account, at.c_taken, count) < 0 ||
                  PyDict_SetItem(r->accounts, topic, account) < 0;
    Py_XDECREF(tag);
    Py_XDECREF(account);
    return problem ? -1 : 0;
}

/* The way to the home, as a new reference. */
static PyObject *way_of(PyObject *stream) { return PyTuple_Pack(2, SLOT(stream, at.s_peer), SLOT(stream, at.s_term)); }

/* The messages in flight on this way, with a reference; NULL with an exception, or if others are on another way. */
static PyObject *sent_on(PyObject *admission, PyObject *way) {
    PyObject *in_flight = SLOT(admission, at.d_in_flight), *sent = PyDict_GetItemWithError(in_flight, way);
    if (PyErr_Occurred() || PyDict_GET_SIZE(in_flight) > (sent != NULL))
        return NULL;
    if (sent != NULL)
        return Py_NewRef(sent);
    sent = PyObject_CallNoArgs((PyObject *)at.deque);
    if (sent != NULL && PyDict_SetItem(in_flight, way, sent) < 0)
        Py_CLEAR(sent);
    return sent;
}

/* The RUN frame of payloads, and their bytes; NULL with an exception, or if they are of an unknown type. */
static PyObject *spell_run(Relays *r, PyObject *topic, int64_t version, int64_t sequence, PyObject *payloads) {
    PyObject *run = Py_TYPE(payloads) == run_type ? Py_NewRef(payloads) : PyObject_CallOneArg((PyObject *)run_type, payloads);
    if (run == NULL)
        return NULL;
    PyObject *name = SLOT(topic, at.t_name), *body = ((Run *)run)->body;
    Word key = {PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)};
    int64_t numbers[] = {version, sequence};
    PyObject *frame = spell_frame("EQ.L.RUN", &key, NULL, numbers, 2, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body),
                                  Py_SIZE(run));
    Py_DECREF(run);
    return frame;
}

static Py_ssize_t payload_bytes(PyObject *payloads) {
    Py_ssize_t size = 0;
    if (Py_TYPE(payloads) == run_type)
        return ((Run *)payloads)->size;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(payloads); i++)
        size += PyObject_Size(PySequence_Fast_GET_ITEM(payloads, i));
    return size;
}

static int note_ingress(PyObject *topic, Py_ssize_t messages, PyObject *frame) {
    PyObject *meter = SLOT(topic, at.t_meter);
    if (Py_TYPE(meter) != at.meter)
        return 0;
    set_slot(meter, at.m_is_noted, Py_True);
    return add_to(meter, at.m_ingress_messages, messages) < 0 ||
                   add_to(meter, at.m_ingress_bytes, PyBytes_GET_SIZE(frame)) < 0
               ? -1
               : 0;
}

static int64_t attribute(PyObject *object, PyObject *name) {
    PyObject *value = PyObject_GetAttr(object, name);
    int64_t number = value ? PyLong_AsLongLong(value) : -1;
    Py_XDECREF(value);
    return number;
}

static int set_attribute(PyObject *object, PyObject *name, int64_t number) {
    PyObject *value = PyLong_FromLongLong(number);
    int problem = value == NULL || PyObject_SetAttr(object, name, value) < 0;
    Py_XDECREF(value);
    return problem ? -1 : 0;
}

/* Send the messages: as Ingress._send. Nothing stands before them. */
static int send_run(Relays *r, PyObject *topic, PyObject *stream, PyObject *link, PyObject *payloads) {
    PyObject *admission = SLOT(stream, at.s_admission), *frame = NULL;
    Py_ssize_t count = PySequence_Size(payloads);
    int64_t version = attribute(r->router, str_version), last = attribute(r->failover, str_sequence);
    if (PyErr_Occurred() || take(r, topic, stream, count) < 0 ||
        set_attribute(r->failover, str_sequence, last + count) < 0 ||
        (frame = spell_run(r, topic, version, last + 1, payloads)) == NULL)
        return -1;
    PyObject *way = way_of(stream), *sent = way ? sent_on(admission, way) : NULL;
    PyObject *kept = Py_BuildValue("(LO)", (long long)last + 1, payloads), *entry = Py_BuildValue("(()n)", count);
    int problem = sent == NULL || kept == NULL || entry == NULL ||
                  call(SLOT(admission, at.d_kept), str_append, kept) < 0 || call(sent, str_append, entry) < 0 ||
                  write_link(link, frame) < 0 || note_ingress(topic, count, frame) < 0;
    Py_DECREF(frame);
    Py_XDECREF(way);
    Py_XDECREF(sent);
    Py_XDECREF(kept);
    Py_XDECREF(entry);
    return problem ? -1 : 0;
}

/* Whether messages that were just sent may be acknowledged at once: as PublishRouting._may_answer. */
static int may_answer(PyObject *topic, PyObject *stream) {
    if (SLOT(topic, at.t_stream) != stream || remote_stream(topic) == NULL || SLOT(stream, at.s_way) != Py_None)
        return 0;
    PyObject *admission = SLOT(stream, at.s_admission), *way = way_of(stream);
    int is_vouched = way ? PyObject_RichCompareBool(SLOT(admission, at.d_vouched), way, Py_EQ) : -1;
    Py_XDECREF(way);
    return is_vouched < 0 ? -1 : is_vouched && is_clear(admission);
}

/* Whether messages of this hub's clients go to the home with nothing before them. */
static int is_open(PyObject *topic, PyObject *stream) {
    PyObject *admission = SLOT(stream, at.s_admission), *in_flight = SLOT(admission, at.d_in_flight);
    if (SLOT(stream, at.s_way) != Py_None || !is_clear(admission) || !PyDict_CheckExact(in_flight))
        return 0;
    PyObject *way = way_of(stream);
    int is_first = PyDict_GET_SIZE(in_flight) == 0;
    int is_only = way && PyDict_GET_SIZE(in_flight) == 1 && PyDict_GetItemWithError(in_flight, way) != NULL;
    Py_XDECREF(way);
    return is_first || is_only;
}

static int has_meter(Relays *r, PyObject *topic) {
    if (Py_TYPE(SLOT(topic, at.t_meter)) == at.meter)
        return 1;
    PyObject *is_on = SLOT(topic, at.t_meter) == Py_None ? PyObject_GetAttr(r->metering, str_is_on) : NULL;
    Py_XDECREF(is_on);
    return is_on == Py_False;
}

/* Send messages of a client to the home: as PublishRouting.publish, which is called if anything about them is special. */
static PyObject *relays_submit(Relays *r, PyObject *const *args, Py_ssize_t count_of_args) {
    if (count_of_args != 2) {
        PyErr_SetString(PyExc_TypeError, "submit(topic, payloads)");
        return NULL;
    }
    PyObject *topic = args[0], *payloads = args[1];
    PyObject *stream = Py_TYPE(topic) == at.topic ? remote_stream(topic) : NULL;
    int is_run = Py_TYPE(payloads) == run_type || PyTuple_CheckExact(payloads) || PyList_CheckExact(payloads);
    if (!is_run || stream == NULL || SLOT(topic, at.t_limit) != Py_None || SLOT(topic, at.t_log) != Py_None ||
        SLOT(topic, at.t_content) != Py_None || !is_open(topic, stream) || !has_meter(r, topic) ||
        !is_plain_publisher(r, topic))
        goto special;
    Py_ssize_t count = PySequence_Size(payloads);
    PyObject *latest = PyObject_GetAttr(r->news, str_latest);
    int is_current = latest ? PyObject_RichCompareBool(SLOT(topic, at.t_news), latest, Py_EQ) : -1;
    Py_XDECREF(latest);
    PyObject *index = PyObject_GetAttr(r->core, str_index);
    PyObject *audience = index ? plain_audience(index, topic) : NULL, *link = open_link(r, stream);
    Py_XDECREF(index);
    if (is_current <= 0 || audience == NULL || link == NULL || !fit_frame(r, count, payload_bytes(payloads)) || !count ||
        !PyBytes_GET_SIZE(SLOT(audience, at.a_reply)) || PyErr_Occurred())
        goto special;
    PyObject *reply = Py_NewRef(SLOT(audience, at.a_reply));
    Py_INCREF(stream);
    Py_INCREF(link);
    int may = send_run(r, topic, stream, link, payloads) < 0 ? -1 : may_answer(topic, stream);
    Py_DECREF(stream);
    Py_DECREF(link);
    if (may > 0)
        return reply;
    Py_DECREF(reply);
    if (may < 0)
        return NULL;
    PyObject *number = PyLong_FromSsize_t(count);
    PyObject *answer = number ? PyObject_CallMethodObjArgs(r->ways, str_answer, topic, number, NULL) : NULL;
    Py_XDECREF(number);
    return answer;
special:
    if (PyErr_Occurred())
        return NULL;
    return PyObject_CallMethodObjArgs(r->ways, str_publish, topic, payloads, NULL);
}

/* --- the type */

static PyObject **parts_of(Relays *r) { return &r->core; }

#define PARTS ((offsetof(Relays, payload_bytes_max) - offsetof(Relays, core)) / sizeof(PyObject *))

static int relays_init(Relays *r, PyObject *args, PyObject *options) {
    PyObject *given[PARTS];
    Py_ssize_t payload_bytes_max;
    if (!PyArg_ParseTuple(args, "OOO!O!OOOOOOOOO!O!OOO!n", &given[0], &given[1], &PyDict_Type, &given[2], &PyDict_Type,
                          &given[3], &given[4], &given[5], &given[6], &given[7], &given[8], &given[9], &given[10],
                          &given[11], &PyDict_Type, &given[12], &PyDict_Type, &given[13], &given[14], &given[15],
                          &PyDict_Type, &given[16], &payload_bytes_max))
        return -1;
    for (size_t i = 0; i < PARTS; i++)
        Py_XSETREF(parts_of(r)[i], Py_NewRef(given[i]));
    r->payload_bytes_max = payload_bytes_max;
    return 0;
}

static int relays_traverse(Relays *r, visitproc visit, void *arg) {
    for (size_t i = 0; i < PARTS; i++)
        Py_VISIT(parts_of(r)[i]);
    return 0;
}

static int relays_clear(Relays *r) {
    for (size_t i = 0; i < PARTS; i++)
        Py_CLEAR(parts_of(r)[i]);
    return 0;
}

static void relays_dealloc(Relays *r) {
    PyObject_GC_UnTrack(r);
    relays_clear(r);
    Py_TYPE(r)->tp_free((PyObject *)r);
}

static PyMethodDef relays_methods[] = {
    {"execute", (PyCFunction)relays_execute, METH_VARARGS, NULL},
    {"submit", (PyCFunction)(void (*)(void))relays_submit, METH_FASTCALL, NULL},
    {NULL}};

static PyTypeObject RelaysType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "equipoise.hub.cluster._relays.Relays",
    .tp_basicsize = sizeof(Relays),
    .tp_dealloc = (destructor)relays_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The relayed messages of one hub.",
    .tp_traverse = (traverseproc)relays_traverse,
    .tp_clear = (inquiry)relays_clear,
    .tp_methods = relays_methods,
    .tp_init = (initproc)relays_init,
    .tp_new = PyType_GenericNew,
};

/* --- the module */

typedef struct {
    PyTypeObject *type;
    const char *name;
    Py_ssize_t *offset;
} Slot;

/* The hub's own types, whose attributes are read and changed where they are. */
static PyObject *learn(PyObject *module, PyObject *args) {
    PyTypeObject *run;
    PyObject *encoder, *remote, *resend;
    at.is_known = 0;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOOO", &at.topic, &at.stream, &at.audience, &at.admission, &at.link, &at.account,
                          &at.meter, &at.tag, &at.deque, &run, &encoder, &remote, &resend))
        return NULL;
    Slot slots[] = {
        {at.topic, "name", &at.t_name},
        {at.topic, "limit", &at.t_limit},
        {at.topic, "log", &at.t_log},
        {at.topic, "stream", &at.t_stream},
        {at.topic, "content", &at.t_content},
        {at.topic, "hub_filters", &at.t_hub_filters},
        {at.topic, "audience", &at.t_audience},
        {at.topic, "publisher", &at.t_publisher},
        {at.topic, "meter", &at.t_meter},
        {at.topic, "news", &at.t_news},
        {at.topic, "epoch", &at.t_epoch},
        {at.topic, "n", &at.t_n},
        {at.topic, "published", &at.t_published},
        {at.topic, "bytes_in", &at.t_bytes_in},
        {at.topic, "bytes_out", &at.t_bytes_out},
        {at.topic, "delivered", &at.t_delivered},
        {at.stream, "state", &at.s_state},
        {at.stream, "peer", &at.s_peer},
        {at.stream, "term", &at.s_term},
        {at.stream, "source", &at.s_source},
        {at.stream, "strays", &at.s_strays},
        {at.stream, "pending", &at.s_pending},
        {at.stream, "join_at", &at.s_join_at},
        {at.stream, "ending", &at.s_ending},
        {at.stream, "again", &at.s_again},
        {at.stream, "interest", &at.s_interest},
        {at.stream, "way", &at.s_way},
        {at.stream, "seen", &at.s_seen},
        {at.stream, "admission", &at.s_admission},
        {at.stream, "confirmed", &at.s_confirmed},
        {at.audience, "version", &at.a_version},
        {at.audience, "is_plain", &at.a_is_plain},
        {at.audience, "receivers", &at.a_receivers},
        {at.audience, "groups", &at.a_groups},
        {at.audience, "stages", &at.a_stages},
        {at.audience, "hubs", &at.a_hubs},
        {at.audience, "narrow_hubs", &at.a_narrow},
        {at.audience, "reply", &at.a_reply},
        {at.admission, "waiting", &at.d_waiting},
        {at.admission, "in_flight", &at.d_in_flight},
        {at.admission, "kept", &at.d_kept},
        {at.admission, "unresolved", &at.d_unresolved},
        {at.admission, "vouched", &at.d_vouched},
        {at.admission, "numbered_at", &at.d_numbered_at},
        {at.admission, "loss", &at.d_loss},
        {at.admission, "tokens", &at.d_tokens},
        {at.admission, "gates", &at.d_gates},
        {at.admission, "routing", &at.d_routing},
        {at.admission, "is_doubtful", &at.d_is_doubtful},
        {at.link, "_kept", &at.l_kept},
        {at.link, "_unsent", &at.l_unsent},
        {at.link, "_send", &at.l_send},
        {at.link, "_bytes_max", &at.l_bytes_max},
        {at.link, "base", &at.l_base},
        {at.link, "end", &at.l_end},
        {at.link, "written_to", &at.l_written_to},
        {at.link, "is_over", &at.l_is_over},
        {at.link, "is_fallen", &at.l_is_fallen},
        {at.link, "is_paused", &at.l_is_paused},
        {at.link, "is_held", &at.l_is_held},
        {at.link, "capabilities", &at.l_capabilities},
        {at.link, "incarnation", &at.l_incarnation},
        {at.account, "taken", &at.c_taken},
        {at.account, "acked", &at.c_acked},
        {at.account, "at", &at.c_at},
        {at.account, "waiting", &at.c_waiting},
        {at.meter, "is_noted", &at.m_is_noted},
        {at.meter, "ingress_messages", &at.m_ingress_messages},
        {at.meter, "ingress_bytes", &at.m_ingress_bytes},
        {at.meter, "egress_messages", &at.m_egress_messages},
        {at.meter, "egress_bytes", &at.m_egress_bytes},
    };
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        if (find_slot((PyObject *)slots[i].type, slots[i].name, slots[i].offset) < 0)
            return NULL;
    if (!PyFunction_Check(encoder) || PyFunction_GET_CLOSURE(encoder) == NULL ||
        !PyBytes_CheckExact(PyCell_GET(PyTuple_GET_ITEM(PyFunction_GET_CLOSURE(encoder), 0)))) {
        PyErr_SetString(PyExc_TypeError, "the plain encoder has no head in its first cell");
        return NULL;
    }
    /* Kept for good, as the types are. */
    Py_INCREF(args);
    run_type = run;
    at.encoder_code = Py_NewRef(PyFunction_GET_CODE(encoder));
    at.remote = remote;
    at.resend = resend;
    at.is_known = 1;
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {{"learn", learn, METH_VARARGS, NULL}, {NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "equipoise.hub.cluster._relays",
    .m_doc = "Relayed messages at the cost of copying them; see relays.py.",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__relays(void) {
    struct {
        PyObject **word;
        const char *text;
    } words[] = {
        {&str_advance, "advance"},       {&str_answer, "answer"},
        {&str_append, "append"},         {&str_appendleft, "appendleft"},
        {&str_dead, "dead"},             {&str_fall, "fall"},
        {&str_hubs, "hubs"},             {&str_index, "index"},
        {&str_is_on, "is_on"},           {&str_last, "last"},
        {&str_latest, "latest"},         {&str_link, "link"},
        {&str_messages, "messages"},     {&str_popleft, "popleft"},
        {&str_publish, "publish"},
        {&str_sequence, "sequence"},     {&str_topic, "topic"},
        {&str_topics, "topics"},         {&str_version, "version"},
        {&str_write, "write"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if ((*words[i].word = PyUnicode_InternFromString(words[i].text)) == NULL)
            return NULL;
    if (PyType_Ready(&RelaysType) < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyModule_AddObjectRef(made, "Relays", (PyObject *)&RelaysType) < 0)
        return NULL;
    return made;
}
