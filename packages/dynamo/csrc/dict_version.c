/* Versions of dictionaries. Up to 3.12 every dictionary carries one; from 3.13 on the interpreter calls a watcher back.
 */
#include "snapshot.h"

#if PY_VERSION_HEX < 0x030D0000

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
const uint64_t *dict_version_word(PyObject *dict) { return &((PyDictObject *)dict)->ma_version_tag; }

#else

#include "internal/pycore_dict.h"

/* One cell a watched dictionary, found by address. Cells of dictionaries that are gone stay: a snapshot may still look
 * at them, and a new dictionary at the same address takes the cell over, with a higher version. */
typedef struct {
    PyObject *dict;
    uint64_t version;
} Cell;

static Cell **cells; /* open addressing */
static Py_ssize_t cell_capacity, cell_count;
static int watcher = -1;

static Cell **cell_place(Cell **table, Py_ssize_t capacity, PyObject *dict) {
    for (size_t index = ((uintptr_t)dict >> 4) * 0x9E3779B97F4A7C15u >> 20;; index++) {
        Cell **place = &table[index & (capacity - 1)];
        if (*place == NULL || (*place)->dict == dict) return place;
    }
}

static int on_dict_event(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value) {
    Cell *cell = cell_capacity ? *cell_place(cells, cell_capacity, dict) : NULL;
    if (cell) cell->version++;
    return 0;
}

static bool grow_cells(void) {
    Py_ssize_t capacity = cell_capacity ? 2 * cell_capacity : 1024;
    Cell **table = PyMem_RawCalloc(capacity, sizeof(Cell *));
    if (table == NULL) return false;
    for (Py_ssize_t i = 0; i < cell_capacity; i++)
        if (cells[i]) *cell_place(table, capacity, cells[i]->dict) = cells[i];
    PyMem_RawFree(cells);
    cells = table;
    cell_capacity = capacity;
    return true;
}

const uint64_t *dict_version_word(PyObject *dict) {
    PyDictValues *values = ((PyDictObject *)dict)->ma_values;
    if (values && values->embedded) return NULL; /* attributes kept in the object: stores to them call no watcher */
    if (watcher < 0 && (watcher = PyDict_AddWatcher(on_dict_event)) < 0) return PyErr_Clear(), NULL;
    if (2 * (cell_count + 1) > cell_capacity && !grow_cells()) return NULL;
    if (PyDict_Watch(watcher, dict) < 0) return PyErr_Clear(), NULL;
    Cell **place = cell_place(cells, cell_capacity, dict);
    if (*place == NULL) {
        if ((*place = PyMem_RawCalloc(1, sizeof(Cell))) == NULL) return NULL;
        (*place)->dict = dict;
        cell_count++;
    }
    return &(*place)->version;
}

#endif
