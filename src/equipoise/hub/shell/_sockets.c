/* Client connections at the cost of their system calls: sockets on an epoll of their own, the plainest PUBLISH, and the
plainest XADDs of many clients as one call.

Optional. Where this module is not built, the event loop's transports and `Session.receive` do the same, more slowly;
the same tests run on both. `listening.py` chooses.

A `Poller` is one epoll descriptor, which the event loop watches as one reader. In `run` it reads every connection that
has something, once, and hands the bytes to the connection's session. What is written meanwhile is gathered and sent at
the end of the turn, one system call for each connection; what is written at another time is sent at once.

A `Wire` is one connection: a transport as far as the hub needs one (`hub/data/ports.py`).

Wires whose user or address is over its share of the hub's time (`hub/data/shares.py`) are on a second epoll. The loop
calls `run_limited` for it, which reads from them in pieces of some 60 µs, owner by owner, and serves all other wires that
have something between two pieces. How much is read at once follows from the time that the last piece took. A piece of
messages ends with a message; and while only one owner has input, its pieces are as long as those of all others.

An `Outlet` gathers what a turn writes to a transport of the event loop, which itself sends every piece at once. The links
that a hub dials have one each: the frames of a turn to one hub are one system call, and wake that hub once.

A hub that has stood still does not know whether it has been declared dead (`hub/cluster/standstill.py`). So the clock is
looked at before a PUBLISH is executed here, and before what a turn has gathered is sent; and while the poller holds,
what is written to clients is kept, links between hubs excepted.

`publish` is the only decision in this file, and a copy of one: of the way that a PUBLISH takes through
`Session.receive`, `publish_run` and `HubCore.publish` if nothing about it is special. Where other hubs are involved in
the topic, it makes a run of the messages and leaves that to `HubCore.submit`. What is special in any way is left
to them, with every byte from the first command on that was not executed here.

XADDs without options are only read here. Those of all clients that follow each other in a turn and concern one topic are
gathered, and executed by one call in Python (`add_gathered` in hub/commands/log_commands.py): before the poller hands any
other bytes to a session, and at the end of the turn.

An XREAD that waits already for another session is not read here at all: the same bytes ask for the same, and the session
joins that read (`hub/logs/shared_read.py`).

A topic with a rate envelope is not special while it has tokens and nothing waits for them: then the hub lends its bucket
(`TopicTokens.lend`), and tokens are taken here, by the arithmetic of `limits/bucket.py`. Whoever looks at the bucket in
Python takes it back first.

Always true:
    a lent bucket has what the bucket would have, to the unit, and is used within its term only;
    what is gathered has been executed before a session is given bytes that came later;
    an outlet is empty outside of turns, so what is written through it keeps its order;
    a wire's callbacks are never called after `connection_lost`, and that is called once, in a turn of its own;
    a wire holds at most the high-water mark and one piece before its protocol is asked to pause;
    nothing is written to a client that had nothing to send before, while the poller holds;
    while its reading is paused, a wire notices neither FIN nor RST, as with uvloop.
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../../resp/_runs.h"
#include "../_slots.h"

/* What is read at once, as uvloop's. */
#define READ_BYTES (256 * 1024)
/* The same from a wire whose owner is over its share: at first, at least and at most. */
#define LIMITED_READ_BYTES 512
#define LIMITED_READ_BYTES_MIN 64
#define LIMITED_READ_BYTES_MAX (64 * 1024)
/* A piece of such a wire; and all pieces between two turns of the loop. As PIECE_S of shares.py. */
#define PIECE_NS 60000
#define LIMITED_TURN_NS 500000
/* Sending to one connection takes some 10 µs: more of them are not sent to in one go while others may wait. */
#define SENDS_AT_ONCE 16
/* If only one owner has had input for so long, and is over its share, its wires are read as all are, for at most the second
   time: short pieces would only cost it. */
#define QUIET_NS 20000000
#define QUIET_TURN_NS 2000000
/* As NOTED_S of shares.py. */
#define NOTED_NS 250000
/* As uvloop's: when a protocol learns that its transport is full, and that it is not. */
#define HIGH_BYTES (64 * 1024)
#define LOW_BYTES (16 * 1024)
#define EVENTS_MAX 256
#define PIECES_AT_ONCE 64
/* Commands that are executed in one go; the rest of a chunk is for `Session.receive`, which looks at the clock. */
#define COMMANDS_MAX 2048
/* As FEW_RECEIVERS of publish.py: for more of them a run may have to be cut into slices. */
#define RECEIVERS_MAX 50
/* What is gathered for one call; less than RUN_BYTES of live_log.py by more than one chunk. Words of one XADD. */
#define GATHERED_BYTES (512 * 1024)
#define ADDITION_WORDS_MAX 999
/* The longest request that is looked for among the reads that wait. */
#define READ_REQUEST_BYTES 1024

typedef struct {
    PyObject_HEAD
    /* Of the wires within their share, and of the others. */
    int epoll, limited;
    int is_running, is_holding;
    PyObject *core;
    /* Told of time that a session has used; asked whether a session's owner is over its share. NULL: nothing is metered. */
    PyObject *used, *limit_of;
    /* Counts changes of the owners over their share, and pieces; and the owner whose wire had the last piece. */
    uint32_t shares_at, last_owner;
    uint64_t pieces;
    /* When another owner than the one over its share last had input; and whether that is long ago. */
    int64_t others_at;
    uint8_t is_quiet;
    /* Wires whose output is kept until the poller holds no more. */
    PyObject *held;
    PyObject *call_soon;
    PyObject *on_error;
    /* The hub's fine clock; NULL: that of the kernel, CLOCK_MONOTONIC. */
    PyObject *clock;
    /* Executes XADDs that are gathered; NULL: none are. Their topic, the wires and sessions that have sent them, how
       many each has, the fields of all, and the bytes in which they came. */
    PyObject *add, *add_topic, *add_wires, *add_sessions, *add_counts, *add_bodies;
    Py_ssize_t add_bytes;
    /* Wires with something to send at the end of the turn; references are held. */
    struct Wire **dirty;
    Py_ssize_t dirty_count, dirty_room;
    /* Outlets with something to write at the end of the turn. */
    PyObject *outlets;
    /* What sending at the end of turns has taken so far, and how many bytes that was. */
    int64_t sending_ns, gathered_bytes;
    char *buffer;
} Poller;

typedef struct Wire {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Poller *poller;
    PyObject *protocol;
    PyObject *session;
    /* What is not sent yet: `pieces` is `first` while one piece has room in it. */
    PyObject *first;
    PyObject **pieces;
    uint32_t head, count, room;
    int fd;
    /* Of the piece at `head`, how much is sent; and the bytes of all, without that. */
    Py_ssize_t sent, bytes;
    /* Time used and not yet reported; the last piece; the owner's number, 0 unless it is over its share; when that was
       asked for; and how much is read at once while it is. */
    int64_t used_ns;
    uint64_t piece;
    uint32_t owner, asked_at, read_bytes;
    uint8_t interest;
    uint8_t is_dirty, is_closing, is_full;
    /* Whether the last read has filled its buffer: then there is probably more. */
    uint8_t has_more;
} Wire;

enum { WANTS_IN = 1, WANTS_OUT = 2 };

/* The state of a limited topic's bucket while the compiled part has it. Owned by its TopicLimit. */
typedef struct {
    PyObject_HEAD
    int is_lent;
    /* Knows whether the hub stands still; held while the bucket is lent. */
    PyObject *stalls;
    /* In units, as in limits/bucket.py; `least` is the lowest level that was left. */
    __int128 level, depth, least;
    /* Nanoseconds; millionths of a message per second; messages. */
    int64_t at, until, rate, admitted;
} LentBucket;

#define TOKEN ((__int128)1000000000000000)

static PyTypeObject WireType, LentBucketType;
static PyObject *str_shell, *str_fine_now, *str_cluster, *str_limits, *str_lend;
static PyObject *str_receive, *str_pause, *str_resume, *str_lost, *str_eof, *str_publish;
static PyObject *str_audience_of, *str_index, *str_topics, *str_version, *str_users, *str_is_open, *str_stats, *str_backlogs, *str_topic;
static PyObject *str_messages, *str_now, *str_metering, *str_published_by, *str_end, *str_may;
static PyObject *str_awake_until, *str_standstill, *str_notice, *str_logs, *str_shared, *str_xread;
static PyObject *str_submit, *str_answer, *str_flush;

/* Where the attributes of the hub's objects are. Filled in by `learn`. */
static struct {
    int is_known;
    PyTypeObject *session, *topic, *audience, *limit, *stalls, *shared_read;
    /* Of the function that plain_encoder returns; its first cell holds the frame's head. */
    PyObject *encoder_code;
    PyObject *replies_on, *may_publish;
    /* Session */
    Py_ssize_t is_closing, waiting, peer, user, reader, subscriptions, owed, gathered, transaction, reply_mode, holds_input, redirected,
        id, last_at, command, write, proto;
    /* SharedRead */
    Py_ssize_t members, timer, wait_s;
    /* RequestReader, RequestLimits, Stats */
    Py_ssize_t unfinished, error, limits, payload_bytes_max, input_bytes, commands;
    /* Topic */
    Py_ssize_t t_name, t_is_gated, t_is_watched, t_limit, t_log, t_stream, t_content, t_audience, t_publisher, t_n, t_published, t_bytes_in, t_bytes_out,
        t_delivered;
    /* Audience */
    Py_ssize_t a_version, a_is_plain, a_receivers, a_groups, a_reply;
    /* TopicLimit, StallWatch */
    Py_ssize_t l_lent, w_looked_at, w_since, w_timer;
} at;

/* --- wires: registration */

static void wire_watch(Wire *w, uint8_t interest) {
    uint8_t former = w->interest;
    if (interest == former || w->fd < 0)
        return;
    struct epoll_event event = {.data.ptr = w};
    event.events = (interest & WANTS_IN ? EPOLLIN : 0) | (interest & WANTS_OUT ? EPOLLOUT : 0);
    /* A descriptor that nothing is wanted of is taken out: epoll would report its end again and again. */
    int operation = !interest ? EPOLL_CTL_DEL : former ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    epoll_ctl(w->owner ? w->poller->limited : w->poller->epoll, operation, w->fd, &event);
    w->interest = interest;
}

static void wire_drop_pieces(Wire *w) {
    uint32_t head = w->head, count = w->count;
    PyObject **taken = w->pieces, *first = w->first;
    w->pieces = NULL;
    w->first = NULL;
    w->head = w->count = w->room = 0;
    w->bytes = w->sent = 0;
    if (taken == NULL) {
        if (count)
            Py_XDECREF(first);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        Py_DECREF(taken[head + i]);
    PyMem_Free(taken);
}

/* Report a Python exception that no caller can catch. */
static void poller_report(Poller *p) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL)
        return;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    PyObject *done = p->on_error ? PyObject_CallOneArg(p->on_error, value) : NULL;
    if (done == NULL)
        PyErr_WriteUnraisable((PyObject *)p);
    Py_XDECREF(done);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* The connection is no more. Its protocol learns it in a turn of its own. */
