/* Counts the instructions that a process executes under valgrind's callgrind: the same for the same input on any machine,
whatever else it does, in Python, in its libraries and in native code alike. Built by `counter.py`. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <valgrind/callgrind.h>

static PyObject *is_counting(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    return PyBool_FromLong(RUNNING_ON_VALGRIND);
}

/* Translated code is kept as long as it is instrumented: this is called once. */
static PyObject *start(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    CALLGRIND_START_INSTRUMENTATION;
    Py_RETURN_NONE;
}

static PyObject *clear(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    CALLGRIND_ZERO_STATS;
    Py_RETURN_NONE;
}

static PyObject *write_count(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    CALLGRIND_DUMP_STATS;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"is_counting", is_counting, METH_NOARGS, "Whether the process runs under valgrind."},
    {"start", start, METH_NOARGS, "Begin to count."},
    {"clear", clear, METH_NOARGS, "Count from zero."},
    {"write_count", write_count, METH_NOARGS, "Write what was counted to the next file."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "instruction_counter", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit_instruction_counter(void)
{
    return PyModule_Create(&definition);
}
