/* Snapshot: what the last full check of a guard program found, as memory words that must not have changed since. */
#ifndef TRIPTYCH_SNAPSHOT_H
#define TRIPTYCH_SNAPSHOT_H

#include "guard_program.h"

typedef struct Snapshot Snapshot;

enum { STALE = -2 }; /* the snapshot does not apply: check in full */

/* Like a full run, with the snapshot's shorter list of operations: index of a violated guard, -1 or STALE. */
Py_ssize_t snapshot_run(GuardProgram *program, Run *run);
/* After a full run that held, with its slots: make the snapshot. Failing to only means that there is none. */
void snapshot_record(GuardProgram *program, PyObject **slots);
void snapshot_free(GuardProgram *program);
/* Names of the operations that the next check runs, a root with the number of words that it compares: a new list. */
PyObject *snapshot_operations(const GuardProgram *program);

/* dict_version.c: a word that changes whenever the dictionary does; NULL where there is none. */
const uint64_t *dict_version_word(PyObject *dict);

#endif