static void wire_end(Wire *w, int error) {
    if (w->fd < 0)
        return;
    wire_watch(w, 0);
    close(w->fd);
    w->fd = -1;
    w->is_closing = 1;
    wire_drop_pieces(w);
    PyObject *reason = Py_NewRef(Py_None);
    if (error) {
        PyObject *made = PyObject_CallFunction(PyExc_OSError, "is", error, strerror(error));
        if (made != NULL)
            Py_SETREF(reason, made);
        else
            PyErr_Clear();
    }
    PyObject *end = PyObject_GetAttr((PyObject *)w, str_end);
    PyObject *handle = end ? PyObject_CallFunctionObjArgs(w->poller->call_soon, end, reason, NULL) : NULL;
    if (handle == NULL)
        poller_report(w->poller);
    Py_XDECREF(handle);
    Py_XDECREF(end);
    Py_DECREF(reason);
    /* The reference that was held for the kernel's sake. */
    Py_DECREF(w);
}

/* --- wires: sending */

static void wire_call(Wire *w, PyObject *method) {
    if (w->protocol == NULL)
        return;
    PyObject *result = PyObject_CallMethodNoArgs(w->protocol, method);
    if (result == NULL)
        poller_report(w->poller);
    Py_XDECREF(result);
}

static void wire_took(Wire *w, size_t sent) {
    w->bytes -= sent;
    while (sent) {
        PyObject **pieces = w->pieces ? w->pieces : &w->first;
        PyObject *piece = pieces[w->head];
        size_t left = PyBytes_GET_SIZE(piece) - w->sent;
        if (sent < left) {
            w->sent += sent;
            return;
        }
        sent -= left;
        w->sent = 0;
        w->head++;
        w->count--;
        if (!w->count) {
            w->head = 0;
            if (w->pieces != NULL) {
                PyMem_Free(w->pieces);
                w->pieces = NULL;
                w->room = 0;
            }
            w->first = NULL;
        }
        Py_DECREF(piece);
    }
}

/* Send what the kernel takes. The wire may have ended afterwards; the caller holds a reference. */
static void wire_send(Wire *w) {
    while (w->fd >= 0 && w->count) {
        PyObject **pieces = (w->pieces ? w->pieces : &w->first) + w->head;
        ssize_t sent;
        size_t offered;
        if (w->count == 1) {
            offered = PyBytes_GET_SIZE(pieces[0]) - w->sent;
            sent = send(w->fd, PyBytes_AS_STRING(pieces[0]) + w->sent, offered, MSG_NOSIGNAL);
        } else {
            struct iovec parts[PIECES_AT_ONCE];
            int count = w->count < PIECES_AT_ONCE ? (int)w->count : PIECES_AT_ONCE;
            offered = 0;
            for (int i = 0; i < count; i++) {
                Py_ssize_t skip = i ? 0 : w->sent;
                parts[i].iov_base = PyBytes_AS_STRING(pieces[i]) + skip;
                parts[i].iov_len = PyBytes_GET_SIZE(pieces[i]) - skip;
                offered += parts[i].iov_len;
            }
            struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
            sent = sendmsg(w->fd, &message, MSG_NOSIGNAL);
        }
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                wire_end(w, errno);
                return;
            }
            sent = 0;
        }
        wire_took(w, sent);
        if ((size_t)sent < offered)
            break;
    }
    if (w->fd < 0)
        return;
    wire_watch(w, w->count ? w->interest | WANTS_OUT : w->interest & ~WANTS_OUT);
    if (!w->count && w->is_closing) {
        wire_end(w, 0);
        return;
    }
    if (w->bytes > HIGH_BYTES && !w->is_full) {
        w->is_full = 1;
        wire_call(w, str_pause);
    } else if (w->is_full && w->bytes <= LOW_BYTES) {
        w->is_full = 0;
        wire_call(w, str_resume);
    }
}

static int wire_make_dirty(Wire *w) {
    Poller *p = w->poller;
    if (p->dirty_count == p->dirty_room) {
        Py_ssize_t room = p->dirty_room ? 2 * p->dirty_room : 64;
        Wire **grown = PyMem_Realloc(p->dirty, room * sizeof(Wire *));
        if (grown == NULL)
            return -1;
        p->dirty = grown;
        p->dirty_room = room;
    }
    p->dirty[p->dirty_count++] = (Wire *)Py_NewRef(w);
    w->is_dirty = 1;
    return 0;
}

/* Whether what is written to the wire has to be kept for now. */
static int wire_is_held(Wire *w) {
    return w->poller->is_holding && at.is_known && w->session != NULL && Py_TYPE(w->session) == at.session &&
           SLOT(w->session, at.peer) == Py_None;
}

/* Append the piece, and send unless the turn's end will. Bytes only. */
static int wire_put(Wire *w, PyObject *data) {
    Py_ssize_t size = PyBytes_GET_SIZE(data);
    if (w->is_closing || w->fd < 0 || !size)
        return 0;
    if (w->pieces == NULL && !w->count) {
        w->first = Py_NewRef(data);
        w->head = 0;
    } else {
        if (w->pieces == NULL || w->head + w->count == w->room) {
            uint32_t room = w->count < 4 ? 8 : 2 * w->count;
            PyObject **grown = PyMem_Malloc(room * sizeof(PyObject *));
            if (grown == NULL) {
                PyErr_NoMemory();
                return -1;
            }
            memcpy(grown, (w->pieces ? w->pieces : &w->first) + w->head, w->count * sizeof(PyObject *));
            PyMem_Free(w->pieces);
            w->pieces = grown;
            w->room = room;
            w->head = 0;
        }
        w->pieces[w->head + w->count] = Py_NewRef(data);
    }
    w->count++;
    w->bytes += size;
    int is_held = wire_is_held(w);
    if (is_held || w->interest & WANTS_OUT) {
        if (w->bytes > HIGH_BYTES && !w->is_full) {
            w->is_full = 1;
            wire_call(w, str_pause);
        }
        if (w->interest & WANTS_OUT)
            return 0;
    }
    if (is_held || (w->poller->is_running && w->bytes <= HIGH_BYTES)) {
        if (w->is_dirty || wire_make_dirty(w) == 0)
            return 0;
    }
    Py_INCREF(w);
    wire_send(w);
    Py_DECREF(w);
    return 0;
}

/* --- outlets */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Poller *poller;
    /* Of the transport. */
    PyObject *write;
    /* Gathered pieces, and the bytes of all. */
    PyObject *pieces;
    Py_ssize_t bytes;
} Outlet;

static PyTypeObject OutletType;

