/* Attributes of the hub's objects, where they are: what `_sockets.c` and `_relays.c` share.

A module learns the places of the slots once, from the types, and then reads and changes them without a lookup.
*/

#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

static inline int add_to(PyObject *object, Py_ssize_t offset, Py_ssize_t amount) {
    PyObject *increment = PyLong_FromSsize_t(amount);
    if (increment == NULL)
        return -1;
    PyObject *sum = PyNumber_Add(SLOT(object, offset), increment);
    Py_DECREF(increment);
    if (sum == NULL)
        return -1;
    Py_SETREF(SLOT(object, offset), sum);
    return 0;
}

static inline void set_slot(PyObject *object, Py_ssize_t offset, PyObject *value) {
    PyObject *former = SLOT(object, offset);
    SLOT(object, offset) = Py_NewRef(value);
    Py_XDECREF(former);
}

static inline int find_slot(PyObject *type, const char *name, Py_ssize_t *offset) {
    PyObject *descriptor = PyObject_GetAttrString(type, name);
    if (descriptor == NULL)
        return -1;
    if (Py_TYPE(descriptor) != &PyMemberDescr_Type) {
        PyErr_Format(PyExc_TypeError, "%s is not a slot of %R", name, type);
        Py_DECREF(descriptor);
        return -1;
    }
    *offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    Py_DECREF(descriptor);
    return 0;
}
