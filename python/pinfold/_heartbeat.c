/*
 * pinfold.heartbeat(): the heartbeat of agent/pinfold.h for Python. An extension module, because an addition to shared
 * memory has to be atomic, and Python has no such thing.
 */
#include <Python.h>

#include "pinfold.h"

static PyObject *heartbeat(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    pinfold_heartbeat();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"heartbeat", heartbeat, METH_NOARGS,
     PyDoc_STR("heartbeat()\n--\n\nTell pinfold that one unit of work is done. Without pinfold this does nothing.")},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pinfold._heartbeat",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__heartbeat(void)
{
    return PyModuleDef_Init(&module);
}