/* Write what is gathered. */
static int outlet_flush(Outlet *o) {
    Py_ssize_t count = PyList_GET_SIZE(o->pieces);
    if (!count)
        return 0;
    PyObject *pieces = o->pieces, *none = PyList_New(0), *empty = PyBytes_FromStringAndSize(NULL, 0), *data = NULL;
    if (none != NULL && empty != NULL)
        data = count == 1 ? Py_NewRef(PyList_GET_ITEM(pieces, 0)) : _PyBytes_Join(empty, pieces);
    Py_XDECREF(empty);
    if (data == NULL) {
        Py_XDECREF(none);
        return -1;
    }
    o->pieces = none;
    o->bytes = 0;
    Py_DECREF(pieces);
    PyObject *done = PyObject_CallOneArg(o->write, data);
    Py_DECREF(data);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyObject *outlet_vectorcall(PyObject *self, PyObject *const *args, size_t count, PyObject *names) {
    Outlet *o = (Outlet *)self;
    if (PyVectorcall_NARGS(count) != 1 || names != NULL || !PyBytes_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "an outlet takes bytes");
        return NULL;
    }
    if (!o->poller->is_running)
        return PyObject_CallOneArg(o->write, args[0]);
    if (!PyList_GET_SIZE(o->pieces) && PyList_Append(o->poller->outlets, self) < 0)
        return NULL;
    if (PyList_Append(o->pieces, args[0]) < 0)
        return NULL;
    o->bytes += PyBytes_GET_SIZE(args[0]);
    if (o->bytes > HIGH_BYTES && outlet_flush(o) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static int outlet_traverse(Outlet *o, visitproc visit, void *arg) {
    Py_VISIT(o->write);
    Py_VISIT(o->pieces);
    return 0;
}

static int outlet_clear(Outlet *o) {
    Py_SETREF(o->write, Py_NewRef(Py_None));
    return 0;
}

static void outlet_dealloc(Outlet *o) {
    PyObject_GC_UnTrack(o);
    Py_XDECREF(o->poller);
    Py_XDECREF(o->write);
    Py_XDECREF(o->pieces);
    Py_TYPE(o)->tp_free((PyObject *)o);
}

static PyTypeObject OutletType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "equipoise.hub.shell._sockets.Outlet",
    .tp_basicsize = sizeof(Outlet),
    .tp_dealloc = (destructor)outlet_dealloc,
    .tp_vectorcall_offset = offsetof(Outlet, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "The `write` of a transport, called once with what a turn writes.",
    .tp_traverse = (traverseproc)outlet_traverse,
    .tp_clear = (inquiry)outlet_clear,
};

/* --- wires: the face of a transport */

static PyObject *wire_write_one(Wire *w, PyObject *data) {
    if (PyBytes_CheckExact(data)) {
        if (wire_put(w, data) < 0)
            return NULL;
        Py_RETURN_NONE;
    }
    PyObject *copy = PyBytes_FromObject(data);
    if (copy == NULL)
        return NULL;
    int problem = wire_put(w, copy);
    Py_DECREF(copy);
    if (problem < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Calling a wire writes to it, and its `write` is the wire itself: a bound method for each would weigh as much again. */
static PyObject *wire_vectorcall(PyObject *w, PyObject *const *args, size_t count, PyObject *names) {
    if (PyVectorcall_NARGS(count) != 1 || names != NULL) {
        PyErr_SetString(PyExc_TypeError, "write() takes exactly one argument");
        return NULL;
    }
    return wire_write_one((Wire *)w, args[0]);
}

static PyObject *wire_get_write(Wire *w, void *closure) { return Py_NewRef(w); }

static void wire_shut(Wire *w) {
    if (w->is_closing)
        return;
    w->is_closing = 1;
    wire_watch(w, w->interest & ~WANTS_IN);
    if (!w->count)
        wire_end(w, 0);
}

static PyObject *wire_close(Wire *w, PyObject *none) {
    wire_shut(w);
    Py_RETURN_NONE;
}

static PyObject *wire_abort(Wire *w, PyObject *none) {
    w->is_closing = 1;
    wire_end(w, 0);
    Py_RETURN_NONE;
}

static PyObject *wire_is_closing(Wire *w, PyObject *none) { return PyBool_FromLong(w->is_closing); }

static PyObject *wire_pause_reading(Wire *w, PyObject *none) {
    wire_watch(w, w->interest & ~WANTS_IN);
    Py_RETURN_NONE;
}

static PyObject *wire_resume_reading(Wire *w, PyObject *none) {
    if (!w->is_closing)
        wire_watch(w, w->interest | WANTS_IN);
    Py_RETURN_NONE;
}

static PyObject *wire_get_write_buffer_size(Wire *w, PyObject *none) { return PyLong_FromSsize_t(w->bytes); }

static PyObject *wire_fileno(Wire *w, PyObject *none) { return PyLong_FromLong(w->fd); }

static PyObject *address_of(Wire *w, int (*ask)(int, struct sockaddr *, socklen_t *)) {
    struct sockaddr_storage storage;
    socklen_t size = sizeof storage;
    char text[INET6_ADDRSTRLEN];
    if (w->fd < 0 || ask(w->fd, (struct sockaddr *)&storage, &size) < 0)
        Py_RETURN_NONE;
    if (storage.ss_family == AF_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&storage;
        inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
        return Py_BuildValue("(si)", text, ntohs(v4->sin_port));
    }
    if (storage.ss_family == AF_INET6) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&storage;
        inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
        return Py_BuildValue("(siII)", text, ntohs(v6->sin6_port), ntohl(v6->sin6_flowinfo), v6->sin6_scope_id);
    }
    Py_RETURN_NONE;
}

static PyObject *wire_get_extra_info(Wire *w, PyObject *args) {
    const char *name;
    PyObject *otherwise = Py_None;
    if (!PyArg_ParseTuple(args, "s|O", &name, &otherwise))
        return NULL;
    if (!strcmp(name, "peername"))
        return address_of(w, getpeername);
    if (!strcmp(name, "sockname"))
        return address_of(w, getsockname);
    if (!strcmp(name, "socket"))
        return Py_NewRef(w);
    return Py_NewRef(otherwise);
}

/* As of a socket, so that a wire is its own `socket` to those that ask the kernel about it. */
static PyObject *wire_getsockopt(Wire *w, PyObject *args) {
    int level, option, number = 0;
    Py_ssize_t room = 0;
    if (!PyArg_ParseTuple(args, "ii|n", &level, &option, &room))
        return NULL;
    if (!room) {
        socklen_t number_size = sizeof number;
        if (getsockopt(w->fd, level, option, &number, &number_size) < 0)
            return PyErr_SetFromErrno(PyExc_OSError);
        return PyLong_FromLong(number);
    }
    PyObject *value = PyBytes_FromStringAndSize(NULL, room);
    if (value == NULL)
        return NULL;
    socklen_t size = (socklen_t)room;
    if (getsockopt(w->fd, level, option, PyBytes_AS_STRING(value), &size) < 0) {
        Py_DECREF(value);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    _PyBytes_Resize(&value, size);
    return value;
}

static PyObject *wire_setsockopt(Wire *w, PyObject *args) {
    int level, option, value;
    if (!PyArg_ParseTuple(args, "iii", &level, &option, &value))
        return NULL;
    if (setsockopt(w->fd, level, option, &value, sizeof value) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *wire_tell_end(Wire *w, PyObject *reason) {
    PyObject *protocol = w->protocol;
    w->protocol = NULL;
    Py_CLEAR(w->session);
    if (protocol == NULL)
        Py_RETURN_NONE;
    PyObject *result = PyObject_CallMethodOneArg(protocol, str_lost, reason);
    Py_DECREF(protocol);
    return result;
}

static void wire_dealloc(Wire *w) {
    if (w->fd >= 0)
        close(w->fd);
    wire_drop_pieces(w);
    Py_XDECREF(w->protocol);
    Py_XDECREF(w->session);
    Py_XDECREF(w->poller);
    PyObject_Free(w);
}

static PyMethodDef wire_methods[] = {
    {"close", (PyCFunction)wire_close, METH_NOARGS, NULL},
    {"abort", (PyCFunction)wire_abort, METH_NOARGS, NULL},
    {"is_closing", (PyCFunction)wire_is_closing, METH_NOARGS, NULL},
    {"pause_reading", (PyCFunction)wire_pause_reading, METH_NOARGS, NULL},
    {"resume_reading", (PyCFunction)wire_resume_reading, METH_NOARGS, NULL},
    {"get_write_buffer_size", (PyCFunction)wire_get_write_buffer_size, METH_NOARGS, NULL},
    {"get_extra_info", (PyCFunction)wire_get_extra_info, METH_VARARGS, NULL},
    {"fileno", (PyCFunction)wire_fileno, METH_NOARGS, NULL},
    {"getsockopt", (PyCFunction)wire_getsockopt, METH_VARARGS, NULL},
    {"setsockopt", (PyCFunction)wire_setsockopt, METH_VARARGS, NULL},
    {"_end", (PyCFunction)wire_tell_end, METH_O, NULL},
    {NULL}};

static PyGetSetDef wire_attributes[] = {{"write", (getter)wire_get_write, NULL, NULL, NULL}, {NULL}};

static PyTypeObject WireType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "equipoise.hub.shell._sockets.Wire",
    .tp_basicsize = sizeof(Wire),
    .tp_dealloc = (destructor)wire_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Wire, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_doc = "One connection. Made by Poller.attach.",
    .tp_methods = wire_methods,
    .tp_getset = wire_attributes,
};

/* --- buckets */

/* As CREDIT_NS and LATE_AFTER_NS of stall_watch.py. */
#define CREDIT_NS 20000000
#define LATE_AFTER_NS 13000000

/* As StallWatch.since: since when messages that are found now may have waited; 0: the loop has not stood still. */
static int64_t stalled_since(PyObject *stalls, int64_t now) {
    int64_t looked_at = PyLong_AsLongLong(SLOT(stalls, at.w_looked_at));
    int64_t since = PyLong_AsLongLong(SLOT(stalls, at.w_since));
    if (now >= looked_at + LATE_AFTER_NS && SLOT(stalls, at.w_timer) != Py_None)
        since = looked_at;
    return !since || since > now - CREDIT_NS ? since : now - CREDIT_NS;
}

/* The hub gives the bucket away until a moment. */
static PyObject *lent_lend(LentBucket *b, PyObject *args) {
    long long tokens, units, moment, rate, depth_tokens, depth_units, until;
    PyObject *stalls;
    if (!PyArg_ParseTuple(args, "(LL)L(LL)LLO", &tokens, &units, &moment, &depth_tokens, &depth_units, &rate, &until,
                          &stalls))
        return NULL;
    if (!at.is_known || Py_TYPE(stalls) != at.stalls) {
        PyErr_Format(PyExc_TypeError, "%R is no StallWatch", stalls);
        return NULL;
    }
    b->level = b->least = tokens * TOKEN + units;
    b->depth = depth_tokens * TOKEN + depth_units;
    b->at = moment;
    b->rate = rate;
    b->until = until;
    b->admitted = 0;
    Py_INCREF(stalls);
    Py_XSETREF(b->stalls, stalls);
    b->is_lent = 1;
    Py_RETURN_NONE;
}

/* ((tokens, units), moment, messages admitted, (tokens, units) of the lowest level); None if it was not lent. */
static PyObject *lent_take_back(LentBucket *b, PyObject *none) {
    if (!b->is_lent)
        Py_RETURN_NONE;
    b->is_lent = 0;
    Py_CLEAR(b->stalls);
    return Py_BuildValue("(LL)LL(LL)", (long long)(b->level / TOKEN), (long long)(b->level % TOKEN), (long long)b->at,
                         (long long)b->admitted, (long long)(b->least / TOKEN), (long long)(b->least % TOKEN));
}

/* As Bucket.level. */
static void lent_fill(LentBucket *b, int64_t now) {
    int64_t passed = now - b->at, since = stalled_since(b->stalls, now);
    __int128 most = b->depth + (since ? (__int128)(now - since) * b->rate : 0);
    if (passed <= 0)
        return;
    b->level += (__int128)passed * b->rate;
    if (b->level > most)
        b->level = most;
    b->at = now;
}

/* Take as many tokens as there are, up to `wanted`. As Bucket.take. */
static Py_ssize_t lent_take(LentBucket *b, int64_t now, Py_ssize_t wanted) {
    if (!b->is_lent || now >= b->until)
        return 0;
    lent_fill(b, now);
    Py_ssize_t count = b->level >= wanted * TOKEN ? wanted : (Py_ssize_t)(b->level / TOKEN);
    b->level -= count * TOKEN;
    b->admitted += count;
    if (count && b->level < b->least)
        b->least = b->level;
    return count;
}

/* For tests: what `publish` does. */
static PyObject *lent_take_some(LentBucket *b, PyObject *args) {
    Py_ssize_t wanted;
    long long now;
    if (!PyArg_ParseTuple(args, "nL", &wanted, &now))
        return NULL;
    return PyLong_FromSsize_t(lent_take(b, now, wanted));
}

static void lent_dealloc(LentBucket *b) {
    Py_XDECREF(b->stalls);
    Py_TYPE(b)->tp_free((PyObject *)b);
}

static PyMethodDef lent_methods[] = {
    {"lend", (PyCFunction)lent_lend, METH_VARARGS, NULL},
    {"take", (PyCFunction)lent_take_some, METH_VARARGS, NULL},
    {"take_back", (PyCFunction)lent_take_back, METH_NOARGS, NULL},
    {NULL}};

static PyTypeObject LentBucketType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "equipoise.hub.shell._sockets.LentBucket",
    .tp_basicsize = sizeof(LentBucket),
    .tp_dealloc = (destructor)lent_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A bucket's state while the compiled part has it.",
    .tp_methods = lent_methods,
    .tp_new = PyType_GenericNew,
};

/* --- publishing */

typedef struct {
    const char *topic, *payload;
    Py_ssize_t topic_size, payload_size;
} Publish;

static const char PUBLISH_HEAD[] = "*3\r\n$7\r\nPUBLISH\r\n$";
#define PUBLISH_HEAD_SIZE (sizeof PUBLISH_HEAD - 1)

/* One PUBLISH in its ordinary spelling; the place after it, or NULL if it is anything else, or unfinished. */
static const char *read_publish(const char *from, const char *end, Py_ssize_t payload_max, Publish *found) {
    if (end - from < (Py_ssize_t)PUBLISH_HEAD_SIZE || memcmp(from, PUBLISH_HEAD, PUBLISH_HEAD_SIZE))
        return NULL;
    from = read_number(from + PUBLISH_HEAD_SIZE, end, &found->topic_size, 4);
    if (from == NULL || end - from < found->topic_size + 3 || found->topic_size > payload_max)
        return NULL;
    found->topic = from;
    from += found->topic_size;
    if (from[0] != '\r' || from[1] != '\n' || from[2] != '$')
        return NULL;
    from = read_number(from + 3, end, &found->payload_size, 7);
    if (from == NULL || end - from < found->payload_size + 2 || found->payload_size > payload_max)
        return NULL;
    found->payload = from;
    from += found->payload_size;
    return from[0] == '\r' && from[1] == '\n' ? from + 2 : NULL;
}

/* As plain_encoder does: a frame per message. */
static PyObject *encode_plain(PyObject *head, const Publish *run, Py_ssize_t count) {
    Py_ssize_t head_size = PyBytes_GET_SIZE(head), size = 0;
    char digits[24];
    for (Py_ssize_t i = 0; i < count; i++)
        size += head_size + digits_of(run[i].payload_size, digits) + run[i].payload_size + 4;
    PyObject *data = PyBytes_FromStringAndSize(NULL, size);
    if (data == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(data);
    for (Py_ssize_t i = 0; i < count; i++) {
        memcpy(to, PyBytes_AS_STRING(head), head_size);
        to += head_size;
        to += digits_of(run[i].payload_size, to);
        *to++ = '\r';
        *to++ = '\n';
        memcpy(to, run[i].payload, run[i].payload_size);
        to += run[i].payload_size;
        *to++ = '\r';
        *to++ = '\n';
    }
    return data;
}

static PyObject *payloads_of(const Publish *run, Py_ssize_t count) {
    PyObject *payloads = PyTuple_New(count);
    for (Py_ssize_t i = 0; payloads != NULL && i < count; i++) {
        PyObject *payload = PyBytes_FromStringAndSize(run[i].payload, run[i].payload_size);
        if (payload == NULL)
            Py_CLEAR(payloads);
        else
            PyTuple_SET_ITEM(payloads, i, payload);
    }
    return payloads;
}

/* The type of runs, learnt when it is first needed; 0 where it has not been built. */
static int has_runs(void) {
    static int is_known;
    if (!is_known) {
        PyObject *runs = PyImport_ImportModule("equipoise.resp._runs");
        run_type = runs ? (PyTypeObject *)PyObject_GetAttrString(runs, "Run") : NULL;
        Py_XDECREF(runs);
        PyErr_Clear();
        is_known = 1;
    }
    return run_type != NULL;
}

/* As `publishes` of `_runs.c`: a run, or one payload in a tuple. */
static PyObject *run_of(const Publish *messages, Py_ssize_t count) {
    Py_ssize_t size = 0;
    if (count == 1)
        return payloads_of(messages, 1);
    for (Py_ssize_t i = 0; i < count; i++)
        size += digit_count(messages[i].payload_size) + messages[i].payload_size + 5;
    Run *run = new_run(count, size);
    if (run == NULL)
        return NULL;
    char *body = PyBytes_AS_STRING(run->body), *to = body;
    for (Py_ssize_t i = 0; i < count; i++) {
        *to++ = '$';
        to = put_payload(to, messages[i].payload, messages[i].payload_size);
        run->places[i] = (Place){to - 2 - messages[i].payload_size - body, messages[i].payload_size};
        run->size += messages[i].payload_size;
    }
    return (PyObject *)run;
}

/* What is written just now, for Backlogs: a subscriber's transport may be full, or become so. */
static int note_run(PyObject *core, PyObject *topic, Py_ssize_t count) {
    PyObject *backlogs = PyObject_GetAttr(core, str_backlogs), *messages = PyLong_FromSsize_t(count);
    int problem = backlogs == NULL || messages == NULL || PyObject_SetAttr(backlogs, str_topic, topic) < 0 ||
                  PyObject_SetAttr(backlogs, str_messages, messages) < 0;
    Py_XDECREF(backlogs);
    Py_XDECREF(messages);
    return problem ? -1 : 0;
}

static int write_to(PyObject *core, PyObject *session, PyObject *topic, Py_ssize_t count, PyObject *data) {
    PyObject *write = Py_NewRef(SLOT(session, at.write));
    Wire *w = Py_TYPE(write) == &WireType ? (Wire *)write : NULL;
    int problem = 0;
    if (w != NULL && w->bytes + PyBytes_GET_SIZE(data) <= HIGH_BYTES) {
        problem = wire_put(w, data);
    } else {
        PyObject *result = note_run(core, topic, count) < 0 ? NULL : PyObject_CallOneArg(write, data);
        problem = result == NULL || (topic != Py_None && note_run(core, Py_None, 0) < 0) ? -1 : 0;
        Py_XDECREF(result);
    }
    Py_DECREF(write);
    return problem;
}

/* Whether nothing but tokens stands before messages of a topic with a gate: no recorder of arrivals, no log. */
static int is_only_limited(PyObject *topic) {
    return SLOT(topic, at.t_is_watched) == Py_False && SLOT(topic, at.t_log) == Py_None &&
           Py_TYPE(SLOT(topic, at.t_limit)) == at.limit;
}

/* Whether the topic's audience is of this version of the index, or could be made so; -1 with an exception. */
static int is_fresh(PyObject *core, PyObject *topic, PyObject *version) {
    PyObject *audience = SLOT(topic, at.t_audience);
    if (Py_TYPE(audience) != at.audience)
        return 0;
    int is_same = PyObject_RichCompareBool(SLOT(audience, at.a_version), version, Py_EQ);
    if (is_same)
        return is_same;
    PyObject *renewed = PyObject_CallMethodOneArg(core, str_audience_of, topic);
    int is_renewed = renewed == NULL ? -1 : renewed == SLOT(topic, at.t_audience) && Py_TYPE(renewed) == at.audience;
    Py_XDECREF(renewed);
    return is_renewed;
}

/* Whether messages of the topic take the plain way; if not, there may be an exception. */
static int is_plain_topic(PyObject *core, PyObject *topic, PyObject *version) {
    if (Py_TYPE(topic) != at.topic || SLOT(topic, at.t_content) != Py_None)
        return 0;
    int is_relayed = SLOT(topic, at.t_stream) != Py_None, is_gated = SLOT(topic, at.t_is_gated) != Py_False;
    if (is_relayed ? is_gated || !has_runs() : is_gated && !is_only_limited(topic))
        return 0;
    if (is_fresh(core, topic, version) <= 0)
        return 0;
    PyObject *audience = SLOT(topic, at.t_audience);
    return SLOT(audience, at.a_is_plain) == Py_True && PyLong_AsSsize_t(SLOT(audience, at.a_receivers)) <= RECEIVERS_MAX &&
           PyBytes_CheckExact(SLOT(audience, at.a_reply)) && PyBytes_GET_SIZE(SLOT(audience, at.a_reply));
}

/* The topic, with a reference, if its messages take the plain way; NULL if not, or with an exception. */
static PyObject *plain_topic(PyObject *core, PyObject *topics, PyObject *version, const Publish *message) {
    PyObject *name = PyBytes_FromStringAndSize(message->topic, message->topic_size);
    if (name == NULL)
        return NULL;
    PyObject *topic = Py_XNewRef(PyDict_GetItemWithError(topics, name));
    Py_DECREF(name);
    if (topic != NULL && !is_plain_topic(core, topic, version))
        Py_CLEAR(topic);
    return topic;
}

/* The head of a plain encoder's frames, borrowed; NULL of any other encoder. */
static PyObject *plain_head(PyObject *encoder) {
    if (!PyFunction_Check(encoder) || PyFunction_GET_CODE(encoder) != at.encoder_code)
        return NULL;
    return PyCell_GET(PyTuple_GET_ITEM(PyFunction_GET_CLOSURE(encoder), 0));
}

static int deliver_groups(PyObject *core, PyObject *topic, PyObject *groups, const Publish *run, Py_ssize_t count) {
    PyObject *payloads = NULL;
    int problem = 0;
    for (Py_ssize_t g = 0; !problem && g < PyList_GET_SIZE(groups); g++) {
        PyObject *group = PyList_GET_ITEM(groups, g);
        PyObject *encoder = PyTuple_GET_ITEM(group, 0), *sessions = PyTuple_GET_ITEM(group, 1), *data = NULL;
        PyObject *head = plain_head(encoder);
        if (head != NULL) {
            data = encode_plain(head, run, count);
        } else {
            PyObject *last = SLOT(topic, at.t_n);
            PyObject *first = PyLong_FromLongLong(PyLong_AsLongLong(last) - count + 1);
            if (payloads == NULL)
                payloads = payloads_of(run, count);
            if (first != NULL && payloads != NULL)
                data = PyObject_CallFunctionObjArgs(encoder, first, payloads, NULL);
            Py_XDECREF(first);
        }
        if (data == NULL || !PyBytes_CheckExact(data)) {
            if (data != NULL)
                PyErr_Format(PyExc_TypeError, "%R returned no bytes", encoder);
            Py_XDECREF(data);
            problem = -1;
            break;
        }
        Py_ssize_t receivers = PyList_GET_SIZE(sessions);
        problem = add_to(topic, at.t_bytes_out, PyBytes_GET_SIZE(data) * receivers);
        for (Py_ssize_t i = 0; !problem && i < receivers; i++)
            problem = write_to(core, PyList_GET_ITEM(sessions, i), topic, count, data);
        Py_DECREF(data);
    }
    Py_XDECREF(payloads);
    return problem;
}

/* Note the publisher, if it is not the last one. */
static int note_publisher(PyObject *core, PyObject *session, PyObject *topic) {
    int is_same = PyObject_RichCompareBool(SLOT(topic, at.t_publisher), SLOT(session, at.id), Py_EQ);
    if (is_same)
        return is_same < 0 ? -1 : 0;
    PyObject *metering = PyObject_GetAttr(core, str_metering);
    PyObject *done = metering ? PyObject_CallMethodObjArgs(metering, str_published_by, topic, session, NULL) : NULL;
    Py_XDECREF(metering);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Publish a run of messages to a topic that other hubs are involved in: the reply to each, as bytes or to come. */
static PyObject *submit_run(PyObject *core, PyObject *session, PyObject *topic, const Publish *run, Py_ssize_t count) {
    PyObject *payloads = note_publisher(core, session, topic) < 0 ? NULL : run_of(run, count);
    PyObject *reply = payloads ? PyObject_CallMethodObjArgs(core, str_submit, topic, payloads, NULL) : NULL;
    Py_XDECREF(payloads);
    return reply;
}

/* Publish a run of messages to a plain topic; the reply to each, or NULL with an exception. */
static PyObject *publish_run(PyObject *core, PyObject *session, PyObject *topic, const Publish *run, Py_ssize_t count) {
    if (SLOT(topic, at.t_stream) != Py_None)
        return submit_run(core, session, topic, run, count);
    if (note_publisher(core, session, topic) < 0)
        return NULL;
    Py_ssize_t bytes_in = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        bytes_in += run[i].payload_size;
    if (add_to(topic, at.t_n, count) < 0 || add_to(topic, at.t_published, count) < 0 ||
        add_to(topic, at.t_bytes_in, bytes_in) < 0)
        return NULL;
    PyObject *audience = Py_NewRef(SLOT(topic, at.t_audience));
    Py_ssize_t receivers = PyLong_AsSsize_t(SLOT(audience, at.a_receivers));
    PyObject *reply = NULL;
    if (deliver_groups(core, topic, SLOT(audience, at.a_groups), run, count) == 0 &&
        add_to(topic, at.t_delivered, receivers * count) == 0) {
        PyObject *now = SLOT(topic, at.t_audience);
        /* None: a subscriber went while it was written to. */
        if (Py_TYPE(now) == at.audience && PyBytes_CheckExact(SLOT(now, at.a_reply)))
            reply = Py_NewRef(SLOT(now, at.a_reply));
        else
            reply = PyBytes_FromFormat(":%zd\r\n", receivers);
    }
    Py_DECREF(audience);
    return reply;
}

/* Whether the session takes its publishes as they come: as `takes_columns` in Session.receive. */
static int is_plain_session(PyObject *session) {
    PyObject *reader = SLOT(session, at.reader);
    return SLOT(session, at.is_closing) == Py_False && SLOT(session, at.waiting) == Py_None &&
           SLOT(session, at.peer) == Py_None && SLOT(session, at.user) != Py_None &&
           SLOT(session, at.subscriptions) == Py_None && SLOT(session, at.owed) == Py_None &&
           SLOT(session, at.gathered) == Py_None && SLOT(session, at.transaction) == Py_None && SLOT(session, at.reply_mode) == at.replies_on &&
           SLOT(session, at.holds_input) == Py_False && SLOT(session, at.redirected) == Py_None &&
           SLOT(reader, at.unfinished) == Py_None && SLOT(reader, at.error) == Py_None;
}

static PyObject *repeated(PyObject *reply, Py_ssize_t count) {
    if (count == 1)
        return Py_NewRef(reply);
    return PySequence_Repeat(reply, count);
}

/* Whether the session's user may publish to the topic: 1, 0, or -1 with an exception. */
static int is_permitted(PyObject *session, PyObject *topic) {
    PyObject *answer =
        PyObject_CallMethodObjArgs(session, str_may, at.may_publish, SLOT(topic, at.t_name), NULL);
    int is_true = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return is_true;
}

static int64_t monotonic_ns(void) {
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    return moment.tv_sec * (int64_t)1000000000 + moment.tv_nsec;
}

/* The fine clock in nanoseconds, as `nanoseconds(shell.fine_now())`; -1 with an exception. */
static int64_t fine_now(Poller *p) {
    if (p->clock != NULL) {
        PyObject *seconds = PyObject_CallNoArgs(p->clock);
        double value = seconds ? PyFloat_AsDouble(seconds) : -1;
        Py_XDECREF(seconds);
        return PyErr_Occurred() ? -1 : (int64_t)(value * 1e9);
    }
    return monotonic_ns();
}

/* Have the topic's bucket lent, if the hub does so; -1 with an exception. */
static int borrow_bucket(PyObject *core, PyObject *topic) {
    PyObject *cluster = PyObject_GetAttr(core, str_cluster);
    PyObject *limits = cluster ? PyObject_GetAttr(cluster, str_limits) : NULL;
    PyObject *done = limits ? PyObject_CallMethodOneArg(limits, str_lend, topic) : NULL;
    Py_XDECREF(cluster);
    Py_XDECREF(limits);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Of a run of messages to a limited topic, how many have tokens, which are taken; -1 with an exception. */
static Py_ssize_t admit(Poller *p, PyObject *topic, int64_t now, Py_ssize_t wanted) {
    PyObject *limit = SLOT(topic, at.t_limit);
    LentBucket *bucket = (LentBucket *)SLOT(limit, at.l_lent);
    if ((PyObject *)bucket == Py_None) {
        PyObject *made = PyObject_CallNoArgs((PyObject *)&LentBucketType);
        if (made == NULL)
            return -1;
        set_slot(limit, at.l_lent, made);
        Py_DECREF(made);
        bucket = (LentBucket *)made;
    }
    if (Py_TYPE(bucket) != &LentBucketType)
        return 0;
    if ((!bucket->is_lent || now >= bucket->until) && borrow_bucket(p->core, topic) < 0)
        return -1;
    /* Asking for it may have changed everything. */
    limit = SLOT(topic, at.t_limit);
    if (Py_TYPE(limit) != at.limit || (PyObject *)bucket != SLOT(limit, at.l_lent))
        return 0;
    return lent_take(bucket, now, wanted);
}

/* Whether the hub has stood still before `now`, and is not confirmed yet: 1, 0, or -1 with an exception. */
static int is_after_standstill(PyObject *core, PyObject *now) {
    PyObject *until = PyObject_GetAttr(core, str_awake_until);
    int is_late = until == NULL ? -1 : PyObject_RichCompareBool(now, until, Py_GT);
    Py_XDECREF(until);
    return is_late;
}

/* The reply to a run is to come: as Session.answer, and what was replied before is written first. */
static int owe(PyObject *session, PyObject *reply, const Publish *run, Py_ssize_t count) {
    Py_ssize_t bytes = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        bytes += run[i].payload_size;
    PyObject *names = Py_BuildValue("(s)", "is_muted"), *size = PyLong_FromSsize_t(bytes), *done = NULL;
    PyObject *args[] = {session, reply, size, Py_False};
    if (names != NULL && size != NULL)
        done = PyObject_VectorcallMethod(str_answer, args, 3, names);
    if (done != NULL)
        Py_SETREF(done, PyObject_CallMethodNoArgs(session, str_flush));
    Py_XDECREF(names);
    Py_XDECREF(size);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Execute the PUBLISH commands at the beginning that are plain in every way. How many bytes they had, or -1. */
static Py_ssize_t publish(Poller *p, PyObject *session, const char *data, Py_ssize_t size) {
    PyObject *core = p->core;
    Publish messages[COMMANDS_MAX];
    /* When limited topics of this chunk are judged: once for all of them. */
    int64_t judged_at = 0;
    if (!at.is_known || size < (Py_ssize_t)PUBLISH_HEAD_SIZE || memcmp(data, PUBLISH_HEAD, PUBLISH_HEAD_SIZE) ||
        Py_TYPE(session) != at.session || !is_plain_session(session))
        return 0;
    Py_ssize_t payload_max =
        PyLong_AsSsize_t(SLOT(SLOT(SLOT(session, at.reader), at.limits), at.payload_bytes_max));
    Py_ssize_t count = 0;
    const char *from = data, *end = data + size;
    while (from < end && count < COMMANDS_MAX) {
        const char *next = read_publish(from, end, payload_max, &messages[count]);
        if (next == NULL)
            break;
        from = next;
        count++;
    }
    if (!count)
        return 0;
    PyObject *index = NULL, *topics = NULL, *users = NULL, *is_open = NULL, *stats = NULL;
    PyObject *now = NULL, *replies = NULL, *pending = NULL;
    Py_ssize_t done = 0, owed = 0, used = -1;
    users = PyObject_GetAttr(core, str_users);
    is_open = users ? PyObject_GetAttr(users, str_is_open) : NULL;
    index = PyObject_GetAttr(core, str_index);
    topics = index ? PyObject_GetAttr(index, str_topics) : NULL;
    stats = PyObject_GetAttr(core, str_stats);
    if (is_open == NULL || topics == NULL || stats == NULL)
        goto out;
    used = 0;
    if (!PyDict_CheckExact(topics))
        goto out;
    while (done < count && SLOT(session, at.is_closing) == Py_False) {
        Publish *run = &messages[done];
        Py_ssize_t length = 1;
        while (done + length < count && run[length].topic_size == run->topic_size &&
               !memcmp(run[length].topic, run->topic, run->topic_size))
            length++;
        /* Anew for each run: writing may end a subscriber by patterns. */
        PyObject *version = PyObject_GetAttr(index, str_version);
        PyObject *topic = version ? plain_topic(core, topics, version, run) : NULL;
        Py_XDECREF(version);
        if (topic != NULL && is_open != Py_True && is_permitted(session, topic) <= 0)
            Py_CLEAR(topic);
        if (topic != NULL && !done) {
            now = PyObject_CallMethodNoArgs(core, str_now);
            int is_late = now ? is_after_standstill(core, now) : -1;
            if (is_late) {
                Py_DECREF(topic);
                used = is_late < 0 ? -1 : 0;
                goto out;
            }
        }
        if (topic != NULL && SLOT(topic, at.t_is_gated) != Py_False) {
            if (!judged_at)
                judged_at = fine_now(p);
            length = judged_at < 0 ? -1 : admit(p, topic, judged_at, length);
            if (length <= 0)
                Py_CLEAR(topic);
        }
        if (topic == NULL) {
            if (PyErr_Occurred())
                used = -1;
            break;
        }
        if (!done) {
            set_slot(session, at.last_at, now);
            set_slot(session, at.command, str_publish);
        }
        PyObject *reply = publish_run(core, session, topic, run, length);
        Py_DECREF(topic);
        if (reply != NULL && !PyBytes_Check(reply)) {
            pending = reply;
            owed = length;
            done += length;
            break;
        }
        PyObject *several = reply ? repeated(reply, length) : NULL;
        Py_XDECREF(reply);
        if (several == NULL) {
            used = -1;
            goto out;
        }
        if (replies == NULL) {
            replies = several;
        } else {
            PyBytes_ConcatAndDel(&replies, several);
            if (replies == NULL) {
                used = -1;
                goto out;
            }
        }
        done += length;
    }
    if (done && used == 0) {
        used = messages[done - 1].payload + messages[done - 1].payload_size + 2 - data;
        if (add_to(stats, at.input_bytes, used) < 0 || add_to(stats, at.commands, done) < 0 ||
            (replies != NULL && write_to(core, session, Py_None, 0, replies) < 0) ||
            (pending != NULL && owe(session, pending, &messages[done - owed], owed) < 0))
            used = -1;
    }
out:
    Py_XDECREF(index);
    Py_XDECREF(topics);
    Py_XDECREF(users);
    Py_XDECREF(is_open);
    Py_XDECREF(stats);
    Py_XDECREF(now);
    Py_XDECREF(replies);
    Py_XDECREF(pending);
    return used;
}

/* --- gathering XADDs */

typedef struct {
    const char *topic, *fields;
    Py_ssize_t topic_size, fields_size, words;
} Addition;

/* One XADD without options, whose id is `*`; the place after it, or NULL if it is anything else, or unfinished. */
static const char *read_addition(const char *from, const char *end, Py_ssize_t size_max, Addition *found) {
    const char *word;
    Py_ssize_t size;
    if (from == end || *from != '*' || (from = read_number(from + 1, end, &found->words, 3)) == NULL ||
        found->words < 5 || !(found->words & 1) || found->words > ADDITION_WORDS_MAX)
        return NULL;
    if ((from = read_word(from, end, size_max, &word, &size)) == NULL || size != 4 ||
        (memcmp(word, "XADD", 4) && memcmp(word, "xadd", 4)))
        return NULL;
    if ((from = read_word(from, end, size_max, &found->topic, &found->topic_size)) == NULL)
        return NULL;
    if ((from = read_word(from, end, size_max, &word, &size)) == NULL || size != 1 || *word != '*')
        return NULL;
    found->fields = from;
    for (Py_ssize_t left = found->words - 3; left; left--)
        if ((from = read_word(from, end, size_max, &word, &size)) == NULL)
            return NULL;
    found->fields_size = from - found->fields;
    return from;
}

/* The fields as a log stores them. */
static PyObject *body_of(const Addition *addition) {
    char head[16] = "*";
    int head_size = 1 + digits_of(addition->words - 3, head + 1);
    head[head_size++] = '\r';
    head[head_size++] = '\n';
    PyObject *body = PyBytes_FromStringAndSize(NULL, head_size + addition->fields_size);
    if (body == NULL)
        return NULL;
    memcpy(PyBytes_AS_STRING(body), head, head_size);
    memcpy(PyBytes_AS_STRING(body) + head_size, addition->fields, addition->fields_size);
    return body;
}

/* Execute what is gathered. If that fails, the connections that have sent it are ended. */
static void execute_gathered(Poller *p, int is_last) {
    PyObject *topic = p->add_topic, *wires = p->add_wires, *sessions = p->add_sessions, *counts = p->add_counts,
             *bodies = p->add_bodies, *size = PyLong_FromSsize_t(p->add_bytes), *done = NULL;
    if (topic == NULL) {
        Py_XDECREF(size);
        return;
    }
    p->add_topic = p->add_wires = p->add_sessions = p->add_counts = p->add_bodies = NULL;
    p->add_bytes = 0;
    if (size != NULL)
        done = PyObject_CallFunctionObjArgs(p->add, topic, sessions, counts, bodies, size,
                                            is_last ? Py_True : Py_False, NULL);
    if (done == NULL) {
        poller_report(p);
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(wires); i++)
            wire_end((Wire *)PyList_GET_ITEM(wires, i), 0);
    }
    Py_XDECREF(done);
    Py_XDECREF(size);
    Py_DECREF(topic);
    Py_DECREF(wires);
    Py_DECREF(sessions);
    Py_DECREF(counts);
    Py_DECREF(bodies);
}

static void drop_gathered(Poller *p) {
    Py_CLEAR(p->add_topic);
    Py_CLEAR(p->add_wires);
    Py_CLEAR(p->add_sessions);
    Py_CLEAR(p->add_counts);
    Py_CLEAR(p->add_bodies);
    p->add_bytes = 0;
}

/* Begin to gather for a topic; -1 with an exception. */
static int begin_gathering(Poller *p, const Addition *first) {
    p->add_topic = PyBytes_FromStringAndSize(first->topic, first->topic_size);
    p->add_wires = PyList_New(0);
    p->add_sessions = PyList_New(0);
    p->add_counts = PyList_New(0);
    p->add_bodies = PyList_New(0);
    if (p->add_topic != NULL && p->add_wires != NULL && p->add_sessions != NULL && p->add_counts != NULL &&
        p->add_bodies != NULL)
        return 0;
    drop_gathered(p);
    return -1;
}

static int is_gathered_for(Poller *p, const Addition *addition) {
    return p->add_topic != NULL && PyBytes_GET_SIZE(p->add_topic) == addition->topic_size &&
           !memcmp(PyBytes_AS_STRING(p->add_topic), addition->topic, addition->topic_size);
}

/* Gather the XADDs at the beginning that concern one topic. How many bytes they have, or -1 with an exception. */
static Py_ssize_t gather(Wire *w, PyObject *session, const char *data, Py_ssize_t size) {
    Poller *p = w->poller;
    if (p->add == NULL || !at.is_known || *data != '*' || Py_TYPE(session) != at.session || !is_plain_session(session))
        return 0;
    Py_ssize_t size_max = PyLong_AsSsize_t(SLOT(SLOT(SLOT(session, at.reader), at.limits), at.payload_bytes_max));
    const char *from = data, *end = data + size, *next;
    Addition addition;
    Py_ssize_t count = 0;
    int problem = 0;
    while (from < end && count < COMMANDS_MAX && (next = read_addition(from, end, size_max, &addition)) != NULL) {
        if (!is_gathered_for(p, &addition)) {
            if (count)
                break;
            execute_gathered(p, 0);
            if (begin_gathering(p, &addition) < 0)
                return -1;
        }
        PyObject *body = body_of(&addition);
        problem = body == NULL || PyList_Append(p->add_bodies, body) < 0;
        Py_XDECREF(body);
        if (problem)
            break;
        from = next;
        count++;
    }
    if (!count && !problem)
        return 0;
    PyObject *number = problem ? NULL : PyLong_FromSsize_t(count);
    problem = number == NULL || PyList_Append(p->add_wires, (PyObject *)w) < 0 ||
              PyList_Append(p->add_sessions, session) < 0 || PyList_Append(p->add_counts, number) < 0;
    Py_XDECREF(number);
    if (problem) {
        /* No memory: what belongs to whom is not certain. Those who have sent something are ended. */
        PyObject *wires = p->add_wires;
        p->add_wires = NULL;
        drop_gathered(p);
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(wires); i++)
            wire_end((Wire *)PyList_GET_ITEM(wires, i), ENOMEM);
        Py_DECREF(wires);
        return -1;
    }
    p->add_bytes += from - data;
    if (p->add_bytes > GATHERED_BYTES)
        execute_gathered(p, 0);
    return from - data;
}

/* --- reads that wait */

static const char READ_HEAD[] = "\r\n$5\r\nXREAD\r\n";
#define READ_HEAD_SIZE (sizeof READ_HEAD - 1)

/* The read that waits with this request, with a reference; NULL: there is none, or an exception. */
static PyObject *shared_read(PyObject *core, PyObject *session, const char *data, Py_ssize_t size) {
    PyObject *logs = PyObject_GetAttr(core, str_logs), *reads = NULL, *key = NULL, *found = NULL;
    long proto = PyLong_AsLong(SLOT(session, at.proto));
    if (logs == NULL || logs == Py_None || proto < 2 || proto > 3)
        goto out;
    reads = PyObject_GetAttr(logs, str_shared);
    if (reads == NULL || !PyDict_CheckExact(reads) || !PyDict_GET_SIZE(reads))
        goto out;
    key = PyBytes_FromStringAndSize(NULL, size + 1);
    if (key == NULL)
        goto out;
    memcpy(PyBytes_AS_STRING(key), data, size);
    PyBytes_AS_STRING(key)[size] = (char)('0' + proto);
    found = PyDict_GetItemWithError(reads, key);
    if (found != NULL && Py_TYPE(found) == at.shared_read && PyDict_CheckExact(SLOT(found, at.members)))
        Py_INCREF(found);
    else
        found = NULL;
out:
    Py_XDECREF(logs);
    Py_XDECREF(reads);
    Py_XDECREF(key);
    return found;
}

/* As SharedRead.join, for a read whose timer runs or that needs none. */
static int join(PyObject *core, PyObject *read, PyObject *session, PyObject *now, Py_ssize_t size) {
    PyObject *stats = PyObject_GetAttr(core, str_stats);
    int problem = stats == NULL || PyDict_SetItem(SLOT(read, at.members), session, now) < 0;
    if (!problem) {
        set_slot(session, at.gathered, read);
        set_slot(session, at.last_at, now);
        set_slot(session, at.command, str_xread);
        problem = add_to(stats, at.input_bytes, size) < 0 || add_to(stats, at.commands, 1) < 0;
    }
    Py_XDECREF(stats);
    return problem ? -1 : 0;
}

/* Let the session wait with others, if this is the request of a read that waits: `size`, 0, or -1 with an exception. */
static Py_ssize_t join_read(Poller *p, PyObject *session, const char *data, Py_ssize_t size) {
    PyObject *core = p->core;
    if (!at.is_known || size > READ_REQUEST_BYTES || size < 2 + (Py_ssize_t)READ_HEAD_SIZE || *data != '*' ||
        memcmp(data + 2, READ_HEAD, READ_HEAD_SIZE) || Py_TYPE(session) != at.session || !is_plain_session(session))
        return 0;
    PyObject *users = PyObject_GetAttr(core, str_users), *is_open = users ? PyObject_GetAttr(users, str_is_open) : NULL;
    PyObject *read = is_open == Py_True ? shared_read(core, session, data, size) : NULL, *now = NULL;
    Py_ssize_t used = PyErr_Occurred() ? -1 : 0;
    if (read != NULL && (SLOT(read, at.timer) != Py_None || PyFloat_AsDouble(SLOT(read, at.wait_s)) == 0.0)) {
        now = PyObject_CallMethodNoArgs(core, str_now);
        int is_late = now ? is_after_standstill(core, now) : -1;
        if (is_late < 0 || (!is_late && join(core, read, session, now, size) < 0))
            used = -1;
        else if (!is_late)
            used = size;
    }
    Py_XDECREF(users);
    Py_XDECREF(is_open);
    Py_XDECREF(read);
    Py_XDECREF(now);
    return used;
}

/* --- the poller */

/* Who takes the input: the session, or of a link, where Session.receive would only pass it on, its receiving end. */
static PyObject *taker_of(PyObject *session) {
    int is_link = at.is_known && Py_TYPE(session) == at.session && SLOT(session, at.peer) != Py_None &&
                  SLOT(session, at.is_closing) == Py_False && SLOT(session, at.waiting) == Py_None &&
                  SLOT(session, at.gathered) == Py_None;
    return is_link ? SLOT(session, at.peer) : session;
}

static int receive(Wire *w, const char *data, Py_ssize_t size) {
    PyObject *session = Py_NewRef(w->session);
    Py_ssize_t used = publish(w->poller, session, data, size);
    if (!used)
        used = gather(w, session, data, size);
    if (!used)
        used = join_read(w->poller, session, data, size);
    if (used < 0 || used == size) {
        Py_DECREF(session);
        return used < 0 ? -1 : 0;
    }
    execute_gathered(w->poller, 0);
    PyObject *chunk = PyBytes_FromStringAndSize(data + used, size - used), *taker = Py_NewRef(taker_of(session));
    PyObject *result = chunk ? PyObject_CallMethodOneArg(taker, str_receive, chunk) : NULL;
    Py_DECREF(taker);
    Py_XDECREF(chunk);
    Py_XDECREF(result);
    Py_DECREF(session);
    return result == NULL ? -1 : 0;
}

/* How many bytes the unbroken run of PUBLISH commands at the beginning has. */
static Py_ssize_t whole_publishes(const char *data, Py_ssize_t size) {
    const char *at = data, *next;
    Publish found;
    while ((next = read_publish(at, data + size, READ_BYTES, &found)) != NULL)
        at = next;
    return at - data;
}

/* Read a piece that ends with a PUBLISH, if it begins with one: Python joins what a read cuts in two, which costs more than
   many messages do. */
static ssize_t read_piece(Wire *w) {
    char *data = w->poller->buffer;
    for (size_t room = w->read_bytes;; room *= 4) {
        ssize_t size = recv(w->fd, data, room, MSG_PEEK);
        w->has_more = size == (ssize_t)room;
        if (size <= 0)
            return size;
        Py_ssize_t whole = whole_publishes(data, size);
        int is_cut = !whole && w->has_more && size >= (ssize_t)PUBLISH_HEAD_SIZE && room <= LIMITED_READ_BYTES_MAX / 4 &&
                     !memcmp(data, PUBLISH_HEAD, PUBLISH_HEAD_SIZE);
        if (!is_cut)
            return recv(w->fd, data, whole ? whole : size, 0);
    }
}

static void wire_read(Wire *w) {
    Poller *p = w->poller;
    ssize_t size;
    if (w->owner && !p->is_quiet) {
        size = read_piece(w);
    } else {
        size = recv(w->fd, p->buffer, READ_BYTES, 0);
        w->has_more = size == READ_BYTES;
    }
    if (size < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            wire_end(w, errno);
        return;
    }
    if (!size) {
        wire_watch(w, w->interest & ~WANTS_IN);
        wire_call(w, str_eof);
        wire_shut(w);
        return;
    }
    if (w->session != NULL && receive(w, p->buffer, size) < 0) {
        poller_report(p);
        wire_end(w, 0);
    }
}

static void wire_serve(Wire *w, uint32_t events) {
    if (w->fd >= 0 && (w->interest & WANTS_OUT) && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
        wire_send(w);
    if (w->fd >= 0 && (w->interest & WANTS_IN) && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
        wire_read(w);
}

static void wire_send_gathered(Wire *w) {
    w->is_dirty = 0;
    if (!(w->interest & WANTS_OUT))
        wire_send(w);
}

/* Before replies are sent: the hub may have stood still since they were made. */
static void poller_look_at_clock(Poller *p) {
    int64_t nanoseconds = fine_now(p);
    PyObject *now = nanoseconds < 0 ? NULL : PyFloat_FromDouble(nanoseconds / 1e9), *standstill = NULL, *done = NULL;
    int is_late = now ? is_after_standstill(p->core, now) : -1;
    if (is_late > 0) {
        standstill = PyObject_GetAttr(p->core, str_standstill);
        done = standstill ? PyObject_CallMethodNoArgs(standstill, str_notice) : NULL;
    }
    if (is_late < 0 || (is_late > 0 && done == NULL))
        poller_report(p);
    Py_XDECREF(now);
    Py_XDECREF(standstill);
    Py_XDECREF(done);
}

/* Send what this wire has, or keep it. Consumes the reference. */
static void poller_flush_one(Poller *p, Wire *w) {
    /* A wire that is kept stays dirty, so that it is kept once. */
    if (!wire_is_held(w) || PyList_Append(p->held, (PyObject *)w) < 0) {
        PyErr_Clear();
        p->gathered_bytes += w->bytes;
        wire_send_gathered(w);
    }
    Py_DECREF(w);
}

static void poller_flush(Poller *p) {
    int64_t began = p->dirty_count ? monotonic_ns() : 0;
    while (p->dirty_count) {
        Py_ssize_t count = p->dirty_count, room = p->dirty_room;
        Wire **dirty = p->dirty;
        p->dirty = NULL;
        p->dirty_count = p->dirty_room = 0;
        /* Those over their share last: the others do not wait for them. */
        for (int is_limited = 0; is_limited < 2; is_limited++)
            for (Py_ssize_t i = 0; i < count; i++)
                if (dirty[i] != NULL && (is_limited || !dirty[i]->owner)) {
                    Wire *w = dirty[i];
                    dirty[i] = NULL;
                    poller_flush_one(p, w);
                }
        if (p->dirty == NULL) {
            p->dirty = dirty;
            p->dirty_room = room;
        } else {
            PyMem_Free(dirty);
        }
    }
    if (began)
        p->sending_ns += monotonic_ns() - began;
}

/* Links first: other hubs have subscribers of their own to write to. */
static void poller_flush_outlets(Poller *p) {
    PyObject *outlets = p->outlets, *none = PyList_New(0);
    if (none == NULL) {
        poller_report(p);
        return;
    }
    p->outlets = none;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(outlets); i++)
        if (outlet_flush((Outlet *)PyList_GET_ITEM(outlets, i)) < 0)
            poller_report(p);
    Py_DECREF(outlets);
}

/* Send what the turn has gathered so far. */
static void poller_send(Poller *p) {
    if (PyList_GET_SIZE(p->outlets))
        poller_flush_outlets(p);
    if (p->dirty_count && !p->is_holding)
        poller_look_at_clock(p);
    poller_flush(p);
}

/* Send what the turn has gathered. */
static void poller_end_turn(Poller *p) {
    p->is_running = 0;
    poller_send(p);
}

/* --- shares */

/* Whether the wire's time is metered: links between hubs are not. */
static int wire_is_metered(Wire *w) {
    return w->poller->used != NULL && w->fd >= 0 && at.is_known && w->session != NULL &&
           Py_TYPE(w->session) == at.session && SLOT(w->session, at.peer) == Py_None;
}

/* Move the wire to the epoll where it belongs. `number`: its owner's, 0 if that is within its share; consumed. */
static void wire_limit(Wire *w, PyObject *number) {
    uint32_t owner = number ? (uint32_t)PyLong_AsUnsignedLongMask(number) : 0;
    Py_XDECREF(number);
    if (PyErr_Occurred())
        poller_report(w->poller);
    w->asked_at = w->poller->shares_at;
    if (!owner == !w->owner || w->fd < 0) {
        w->owner = owner;
        return;
    }
    uint8_t interest = w->interest;
    wire_watch(w, 0);
    w->owner = owner;
    if (!w->read_bytes)
        w->read_bytes = LIMITED_READ_BYTES;
    wire_watch(w, interest);
}

/* Ask again whether the wire's owner is over its share, if that may have changed. */
static void wire_renew(Wire *w) {
    if (w->asked_at != w->poller->shares_at && wire_is_metered(w))
        wire_limit(w, PyObject_CallOneArg(w->poller->limit_of, w->session));
}

/* The wire has been served for so long. */
static void wire_used(Wire *w, int64_t ns) {
    w->used_ns += ns;
    if (w->used_ns < NOTED_NS || !wire_is_metered(w))
        return;
    PyObject *seconds = PyFloat_FromDouble(w->used_ns / 1e9);
    w->used_ns = 0;
    wire_limit(w, seconds ? PyObject_CallFunctionObjArgs(w->poller->used, w->session, seconds, NULL) : NULL);
    Py_XDECREF(seconds);
}

/* Input of another owner: from now on pieces are short. */
static void poller_met_other(Poller *p, int64_t now) {
    p->others_at = now;
    p->is_quiet = 0;
}

/* Read once from every wire within its share that has something. How many there are. */
static int serve_others(Poller *p) {
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(p->epoll, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++)
        Py_INCREF((PyObject *)events[i].data.ptr);
    int64_t began = monotonic_ns();
    for (int i = 0; i < count; i++) {
        Wire *w = events[i].data.ptr;
        wire_renew(w);
        if (!w->owner) {
            wire_serve(w, events[i].events);
            int64_t ended = monotonic_ns();
            wire_used(w, ended - began);
            began = ended;
            if (!w->owner)
                poller_met_other(p, ended);
        }
        Py_DECREF(w);
    }
    execute_gathered(p, 1);
    return count;
}

static PyObject *poller_run(Poller *p, PyObject *none) {
    if (p->is_running || p->epoll < 0)
        Py_RETURN_NONE;
    p->is_running = 1;
    serve_others(p);
    poller_end_turn(p);
    Py_RETURN_NONE;
}

/* Of the events left, the one to serve next: of the owner after the last one, the wire that has waited longest; -1: none. */
static int next_limited(Poller *p, struct epoll_event *events, int count) {
    int chosen = -1;
    for (int i = 0; i < count; i++) {
        Wire *w = events[i].data.ptr, *best = chosen < 0 ? NULL : events[chosen].data.ptr;
        if (w == NULL)
            continue;
        uint32_t distance = w->owner - p->last_owner - 1, least = best ? best->owner - p->last_owner - 1 : 0;
        if (best == NULL || distance < least || (distance == least && w->piece < best->piece))
            chosen = i;
    }
    return chosen;
}

/* As next_piece_bytes of shares.py. */
static uint32_t next_read_bytes(uint32_t size, int64_t took_ns) {
    if (took_ns > PIECE_NS)
        return size / 2 > LIMITED_READ_BYTES_MIN ? size / 2 : LIMITED_READ_BYTES_MIN;
    return took_ns >= PIECE_NS / 4 ? size : 2 * size < LIMITED_READ_BYTES_MAX ? 2 * size : LIMITED_READ_BYTES_MAX;
}

/* One piece of a wire whose owner is over its share. The time at its end. */
static int64_t serve_piece(Poller *p, Wire *w, uint32_t events, int64_t began) {
    if (w->owner != p->last_owner)
        poller_met_other(p, began);
    p->last_owner = w->owner;
    w->piece = ++p->pieces;
    w->has_more = 0;
    wire_serve(w, events);
    int64_t ended = monotonic_ns();
    if (!p->is_quiet)
        w->read_bytes = next_read_bytes(w->read_bytes, ended - began);
    wire_used(w, ended - began);
    return ended;
}

/* Whether so many connections have output that sending to all of them would delay the others. */
static int must_send(Poller *p) {
    return p->dirty_count >= SENDS_AT_ONCE && !p->is_quiet;
}

/* Serve these wires, whose owners are over their share, by pieces, and the others between two pieces. Returns the time. */
static int64_t serve_limited(Poller *p, struct epoll_event *events, int count, int64_t until) {
    int64_t now = monotonic_ns(), looked_at = now;
    int chosen;
    while (now < until && (chosen = next_limited(p, events, count)) >= 0) {
        Wire *w = events[chosen].data.ptr;
        wire_renew(w);
        if (w->owner)
            now = serve_piece(p, w, events[chosen].events, now);
        events[chosen].events = EPOLLIN;
        if (!w->owner || !w->has_more || !(w->interest & WANTS_IN)) {
            events[chosen].data.ptr = NULL;
            Py_DECREF(w);
        }
        if (now - looked_at < PIECE_NS / 4 && !must_send(p))
            continue;
        if (serve_others(p) > 0 || must_send(p))
            poller_send(p);
        now = looked_at = monotonic_ns();
    }
    return now;
}

/* Serve the wires whose owners are over their share, for a while. */
static PyObject *poller_run_limited(Poller *p, PyObject *none) {
    struct epoll_event events[EVENTS_MAX];
    if (p->is_running || p->epoll < 0)
        Py_RETURN_NONE;
    p->is_running = 1;
    if (serve_others(p) > 0)
        poller_send(p);
    int64_t now = monotonic_ns();
    p->is_quiet = now - p->others_at > QUIET_NS;
    int64_t until = now + (p->is_quiet ? QUIET_TURN_NS : LIMITED_TURN_NS);
    int count;
    while (now < until && (count = epoll_wait(p->limited, events, EVENTS_MAX, 0)) > 0) {
        for (int i = 0; i < count; i++)
            Py_INCREF((PyObject *)events[i].data.ptr);
        now = serve_limited(p, events, count, until);
        for (int i = 0; i < count; i++)
            Py_XDECREF((PyObject *)events[i].data.ptr);
    }
    execute_gathered(p, 1);
    poller_end_turn(p);
    Py_RETURN_NONE;
}

/* Report the time that sessions use to `used`, and serve those in short pieces that `limit_of` says are limited. */
static PyObject *poller_share(Poller *p, PyObject *args) {
    PyObject *used, *limit_of;
    if (!PyArg_ParseTuple(args, "OO", &used, &limit_of))
        return NULL;
    Py_INCREF(used);
    Py_INCREF(limit_of);
    Py_XSETREF(p->used, used);
    Py_XSETREF(p->limit_of, limit_of);
    p->shares_at++;
    Py_RETURN_NONE;
}

/* Other owners than before are over their share. */
static PyObject *poller_renew_shares(Poller *p, PyObject *none) {
    p->shares_at++;
    Py_RETURN_NONE;
}

/* Call this as a turn of its own: what it writes is gathered, too. */
static PyObject *poller_turn(Poller *p, PyObject *work) {
    if (p->is_running || p->epoll < 0)
        return PyObject_CallNoArgs(work);
    p->is_running = 1;
    PyObject *done = PyObject_CallNoArgs(work), *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    poller_end_turn(p);
    PyErr_Restore(type, value, trace);
    return done;
}

/* Seconds spent so far on sending what turns have gathered, and the bytes. */
static PyObject *poller_sent(Poller *p, PyObject *none) {
    return Py_BuildValue("dL", p->sending_ns / 1e9, (long long)p->gathered_bytes);
}

/* Keep what is written to clients from now on, or send what was kept. */
static PyObject *poller_hold(Poller *p, PyObject *is_holding) {
    p->is_holding = PyObject_IsTrue(is_holding) > 0;
    PyObject *held = p->held, *none = p->is_holding ? NULL : PyList_New(0);
    if (none == NULL) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_NONE;
    }
    p->held = none;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(held); i++)
        wire_send_gathered((Wire *)PyList_GET_ITEM(held, i));
    Py_DECREF(held);
    Py_RETURN_NONE;
}

/* Gather XADDs from now on, and have them executed by this. */
static PyObject *poller_gather(Poller *p, PyObject *add) {
    execute_gathered(p, 1);
    Py_INCREF(add);
    Py_XSETREF(p->add, add);
    Py_RETURN_NONE;
}

/* The `write` of a transport of the loop, called at the end of a turn with all that the turn writes. */
static PyObject *poller_gathered(Poller *p, PyObject *write) {
    PyObject *pieces = PyList_New(0);
    Outlet *o = pieces ? PyObject_GC_New(Outlet, &OutletType) : NULL;
    if (o == NULL) {
        Py_XDECREF(pieces);
        return NULL;
    }
    o->vectorcall = outlet_vectorcall;
    o->poller = (Poller *)Py_NewRef(p);
    o->write = Py_NewRef(write);
    o->pieces = pieces;
    o->bytes = 0;
    PyObject_GC_Track(o);
    return (PyObject *)o;
}

/* Take over a connected, non-blocking descriptor. */
static PyObject *poller_attach(Poller *p, PyObject *args) {
    int fd;
    PyObject *protocol, *session;
    if (!PyArg_ParseTuple(args, "iOO", &fd, &protocol, &session))
        return NULL;
    Wire *w = PyObject_New(Wire, &WireType);
    if (w == NULL)
        return NULL;
    memset((char *)w + sizeof(PyObject), 0, sizeof(Wire) - sizeof(PyObject));
    w->vectorcall = wire_vectorcall;
    w->poller = (Poller *)Py_NewRef(p);
    w->protocol = Py_NewRef(protocol);
    w->session = Py_NewRef(session);
    w->fd = fd;
    /* Until the connection has ended, the kernel names the wire by its address. */
    Py_INCREF(w);
    return (PyObject *)w;
}

static PyObject *poller_fileno(Poller *p, PyObject *none) { return PyLong_FromLong(p->epoll); }

static PyObject *poller_limited_fileno(Poller *p, PyObject *none) { return PyLong_FromLong(p->limited); }

static PyObject *poller_close(Poller *p, PyObject *none) {
    if (p->epoll >= 0) {
        close(p->epoll);
        close(p->limited);
    }
    p->epoll = p->limited = -1;
    Py_CLEAR(p->used);
    Py_CLEAR(p->limit_of);
    Py_CLEAR(p->on_error);
    Py_RETURN_NONE;
}

/* The clock that the hub judges arrivals by. Asked directly where it is the kernel's. */
static int find_clock(Poller *p) {
    PyObject *shell = PyObject_GetAttr(p->core, str_shell), *time = PyImport_ImportModule("time");
    PyObject *clock = shell ? PyObject_GetAttr(shell, str_fine_now) : NULL;
    PyObject *monotonic = time ? PyObject_GetAttrString(time, "monotonic") : NULL;
    int problem = clock == NULL || monotonic == NULL;
    if (!problem && clock != monotonic)
        p->clock = Py_NewRef(clock);
    Py_XDECREF(shell);
    Py_XDECREF(time);
    Py_XDECREF(clock);
    Py_XDECREF(monotonic);
    return problem ? -1 : 0;
}

static int poller_init(Poller *p, PyObject *args, PyObject *options) {
    PyObject *core, *call_soon, *on_error;
    if (!PyArg_ParseTuple(args, "OOO", &core, &call_soon, &on_error))
        return -1;
    p->epoll = p->limited = -1;
    p->core = Py_NewRef(core);
    p->call_soon = Py_NewRef(call_soon);
    p->on_error = Py_NewRef(on_error);
    p->held = PyList_New(0);
    p->outlets = PyList_New(0);
    if (p->held == NULL || p->outlets == NULL || find_clock(p) < 0)
        return -1;
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    p->limited = epoll_create1(EPOLL_CLOEXEC);
    p->buffer = PyMem_Malloc(READ_BYTES);
    if (p->epoll < 0 || p->limited < 0 || p->buffer == NULL) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return 0;
}

static void poller_dealloc(Poller *p) {
    if (p->epoll >= 0)
        close(p->epoll);
    if (p->limited >= 0)
        close(p->limited);
    Py_XDECREF(p->used);
    Py_XDECREF(p->limit_of);
    PyMem_Free(p->dirty);
    PyMem_Free(p->buffer);
    Py_XDECREF(p->core);
    Py_XDECREF(p->held);
    Py_XDECREF(p->outlets);
    Py_XDECREF(p->call_soon);
    Py_XDECREF(p->on_error);
    Py_XDECREF(p->clock);
    Py_XDECREF(p->add);
    drop_gathered(p);
    Py_TYPE(p)->tp_free((PyObject *)p);
}

static PyMethodDef poller_methods[] = {
    {"run", (PyCFunction)poller_run, METH_NOARGS, NULL},
    {"turn", (PyCFunction)poller_turn, METH_O, NULL},
    {"sent", (PyCFunction)poller_sent, METH_NOARGS, NULL},
    {"gathered", (PyCFunction)poller_gathered, METH_O, NULL},
    {"attach", (PyCFunction)poller_attach, METH_VARARGS, NULL},
    {"hold", (PyCFunction)poller_hold, METH_O, NULL},
    {"gather", (PyCFunction)poller_gather, METH_O, NULL},
    {"run_limited", (PyCFunction)poller_run_limited, METH_NOARGS, NULL},
    {"share", (PyCFunction)poller_share, METH_VARARGS, NULL},
    {"renew_shares", (PyCFunction)poller_renew_shares, METH_NOARGS, NULL},
    {"fileno", (PyCFunction)poller_fileno, METH_NOARGS, NULL},
    {"limited_fileno", (PyCFunction)poller_limited_fileno, METH_NOARGS, NULL},
    {"close", (PyCFunction)poller_close, METH_NOARGS, NULL},
    {NULL}};

static PyTypeObject PollerType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "equipoise.hub.shell._sockets.Poller",
    .tp_basicsize = sizeof(Poller),
    .tp_dealloc = (destructor)poller_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The connections of one hub, as one descriptor that the event loop watches.",
    .tp_methods = poller_methods,
    .tp_init = (initproc)poller_init,
    .tp_new = PyType_GenericNew,
};

/* --- the module */

/* The hub's own types, whose attributes `publish` reads and changes where they are. */
static PyObject *learn(PyObject *module, PyObject *args) {
    PyObject *session, *reader, *limits, *stats, *topic, *audience, *limit, *stalls, *shared, *encoder, *replies_on,
        *may_publish;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOO", &session, &reader, &limits, &stats, &topic, &audience, &limit, &stalls,
                          &shared, &encoder, &replies_on, &may_publish))
        return NULL;
    struct {
        PyObject *type;
        const char *name;
        Py_ssize_t *offset;
    } slots[] = {
        {session, "is_closing", &at.is_closing},
        {session, "_waiting", &at.waiting},
        {session, "peer", &at.peer},
        {session, "user", &at.user},
        {session, "_reader", &at.reader},
        {session, "subscriptions", &at.subscriptions},
        {session, "_owed", &at.owed},
        {session, "gathered", &at.gathered},
        {session, "transaction", &at.transaction},
        {session, "reply_mode", &at.reply_mode},
        {session, "_holds_input", &at.holds_input},
        {session, "redirected", &at.redirected},
        {session, "id", &at.id},
        {session, "last_at", &at.last_at},
        {session, "command", &at.command},
        {session, "write", &at.write},
        {session, "proto", &at.proto},
        {shared, "members", &at.members},
        {shared, "_timer", &at.timer},
        {shared, "_wait_s", &at.wait_s},
        {reader, "_unfinished", &at.unfinished},
        {reader, "error", &at.error},
        {reader, "limits", &at.limits},
        {limits, "payload_bytes_max", &at.payload_bytes_max},
        {stats, "input_bytes", &at.input_bytes},
        {stats, "commands", &at.commands},
        {topic, "name", &at.t_name},
        {topic, "is_gated", &at.t_is_gated},
        {topic, "is_watched", &at.t_is_watched},
        {topic, "limit", &at.t_limit},
        {topic, "log", &at.t_log},
        {topic, "stream", &at.t_stream},
        {topic, "content", &at.t_content},
        {topic, "audience", &at.t_audience},
        {topic, "publisher", &at.t_publisher},
        {topic, "n", &at.t_n},
        {topic, "published", &at.t_published},
        {topic, "bytes_in", &at.t_bytes_in},
        {topic, "bytes_out", &at.t_bytes_out},
        {topic, "delivered", &at.t_delivered},
        {audience, "version", &at.a_version},
        {audience, "is_plain", &at.a_is_plain},
        {audience, "receivers", &at.a_receivers},
        {audience, "groups", &at.a_groups},
        {audience, "reply", &at.a_reply},
        {limit, "lent", &at.l_lent},
        {stalls, "_looked_at", &at.w_looked_at},
        {stalls, "_since", &at.w_since},
        {stalls, "_timer", &at.w_timer},
    };
    at.is_known = 0;
    if (!PyFunction_Check(encoder) || PyFunction_GET_CLOSURE(encoder) == NULL ||
        !PyBytes_CheckExact(PyCell_GET(PyTuple_GET_ITEM(PyFunction_GET_CLOSURE(encoder), 0)))) {
        PyErr_SetString(PyExc_TypeError, "the plain encoder has no head in its first cell");
        return NULL;
    }
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        if (find_slot(slots[i].type, slots[i].name, slots[i].offset) < 0)
            return NULL;
    at.session = (PyTypeObject *)Py_NewRef(session);
    at.topic = (PyTypeObject *)Py_NewRef(topic);
    at.audience = (PyTypeObject *)Py_NewRef(audience);
    at.limit = (PyTypeObject *)Py_NewRef(limit);
    at.stalls = (PyTypeObject *)Py_NewRef(stalls);
    at.shared_read = (PyTypeObject *)Py_NewRef(shared);
    at.encoder_code = Py_NewRef(PyFunction_GET_CODE(encoder));
    at.replies_on = Py_NewRef(replies_on);
    at.may_publish = Py_NewRef(may_publish);
    at.is_known = 1;
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {{"learn", learn, METH_VARARGS, NULL}, {NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "equipoise.hub.shell._sockets",
    .m_doc = "Client connections on an epoll of their own; see listening.py.",
    .m_size = -1,
    .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__sockets(void) {
    struct {
        PyObject **word;
        const char *text;
    } words[] = {
        {&str_receive, "receive"},       {&str_pause, "pause_writing"},
        {&str_resume, "resume_writing"}, {&str_lost, "connection_lost"},
        {&str_eof, "eof_received"},      {&str_publish, "publish"},
        {&str_index, "index"},           {&str_topics, "topics"},
        {&str_version, "version"},       {&str_audience_of, "audience_of"},
              {&str_users, "users"},
        {&str_is_open, "is_open"},       {&str_stats, "stats"},
        {&str_backlogs, "backlogs"},     {&str_topic, "topic"},
        {&str_messages, "messages"},     {&str_now, "now"},
        {&str_metering, "metering"},     {&str_published_by, "published_by"},
        {&str_end, "_end"},              {&str_may, "may"},
        {&str_shell, "shell"},           {&str_fine_now, "fine_now"},
        {&str_cluster, "cluster"},       {&str_limits, "limits"},
        {&str_lend, "lend"},
        {&str_awake_until, "awake_until"}, {&str_standstill, "standstill"},
        {&str_notice, "notice"},         {&str_logs, "logs"},
        {&str_shared, "shared"},         {&str_xread, "xread"},
        {&str_submit, "submit"},         {&str_answer, "answer"},
        {&str_flush, "flush"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if ((*words[i].word = PyUnicode_InternFromString(words[i].text)) == NULL)
            return NULL;
    if (PyType_Ready(&WireType) < 0 || PyType_Ready(&PollerType) < 0 || PyType_Ready(&LentBucketType) < 0 ||
        PyType_Ready(&OutletType) < 0)
        return NULL;
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyModule_AddObjectRef(made, "Wire", (PyObject *)&WireType) < 0 ||
        PyModule_AddObjectRef(made, "Poller", (PyObject *)&PollerType) < 0 ||
        PyModule_AddObjectRef(made, "LentBucket", (PyObject *)&LentBucketType) < 0)
        return NULL;
    return made;
}
